//! What the suite is handed: stores over one set of records, and what else can be done to these records.

use std::error::Error;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::Store;

use super::foreign::ForeignRecord;
use crate::store::StoreOperation;

/// Makes the stores under test, and does to their records what the [`Store`] trait cannot.
///
/// All stores of one factory are over the same records, as two processes are over one table. A closure that returns an
/// `Arc` of a store is a factory that offers nothing else.
///
/// ```
/// use std::sync::Arc;
///
/// use idempotency_core::record::RecordId;
/// use idempotency_core::store::{MemoryStore, Store};
/// use idempotency_core::future::BoxFuture;
/// use idempotency_testkit::conformance::{ForeignRecord, StoreFactory};
///
/// type BoxError = Box<dyn std::error::Error + Send + Sync>;
///
/// struct InMemory(Arc<MemoryStore>);
///
/// impl StoreFactory for InMemory {
///     fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
///         let store: Arc<dyn Store> = self.0.clone();
///         Box::pin(async move { Ok(store) })
///     }
///
///     fn plant<'a>(&'a self, id: &'a RecordId, foreign: &'a ForeignRecord) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
///         self.0.insert(id.clone(), foreign.reads_as.clone());
///         Some(Box::pin(async { Ok(()) }))
///     }
/// }
/// ```
pub trait StoreFactory: Send + Sync {
    /// A store over the records that all stores of this factory share.
    ///
    /// # Errors
    /// If it cannot be made: each case that needed it fails with this text.
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Box<dyn Error + Send + Sync>>>;

    /// Writes a record past the store, as another program would; `None` if that cannot be done.
    ///
    /// # Errors
    /// If it fails: the case fails with this text.
    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>>> {
        let _ = (id, foreign);
        None
    }

    /// Lets the next request of this kind be applied and its reply be lost; whether that could be arranged.
    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        let _ = operation;
        false
    }

    /// How large a record may be, in bytes, if the store has a limit. It is at least 301 KB.
    fn largest_record(&self) -> Option<usize> {
        None
    }

    /// Whether a refused write itself brings the record back. Where it does not, a read must.
    fn refusals_bring_the_record(&self) -> bool {
        true
    }
}

impl<F, S> StoreFactory for F
where
    F: Fn() -> Arc<S> + Send + Sync,
    S: Store + 'static,
{
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, Box<dyn Error + Send + Sync>>> {
        let store: Arc<dyn Store> = self();
        Box::pin(async move { Ok(store) })
    }
}
