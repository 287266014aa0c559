//! The resource that clears the local caches after a SnapStart restore.

use lambda_runtime::{BoxFuture, SnapStartResource};

use crate::{BoxError, process};

/// Clears the local caches after a SnapStart restore, because their records may be old. [`run`](crate::run) registers it.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::{BoxError, ClearCaches, LambdaEvent};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// # async fn f() -> Result<(), BoxError> {
/// lambda_runtime::Runtime::new(idempotency_lambda::service(handler))
///     .register_snapstart_resource(std::sync::Arc::new(ClearCaches))
///     .run()
///     .await
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ClearCaches;

impl SnapStartResource for ClearCaches {
    fn after_restore(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            process::clear_caches();
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_core::cache::CacheLimits;
    use idempotency_core::record::{Record, RecordId};
    use idempotency_core::store::MemoryStore;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_local_cache_is_empty_after_a_restore() {
        let backend = crate::backend_over(Arc::new(MemoryStore::new()));
        let (cache, id) = (backend.cache(), RecordId::new("charge#1"));
        let one = CacheLimits::new(NonZeroUsize::MIN, CacheLimits::DEFAULT_BYTES);
        cache.insert("charge", one, id.clone(), Record::default());
        assert!(cache.find("charge", &id).is_some());
        ClearCaches.after_restore().await.unwrap();
        assert_eq!(cache.find("charge", &id), None);
    }
}
