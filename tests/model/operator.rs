//! An operator: looks at the claim of a run that did not report its end, or at an earlier decision, and decides about it later.

use idempotency_core::protocol::condition::claimable;
use idempotency_core::protocol::decision::{
    Decision, DecisionError, DecisionWrite, Ending, Verdict, is_decided,
};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::protocol::{Effect, StoreLimits, WriteResult};
use idempotency_core::record::Record;
use idempotency_testkit::history::What;

use super::scenario::Scenario;
use super::state::{Action, Shared, State};
use super::table::{in_progress, response_of, write};

impl Scenario {
    /// Returns the number of the operator, for the response that it gives.
    pub(crate) fn operator(&self) -> u8 {
        self.python() + 1
    }

    /// Adds what an operator can do. It looks only at claims whose lease has expired, as the command does without `--force`.
    pub(crate) fn operators_choices(&self, state: &State, actions: &mut Vec<Action>) {
        if state.left.decisions == 0 {
            return;
        }
        let Some(shown) = &state.shown else {
            let record = state.record.as_deref();
            if record.is_some_and(|record| self.may_be_decided(state, record)) {
                actions.push(Action::Look);
            }
            return;
        };
        for verdict in [Verdict::Completed, Verdict::Rerun] {
            if self.decided(state, shown, verdict).is_ok() {
                actions.push(Action::Decide(verdict));
            }
        }
    }

    /// Returns true if the record is a claim that no run holds, by the true time, or if its response is a decision's.
    fn may_be_decided(&self, state: &State, record: &Record) -> bool {
        let is_expired = claimable(self.time(state, 0), OnTimeout::Rerun).holds(Some(record));
        (in_progress(record) && is_expired) || is_decided(record)
    }

    fn decided(
        &self,
        state: &State,
        shown: &Record,
        verdict: Verdict,
    ) -> Result<DecisionWrite, DecisionError> {
        let ending = match verdict {
            Verdict::Completed => Ending::Completed {
                response: response_of(self.operator()),
                expiration: None,
            },
            _ => Ending::Rerun,
        };
        let decision = Decision {
            ending,
            by: "o".to_owned(),
            reason: "w".to_owned(),
        };
        decision.about(shown, self.time(state, 0), false, StoreLimits::NONE)
    }

    pub(crate) fn show(&self, state: &mut State) {
        state.shown = state.record.clone();
    }

    /// Applies a decision about the record that the operator saw, if its condition holds for the current record.
    pub(crate) fn decide(&self, state: &mut State, verdict: Verdict) -> Option<()> {
        let shown = state.shown.take()?;
        state.left.decisions -= 1;
        let mut decided = self.decided(state, &shown, verdict).ok()?;
        (self.rules.decides)(&mut decided);
        let (written, after) = write(
            state.record.as_deref(),
            &Effect::Write(decided.write, decided.condition),
        );
        if !matches!(written, WriteResult::Applied { .. }) {
            return Some(());
        }
        state.record = after.map(Shared::new);
        let completed = verdict == Verdict::Completed;
        let now = self.time(state, 0);
        state.see(self.operator(), now, What::Decided { completed });
        self.try_fresh_call(state);
        Some(())
    }
}
