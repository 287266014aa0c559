//! How a call ends.

use crate::error::ErrorKind;
use crate::record::Record;
use crate::time::EpochMillis;

/// How a call ends.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Resolution};
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let cached = Input::Local(Some(completed.clone()));
/// let (_, effect) = Attempt::begin(call).0.step(EpochMillis::new(0), cached);
/// assert!(matches!(effect, Effect::Finish(Resolution::Replay { record, .. }) if record == completed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The handler ran. The caller gets the handler's own result.
    Own(Completion),
    /// The caller gets a stored response.
    Replay {
        /// The record that holds the response.
        record: Record,
        /// Where the record was found.
        source: Source,
    },
    /// The caller gets an error.
    Refuse(Refusal),
}

/// What became of the claim of a call whose handler ran.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Completion, Effect, HandlerResult, Input, Resolution, WriteResult};
/// # use idempotency_core::time::EpochMillis;
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(WriteResult::APPLIED));
/// // By policy this response is not stored, so the claim is released.
/// let (attempt, _) = attempt.step(now, Input::HandlerDone(HandlerResult::NotStored));
/// let (_, effect) = attempt.step(now, Input::Written(WriteResult::APPLIED));
/// assert_eq!(effect, Effect::Finish(Resolution::Own(Completion::Released)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// A response that is stored is the common case.
#[allow(clippy::large_enum_variant)]
pub enum Completion {
    /// The response is stored and confirmed. Duplicates get it.
    Stored(Record),
    /// The key is completed without the response, because the response cannot be stored. Duplicates get
    /// [`ErrorKind::ResponseUnavailable`].
    WithoutResponse,
    /// The claim was released. The next call runs the handler.
    Released,
    /// The claim could not be released. The key is free when the lease ends.
    NotReleased,
    /// Under `hold` the claim is kept, because the handler's end was not reported. An operator must decide.
    Kept,
    /// The handler ran unprotected, and its result is not stored. If a claim of the call was applied, the key is free when its
    /// lease ends.
    Unclaimed,
}

/// Where a replayed response was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// In the store, before the handler would have run.
    Store,
    /// In the local cache of the process.
    Cache,
    /// In another call of the same process, which was in progress with the same key and payload.
    ConcurrentCall,
    /// In the store, after the handler ran: another call had taken over and completed first, or an earlier send of this
    /// call's own completion was applied.
    Completion,
}

/// Why a call gets no response.
///
/// # Examples
///
/// ```
/// use idempotency_core::error::ErrorKind;
/// use idempotency_core::protocol::{Attempt, Effect, Input, Refusal, RefusalDetail, Resolution, WriteResult};
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let lease_end = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(lease_end),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // The record is another call's claim. Its lease ends at 30 s.
/// let failed = WriteResult::ConditionFailed { existing: Some(claim), maybe_applied: false };
/// let (_, effect) = attempt.step(now, Input::Written(failed));
/// let Effect::Finish(Resolution::Refuse(refusal)) = effect else { panic!("the call is refused") };
/// assert_eq!(refusal.kind, ErrorKind::AlreadyInProgress);
/// assert_eq!(refusal.detail, Some(RefusalDetail::LeaseEnd(EpochMillis::new(30_000))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of the error that the caller gets.
    pub kind: ErrorKind,
    /// More about the cause, if there is more to say.
    pub detail: Option<RefusalDetail>,
}

/// More about the cause of a [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalDetail {
    /// When the lease of the call in progress ends.
    LeaseEnd(EpochMillis),
    /// Until when the circuit breaker asks the store no more.
    CircuitOpen(EpochMillis),
    /// What is wrong with the record.
    Defect(&'static str),
    /// A step of the handler found that the claim was gone. What the handler returned does not count, also if it was a response.
    LostInAStep,
    /// The transaction of the call was rejected, or was given up before a send of it could be applied, and its claim was released. The
    /// next call runs the handler.
    Released,
    /// The same, and its claim could not be released. The key is free when the lease ends.
    NotReleased,
}

impl Refusal {
    /// Returns the refusal of a call whose key is in progress. `lease_end` is `None` if the other call has no lease.
    pub(super) fn already_in_progress(lease_end: Option<EpochMillis>) -> Self {
        Self {
            kind: ErrorKind::AlreadyInProgress,
            detail: lease_end.map(RefusalDetail::LeaseEnd),
        }
    }

    /// Returns the refusal of a call whose step found that the claim was gone.
    pub(super) fn lost_in_a_step() -> Self {
        Self {
            kind: ErrorKind::LostOwnership,
            detail: Some(RefusalDetail::LostInAStep),
        }
    }

    /// Returns the refusal of a call whose record has this defect.
    pub(super) fn corrupt_record(defect: &'static str) -> Self {
        Self {
            kind: ErrorKind::CorruptRecord,
            detail: Some(RefusalDetail::Defect(defect)),
        }
    }
}

impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, detail: None }
    }
}

impl Resolution {
    /// Returns the record whose stored response this resolution confirms, fit for a local cache.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{protocol::{Completion, Resolution}, record::Record};
    /// let record = Record::default();
    /// assert_eq!(Resolution::Own(Completion::Stored(record.clone())).confirmed_record(), Some(&record));
    /// assert_eq!(Resolution::Own(Completion::Released).confirmed_record(), None);
    /// ```
    pub fn confirmed_record(&self) -> Option<&Record> {
        match self {
            Self::Own(Completion::Stored(record)) | Self::Replay { record, .. } => Some(record),
            Self::Own(_) | Self::Refuse(_) => None,
        }
    }
}
