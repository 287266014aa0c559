//! The `Store` trait: one conditional write and one read of a record, a write together with staged ones, and their outcomes.
//!
//! A store decides nothing. The [`protocol`](crate::protocol) supplies a [`Condition`] with each write. The store applies the
//! write if the condition holds for the present record, atomically, and reports the outcome. [`MemoryStore`] is the
//! specification in code.

mod error;
mod log;
mod memory;
mod rejection;
mod staged;

pub use crate::protocol::condition::{Condition, Operand};
pub use crate::protocol::{Change, Consistency, Write};
pub use error::{StoreError, StoreErrorKind};
pub use log::SendLog;
pub use memory::{LedgerEntry, MemoryStore, MemoryWrites};
pub use rejection::{RejectedWrite, Rejection};
pub use staged::{RecordWrite, Staged, StagedWrites, TransactionRequest};

use crate::future::BoxFuture;
use crate::record::{Record, RecordId};

/// A store of records.
///
/// An implementation keeps four promises:
///
/// - A write, or a transaction, is applied completely or not at all.
/// - The condition is evaluated against the record that the write replaces, in one atomic step.
/// - A write whose condition fails brings that record back.
/// - A write that *may* have been applied is never reported as not applied. This covers the [`SendLog`] too.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{Condition, MemoryStore, SendLog, Store, Write, WriteOutcome};
/// # idempotency_core::example::ready(async {
/// let (store, id, log) = (MemoryStore::new(), RecordId::new("doc#1"), SendLog::new());
/// let put = Write::Put(Record::default());
/// let first = store.write(&id, &put, &Condition::NoRecord, &log).await;
/// assert!(matches!(first, WriteOutcome::Applied));
/// let second = store.write(&id, &put, &Condition::NoRecord, &log).await;
/// assert!(matches!(second, WriteOutcome::ConditionFailed { existing: Some(_), maybe_applied: false }));
/// # });
/// ```
pub trait Store: Send + Sync {
    /// Performs `write` if `condition` holds for the present record, or for the absence of one.
    ///
    /// The engine stops waiting when its time for the request ends, and drops the future. A store that sends a request more
    /// than once should note each send in `log`, so that the engine can then tell whether the write was applied, and why it
    /// is not done. A store that notes nothing is safe: such a write counts as maybe applied. A store that wraps another
    /// store should pass `log` on.
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome>;

    /// Performs a write and the staged writes of a handler: all of them, or none.
    ///
    /// The conditions of all writes are evaluated in one atomic step with the writes. The condition on the record decides first:
    /// if it fails, the outcome is [`WriteOutcome::ConditionFailed`], also if a staged write was refused. If it holds and a condition of
    /// a staged write fails, the outcome is [`WriteOutcome::Rejected`]. A transaction that meets another one is not applied, and
    /// fails with [`StoreErrorKind::Conflict`].
    ///
    /// Requests with the same [`token`](TransactionRequest::token) contain the same writes. A transaction without a record that was applied
    /// must not be applied again if it is sent again within ten minutes: the store reports it as applied. With a record the store may
    /// do the same, and the caller does not depend on that, because the condition on the record fails.
    ///
    /// The default refuses every transaction. `log` has the same purpose as in [`write`](Self::write).
    fn transact<'a>(
        &'a self,
        transaction: TransactionRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        log.preparing();
        let error = transaction.staged.unsupported(&self.name());
        Box::pin(std::future::ready(WriteOutcome::Failed {
            maybe_applied: false,
            error,
        }))
    }

    /// Reads the record, as current as `consistency` asks. A store may always read more consistently.
    ///
    /// `log` has the same purpose as in [`write`](Self::write).
    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        consistency: Consistency,
        log: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome>;

    /// Returns the name of this store in errors, such as ``DynamoDB table `idempotency` ``.
    fn name(&self) -> String;

    /// Checks that the store may keep events (`store_event`), before the first one. The default accepts: a store of your own decides.
    ///
    /// # Errors
    ///
    /// If it may not, or if that cannot be found out.
    fn check_events(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// Opens connections and fetches credentials, so that the first event does not pay for it. The default does nothing.
    ///
    /// # Errors
    ///
    /// Returns the error that the first request would get, if this can be detected without touching a record.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The outcome of a write.
///
/// # Examples
///
/// ```
/// use idempotency_core::{protocol::condition::Condition, record::*, store::*};
/// # use idempotency_core::example::ready;
/// let (store, id, log) = (MemoryStore::new(), RecordId::new("a#1"), SendLog::new());
/// let has_owner = Condition::Exists(Attribute::Owner);
/// match ready(store.write(&id, &Write::Delete, &has_owner, &log)) {
///     WriteOutcome::ConditionFailed { existing, maybe_applied } => assert!(existing.is_none() && !maybe_applied),
///     other => panic!("there is no record, so it has no owner: {other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// The write was applied.
    Applied,
    /// The condition did not hold.
    ConditionFailed {
        /// The present record. `None` if the store brought none back: either there is none, or it could not be read. A
        /// [`Store::read`] tells which.
        existing: Option<Record>,
        /// True if an earlier send within this call may have been applied (for example, its reply was lost).
        maybe_applied: bool,
    },
    /// A staged write was rejected: its condition did not hold, or the store does not accept it. The condition on the record held,
    /// or the store does not say. Nothing was applied. Only [`Store::transact`] has this outcome.
    Rejected {
        /// Which staged write was rejected, and why.
        rejection: Rejection,
        /// True if an earlier send within this call may have been applied.
        maybe_applied: bool,
    },
    /// The write failed.
    Failed {
        /// True if the write may have been applied, or may still be applied later (for example, a send timed out).
        maybe_applied: bool,
        /// Why it failed.
        error: StoreError,
    },
}

/// The outcome of a read.
///
/// # Examples
///
/// ```
/// use idempotency_core::{record::*, store::*};
/// # use idempotency_core::example::ready;
/// let (store, id, log) = (MemoryStore::new(), RecordId::new("a#1"), SendLog::new());
/// assert!(matches!(ready(store.read(&id, Consistency::Strong, &log)), ReadOutcome::NotFound));
/// store.insert(id.clone(), Record::default());
/// assert!(matches!(ready(store.read(&id, Consistency::Strong, &log)), ReadOutcome::Found(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// There is a record.
    Found(Record),
    /// There is no record.
    NotFound,
    /// The read failed.
    Failed(StoreError),
}
