//! What an attempt asks to be done, and what it is told.

use std::time::Duration;

use super::condition::Condition;
use super::flight::Flight;
use crate::record::{Data, Record};
use crate::store::Change;
use crate::time::EpochMillis;

/// What the driver of an [`Attempt`](super::Attempt) does next.
///
/// The answers to the effects are the [`Input`] variants of the same line.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// let (attempt, effect) = Attempt::begin(call);
/// assert_eq!(effect, Effect::Look);
/// let (_, effect) = attempt.step(EpochMillis::new(0), Input::Looked(None));
/// let Effect::Put(claim, condition) = effect else { panic!("a claim comes next") };
/// assert!(claim.owner.exists() && condition.holds(None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Look the key up in the process's memory: [`Input::Looked`] with what the local cache holds; where that is nothing
    /// and a call with the same [`FlightKey`](super::FlightKey) is under way, [`Input::InFlight`].
    Look,
    /// Look for such a call alone, since what the cache holds decides nothing: [`Input::InFlight`], or [`Input::Looked`]
    /// with nothing.
    Meet,
    /// Wait at most so long for the call that was found under way: [`Input::Landed`] if it ends, [`Input::InFlight`] if it
    /// comes further or the time is over.
    Follow(Duration),
    /// Put the record if the condition holds: [`Input::Written`].
    Put(Record, Condition),
    /// Change the record if the condition holds: [`Input::Written`].
    Update(Change, Condition),
    /// Delete the record if the condition holds: [`Input::Written`].
    Delete(Condition),
    /// Read the record consistently: [`Input::Read`], or [`Input::Unread`] if that failed.
    Read,
    /// Let a random time pass, uniform between nothing and this: [`Input::Paused`].
    Pause(Duration),
    /// Run the handler: [`Input::Ran`].
    Run,
    /// It is over: tell the caller.
    Finish(Verdict),
}

/// What became of an [`Effect`].
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Trouble, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// // The claim's reply was lost: whether it was applied, only a read can tell.
/// let lost = Written::Failed { lost: true, trouble: Trouble::Transient };
/// let (attempt, effect) = attempt.step(now, Input::Written(lost));
/// assert_eq!(effect, Effect::Read);
/// let (_, effect) = attempt.step(now, Input::Read(None));
/// assert!(matches!(effect, Effect::Put(..)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// What the local cache holds of this key.
    Looked(Option<Record>),
    /// Another call of this process is under way, and so far.
    InFlight(Flight),
    /// The call that was waited for is over. What it was given by the store or had confirmed by it, if anything: its
    /// verdict's [`confirmed_record`](Verdict::confirmed_record).
    Landed(Option<Record>),
    /// What a write came to.
    Written(Written),
    /// What a read found.
    Read(Option<Record>),
    /// The read failed.
    Unread,
    /// The time has passed.
    Paused,
    /// What the handler came to.
    Ran(Ran),
}

/// What a write came to, as far as the protocol cares.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Source, Verdict, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// // Another call has completed this key: its record comes back with the refusal.
/// let refused = Written::Refused { existing: Some(completed), lost: false };
/// let (_, effect) = attempt.step(now, Input::Written(refused));
/// assert!(matches!(effect, Effect::Finish(Verdict::Replay { source: Source::Store, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was applied.
    Applied,
    /// Its condition did not hold.
    Refused {
        /// The record that was brought back.
        existing: Option<Record>,
        /// Whether an earlier send of the same write may have been applied.
        lost: bool,
    },
    /// It failed.
    Failed {
        /// Whether a send may have been applied, or may yet arrive.
        lost: bool,
        /// What kind of failure.
        trouble: Trouble,
    },
}

/// How a write failed, as far as the protocol cares.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Ran, Trouble, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(Written::Applied));
/// # let (attempt, _) = attempt.step(now, Input::Ran(Ran::Answered(Data::new("42"))));
/// // An answer that the store does not take: the key is completed without it.
/// let failed = Written::Failed { lost: false, trouble: Trouble::TooLarge };
/// let (_, effect) = attempt.step(now, Input::Written(failed));
/// assert!(matches!(effect, Effect::Update(change, _) if !change.set.data.exists()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
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
/// use idempotency_core::protocol::{Attempt, Effect, Input, Ran, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// let (attempt, effect) = attempt.step(now, Input::Written(Written::Applied));
/// assert_eq!(effect, Effect::Run);
/// // The handler failed: its claim is given up, so that a retry runs.
/// let (_, effect) = attempt.step(now, Input::Ran(Ran::Failed("Timeout".to_owned())));
/// assert!(matches!(effect, Effect::Delete(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ran {
    /// It gave an answer that is to be stored.
    Answered(Data),
    /// It gave an answer that cannot be written as JSON.
    Unrepresentable,
    /// It gave an answer that can be written as JSON, but not be read back.
    Unreadable,
    /// It gave an answer that by policy is not stored.
    Unstored,
    /// It reported a failure; the name of its error's type.
    Failed(String),
    /// It panicked, so it did not report whether it had its effect.
    Panicked,
}

/// How a call ends.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Verdict, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let cached = Input::Looked(Some(completed.clone()));
/// let (_, effect) = Attempt::begin(call).0.step(EpochMillis::new(0), cached);
/// assert!(matches!(effect, Effect::Finish(Verdict::Replay { record, .. }) if record == completed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The handler ran; its caller is given the handler's own result.
    Own(Stored),
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
/// use idempotency_core::protocol::{Attempt, Effect, Input, Ran, Stored, Verdict, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(Written::Applied));
/// // By policy this answer is not stored; its claim is deleted.
/// let (attempt, _) = attempt.step(now, Input::Ran(Ran::Unstored));
/// let (_, effect) = attempt.step(now, Input::Written(Written::Applied));
/// assert_eq!(effect, Effect::Finish(Verdict::Own(Stored::Released)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// It is the confirmed answer of its key: duplicates are given it.
    Answer(Record),
    /// Its key is completed without it, because it cannot be stored: duplicates are told so.
    Nothing,
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
    Flight,
    /// In the store, after the handler ran: another call had taken over and completed first, or an earlier send of
    /// our own completion was found to have been applied.
    Completion,
}

/// Why a call is refused an answer.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Refusal, Verdict, Written, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, operation: None, policy: Policy::default() };
/// # let now = EpochMillis::new(0);
/// # let until = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(until),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Looked(None));
/// // Another call's claim is in the way, and its lease runs until 30 s.
/// let refused = Written::Refused { existing: Some(claim), lost: false };
/// let (_, effect) = attempt.step(now, Input::Written(refused));
/// let refusal = Refusal::AlreadyInProgress { until: Some(EpochMillis::new(30_000)) };
/// assert_eq!(effect, Effect::Finish(Verdict::Refuse(refusal)));
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

impl Verdict {
    /// The stored answer this verdict confirms, fit for a local cache.
    ///
    /// ```
    /// # use idempotency_core::{protocol::{Refusal, Stored, Verdict}, record::Record};
    /// let answer = Record::default();
    /// assert_eq!(Verdict::Own(Stored::Answer(answer.clone())).confirmed_record(), Some(&answer));
    /// assert_eq!(Verdict::Own(Stored::Released).confirmed_record(), None);
    /// assert_eq!(Verdict::Refuse(Refusal::Contended).confirmed_record(), None);
    /// ```
    pub fn confirmed_record(&self) -> Option<&Record> {
        match self {
            Self::Own(Stored::Answer(record)) | Self::Replay { record, .. } => Some(record),
            Self::Own(_) | Self::Refuse(_) => None,
        }
    }
}
