//! The local cache: confirmed answers in the process's own memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::record::{Record, RecordId};

/// Confirmed, stored answers, with their validation hash and their window; bounded per operation, and the least recently
/// used goes first.
///
/// It is keyed by the whole id, and whoever finds something in it judges it as if it came from the store. An operator's
/// eviction does not reach it: the old answer lives here until its window ends.
///
/// ```
/// use idempotency_core::cache::LocalCache;
/// use idempotency_core::record::{Record, RecordId};
/// use std::num::NonZeroUsize;
/// let cache = LocalCache::new();
/// let one = NonZeroUsize::MIN;
/// cache.insert("charge", one, RecordId::new("charge#1"), Record::default());
/// cache.insert("charge", one, RecordId::new("charge#2"), Record::default());
/// assert_eq!(cache.find("charge", &RecordId::new("charge#1")), None);
/// assert!(cache.find("charge", &RecordId::new("charge#2")).is_some());
/// ```
#[derive(Default)]
pub struct LocalCache {
    operations: Mutex<HashMap<String, LruCache<RecordId, Record>>>,
}

impl LocalCache {
    /// An empty cache.
    ///
    /// ```
    /// # use idempotency_core::{cache::LocalCache, record::RecordId};
    /// assert_eq!(LocalCache::new().find("charge", &RecordId::new("charge#1")), None);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The answer kept for a key of an operation.
    ///
    /// ```
    /// # use idempotency_core::{cache::LocalCache, record::RecordId};
    /// assert_eq!(LocalCache::new().find("charge", &RecordId::new("charge#1")), None);
    /// ```
    pub fn find(&self, operation: &str, id: &RecordId) -> Option<Record> {
        self.operations().get_mut(operation)?.get(id).cloned()
    }

    /// Keeps the answer of a key, at most `capacity` of them per operation.
    ///
    /// ```
    /// # use idempotency_core::{cache::LocalCache, record::*};
    /// # use std::num::NonZeroUsize;
    /// let cache = LocalCache::new();
    /// cache.insert("charge", NonZeroUsize::MIN, RecordId::new("charge#1"), Record::default());
    /// assert!(cache.find("charge", &RecordId::new("charge#1")).is_some());
    /// ```
    pub fn insert(&self, operation: &str, capacity: NonZeroUsize, id: RecordId, record: Record) {
        let mut operations = self.operations();
        let cache = match operations.get_mut(operation) {
            Some(cache) => cache,
            None => operations
                .entry(operation.to_owned())
                // Not `new`: it would reserve room for the whole capacity, whatever somebody configured.
                .or_insert_with(LruCache::unbounded),
        };
        while cache.len() >= capacity.get() && !cache.contains(&id) {
            cache.pop_lru();
        }
        cache.put(id, record);
    }

    /// Forgets everything: after a snapshot was restored, what this process remembers may be of another time.
    ///
    /// ```
    /// # use idempotency_core::cache::LocalCache;
    /// LocalCache::new().clear();
    /// ```
    pub fn clear(&self) {
        self.operations().clear();
    }

    fn operations(&self) -> MutexGuard<'_, HashMap<String, LruCache<RecordId, Record>>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LocalCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalCache")
            .field("operations", &self.operations().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> RecordId {
        RecordId::new(format!("charge#{number}"))
    }

    /// A cache of two, with the answers 1 and 2.
    fn cache_of_two() -> LocalCache {
        let cache = LocalCache::new();
        for number in [1, 2] {
            keep(&cache, number);
        }
        cache
    }

    fn keep(cache: &LocalCache, number: usize) {
        let two = NonZeroUsize::MIN.saturating_add(1);
        cache.insert("charge", two, id(number), Record::default());
    }

    fn kept(cache: &LocalCache) -> Vec<usize> {
        let is_kept = |number: &usize| cache.find("charge", &id(*number)).is_some();
        (1..=3).filter(is_kept).collect()
    }

    #[test]
    fn the_answer_that_was_used_least_recently_makes_room_for_the_next() {
        let cache = cache_of_two();
        keep(&cache, 3);
        assert_eq!(kept(&cache), [2, 3]);
        let cache = cache_of_two();
        assert!(cache.find("charge", &id(1)).is_some());
        keep(&cache, 3);
        assert_eq!(kept(&cache), [1, 3]);
    }

    #[test]
    fn a_cleared_cache_remembers_nothing() {
        let cache = cache_of_two();
        cache.clear();
        assert!(kept(&cache).is_empty());
    }
}
