//! The staged writes of calls: the promises about when they are applied.

use idempotency_core::protocol::{CallEnd, ClaimEnd, Effect, Resolution, StagedEnd};

use super::bounds::Ending;
use super::promises::Promise;
use super::scenario::Scenario;
use super::state::{End, NEVER, NO_CALL, Phase, State, TimedRequest};
use super::table::completes;

impl Scenario {
    /// Checks a write that was applied: the staged writes of its call must have been applied with its completion, and only then.
    pub(crate) fn check_applied_write(&self, state: &mut State, sent: &TimedRequest) {
        let number = usize::from(sent.by);
        let stages = state.calls[number].trace.ending.is_some_and(Ending::stages);
        if !stages {
            return;
        }
        let transacts = matches!(*sent.effect, Effect::Transact(..));
        if completes(&sent.effect) != transacts {
            self.break_promise(state, Promise::StagedAlone);
        }
        if !transacts {
            // The release was applied: it deleted the record or recorded a failure.
            if state.holder == NO_CALL {
                state.calls[number].trace.rejection_released = true;
            }
            return;
        }
        let twice = state.staged_in[number] != NEVER || state.staged_in.contains(&state.generation);
        if twice {
            self.break_promise(state, Promise::StagedTwice);
        }
        state.staged_in[number] = state.generation;
        if let Phase::Ended(End::Refused(_, _, staged), _) = &state.calls[number].phase
            && is_not_applied(*staged)
        {
            self.break_promise(state, Promise::RejectedThoughApplied);
        }
    }

    /// Checks the end of a call that staged writes: it says whether they were applied, if that is known.
    pub(crate) fn check_staged_end(&self, state: &mut State, number: u8, end: &CallEnd) {
        let trace = &state.calls[usize::from(number)].trace;
        if !trace.ending.is_some_and(Ending::stages) {
            return;
        }
        let applied = state.staged_in[usize::from(number)] != NEVER;
        if applied && is_not_applied(end.staged) {
            self.break_promise(state, Promise::RejectedThoughApplied);
        }
        let own = match &end.resolution {
            Resolution::Own(record) => {
                let reported = [
                    Some(ClaimEnd::Completed),
                    Some(ClaimEnd::CompletedWithoutResponse),
                    None,
                ];
                record.is_some() || reported.contains(&end.claim)
            }
            Resolution::Replay { .. } | Resolution::Refuse(_) => false,
        };
        if (own || end.staged == Some(StagedEnd::Applied)) && !applied {
            self.break_promise(state, Promise::StagedAlone);
        }
        assert!(
            end.staged.is_some(),
            "the end says nothing of staged writes"
        );
    }
}

/// Returns true if staged writes were certainly not applied.
fn is_not_applied(staged: Option<StagedEnd>) -> bool {
    matches!(staged, Some(StagedEnd::Rejected | StagedEnd::Dropped))
}
