//! The items that a store of your own needs, and the handle that gives a store to an operation.
//!
//! Implement [`Store`], then pass the store to one operation (`store = ..`,
//! [`OperationBuilder::store`](crate::OperationBuilder::store)) or to all of them
//! ([`set_global_backend`](crate::set_global_backend)). The conformance suite of the crate `idempotency-testkit` tests it.

use std::fmt;
use std::sync::Arc;

pub use idempotency_core::future::BoxFuture;
pub use idempotency_core::protocol::condition::{Condition, Operand};
pub use idempotency_core::store::{
    Change, Consistency, MemoryStore, RecordWrite, RejectedWrite, Rejection, SendLog, Staged,
    StagedWrites, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest, TransactionRequest,
    Write,
};

/// A store for one operation. It is made from an `Arc` of a [`Store`], or from a reference to one.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{MemoryStore, Operation, StoreHandle};
/// use std::sync::Arc;
///
/// let store = Arc::new(MemoryStore::new());
/// let charge = Operation::builder("charge").store(&store).build()?;
/// let handle = StoreHandle::from(store);
/// # let _ = (charge, handle);
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
#[derive(Clone)]
pub struct StoreHandle(pub(crate) Arc<dyn Store>);

impl<S: Store + 'static> From<Arc<S>> for StoreHandle {
    fn from(store: Arc<S>) -> Self {
        Self(store)
    }
}

impl<S: Store + 'static> From<&Arc<S>> for StoreHandle {
    fn from(store: &Arc<S>) -> Self {
        Self(store.clone())
    }
}

impl From<Arc<dyn Store>> for StoreHandle {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(store)
    }
}

impl From<&Arc<dyn Store>> for StoreHandle {
    fn from(store: &Arc<dyn Store>) -> Self {
        Self(Arc::clone(store))
    }
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreHandle({})", self.0.name())
    }
}
