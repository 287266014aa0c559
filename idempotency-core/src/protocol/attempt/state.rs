//! The states of an attempt, and the transitions that several of them share.

use super::super::CallTerms;
use super::super::effect::Consistency;
use super::super::effect::Effect;
use super::super::end::{CallEnd, Commits, Refusal, Source, StagedEnd};
use super::super::in_flight::InFlight;
use super::super::run::Run;
use super::super::undo::Undoing;
use crate::error::ErrorKind;
use crate::record::{Data, Record, RecordedSteps};
use crate::time::EpochMillis;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// Checks this process's memory. The value is the time until which this call may wait; `None` before it begins to wait.
    Checking(Option<EpochMillis>),
    /// Waits for the leader in this process.
    Following(Following),
    /// Asks the circuit breaker for admission. The value is the time until which this call may wait.
    AskingCircuit(EpochMillis),
    /// Reads the record before the first claim.
    LookingUp(Claiming),
    /// Sends a claim.
    Claiming(Claiming),
    /// Reads the record, because the result of a claim is unknown, or because of a wait.
    Reading(Claiming),
    /// Pauses while another process's call is in progress.
    Waiting(Claiming),
    /// Looks for another call in this process, before it runs without a confirmed claim.
    BeforeUnprotected(Unclaimed),
    /// Runs the handler.
    Running(Running),
    /// Runs the handler without a claim. The value is the end of the lease that the call would have.
    RunningUnclaimed(EpochMillis),
    /// Sends a completion.
    Completing(Box<Completing>),
    /// Pauses before it sends the completion again, or reads the record again.
    RetryingCompletion(Box<Completing>),
    /// Reads the record, because the condition of a completion failed and brought no record back.
    ReadingAfterCompletion(Box<Completing>),
    /// Reads the record, because a step found that the claim is gone.
    ReadingAfterSteps {
        /// When the lease of the claim ends.
        lease_end: EpochMillis,
        /// True if the handler staged writes.
        staged: bool,
    },
    /// Sends the completion of an evicted claim.
    Restoring(Box<Completing>),
    /// Releases the claim after a transaction was rejected or given up. The release shows whether an earlier send was applied.
    Freeing {
        completing: Box<Completing>,
        /// The error that the caller gets.
        why: Refusal,
    },
    /// Ends the lease of a claim that is kept, because its run has ended and an operator decides.
    Keeping {
        /// When the lease of the claim ends by itself.
        lease_end: EpochMillis,
        /// How the call ends, also if the write fails.
        end: Box<CallEnd>,
    },
    /// Undoes the steps of the key, after its handler has ended.
    Undoing(Box<UndoRun>),
    /// Releases a claim before the handler ran.
    GivingUp(GivingUp),
    /// Releases the claim after the handler ran.
    Releasing(Releasing),
    /// The call has ended.
    Finished,
}

/// The data of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Following {
    /// Until when this call may wait.
    pub(super) wait_until: EpochMillis,
    /// The last known progress of the leader.
    pub(super) leader: InFlight,
}

/// The data of a call that has no claim yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claiming {
    /// The number of claims sent since the last pause.
    pub(super) tries: u8,
    /// The number of pauses.
    pub(super) pauses: u8,
    /// The end of the lease of the other call, for which this call waits. `None` before it waits, or if that call has no lease.
    pub(super) other_lease_end: Option<EpochMillis>,
    /// True if any claim of this call may have been applied, or may still be applied later.
    pub(super) maybe_applied: bool,
    /// The time of the last claim.
    pub(super) claimed_at: EpochMillis,
    /// Until when this call may wait.
    pub(super) wait_until: EpochMillis,
    /// The end of the time for requests. It is set at the beginning, and again after each pause.
    pub(super) requests_end: EpochMillis,
    /// Which run follows the last claim, as far as it is known.
    pub(super) run: Run,
    /// True if a takeover that keeps steps was sent. Then the record may have steps of an earlier run.
    pub(super) resumes: bool,
    /// True if the record has no room for the event of a takeover.
    pub(super) is_full: bool,
    /// True if the last claim is a takeover of a key whose steps are being undone.
    pub(super) undoing: bool,
}

