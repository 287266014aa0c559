//! The local caches of the process, so that they can be cleared together.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use idempotency_core::cache::LocalCache;

/// The caches of all backends made by [`backend_over`](super::backend_over). A cache ends with its backend.
static CACHES: Mutex<Vec<Weak<LocalCache>>> = Mutex::new(Vec::new());

/// Adds a cache to those that [`clear_caches`] clears.
pub(super) fn register(cache: &Arc<LocalCache>) {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.push(Arc::downgrade(cache));
}

/// Removes all responses that the process keeps in memory.
pub(crate) fn clear_caches() {
    let caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches
        .iter()
        .filter_map(Weak::upgrade)
        .for_each(|cache| cache.clear());
}
