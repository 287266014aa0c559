//! The `Store` trait: one request and one reply.
//!
//! A store decides nothing. The protocol supplies a [`Condition`] with each write. The store applies the write if the condition holds
//! for the current record, atomically, and replies. [`MemoryStore`] is the specification in code.

mod error;
#[doc(hidden)]
pub mod events;
mod kind;
mod log;
mod memory;
mod request;
#[doc(hidden)]
pub mod retention;
mod scan;
mod staged;

pub use crate::error::rejection::{RejectedWrite, Rejection};
pub use crate::future::BoxFuture;
pub use crate::protocol::condition::{Condition, Operand};
pub use crate::protocol::{Change, Consistency, Replaced, StoreLimits, Write};
pub use error::{StoreError, StoreErrorKind};
#[doc(hidden)]
pub use kind::{StoreKind, StoreUse};
pub use log::SendLog;
pub use memory::{LedgerEntry, MemoryStore, MemoryTransaction, MemoryWrites};
pub use request::{RecordWrite, StoreReply, StoreRequest, TransactionRequest};
#[doc(hidden)]
pub use scan::UNLISTED;
pub use scan::{ScanPage, ScanRequest, StoreScan};
pub use staged::{OpenTransaction, Staged, StagedWrites};

/// A store of records.
///
/// An implementation keeps four promises:
///
/// - A write, or a transaction, is applied completely or not at all.
/// - The condition is evaluated against the record that the write replaces, in one atomic step.
/// - A write whose condition fails brings that record back, or none: a call that needs it then reads.
/// - A write that *may* have been applied is never reported as not applied. This covers the [`SendLog`] too.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{Condition, MemoryStore, StoreReply, SendLog, Store, StoreRequest, Write};
/// # idempotency_core::example::ready(async {
/// let (store, id, log) = (MemoryStore::new(), RecordId::new("doc#1"), SendLog::new());
/// let put = Write::Put(Record::default());
/// let claim = StoreRequest::write(&id, &put, &Condition::NoRecord);
/// assert!(matches!(store.send(claim, &log).await, StoreReply::Applied { .. }));
/// let second = store.send(claim, &log).await;
/// assert!(matches!(second, StoreReply::ConditionFailed { existing: Some(_), maybe_applied: false, .. }));
/// # });
/// ```
pub trait Store: Send + Sync {
    /// Performs one request. The reply to a read is [`StoreReply::Found`] or [`StoreReply::Failed`], and that to a write is not `Found`.
    ///
    /// The engine stops waiting when its time for the request ends, and drops the future. A store that sends a request more
    /// than once should note each send in `log`, so that the engine can then tell whether the write was applied, and why it
    /// is not done. A store that notes nothing is safe: such a write counts as maybe applied. A store that wraps another
    /// store should pass `log` on.
    fn send<'a>(&'a self, request: StoreRequest<'a>, log: &'a SendLog)
    -> BoxFuture<'a, StoreReply>;

    /// Begins a transaction for the handler of a call, which reads and writes in it and hands it back. It must not lock a record.
    ///
    /// [`send`](Self::send) then gets it in a [`Transact`](StoreRequest::Transact) ([`Staged::take_open`]): the store performs the write of the
    /// record in this transaction if its condition holds, and commits. With any other reply nothing of the transaction is applied, now or later,
    /// unless the reply says that it may have been. It is sent once. `left` is how long its lease lasts without a
    /// renewal: a transaction that waits longer, for another one or for its handler, should be ended. The default is for a store without
    /// transactions.
    ///
    /// # Errors
    ///
    /// If none could be begun.
    fn begin(
        &self,
        _left: Option<std::time::Duration>,
    ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        let text = format!(
            "{} has no transactions that a handler can begin: stage writes, or use a store that has them",
            self.name()
        );
        let error = StoreError::new(StoreErrorKind::Rejected, text);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns what the store accepts. It is asked once, without I/O. There is no default, so that a store that wraps another one cannot
    /// forget to return the limits of that one.
    fn limits(&self) -> StoreLimits;

    /// Returns the name of this store in errors, such as ``table `idempotency` of the orders database``.
    fn name(&self) -> String;

    /// Returns what to do about a request whose time ended without a reply, for the end of the error. `was_sent` is false if nothing
    /// was sent.
    ///
    /// The default holds for every store. One with a network or credentials says which settings to check, and a wrapper returns the advice
    /// of its store.
    fn timeout_advice(&self, was_sent: bool) -> String {
        let advice = match was_sent {
            true => "check that the store runs and can be reached",
            false => "prepare the store before the first event, with its `warm_up`",
        };
        advice.to_owned()
    }

    /// Opens connections and fetches credentials, so that the first event does not pay for it. `keeps_events` is true if an operation keeps
    /// events (`store_event`): then the store also checks that it may. The default does nothing.
    ///
    /// # Errors
    ///
    /// Returns the error that the first request would get, if this can be detected without touching a record.
    fn warm_up(&self, _keeps_events: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