/// The data of a call that ends before its handler ran, and releases its claim in case it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GivingUp {
    /// The error that the caller gets.
    pub(super) kind: ErrorKind,
    /// The time of the last claim.
    pub(super) claimed_at: EpochMillis,
    /// Until when this call may wait.
    pub(super) wait_until: EpochMillis,
    /// The end of the time for requests, as in [`Claiming`].
    pub(super) requests_end: EpochMillis,
}

/// The data of a call that could not claim its key, because the store failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unclaimed {
    /// Until when this call may wait.
    pub(super) wait_until: EpochMillis,
    /// How the call ends if its handler does not run. `None` if no claim of it may have been applied.
    pub(super) giving_up: Option<GivingUp>,
}

/// The data of a call that runs its handler under a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Running {
    pub(super) held: HeldClaim,
    /// The steps that were recorded when the run began.
    pub(super) steps: RecordedSteps,
    pub(super) run: Run,
    /// What an earlier run has decided, if it decided that the steps are undone.
    pub(super) undo: Option<Box<DecidedUndo>>,
}

/// A decision that the steps of the key are undone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DecidedUndo {
    pub(super) undoing: Undoing,
    /// The final response. `None` if it cannot be stored.
    pub(super) response: Option<Data>,
}

/// The claim under which the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldClaim {
    pub(super) claimed_at: EpochMillis,
    pub(super) lease_end: EpochMillis,
    pub(super) applied: ClaimApplied,
    /// True if the record may have recorded steps.
    pub(super) has_steps: bool,
    pub(super) unreported: Unreported,
    /// True if the record says that the steps are being undone.
    pub(super) undoing: bool,
}

/// Whether a claim was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClaimApplied {
    /// It was, and no other send of it can be.
    Once,
    /// It was, and another send of it may be later. After a release that would make the claim again.
    MaybeAgain,
    /// That is not known.
    Unknown,
}

/// The worst effect, in this run or an earlier one, that may have happened and that no run has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unreported {
    /// There is none.
    Nothing,
    /// A release must leave a mark.
    Effect,
    /// It is that of a step whose result is not recorded. Under `hold` an operator decides.
    Step,
}

/// The data of a call that completes its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Completing {
    pub(super) held: HeldClaim,
    /// How often the transaction of the completion and the writes of the handler can commit, if it has any.
    pub(super) staged: Option<Commits>,
    /// The number of completions sent, not counting those that met another transaction.
    pub(super) tries: u8,
    /// The number of completions that met another transaction.
    pub(super) conflicts: u8,
    /// True if any send of the completion may have been applied.
    pub(super) maybe_applied: bool,
    /// The attributes to store.
    pub(super) record: Record,
    /// Why the response itself is not stored, if it is not.
    pub(super) unstorable: Option<Unstorable>,
    /// Of a call that has undone the steps of its key.
    pub(super) undone: Option<Box<Undone>>,
    /// True if the handler staged writes that are dropped, because it decided that its steps are undone.
    pub(super) dropped: bool,
}

/// The data of a call that has undone the steps of its key, and completes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Undone {
    /// What the record says of the undoing.
    pub(super) before: String,
    /// True if the handler of this call gave the response. Otherwise an earlier run did.
    pub(super) is_own: bool,
}

/// The data of a call that undoes the steps of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UndoRun {
    pub(super) held: HeldClaim,
    pub(super) phase: UndoPhase,
    /// The number of sends of the current write.
    pub(super) tries: u8,
    /// How far the steps are undone: as the record says, or while a decision or the undo of a step is recorded, as it will say.
    pub(super) decided: DecidedUndo,
    /// What the record says before the current write.
    pub(super) before: Undoing,
    /// Why the response itself is not stored, if it is not.
    pub(super) unstorable: Option<Unstorable>,
    /// As in [`Undone`].
    pub(super) is_own: bool,
    /// As in [`Completing`].
    pub(super) dropped: bool,
}

/// What a call that undoes the steps of its key does now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum UndoPhase {
    /// It records the decision.
    Deciding,
    /// It undoes a step.
    Undoing,
    /// It records that a step is undone.
    Recording,
    /// It records why it stops.
    Stopping(Box<Stopping>),
}

/// The data of a call that stops undoing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stopping {
    /// How the call ends if the stop is recorded.
    pub(super) end: CallEnd,
    /// What the record must say of the undoing. `None` leaves it as it is.
    pub(super) after: Option<Undoing>,
    /// True if the shorter failure was sent, because the record has no room for the first.
    pub(super) is_short: bool,
}

