//! What an attempt asks its driver to do, and the results that the driver returns: both as data.

use std::ops::ControlFlow;
use std::time::Duration;

use super::breaker::Admission;
use super::condition::Condition;
use super::end::{CallEnd, HandlerEnd};
use super::in_flight::InFlight;
use super::undo::UndoEnd;
use crate::record::{Attribute, Data, Record};
use crate::time::EpochMillis;

/// What the driver of an [`Attempt`](super::Attempt) must do next.
///
/// Each variant names the [`Input`] to pass to the next step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Check this process's memory. Then pass [`Input::Local`] with the cached record. If there is none, and a call with the
    /// same [`InFlightKey`](super::InFlightKey) is in progress, pass [`Input::LeaderProgress`].
    CheckLocal,
    /// Check only for a call in progress, because the cached record has expired. Then pass [`Input::LeaderProgress`],
    /// or [`Input::Local`] with `None`.
    CheckInFlight,
    /// Wait for the leader for at most this duration. Then pass [`Input::LeaderDone`] if it finishes, and
    /// [`Input::LeaderProgress`] if its progress changes or the time ends.
    AwaitLeader(Duration),
    /// Ask the circuit breaker of the store for admission. The requests before the handler may take this long. Then pass
    /// [`Input::Circuit`].
    CheckCircuit(Duration),
    /// Perform the write if the condition holds. Then pass [`Input::Written`].
    Write(Write, Condition),
    /// Perform the write and those that the handler staged, or has in its open transaction, all of them or none, if the condition and the
    /// conditions of the staged writes hold. Then pass [`Input::Written`].
    Transact(Write, Condition),
    /// Read the record, as current as this asks. Then pass [`Input::Read`], or [`Input::ReadFailed`].
    Read(Consistency),
    /// Pause for a random time between zero and this duration. Then pass [`Input::Paused`].
    Pause(Duration),
    /// Run the handler. Then pass [`Input::HandlerEnded`].
    Run,
    /// Run the handler without a confirmed claim, because the store failed. Then pass [`Input::HandlerEnded`].
    RunUnprotected {
        /// True if a claim of this call may have been applied: its response is stored if it was. Otherwise nothing is stored:
        /// pass [`HandlerResult::NotStored`](super::HandlerResult::NotStored) for a response.
        maybe_claimed: bool,
    },
    /// Undo this step, in the way that the run which has ended has left for it. Then pass [`Input::Undone`].
    Undo(String),
    /// End the call.
    Finish(CallEnd),
}

/// A write to one record. A [`Store`](crate::store::Store) applies it only if the condition that comes with it holds.
///
/// This enum is exhaustive on purpose: a store must perform every kind of write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Replace the whole record by this one.
    Put(Record),
    /// Change some attributes. If there is no record, create one with them.
    Update(Change),
    /// Delete the record.
    Delete,
    /// Add the result of a step to the [`steps`](Record::steps) of the record. If the record has no steps at all, the write
    /// fails: the claim did not make any.
    Step {
        /// The name of the step.
        name: String,
        /// Its result.
        result: Data,
    },
}

/// Attributes to set, and attributes to remove.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Change;
/// use idempotency_core::record::{Attribute, Field, Record};
/// let change = Change {
///     set: Record { failure: Field::Value("Timeout".to_owned()), ..Record::default() },
///     remove: vec![Attribute::Owner],
/// };
/// assert!(change.set.failure.exists());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Change {
    /// Sets the attributes that are [`Field::Value`](crate::record::Field::Value) here. The others stay as they are.
    pub set: Record,
    /// Removes these attributes.
    pub remove: Vec<Attribute>,
}

impl Record {
    /// Applies an update: sets the attributes that have a value in it, then removes.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::protocol::Change;
    /// use idempotency_core::record::{Attribute, Field, OwnerToken, Record, Status};
    /// let owner = Field::Value(OwnerToken::from_bytes([7; 16]));
    /// let mut record = Record { owner, status: Field::Value(Status::InProgress), ..Record::default() };
    /// let set = Record { status: Field::Value(Status::Completed), ..Record::default() };
    /// record.apply(&Change { set: set.clone(), remove: vec![Attribute::Owner] });
    /// assert_eq!(record, set);
    /// ```
    pub fn apply(&mut self, change: &Change) {
        for (attribute, _) in change.set.fields() {
            self.copy(attribute, &change.set);
        }
        let absent = Self::default();
        for attribute in &change.remove {
            self.copy(*attribute, &absent);
        }
    }
}

