//! The local cache: confirmed responses in this process's memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::record::{Field, Record, RecordId, Status};

/// The size of a record without its texts, in bytes: structs, list links, its place in the table, and what the allocator adds
/// to each text. Rounded up.
const OVERHEAD: usize = 512;

/// Limits the responses of one operation that a process keeps. Both limits hold at any time.
///
/// # Examples
///
/// ```
/// use idempotency_core::cache::CacheLimits;
/// use std::num::NonZeroUsize;
/// let limits = CacheLimits::new(NonZeroUsize::MIN, CacheLimits::DEFAULT_BYTES);
/// assert_eq!(limits.bytes, 8 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// The maximum number of records.
    pub records: NonZeroUsize,
    /// The maximum size in bytes. A record counts as its texts (id, response, validation digest, and so on) and 512 bytes.
    pub bytes: usize,
}

impl CacheLimits {
    /// 8 MiB: about 20 of the largest records that DynamoDB accepts, or about 5,000 records of 1 KB. Several cached operations
    /// fit into a function of 128 MB.
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
///
/// # Examples
///
/// ```
/// use idempotency_core::cache::{CacheLimits, LocalCache};
/// use idempotency_core::record::{Record, RecordId};
/// use std::num::NonZeroUsize;
/// let cache = LocalCache::new();
/// let one = CacheLimits::new(NonZeroUsize::MIN, CacheLimits::DEFAULT_BYTES);
/// cache.insert("charge", one, RecordId::new("charge#1"), Record::default());
/// cache.insert("charge", one, RecordId::new("charge#2"), Record::default());
/// assert_eq!(cache.find("charge", &RecordId::new("charge#1")), None);
/// assert!(cache.find("charge", &RecordId::new("charge#2")).is_some());
/// ```
#[derive(Default)]
pub struct LocalCache {
    operations: Mutex<HashMap<String, Kept>>,
}

/// The records of one operation, and their total size in bytes.
struct Kept {
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
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{cache::*, record::*};
    /// # use std::num::NonZeroUsize;
    /// let cache = LocalCache::new();
    /// let limits = CacheLimits::new(NonZeroUsize::MIN, 1_000);
    /// let of_length = |length| Record { data: Field::Value(Data::new("7".repeat(length))), ..Record::default() };
    /// cache.insert("charge", limits, RecordId::new("charge#1"), of_length(100));
    /// assert!(cache.find("charge", &RecordId::new("charge#1")).is_some());
    /// cache.insert("charge", limits, RecordId::new("charge#1"), of_length(1_000));
    /// assert!(cache.find("charge", &RecordId::new("charge#1")).is_none());
    /// ```
    pub fn insert(&self, operation: &str, limits: CacheLimits, id: RecordId, record: Record) {
        let mut operations = self.operations();
        match operations.get_mut(operation) {
            Some(kept) => kept.insert(limits, id, record),
            None => operations
                .entry(operation.to_owned())
                .or_insert_with(Kept::new)
                .insert(limits, id, record),
        }
    }

    /// Removes all records. Call it after a snapshot was restored, because the entries may be stale.
    pub fn clear(&self) {
        self.operations().clear();
    }

    fn operations(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn new() -> Self {
        Self {
            // Not `new`, which would allocate the whole configured capacity at once.
            records: LruCache::unbounded(),
            bytes: 0,
        }
    }

    fn insert(&mut self, limits: CacheLimits, id: RecordId, record: Record) {
        if let Some((id, replaced)) = self.records.pop_entry(&id) {
            self.bytes -= weight(&id, &replaced);
        }
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
    // Every text counts, although our own completed records have neither an unknown status nor a failure.
    let status = match &record.status {
        Field::Value(Status::Other(text)) => text.len(),
        _ => 0,
    };
    let text = |field: &Field<String>| field.value().map_or(0, String::len);
    let data = record.data.value().map_or(0, |data| data.as_str().len());
    let owner = record.owner.value().map_or(0, |owner| owner.as_str().len());
    OVERHEAD
        + id.as_str().len()
        + data
        + text(&record.validation)
        + text(&record.failure)
        + text(&record.operation)
        + text(&record.decision)
        + record
            .event
            .as_ref()
            .map_or(0, |event| event.stored().len())
        + status
        + owner
}

impl std::fmt::Debug for LocalCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalCache")
            .field("operations", &self.operations().len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
