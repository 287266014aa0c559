//! The `Store` trait: four conditional operations on one record, and what each may answer.
//!
//! A store decides nothing. [`protocol`](crate::protocol) hands it a [`Condition`] with each write; the store applies
//! the write if the condition holds of the record that is there, atomically, and says what happened. [`MemoryStore`]
//! is the specification in code.

mod error;
mod log;
mod memory;

pub use error::{StoreError, StoreErrorKind};
pub use log::SendLog;
pub use memory::MemoryStore;

use crate::future::BoxFuture;
use crate::protocol::condition::Condition;
use crate::record::{Attribute, Record, RecordId};

/// Where records live.
///
/// Implementations keep four promises: a write is applied wholly or not at all; its condition is judged against the
/// record that it replaces, in one atomic step; a refused write brings back that record; and a write that *may* have
/// been applied is never reported as not applied. The last promise covers the [`SendLog`] too.
///
/// ```
/// use idempotency_core::protocol::condition::Condition;
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{MemoryStore, Store, WriteOutcome};
/// # futures_lite_block_on(async {
/// let store = MemoryStore::new();
/// let id = RecordId::new("doc#1");
/// let put = store.put(&id, &Record::default(), &Condition::NoRecord).await;
/// assert!(matches!(put, WriteOutcome::Applied));
/// let again = store.put(&id, &Record::default(), &Condition::NoRecord).await;
/// assert!(matches!(again, WriteOutcome::ConditionFailed { existing: Some(_), .. }));
/// # });
/// # fn futures_lite_block_on(f: impl Future<Output = ()>) {
/// #     let mut f = std::pin::pin!(f);
/// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(f.as_mut().poll(&mut cx).is_ready());
/// # }
/// ```
pub trait Store: Send + Sync {
    /// Replaces the whole record by `record` if `condition` holds of the one that is there.
    fn put<'a>(
        &'a self,
        id: &'a RecordId,
        record: &'a Record,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome>;

    /// Changes some attributes of the record if `condition` holds of it.
    fn update<'a>(
        &'a self,
        id: &'a RecordId,
        change: &'a Change,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome>;

    /// Deletes the record if `condition` holds of it.
    fn delete<'a>(
        &'a self,
        id: &'a RecordId,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome>;

    /// Reads the record, consistently with every write that was applied before.
    fn read<'a>(&'a self, id: &'a RecordId) -> BoxFuture<'a, ReadOutcome>;

    /// Performs a write and notes in `log` what becomes of each send, so that the engine knows it when it stops waiting.
    ///
    /// The engine asks for every write in this way. The default hands the write to [`put`](Self::put),
    /// [`update`](Self::update) or [`delete`](Self::delete) and notes nothing. That is safe: a write that the engine stopped
    /// waiting for then counts as maybe applied. A store that sends a request more than once should note its sends, so that
    /// a caller whose time ends between two of them learns why. A store around another one should hand `log` on.
    fn send<'a>(
        &'a self,
        id: &'a RecordId,
        request: Write<'a>,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        let _ = log;
        match request {
            Write::Put(record) => self.put(id, record, condition),
            Write::Update(change) => self.update(id, change, condition),
            Write::Delete => self.delete(id, condition),
        }
    }

    /// Reads the record as [`read`](Self::read) does, and notes in `log` what becomes of each send.
    ///
    /// The engine asks for every read in this way. The default notes nothing.
    fn fetch<'a>(&'a self, id: &'a RecordId, log: &'a SendLog) -> BoxFuture<'a, ReadOutcome> {
        let _ = log;
        self.read(id)
    }

    /// What errors call this store, such as ``DynamoDB table `idempotency` ``.
    fn name(&self) -> String;

    /// Opens connections and fetches credentials, so that the first event does not pay for it.
    ///
    /// # Errors
    /// What the first call would have met, where that can be told without touching a record. The default does nothing.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A write, as [`Store::send`] is asked for it.
///
/// ```
/// use idempotency_core::protocol::condition::Condition;
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{MemoryStore, Write, SendLog, Store, WriteOutcome};
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
/// #     if let Poll::Ready(output) = polled { output } else { panic!("the store in memory is ready at once") }
/// # }
/// let (store, id, log) = (MemoryStore::new(), RecordId::new("a#1"), SendLog::new());
/// let put = Write::Put(&Record::default());
/// assert!(matches!(block_on(store.send(&id, put, &Condition::NoRecord, &log)), WriteOutcome::Applied));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Replace the whole record by this one.
    Put(&'a Record),
    /// Change some attributes.
    Update(&'a Change),
    /// Delete the record.
    Delete,
}

/// Attributes to set, and attributes to remove.
///
/// ```
/// use idempotency_core::record::{Attribute, Field, Record};
/// use idempotency_core::store::Change;
/// let change = Change {
///     set: Record { failure: Field::Value("Timeout".to_owned()), ..Record::default() },
///     remove: vec![Attribute::Owner],
/// };
/// assert!(change.set.failure.exists());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Change {
    /// The attributes that are [`Field::Value`](crate::record::Field::Value) here are set; the others stay as they are.
    pub set: Record,
    /// These attributes are removed.
    pub remove: Vec<Attribute>,
}

/// What a write came to.
///
/// ```
/// use idempotency_core::{protocol::condition::Condition, record::*, store::*};
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
/// #     if let Poll::Ready(output) = polled { output } else { panic!("the store in memory is ready at once") }
/// # }
/// let (store, id, record) = (MemoryStore::new(), RecordId::new("a#1"), Record::default());
/// match block_on(store.put(&id, &record, &Condition::Exists(Attribute::Owner))) {
///     WriteOutcome::ConditionFailed { existing, maybe_applied } => assert!(existing.is_none() && !maybe_applied),
///     other => panic!("there is no record, so it has no owner: {other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// It was applied.
    Applied,
    /// Its condition did not hold.
    ConditionFailed {
        /// The record that is there. `None` if the store brought none back: then there is none, or it could not be
        /// read, and a [`Store::read`] tells.
        existing: Option<Record>,
        /// Whether an earlier send within this very call was lost, and so may have been applied.
        maybe_applied: bool,
    },
    /// It failed.
    Failed {
        /// Whether any send within this very call was lost, and so may have been applied or may yet arrive.
        maybe_applied: bool,
        /// Why.
        error: StoreError,
    },
}

/// What a read came to.
///
/// ```
/// use idempotency_core::{protocol::condition::Condition, record::*, store::*};
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
/// #     if let Poll::Ready(output) = polled { output } else { panic!("the store in memory is ready at once") }
/// # }
/// let (store, id) = (MemoryStore::new(), RecordId::new("a#1"));
/// assert!(matches!(block_on(store.read(&id)), ReadOutcome::NotFound));
/// block_on(store.put(&id, &Record::default(), &Condition::NoRecord));
/// assert!(matches!(block_on(store.read(&id)), ReadOutcome::Found(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// The record.
    Found(Record),
    /// There is none.
    NotFound,
    /// It failed.
    Failed(StoreError),
}
