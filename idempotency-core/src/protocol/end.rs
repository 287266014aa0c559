//! How a call ends: its handler, its steps, its claim, its staged writes, and what its caller gets.

use std::time::Duration;

use super::undo::HandlerUndo;
use crate::error::ErrorKind;
use crate::record::{Data, Record};
use crate::time::EpochMillis;

/// How a call ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallEnd {
    /// What the caller gets.
    pub resolution: Resolution,
    /// How the call's own claim ended. `None` if it had no confirmed claim, or if that end is not known.
    pub claim: Option<ClaimEnd>,
    /// What became of the writes that the handler staged. `None` if it staged none.
    pub staged: Option<StagedEnd>,
}

/// What the caller of a call gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The handler's own result: the handler ran. The record is the one that stores its response, if it is stored and confirmed.
    Own(Option<Record>),
    /// A stored response.
    Replay {
        /// The record that holds the response.
        record: Record,
        /// Where the record was found.
        source: Source,
    },
    /// An error.
    Refuse(Refusal),
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of the error that the caller gets.
    pub kind: ErrorKind,
    /// More about the cause, if there is more to say.
    pub detail: Option<RefusalDetail>,
}

/// More about the cause of a [`Refusal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalDetail {
    /// When the lease of the call in progress ends.
    LeaseEnd(EpochMillis),
    /// Until when the circuit breaker refuses calls.
    CircuitOpen(EpochMillis),
    /// What is wrong with the record.
    Defect(&'static str),
    /// A write of a step, or of an undo, found that the claim was gone. What the handler returned does not count, also if it was a response.
    LostInAStep,
    /// Why a step is not undone. It names steps and the types of errors.
    NotUndone(String),
}

/// How a call's own claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaimEnd {
    /// Completed with the response.
    Completed,
    /// Completed without a response, because the response cannot be stored.
    CompletedWithoutResponse,
    /// Released: the next call runs the handler.
    Released,
    /// Not released, because the request failed: the key is free when the lease expires; under `hold`, an operator frees it.
    NotReleased,
    /// Kept under `hold`, because the handler or a step of it did not report how it ended: an operator decides.
    Kept,
}

/// What became of the writes that the handler of a call staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StagedEnd {
    /// They were applied together with the completion of the key; in a run that is not protected, alone.
    Applied,
    /// They were not applied: the handler failed or panicked, its response is not stored, another call has completed the key, or they
    /// met other transactions or were throttled for as long as there was time.
    Dropped,
    /// They were rejected, so nothing of them was applied.
    Rejected,
    /// It is not known whether they were applied.
    Unknown,
}

/// How the handler of a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandlerEnd {
    /// Its result.
    pub result: HandlerResult,
    /// The worst end of the steps that it started. `None` if it started none.
    pub steps: Option<StepEnd>,
    /// How often the transaction of its writes can commit. `None` if it has none. They must be applied if and only if its key is completed
    /// by this call.
    pub staged: Option<Commits>,
    /// True if a write was refused when it was staged. Then the key must not be completed, because the response counts on that write.
    pub refused: bool,
    /// The window that it asked for. `None`: that of the operation.
    pub window: Option<Duration>,
    /// What it says of undoing. `None` if it decided nothing, and no earlier run did.
    pub undo: Option<Box<HandlerUndo>>,
}

/// How often the transaction with a completion and the writes of a handler can commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Commits {
    /// The writes are staged, so the same transaction can be sent again.
    Again,
    /// The handler wrote into an open transaction, which can commit once. When its end is not known, the record is read.
    Once,
}

/// What a handler returned, or why it returned nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandlerResult {
    /// It returned a response, which must be stored.
    Returned(Data),
    /// It returned a response that cannot be written as JSON.
    NotSerializable,
    /// It returned a response that only its own caller can get: its JSON cannot be read back, or its codec stores nothing.
    NotDeserializable,
    /// It returned a response that is not stored, by the policy `store_when` or by its codec.
    NotStored,
    /// It returned a response that cannot be stored, and its codec asks to release the claim. If the handler staged writes, the key is
    /// completed without the response instead: its caller gets the response, so the writes must be applied.
    Unstorable,
    /// It returned an error. Holds the name of the error's type.
    Failed(String),
    /// It ended in an error or a response that does not report whether its effect happened: a layer around it may have made it, or
    /// its body broke off. Holds the name of the type.
    Unreported(String),
    /// It panicked, so it did not report whether its effect happened.
    Panicked,
    /// It returned an error before it began: no effect of this run has happened, and steps of earlier runs stay.
    NotStarted,
}

