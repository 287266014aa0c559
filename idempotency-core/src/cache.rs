//! The local cache: confirmed responses in this process's memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::record::{Record, RecordId};

/// The size of a record without its texts, in bytes: structs, list links, its place in the table, and what the allocator adds
/// to each text. Rounded up.
const OVERHEAD: usize = 512;

/// Limits the responses of one operation that a process keeps. Both limits hold at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// The maximum number of records.
    pub records: NonZeroUsize,
    /// The maximum size in bytes. A record counts as its texts (id, response, validation digest, and so on) and 512 bytes.
    pub bytes: usize,
}

impl CacheLimits {
    /// 8 MiB: about 5,000 records of 1 KB. Several cached operations fit into a process of 128 MB.
    pub const DEFAULT_BYTES: usize = 8 * 1024 * 1024;

    /// Returns limits of this number of records and this size in bytes.
    pub const fn new(records: NonZeroUsize, bytes: usize) -> Self {
        Self { records, bytes }
    }
}

/// A cache of confirmed, stored responses, with their validation digest and their window.
///
/// Each operation has its own limits. When a limit is reached, the least recently used record is dropped.
///
/// Entries are keyed by the full record id and validated like records read from the store. An operator's eviction does not
/// reach the cache: it replays the old response until its window ends.
#[derive(Default)]
pub struct LocalCache {
    operations: Mutex<HashMap<String, OperationCache>>,
}

/// The records of one operation, and their total size in bytes.
struct OperationCache {
    records: LruCache<RecordId, Record>,
    bytes: usize,
}

impl LocalCache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the cached record of a key, and marks it as recently used.
    pub fn find(&self, operation: &str, id: &RecordId) -> Option<Record> {
        self.operations()
            .get_mut(operation)?
            .records
            .get(id)
            .cloned()
    }

    /// Inserts the record of a key, and drops the least recently used records of the operation until both limits hold.
    ///
    /// A record that is larger than the limit in bytes is not kept. An older record of the same key is dropped in any case.
    pub fn insert(&self, operation: &str, limits: CacheLimits, id: RecordId, record: Record) {
        let mut operations = self.operations();
        match operations.get_mut(operation) {
            Some(kept) => kept.insert(limits, id, record),
            None => operations
                .entry(operation.to_owned())
                .or_insert_with(OperationCache::new)
                .insert(limits, id, record),
        }
    }

    /// Removes the record of a key.
    pub fn remove(&self, operation: &str, id: &RecordId) {
        if let Some(kept) = self.operations().get_mut(operation) {
            kept.remove(id);
        }
    }

    /// Removes all records. Call it after a snapshot was restored, because the entries may be stale.
    pub fn clear(&self) {
        self.operations().clear();
    }

    fn operations(&self) -> MutexGuard<'_, HashMap<String, OperationCache>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl OperationCache {
    fn new() -> Self {
        Self {
            // Not `new`, which would allocate the whole configured capacity at once.
            records: LruCache::unbounded(),
            bytes: 0,
        }
    }

    fn remove(&mut self, id: &RecordId) {
        if let Some((id, removed)) = self.records.pop_entry(id) {
            self.bytes -= weight(&id, &removed);
        }
    }

    fn insert(&mut self, limits: CacheLimits, id: RecordId, record: Record) {
        self.remove(&id);
        let added = weight(&id, &record);
        if added > limits.bytes {
            return;
        }
        while self.records.len() >= limits.records.get() || self.bytes > limits.bytes - added {
            let Some((id, dropped)) = self.records.pop_lru() else {
                break;
            };
            self.bytes -= weight(&id, &dropped);
        }
        self.bytes += added;
        self.records.put(id, record);
    }
}

/// Returns the size of a record in bytes, as the limit counts it.
fn weight(id: &RecordId, record: &Record) -> usize {
    OVERHEAD + id.as_str().len() + record.texts_len()
}

