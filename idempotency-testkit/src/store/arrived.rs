//! A write that a fault holds back: alone, or in a transaction with staged ones.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::RecordId;
use idempotency_core::store::{RecordWrite, Staged, StoreRequest, TransactionRequest, Write};

/// A write that a fault holds back.
pub(super) struct Delayed {
    record: Option<(RecordId, Write, Condition)>,
    /// The staged writes, and the token.
    staged: Option<(Staged, String)>,
}

impl Delayed {
    /// Returns a copy of a write that can arrive later.
    pub(super) fn of(request: StoreRequest<'_>) -> Self {
        let record = request.record().map(|record| {
            let (id, write) = (record.id.clone(), record.write.clone());
            (id, write, record.condition.clone())
        });
        let staged = match request {
            StoreRequest::Transact(transaction) => {
                Some((transaction.staged.clone(), transaction.token.to_owned()))
            }
            StoreRequest::Write(_) | StoreRequest::Read(..) => None,
        };
        Self { record, staged }
    }

    /// Returns the write that arrives now.
    pub(super) fn arrives(&self) -> Option<StoreRequest<'_>> {
        let record = self.record.as_ref();
        let record = record.map(|(id, write, condition)| RecordWrite {
            id,
            write,
            condition,
        });
        match (&self.staged, record) {
            (Some((staged, token)), record) => Some(StoreRequest::Transact(TransactionRequest {
                record,
                staged,
                token,
            })),
            (None, record) => record.map(StoreRequest::Write),
        }
    }
}