/// How the recording of a step's result ended. The variants are in order: a later one is worse for the end of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepEnd {
    /// The result is recorded.
    Recorded,
    /// The record would be larger than the store accepts. Nothing is recorded, and the effect of the step happened.
    TooLarge,
    /// The recording was not confirmed, so the result may be recorded or not. The effect of the step may have happened.
    NotRecorded,
    /// The claim is gone: taken over by another call, or evicted. Nothing is recorded.
    ClaimLost,
}

impl CallEnd {
    const fn of(resolution: Resolution, claim: Option<ClaimEnd>) -> Self {
        Self {
            resolution,
            claim,
            staged: None,
        }
    }

    /// Returns the end of a call whose caller gets the handler's own result, which is not stored.
    pub const fn own(claim: Option<ClaimEnd>) -> Self {
        Self::of(Resolution::Own(None), claim)
    }

    /// Returns the end of a call whose response is stored in this record.
    pub const fn stored(record: Record) -> Self {
        Self::of(Resolution::Own(Some(record)), Some(ClaimEnd::Completed))
    }

    /// Returns the end of a call whose caller gets the stored response of this record.
    pub const fn replayed(record: Record, source: Source) -> Self {
        Self::of(Resolution::Replay { record, source }, None)
    }

    /// Returns the end of a call whose caller gets an error.
    pub fn refused(refusal: impl Into<Refusal>) -> Self {
        Self::of(Resolution::Refuse(refusal.into()), None)
    }

    /// Returns the same end with what became of the writes that the handler staged.
    #[must_use]
    pub fn with_staged(self, staged: Option<StagedEnd>) -> Self {
        Self { staged, ..self }
    }

    /// Returns the kind of the error, if the caller gets one.
    pub fn error_kind(&self) -> Option<ErrorKind> {
        match &self.resolution {
            Resolution::Refuse(refusal) => Some(refusal.kind),
            Resolution::Own(_) | Resolution::Replay { .. } => None,
        }
    }

    /// Returns the record whose stored response this end confirms, fit for a local cache.
    pub fn confirmed_record(&self) -> Option<&Record> {
        match &self.resolution {
            Resolution::Own(record) => record.as_ref(),
            Resolution::Replay { record, .. } => Some(record),
            Resolution::Refuse(_) => None,
        }
    }
}

impl Refusal {
    /// Returns a refusal with more about its cause.
    pub(super) fn new(kind: ErrorKind, detail: RefusalDetail) -> Self {
        Self {
            kind,
            detail: Some(detail),
        }
    }

    /// Returns the refusal of a call whose key is in progress. `lease_end` is `None` if the other call has no lease.
    pub(super) fn already_in_progress(lease_end: Option<EpochMillis>) -> Self {
        Self {
            kind: ErrorKind::AlreadyInProgress,
            detail: lease_end.map(RefusalDetail::LeaseEnd),
        }
    }
}

impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, detail: None }
    }
}

impl From<HandlerResult> for HandlerEnd {
    /// Returns the end of a handler that started no step, staged nothing and asked for no window.
    fn from(result: HandlerResult) -> Self {
        Self {
            result,
            steps: None,
            staged: None,
            refused: false,
            window: None,
            undo: None,
        }
    }
}

impl ClaimEnd {
    /// Returns the stable name, as in the outcome event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CompletedWithoutResponse => "completed_without_response",
            Self::Released => "released",
            Self::NotReleased => "not_released",
            Self::Kept => "kept",
        }
    }
}

impl StagedEnd {
    /// Returns the stable name, as in the outcome event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Dropped => "dropped",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}
