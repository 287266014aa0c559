//! How current a read of one record must be.

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
