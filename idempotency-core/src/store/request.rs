//! What a store is asked for.

use super::Staged;
use crate::protocol::condition::Condition;
use crate::protocol::{Consistency, Write};
use crate::record::RecordId;

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
    /// Perform the write if its condition holds for the present record, or for the absence of one.
    Write(RecordWrite<'a>),
    /// Perform a write and the staged writes of a handler: all of them, or none.
    ///
    /// The conditions of all writes are evaluated in one atomic step with the writes. The condition on the record decides first:
    /// if it fails, the reply is [`StoreReply::ConditionFailed`](super::StoreReply::ConditionFailed), also if a staged write was refused. If it
    /// holds and a condition of a staged write fails, the reply is [`StoreReply::Rejected`](super::StoreReply::Rejected). A transaction that meets
    /// another one is not applied, and fails with [`StoreErrorKind::Conflict`](super::StoreErrorKind::Conflict).
    ///
    /// Requests with the same [`token`](TransactionRequest::token) contain the same writes. A transaction without a record that was
    /// applied must not be applied again if it is sent again within ten minutes: the store reports it as applied. With a record the
    /// store may do the same, and the caller does not depend on that, because the condition on the record fails.
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
    /// A text that all requests for this transaction share, and no request for another one has. It has at most 36 characters.
    pub token: &'a str,
}
