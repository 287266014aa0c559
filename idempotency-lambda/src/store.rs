//! A store as `store = ..` hands it in.

use std::fmt;
use std::sync::Arc;

use idempotency_core::store::Store;

/// A store that an operation was given of its own.
///
/// ```
/// use idempotency_lambda::StoreHandle;
/// use idempotency_lambda::core::store::MemoryStore;
/// use std::sync::Arc;
/// let handle = StoreHandle::from(Arc::new(MemoryStore::new()));
/// # let _ = handle;
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
