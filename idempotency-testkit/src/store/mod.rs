//! A store for tests that counts its requests and injects faults.

mod arrived;
mod faulty;
mod history;

pub use faulty::{FaultyStore, StoreFault};
pub use idempotency_core::example::StoreExt;

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Record, RecordId};
use idempotency_core::store::{Change, Consistency, RecordWrite, StoreRequest, Write};

/// A request to a store, as [`FaultyStore`] notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreCall {
    /// A write of a whole record.
    Put {
        /// The record's id.
        id: RecordId,
        /// The record to write.
        record: Record,
        /// The condition of the write.
        condition: Condition,
    },
    /// A change of some attributes.
    Update {
        /// The record's id.
        id: RecordId,
        /// The change.
        change: Change,
        /// The condition of the write.
        condition: Condition,
    },
    /// A deletion.
    Delete {
        /// The record's id.
        id: RecordId,
        /// The condition of the write.
        condition: Condition,
    },
    /// A write of the result of a step.
    Step {
        /// The record's id.
        id: RecordId,
        /// The name of the step.
        name: String,
        /// Its result.
        result: Data,
        /// The condition of the write.
        condition: Condition,
    },
    /// A write of a record, and staged writes, in one transaction.
    Transact {
        /// The record's id; `None` for a run without protection.
        id: Option<RecordId>,
        /// The write of the record.
        write: Option<Write>,
        /// The condition of that write.
        condition: Option<Condition>,
        /// The number of staged writes.
        staged: usize,
        /// The token of the transaction.
        token: String,
    },
    /// A read.
    Read {
        /// The record's id.
        id: RecordId,
        /// How current the record had to be.
        consistency: Consistency,
    },
}

/// The kinds of requests to a store.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::store::{FaultyStore, StoreExt, StoreOperation};
/// use idempotency_core::{record::RecordId, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(MemoryStore::new());
/// store.get(&RecordId::new("a#1")).await;
/// assert_eq!(store.count(StoreOperation::Read), 1);
/// assert_eq!(store.count(StoreOperation::Put), 0);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// A claim, or the completion of an evicted claim.
    Put,
    /// A completion, a recorded failure, a takeover of a claim with steps, or a release that keeps steps.
    Update,
    /// A release.
    Delete,
    /// The result of a step.
    Step,
    /// A completion with staged writes.
    Transact,
    /// A read.
    Read,
}

impl StoreCall {
    /// Returns the kind of the request.
    pub fn operation(&self) -> StoreOperation {
        match self {
            Self::Put { .. } => StoreOperation::Put,
            Self::Update { .. } => StoreOperation::Update,
            Self::Delete { .. } => StoreOperation::Delete,
            Self::Step { .. } => StoreOperation::Step,
            Self::Transact { .. } => StoreOperation::Transact,
            Self::Read { .. } => StoreOperation::Read,
        }
    }

    fn of(request: StoreRequest<'_>) -> Self {
        let (write, id, condition) = match request {
            StoreRequest::Read(id, consistency) => {
                let id = id.clone();
                return Self::Read { id, consistency };
            }
            StoreRequest::Transact(transaction) => {
                let record = transaction.record;
                return Self::Transact {
                    id: record.map(|record| record.id.clone()),
                    write: record.map(|record| record.write.clone()),
                    condition: record.map(|record| record.condition.clone()),
                    staged: transaction.staged.count(),
                    token: transaction.token.to_owned(),
                };
            }
            StoreRequest::Write(RecordWrite {
                id,
                write,
                condition,
            }) => (write.clone(), id.clone(), condition.clone()),
        };
        match write {
            Write::Put(record) => Self::Put {
                id,
                record,
                condition,
            },
            Write::Update(change) => Self::Update {
                id,
                change,
                condition,
            },
            Write::Delete => Self::Delete { id, condition },
            Write::Step { name, result } => Self::Step {
                id,
                name,
                result,
                condition,
            },
        }
    }
}