/// The data of a call that releases its claim after the handler ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Releasing {
    /// True if the handler returned a response. A stored response then takes precedence over it.
    pub(super) returned: bool,
    /// True if the handler staged writes.
    pub(super) staged: bool,
    /// When the lease of the claim ends.
    pub(super) lease_end: EpochMillis,
    /// The shorter failure of a release that keeps steps, and the time of the claim. It is sent if the record has no room for the first.
    pub(super) shorter: Option<(&'static str, EpochMillis)>,
}

/// Why a completion carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unstorable {
    /// The response is not JSON, so its own caller cannot get it either.
    NotSerializable,
    /// The response is too large for the store, or cannot be read back. Its own caller gets it all the same.
    OwnCallerOnly,
}

/// The effect of each read after a claim or a pause. Only the read before the first claim may be eventually consistent.
pub(super) const READ: Effect = Effect::Read(Consistency::Strong);

/// The next state, and the effect to perform next.
pub(super) type Next = (State, Effect);

impl HeldClaim {
    /// Returns true if the claim was certainly applied.
    pub(super) fn is_confirmed(self) -> bool {
        self.applied != ClaimApplied::Unknown
    }

    /// Returns true if a release must leave a mark, because an effect may have happened that no run has reported.
    pub(super) fn has_unreported(self) -> bool {
        self.unreported != Unreported::Nothing
    }

    /// Returns the claim for the requests after the handler.
    ///
    /// If the claim was never confirmed, these requests get `store_timeout` together, and not all of the time until the deadline: the
    /// user chose to go on without the store.
    pub(super) fn for_requests_after(self, call: &CallTerms, now: EpochMillis) -> Self {
        if self.is_confirmed() {
            return self;
        }
        Self {
            lease_end: self.lease_end.min(now.plus(call.policy.store_timeout)),
            ..self
        }
    }
}

impl Completing {
    /// Returns what the end of the call says of the writes that its handler staged, if `end` became of those of its completion.
    pub(super) fn staged_end(&self, end: StagedEnd) -> Option<StagedEnd> {
        let dropped = self.dropped.then_some(StagedEnd::Dropped);
        self.staged.map(|_| end).or(dropped)
    }
}

impl State {
    /// Returns until when the claim lasts. `None` before the run, and after the end of the claim.
    pub(super) fn lease_end(&self) -> Option<EpochMillis> {
        match self {
            Self::Running(running) => Some(running.held.lease_end),
            Self::Completing(completing)
            | Self::RetryingCompletion(completing)
            | Self::ReadingAfterCompletion(completing)
            | Self::Restoring(completing)
            | Self::Freeing { completing, .. } => Some(completing.held.lease_end),
            Self::RunningUnclaimed(lease_end)
            | Self::Releasing(Releasing { lease_end, .. })
            | Self::Keeping { lease_end, .. }
            | Self::ReadingAfterSteps { lease_end, .. } => Some(*lease_end),
            Self::Undoing(undo) => Some(undo.held.lease_end),
            Self::Checking(_)
            | Self::Following(_)
            | Self::AskingCircuit(_)
            | Self::LookingUp(_)
            | Self::Claiming(_)
            | Self::Reading(_)
            | Self::Waiting(_)
            | Self::BeforeUnprotected(_)
            | Self::GivingUp(_)
            | Self::Finished => None,
        }
    }

    /// Returns the time until which a call that asks for its claim may wait, and `None` in every other state.
    pub(super) fn asks_until(&self) -> Option<EpochMillis> {
        match self {
            Self::AskingCircuit(wait_until) => Some(*wait_until),
            Self::LookingUp(claiming) | Self::Claiming(claiming) | Self::Reading(claiming) => {
                Some(claiming.wait_until)
            }
            _ => None,
        }
    }
}

pub(super) fn finish(end: CallEnd) -> Next {
    (State::Finished, Effect::Finish(end))
}

pub(super) fn refuse(refusal: impl Into<Refusal>) -> Next {
    finish(CallEnd::refused(refusal))
}

pub(super) fn replay(record: Record, source: Source) -> Next {
    finish(CallEnd::replayed(record, source))
}
