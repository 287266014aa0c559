//! What an attempt asks to be done, and what it is told.

use std::time::Duration;

use super::condition::Condition;
use super::in_flight::InFlight;
use crate::record::{Data, Record};
use crate::store::Change;
use crate::time::EpochMillis;

/// What the driver of an [`Attempt`](super::Attempt) does next.
///
/// The answers to the effects are the [`Input`] variants of the same line.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// let (attempt, effect) = Attempt::begin(call);
/// assert_eq!(effect, Effect::CheckLocal);
/// let (_, effect) = attempt.step(EpochMillis::new(0), Input::Local(None));
/// let Effect::Put(claim, condition) = effect else { panic!("a claim comes next") };
/// assert!(claim.owner.exists() && condition.holds(None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Look the key up in the process's memory: [`Input::Local`] with what the local cache holds; where that is nothing
    /// and a call with the same [`InFlightKey`](super::InFlightKey) is under way, [`Input::LeaderProgress`].
    CheckLocal,
    /// Look for such a call alone, since what the cache holds decides nothing: [`Input::LeaderProgress`], or [`Input::Local`]
    /// with nothing.
    CheckInFlight,
    /// Wait at most so long for the call that was found under way: [`Input::LeaderDone`] if it ends, [`Input::LeaderProgress`] if it
    /// comes further or the time is over.
    AwaitLeader(Duration),
    /// Put the record if the condition holds: [`Input::Written`].
    Put(Record, Condition),
    /// Change the record if the condition holds: [`Input::Written`].
    Update(Change, Condition),
    /// Delete the record if the condition holds: [`Input::Written`].
    Delete(Condition),
    /// Read the record consistently: [`Input::Read`], or [`Input::ReadFailed`] if that failed.
    Read,
    /// Let a random time pass, uniform between nothing and this: [`Input::Paused`].
    Pause(Duration),
    /// Run the handler: [`Input::HandlerDone`].
    Run,
    /// It is over: tell the caller.
    Finish(Resolution),
}

/// What became of an [`Effect`].
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, WriteErrorKind, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // The claim's reply was lost: whether it was applied, only a read can tell.
/// let lost = WriteResult::Failed { maybe_applied: true, kind: WriteErrorKind::Transient };
/// let (attempt, effect) = attempt.step(now, Input::Written(lost));
/// assert_eq!(effect, Effect::Read);
/// let (_, effect) = attempt.step(now, Input::Read(None));
/// assert!(matches!(effect, Effect::Put(..)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// What the local cache holds of this key.
    Local(Option<Record>),
    /// Another call of this process is under way, and so far.
    LeaderProgress(InFlight),
    /// The call that was waited for is over. What it was given by the store or had confirmed by it, if anything: its
    /// verdict's [`confirmed_record`](Verdict::confirmed_record).
    LeaderDone(Option<Record>),
    /// What a write came to.
    Written(WriteResult),
    /// What a read found.
    Read(Option<Record>),
    /// The read failed.
    ReadFailed,
    /// The time has passed.
    Paused,
    /// What the handler came to.
    HandlerDone(HandlerResult),
}

/// What a write came to, as far as the protocol cares.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Source, Resolution, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // Another call has completed this key: its record comes back with the refusal.
/// let refused = WriteResult::ConditionFailed { existing: Some(completed), maybe_applied: false };
/// let (_, effect) = attempt.step(now, Input::Written(refused));
/// assert!(matches!(effect, Effect::Finish(Resolution::Replay { source: Source::Store, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteResult {
    /// It was applied.
    Applied,
    /// Its condition did not hold.
    ConditionFailed {
        /// The record that was brought back.
        existing: Option<Record>,
        /// Whether an earlier send of the same write may have been applied.
        maybe_applied: bool,
    },
    /// It failed.
    Failed {
        /// Whether a send may have been applied, or may yet arrive.
        maybe_applied: bool,
        /// What kind of failure.
        kind: WriteErrorKind,
    },
}

/// How a write failed, as far as the protocol cares.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, HandlerResult, WriteErrorKind, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(WriteResult::Applied));
/// # let (attempt, _) = attempt.step(now, Input::HandlerDone(HandlerResult::Returned(Data::new("42"))));
/// // An answer that the store does not take: the key is completed without it.
/// let failed = WriteResult::Failed { maybe_applied: false, kind: WriteErrorKind::TooLarge };
/// let (_, effect) = attempt.step(now, Input::Written(failed));
/// assert!(matches!(effect, Effect::Update(change, _) if !change.set.data.exists()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteErrorKind {
    /// The same write may succeed later.
    Transient,
    /// The record is larger than the store takes.
    TooLarge,
    /// The same write will fail again.
    Permanent,
}

