//! A write that arrived at a store: alone, or in a transaction with staged ones.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::RecordId;
use idempotency_core::store::{RecordWrite, Staged, TransactionRequest, Write};

use super::StoreCall;

/// A write that arrived: alone, or with staged ones.
#[derive(Clone, Copy)]
pub(super) enum Arrived<'a> {
    Alone(RecordWrite<'a>),
    Together(TransactionRequest<'a>),
}

/// A write that a fault holds back.
pub(super) struct Delayed {
    record: Option<(RecordId, Write, Condition)>,
    /// The staged writes, and the token.
    staged: Option<(Staged, String)>,
}

impl<'a> Arrived<'a> {
    /// Returns the write of the record, if there is one.
    pub(super) fn record(self) -> Option<RecordWrite<'a>> {
        match self {
            Self::Alone(record) => Some(record),
            Self::Together(transaction) => transaction.record,
        }
    }

    /// Returns the request as it is noted.
    pub(super) fn call(self) -> StoreCall {
        match self {
            Self::Alone(record) => StoreCall::of(record.id, record.write, record.condition),
            Self::Together(transaction) => StoreCall::of_transaction(transaction),
        }
    }

    /// Returns a copy that can arrive later.
    pub(super) fn delayed(self) -> Delayed {
        let record = self.record().map(|record| {
            let (id, write) = (record.id.clone(), record.write.clone());
            (id, write, record.condition.clone())
        });
        let staged = match self {
            Self::Alone(_) => None,
            Self::Together(transaction) => {
                Some((transaction.staged.clone(), transaction.token.to_owned()))
            }
        };
        Delayed { record, staged }
    }
}

impl Delayed {
    /// Returns the write that arrives now.
    pub(super) fn arrives(&self) -> Option<Arrived<'_>> {
        let record = self.record.as_ref();
        let record = record.map(|(id, write, condition)| RecordWrite {
            id,
            write,
            condition,
        });
        match (&self.staged, record) {
            (Some((staged, token)), record) => Some(Arrived::Together(TransactionRequest {
                record,
                staged,
                token,
            })),
            (None, record) => record.map(Arrived::Alone),
        }
    }
}
