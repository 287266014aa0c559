//! A store for tests that counts its requests and injects faults.

mod faulty;

pub use faulty::{FaultyStore, StoreFault};
pub use idempotency_core::example::StoreExt;

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{Change, Write};

/// One request to a store.
///
/// ```
/// use idempotency_testkit::store::{StoreCall, StoreOperation};
/// use idempotency_core::record::RecordId;
/// let call = StoreCall::Read { id: RecordId::new("charge#1") };
/// assert_eq!(call.operation(), StoreOperation::Read);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreCall {
    /// The whole record, on a condition.
    Put {
        /// The record's id.
        id: RecordId,
        /// What was to be put there.
        record: Record,
        /// On which condition.
        condition: Condition,
    },
    /// Some attributes, on a condition.
    Update {
        /// The record's id.
        id: RecordId,
        /// What was to be changed.
        change: Change,
        /// On which condition.
        condition: Condition,
    },
    /// A deletion, on a condition.
    Delete {
        /// The record's id.
        id: RecordId,
        /// On which condition.
        condition: Condition,
    },
    /// A consistent read.
    Read {
        /// The record's id.
        id: RecordId,
    },
}

/// The kinds of requests to a store.
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
    /// A completion, or a recorded failure.
    Update,
    /// A release.
    Delete,
    /// A consistent read.
    Read,
}

impl StoreCall {
    /// Which kind of request it is.
    ///
    /// ```
    /// # use idempotency_testkit::store::*;
    /// # use idempotency_core::record::RecordId;
    /// assert_eq!(StoreCall::Read { id: RecordId::new("a#1") }.operation(), StoreOperation::Read);
    /// ```
    pub fn operation(&self) -> StoreOperation {
        match self {
            Self::Put { .. } => StoreOperation::Put,
            Self::Update { .. } => StoreOperation::Update,
            Self::Delete { .. } => StoreOperation::Delete,
            Self::Read { .. } => StoreOperation::Read,
        }
    }

    fn of(id: &RecordId, write: &Write, condition: &Condition) -> Self {
        let (id, condition) = (id.clone(), condition.clone());
        match write.clone() {
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
        }
    }
}