/// What the handler came to.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, HandlerResult, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// let (attempt, effect) = attempt.step(now, Input::Written(WriteResult::Applied));
/// assert_eq!(effect, Effect::Run);
/// // The handler failed: its claim is given up, so that a retry runs.
/// let (_, effect) = attempt.step(now, Input::HandlerDone(HandlerResult::Failed("Timeout".to_owned())));
/// assert!(matches!(effect, Effect::Delete(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandlerResult {
    /// It gave an answer that is to be stored.
    Returned(Data),
    /// It gave an answer that cannot be written as JSON.
    NotSerializable,
    /// It gave an answer that can be written as JSON, but not be read back.
    NotDeserializable,
    /// It gave an answer that by policy is not stored.
    NotStored,
    /// It reported a failure; the name of its error's type.
    Failed(String),
    /// It panicked, so it did not report whether it had its effect.
    Panicked,
}

/// How a call ends.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Resolution, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let cached = Input::Local(Some(completed.clone()));
/// let (_, effect) = Attempt::begin(call).0.step(EpochMillis::new(0), cached);
/// assert!(matches!(effect, Effect::Finish(Resolution::Replay { record, .. }) if record == completed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The handler ran; its caller is given the handler's own result.
    Own(Completion),
    /// The caller is given a stored answer.
    Replay {
        /// The record that holds it.
        record: Record,
        /// Where it was found.
        source: Source,
    },
    /// The caller is given an error.
    Refuse(Refusal),
}

/// What became of the handler's own result.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, HandlerResult, Completion, Resolution, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(WriteResult::Applied));
/// // By policy this answer is not stored; its claim is deleted.
/// let (attempt, _) = attempt.step(now, Input::HandlerDone(HandlerResult::NotStored));
/// let (_, effect) = attempt.step(now, Input::Written(WriteResult::Applied));
/// assert_eq!(effect, Effect::Finish(Resolution::Own(Completion::Released)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// It is the confirmed answer of its key: duplicates are given it.
    Stored(Record),
    /// Its key is completed without it, because it cannot be stored: duplicates are told so.
    WithoutResponse,
    /// Its claim was given up: the next call runs.
    Released,
    /// Its claim could not be given up: the lease will free the key.
    NotReleased,
    /// Under `hold`, its claim is kept because the run ended without a report: an operator must decide.
    Kept,
}

/// Where a replayed answer was found.
///
/// ```
/// use idempotency_core::protocol::Source;
/// assert_ne!(Source::Store, Source::Cache);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// In the store, before the handler would have run.
    Store,
    /// In the local cache of the process.
    Cache,
    /// With another call of the process, which was under way with the same key and payload.
    ConcurrentCall,
    /// In the store, after the handler ran: another call had taken over and completed first, or an earlier send of
    /// our own completion was found to have been applied.
    Completion,
}

/// Why a call is refused an answer.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Refusal, Resolution, WriteResult, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let until = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(until),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // Another call's claim is in the way, and its lease runs until 30 s.
/// let refused = WriteResult::ConditionFailed { existing: Some(claim), maybe_applied: false };
/// let (_, effect) = attempt.step(now, Input::Written(refused));
/// let refusal = Refusal::AlreadyInProgress { until: Some(EpochMillis::new(30_000)) };
/// assert_eq!(effect, Effect::Finish(Resolution::Refuse(refusal)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another call with this key is still running.
    AlreadyInProgress {
        /// When its lease ends, where it has one.
        until: Option<EpochMillis>,
    },
    /// The key is known with another payload.
    PayloadMismatch,
    /// Under `hold`: a run may have happened and was never resolved.
    Unresolved,
    /// The record cannot be understood.
    CorruptRecord(&'static str),
    /// Others were faster, time and again.
    Contended,
    /// The lease was over before the handler could start.
    NoTimeLeft,
    /// The key is completed, but its answer could not be stored.
    ResponseUnavailable,
    /// The handler ran, but its claim had gone to another call that has no answer for it.
    LostOwnership,
    /// The handler ran, but nobody confirmed that its answer is stored.
    CompletionUnknown,
    /// The handler ran, but its answer cannot be written as JSON.
    Unrepresentable,
    /// The store failed before the handler ran.
    StoreFailed,
}

impl Resolution {
    /// The stored answer this verdict confirms, fit for a local cache.
    ///
    /// ```
    /// # use idempotency_core::{protocol::{Refusal, Completion, Resolution}, record::Record};
    /// let answer = Record::default();
    /// assert_eq!(Resolution::Own(Completion::Stored(answer.clone())).confirmed_record(), Some(&answer));
    /// assert_eq!(Resolution::Own(Completion::Released).confirmed_record(), None);
    /// assert_eq!(Resolution::Refuse(Refusal::Contended).confirmed_record(), None);
    /// ```
    pub fn confirmed_record(&self) -> Option<&Record> {
        match self {
            Self::Own(Completion::Stored(record)) | Self::Replay { record, .. } => Some(record),
            Self::Own(_) | Self::Refuse(_) => None,
        }
    }
}
