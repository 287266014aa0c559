//! A write and a read of one record, in a line each.

use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::{
    Condition, Consistency, SendLog, Store, StoreReply, StoreRequest, Write,
};

/// A write and a read, for every [`Store`]. Each has a [`SendLog`] of its own, without a time limit.
pub(crate) trait StoreExt: Store {
    /// Performs a write if the condition holds.
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: Write,
        condition: &'a Condition,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let request = StoreRequest::write(id, &write, condition);
            self.send(request, &SendLog::new()).await
        })
    }

    /// Reads the record.
    fn get<'a>(&'a self, id: &'a RecordId) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let request = StoreRequest::Read(id, Consistency::Strong);
            self.send(request, &SendLog::new()).await
        })
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