/// How current the record of a read must be.
///
/// This enum is exhaustive on purpose: a store must know every kind of read.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Consistency;
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{MemoryStore, StoreReply, SendLog, Store, StoreRequest};
/// # use idempotency_core::example::ready;
/// let (store, id) = (MemoryStore::new(), RecordId::new("a#1"));
/// store.insert(id.clone(), Record::default());
/// // A store may always read more consistently than it must, as the store in memory does.
/// let read = StoreRequest::Read(&id, Consistency::Eventual);
/// assert!(matches!(ready(store.send(read, &SendLog::new())), StoreReply::Found { record: Some(_), .. }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The read sees every write that was applied before it was sent.
    Strong,
    /// The read may return an earlier state of the record, or no record although there is one. It never returns a record that
    /// was not stored. It may cost less.
    Eventual,
}

/// The result of an [`Effect`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The record of this key in the local cache.
    Local(Option<Record>),
    /// Another call of this process is in progress. This is its progress.
    LeaderProgress(InFlight),
    /// The leader has finished. The record is the one that it confirmed, if any:
    /// [`CallEnd::confirmed_record`].
    LeaderDone(Option<Record>),
    /// Whether the circuit breaker admits the call.
    Circuit(Admission),
    /// The result of a write.
    Written(WriteResult),
    /// The record that a read found.
    Read(Option<Record>),
    /// The read failed.
    ReadFailed,
    /// The pause has ended.
    Paused,
    /// The handler has ended.
    HandlerEnded(HandlerEnd),
    /// The undo of a step has ended.
    Undone(UndoEnd),
}

/// The result of a write, reduced to what the protocol needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// A refused write is no common path, and a record in a box would cost each duplicate an allocation.
#[allow(clippy::large_enum_variant)]
pub enum WriteResult {
    /// The write was applied.
    Applied {
        /// What a put has replaced. If it is unknown, the run does not know whether it is the first.
        replaced: Replaced,
        /// True if an earlier send of the same write may still be applied later.
        maybe_again: bool,
    },
    /// The condition did not hold.
    ConditionFailed {
        /// The record that the store brought back.
        existing: Option<Record>,
        /// True if an earlier send of the same write may have been applied.
        maybe_applied: bool,
    },
    /// A staged write was rejected: its condition did not hold, or the store does not accept it. The condition on the record held,
    /// or is not known. Nothing was applied.
    Rejected {
        /// True if an earlier send of the same transaction may have been applied.
        maybe_applied: bool,
    },
    /// The write failed.
    Failed {
        /// True if the write may have been applied, or may still be applied later.
        maybe_applied: bool,
        /// The kind of failure.
        kind: WriteErrorKind,
    },
}

/// What a put has replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// A record in a box would cost each takeover an allocation.
#[allow(clippy::large_enum_variant)]
pub enum Replaced {
    /// The store does not say it.
    Unknown,
    /// There was no record.
    Nothing,
    /// This record.
    Record(Record),
}

impl From<Option<Record>> for Replaced {
    fn from(record: Option<Record>) -> Self {
        record.map_or(Self::Nothing, Self::Record)
    }
}

impl WriteResult {
    /// The write was applied by its only send, and the store does not say what it replaced.
    pub const APPLIED: Self = Self::Applied {
        replaced: Replaced::Unknown,
        maybe_again: false,
    };
}

/// The kind of a failed write, reduced to what the protocol needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteErrorKind {
    /// The same write may succeed later.
    Transient,
    /// The same write will succeed when another transaction with one of its items has ended, or when the transaction is not throttled
    /// any more. It was not applied.
    Conflict,
    /// The credentials or the time of the signature were not accepted, there were no credentials, or the store's certificate was not
    /// trusted. The same write will succeed when they are renewed or the clock is set right. It was not applied.
    Credentials,
    /// The record is larger than the store accepts.
    TooLarge,
    /// The condition did not hold, but the record that prevents the write could not be read. The same write may bring it back
    /// later.
    Refused,
    /// The same write will fail again.
    Permanent,
}

impl WriteErrorKind {
    /// Returns true if the same write may be applied later.
    pub(super) fn may_pass(self) -> bool {
        match self {
            Self::Transient | Self::Conflict | Self::Credentials | Self::Refused => true,
            Self::TooLarge | Self::Permanent => false,
        }
    }
}

/// A write that is sent again until its end is known, as a state machine. Its first send comes at once.
pub trait Resend {
    /// How it ended.
    type End;

    /// Returns how long a send may take that starts at the time `now`.
    fn time_limit(&self, now: EpochMillis) -> Duration;

    /// Takes the result of a send. Returns the end; or the longest pause, after which the same write is sent again. The driver pauses for
    /// a random time between zero and it.
    fn step(&mut self, now: EpochMillis, result: WriteResult) -> ControlFlow<Self::End, Duration>;
}
