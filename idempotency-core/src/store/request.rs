//! What a store is asked for, and what it replies.

use super::{Rejection, SendLog, Staged, StoreError};
use crate::protocol::condition::Condition;
use crate::protocol::{Consistency, Replaced, Write};
use crate::record::{Record, RecordId};

/// One request to a [`Store`](super::Store).
///
/// This enum is exhaustive on purpose: a store must answer every kind of request.
///
/// # Examples
///
/// ```
/// use idempotency_core::{record::*, store::*};
/// # use idempotency_core::example::ready;
/// let (store, id) = (MemoryStore::new(), RecordId::new("a#1"));
/// let put = Write::Put(Record::default());
/// let claim = StoreRequest::write(&id, &put, &Condition::NoRecord);
/// assert!(matches!(ready(store.send(claim, &SendLog::new())), StoreReply::Applied { .. }));
/// let read = StoreRequest::Read(&id, Consistency::Strong);
/// assert!(matches!(ready(store.send(read, &SendLog::new())), StoreReply::Found { record: Some(_), .. }));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum StoreRequest<'a> {
    /// Perform the write if its condition holds for the current record, or for the absence of one.
    Write(RecordWrite<'a>),
    /// Perform a write and the staged writes of a handler, or what it wrote in its open transaction: all of them, or none.
    ///
    /// The conditions of all writes are evaluated in one atomic step with the writes. The condition on the record decides first:
    /// if it fails, the reply is [`StoreReply::ConditionFailed`], also if a staged write was refused. If it holds and a condition of a
    /// staged write fails, the reply is [`StoreReply::Rejected`]. A transaction that meets another one is not applied, and fails with
    /// [`StoreErrorKind::Conflict`](super::StoreErrorKind::Conflict).
    ///
    /// Requests with the same [`token`](TransactionRequest::token) contain the same writes. A transaction without a record that was
    /// applied must not be applied again if it is sent again within [`StoreLimits::token`](super::StoreLimits::token): the store reports
    /// it as applied. With a record the store may do the same, and the caller does not depend on that, because the condition on the
    /// record fails.
    ///
    /// A store that performs no staged writes replies with the error [`Staged::unsupported`].
    Transact(TransactionRequest<'a>),
    /// Read the record, as current as this asks. A store may always read more consistently.
    Read(&'a RecordId, Consistency),
}

#[doc(hidden)]
impl<'a> StoreRequest<'a> {
    /// Returns the request of a write without staged ones.
    pub fn write(id: &'a RecordId, write: &'a Write, condition: &'a Condition) -> Self {
        Self::Write(RecordWrite {
            id,
            write,
            condition,
        })
    }

    /// Returns the write of the record that the request contains, alone or in a transaction.
    pub fn record(self) -> Option<RecordWrite<'a>> {
        match self {
            Self::Write(record) => Some(record),
            Self::Transact(transaction) => transaction.record,
            Self::Read(..) => None,
        }
    }
}

/// The write of a record, alone or as a part of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct RecordWrite<'a> {
    /// The record's id.
    pub id: &'a RecordId,
    /// The write.
    pub write: &'a Write,
    /// The condition of the write.
    pub condition: &'a Condition,
}

/// Writes that are applied together or not at all.
#[derive(Clone, Copy, Debug)]
pub struct TransactionRequest<'a> {
    /// The write of the record; `None` for a handler that ran unprotected.
    pub record: Option<RecordWrite<'a>>,
    /// The writes of the handler.
    pub staged: &'a Staged,
    /// A text that all requests for this transaction share, and no request for another one has: hex digits in lower case, and at most a `-` with
    /// a letter after them. It has at most 34 characters.
    pub token: &'a str,
}

#[doc(hidden)]
impl TransactionRequest<'_> {
    /// The number of characters of the longest token.
    pub const LONGEST_TOKEN: usize = 34;
}

