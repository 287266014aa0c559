//! The local cache: confirmed answers in the process's own memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::record::{Field, Record, RecordId, Status};

/// What a record weighs beside its texts: the structs, the links of the list, the place in the table and what the
/// allocator adds to each text. Rounded up.
const OVERHEAD: usize = 512;

/// Says how many stored responses of one operation a process keeps, and how much memory they may take. Both bounds hold at
/// any time.
///
/// ```
/// use idempotency_core::cache::CacheLimits;
/// use std::num::NonZeroUsize;
/// let limits = CacheLimits { records: NonZeroUsize::MIN, bytes: CacheLimits::DEFAULT_BYTES };
/// assert_eq!(limits.bytes, 8 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The most records.
    pub records: NonZeroUsize,
    /// The most bytes. A record counts as its id, its response, its validation digest and 512 bytes.
    pub bytes: usize,
}

impl CacheLimits {
    /// 8 MiB: some 20 of the largest records that DynamoDB takes, or some 5,000 of 1 KB. Chosen so that several cached
    /// operations fit a function of 128 MB.
    pub const DEFAULT_BYTES: usize = 8 * 1024 * 1024;
}

/// Confirmed, stored answers, with their validation hash and their window; bounded per operation by number and by bytes,
/// and the least recently used goes first.
///
/// It is keyed by the whole id, and whoever finds something in it judges it as if it came from the store. An operator's
/// eviction does not reach it: the old answer lives here until its window ends.
///
/// ```
/// use idempotency_core::cache::{CacheLimits, LocalCache};
/// use idempotency_core::record::{Record, RecordId};
/// use std::num::NonZeroUsize;
/// let cache = LocalCache::new();
/// let one = CacheLimits { records: NonZeroUsize::MIN, bytes: CacheLimits::DEFAULT_BYTES };
/// cache.insert("charge", one, RecordId::new("charge#1"), Record::default());
/// cache.insert("charge", one, RecordId::new("charge#2"), Record::default());
/// assert_eq!(cache.find("charge", &RecordId::new("charge#1")), None);
/// assert!(cache.find("charge", &RecordId::new("charge#2")).is_some());
/// ```
#[derive(Default)]
pub struct LocalCache {
    operations: Mutex<HashMap<String, Kept>>,
}

/// The records of one operation, and what they weigh together.
struct Kept {
    records: LruCache<RecordId, Record>,
    bytes: usize,
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
        self.operations()
            .get_mut(operation)?
            .records
            .get(id)
            .cloned()
    }

    /// Keeps the record of a key, and drops the least recently used records of the operation until both bounds hold.
    ///
    /// A record that is larger than the bound in bytes is not kept, and an older record of the same key is dropped.
    ///
    /// ```
    /// # use idempotency_core::{cache::*, record::*};
    /// # use std::num::NonZeroUsize;
    /// let cache = LocalCache::new();
    /// let limits = CacheLimits { records: NonZeroUsize::MIN, bytes: 1_000 };
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

    /// Forgets everything: after a snapshot was restored, what this process remembers may be of another time.
    ///
    /// ```
    /// # use idempotency_core::cache::LocalCache;
    /// LocalCache::new().clear();
    /// ```
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
            // Not `new`: it would reserve room for the whole capacity, whatever is configured.
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

/// What a record counts as, in bytes.
fn weight(id: &RecordId, record: &Record) -> usize {
    // No text is left out, though a completed record of ours has neither an unknown status nor a failure.
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