/// The limits of the cache, and the order in which it drops records.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Data, Field, OwnerToken, Status, StoredEvent};

    const OPERATION: &str = "charge";

    fn id(number: usize) -> RecordId {
        RecordId::new(format!("charge#{number}"))
    }

    /// Returns a completed record whose response has this many bytes.
    fn response(length: usize) -> Record {
        Record {
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("7".repeat(length))),
            ..Record::default()
        }
    }

    fn limits(records: usize, bytes: usize) -> CacheLimits {
        let records = NonZeroUsize::new(records).unwrap();
        CacheLimits { records, bytes }
    }

    /// Returns a cache of two records, which holds 1 and 2.
    fn cache_of_two() -> LocalCache {
        let cache = LocalCache::new();
        for number in [1, 2] {
            keep(&cache, number);
        }
        cache
    }

    fn keep(cache: &LocalCache, number: usize) {
        let two = limits(2, usize::MAX);
        cache.insert(OPERATION, two, id(number), Record::default());
    }

    /// Returns the numbers of the kept records, after a check of the size that the cache has counted.
    fn kept(cache: &LocalCache) -> Vec<usize> {
        if let Some(kept) = cache.operations().get(OPERATION) {
            let weights = kept.records.iter().map(|(id, record)| weight(id, record));
            assert_eq!(kept.bytes, weights.sum::<usize>());
        }
        let is_kept = |number: &usize| cache.find(OPERATION, &id(*number)).is_some();
        (1..=9).filter(is_kept).collect()
    }

    #[test]
    fn the_least_recently_used_record_is_dropped_for_the_next() {
        let cache = cache_of_two();
        keep(&cache, 3);
        assert_eq!(kept(&cache), [2, 3]);
        let cache = cache_of_two();
        assert!(cache.find(OPERATION, &id(1)).is_some());
        keep(&cache, 3);
        assert_eq!(kept(&cache), [1, 3]);
    }

    /// Returns a cache with a limit in bytes, after inserts of these numbers and lengths.
    fn filled(bytes: usize, inserts: &[(usize, usize)]) -> LocalCache {
        let cache = LocalCache::new();
        for &(number, length) in inserts {
            cache.insert(OPERATION, limits(9, bytes), id(number), response(length));
        }
        cache
    }

    #[test]
    fn a_removed_record_frees_its_bytes_and_leaves_the_others() {
        let cache = cache_of_two();
        cache.remove(OPERATION, &id(1));
        assert_eq!(kept(&cache), [2]);
        cache.remove(OPERATION, &id(1));
        cache.remove("refund", &id(2));
        assert_eq!(kept(&cache), [2]);
    }

    #[test]
    fn a_cleared_cache_is_empty_and_can_use_all_its_bytes_again() {
        let one = weight(&id(1), &response(100));
        let cache = filled(one, &[(1, 100)]);
        cache.clear();
        assert!(kept(&cache).is_empty());
        cache.insert(OPERATION, limits(9, one), id(2), response(100));
        assert_eq!(kept(&cache), [2]);
    }

    #[test]
    fn the_oldest_records_are_dropped_until_the_bytes_of_the_next_fit() {
        let [one, small] = [1_000, 0].map(|length| weight(&id(1), &response(length)));
        let small_ones = [(1, 0), (2, 0), (3, 0), (4, 0), (5, small + 1)];
        for (bytes, inserts, expected) in [
            (2 * one, &[(1, 1_000), (2, 1_000)][..], &[1, 2][..]),
            (2 * one, &[(1, 1_000), (2, 1_001)], &[2]),
            // A record one byte larger than the limit is not kept, and drops no other.
            (one - 1, &[(1, 10), (2, 1_000)], &[1]),
            (one, &[(1, 10), (2, 1_000)], &[2]),
            (4 * small, &small_ones, &[4, 5]),
            // A record larger than the limit still drops the older record of its key.
            (1_000, &[(1, 1), (1, 1_000)], &[]),
        ] {
            let cache = filled(bytes, inserts);
            assert_eq!(kept(&cache), expected, "{inserts:?}");
        }
    }

    #[test]
    fn a_record_that_replaces_another_of_its_key_frees_its_bytes() {
        let room = weight(&id(1), &response(1_000)) + weight(&id(2), &response(10));
        let cache = filled(room, &[(1, 1_000), (2, 10)]);
        for length in [900, 1_000, 0, 1_000] {
            cache.insert(OPERATION, limits(9, room), id(1), response(length));
            assert_eq!(kept(&cache), [1, 2]);
        }
    }

    #[test]
    fn each_operation_has_its_own_limits() {
        let one = limits(9, weight(&id(1), &response(100)));
        let cache = LocalCache::new();
        cache.insert(OPERATION, one, id(1), response(100));
        cache.insert("refund", one, id(1), response(100));
        assert_eq!(kept(&cache), [1]);
        assert!(cache.find("refund", &id(1)).is_some());
    }

    #[test]
    fn every_text_of_a_record_counts() {
        let text = "x".repeat(100);
        let record = Record {
            status: Field::Value(Status::Other(text.clone())),
            data: Field::Value(Data::new(text.clone())),
            validation: Field::Value(text.clone()),
            owner: Field::Value(OwnerToken::from_record(text.clone())),
            failure: Field::Value(text.clone()),
            operation: Field::Value(text.clone()),
            decision: Field::Value(text.clone()),
            event: StoredEvent::all("7").into(),
            ..Record::default()
        };
        let event = record.event.value().unwrap().stored().len();
        let weight = weight(&RecordId::new(text), &record);
        assert_eq!(weight, OVERHEAD + 800 + event);
    }

    #[test]
    fn the_overhead_covers_everything_except_the_texts() {
        // A list node: id, record and two links. Its place in the table: a pointer to the id, a pointer to the node and a byte,
        // in a table that may be half empty. The allocator: 16 bytes for each of eight allocations, and the counters of the
        // shared text.
        let pointer = size_of::<usize>();
        let node = size_of::<(RecordId, Record)>() + 2 * pointer;
        let place = 2 * (2 * pointer + 1);
        assert!(node + place + 8 * 16 + 2 * pointer <= OVERHEAD);
    }

    #[test]
    fn eight_mebibytes_are_kept_unless_the_settings_say_otherwise() {
        assert_eq!(CacheLimits::DEFAULT_BYTES, 8_388_608);
    }
}