/// The reply of a store to one request: all that the store can say about it.
///
/// # Examples
///
/// ```
/// use idempotency_core::{record::*, store::*};
/// # use idempotency_core::example::ready;
/// let (store, id) = (MemoryStore::new(), RecordId::new("a#1"));
/// let has_owner = Condition::Exists(Attribute::Owner);
/// let delete = StoreRequest::write(&id, &Write::Delete, &has_owner);
/// match ready(store.send(delete, &SendLog::new())) {
///     StoreReply::ConditionFailed { existing, maybe_applied, .. } => assert!(existing.is_none() && !maybe_applied),
///     other => panic!("there is no record, so it has no owner: {other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreReply {
    /// The write, or the transaction, was applied.
    Applied {
        /// What a put has replaced.
        ///
        /// A store that knows this without a further request should say it. Then the outcome event and the metrics say that a claim
        /// was a takeover, the handler can see which run of its key it is ([`Run`](crate::protocol::Run)), and a first run that fails
        /// deletes its claim. Without it each run that fails leaves a record, for the length of a window.
        replaced: Replaced,
        /// True if an earlier send of the same request may have been applied, or may still be.
        maybe_again: bool,
    },
    /// The condition did not hold.
    ConditionFailed {
        /// The current record. `None` if the store brought none back: either there is none, or it was not read. A
        /// [read](super::StoreRequest::Read) shows which.
        existing: Option<Record>,
        /// Why the response of that record cannot be read, as in [`Found`](Self::Found).
        unreadable: Option<String>,
        /// True if an earlier send of the same request may have been applied (for example, its reply was lost).
        maybe_applied: bool,
    },
    /// A staged write was rejected: its condition did not hold, or the store does not accept it. The condition on the record held,
    /// or the store does not say. Nothing was applied.
    Rejected {
        /// Which staged write was rejected, and why.
        rejection: Rejection,
        /// True if an earlier send of the same request may have been applied.
        maybe_applied: bool,
    },
    /// The record that a read found.
    Found {
        /// The record. `None` if there is none.
        record: Option<Record>,
        /// Why the response of the record cannot be read, such as "piece 2 of 3 of its response is missing". The record then has
        /// [`Field::Unreadable`](crate::record::Field::Unreadable) data, the handler does not run, and the caller's error contains
        /// this text.
        unreadable: Option<String>,
    },
    /// The request failed.
    Failed {
        /// Why it failed.
        error: StoreError,
        /// True if the write may have been applied, or may still be applied later (for example, a send timed out).
        maybe_applied: bool,
    },
}

impl StoreReply {
    /// Returns the reply to a write that was applied by its only send.
    pub fn applied() -> Self {
        Self::Applied {
            replaced: Replaced::Unknown,
            maybe_again: false,
        }
    }

    /// Returns the reply to a put that was applied by its only send, over this record or over none.
    pub fn replaced(record: Option<Record>) -> Self {
        Self::Applied {
            replaced: record.into(),
            maybe_again: false,
        }
    }

    /// Returns the reply to a write whose condition does not hold for this record, or for the absence of one.
    pub fn condition_failed(existing: Option<Record>) -> Self {
        Self::ConditionFailed {
            existing,
            unreadable: None,
            maybe_applied: false,
        }
    }

    /// Returns the reply to a read that found this record, or none.
    pub fn found(record: Option<Record>) -> Self {
        Self::Found {
            record,
            unreadable: None,
        }
    }

    /// Returns the reply to a request that failed and was certainly not applied.
    pub fn failed(error: StoreError) -> Self {
        Self::Failed {
            error,
            maybe_applied: false,
        }
    }

    /// Returns the same reply, which now says that an earlier send of the request may have been applied, or may still be. A
    /// `Failed` reply then says this of its last send too.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::store::{StoreReply, StoreError, StoreErrorKind};
    /// let error = StoreError::new(StoreErrorKind::Unreachable, "no reply in time: check the network");
    /// assert!(matches!(StoreReply::failed(error).admit_earlier(), StoreReply::Failed { maybe_applied: true, .. }));
    /// ```
    #[must_use]
    pub fn admit_earlier(mut self) -> Self {
        match &mut self {
            Self::Applied {
                maybe_again: maybe, ..
            }
            | Self::ConditionFailed {
                maybe_applied: maybe,
                ..
            }
            | Self::Rejected {
                maybe_applied: maybe,
                ..
            }
            | Self::Failed {
                maybe_applied: maybe,
                ..
            } => *maybe = true,
            Self::Found { .. } => {}
        }
        self
    }

    /// Returns the same reply with what the store has noted of the sends.
    #[must_use]
    pub fn add_notes(self, log: &SendLog) -> Self {
        let maybe = match self {
            Self::Applied { .. } => log.maybe_again(),
            _ => log.maybe_applied(),
        };
        if maybe { self.admit_earlier() } else { self }
    }
}
