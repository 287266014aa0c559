//! A store in the process's memory: the specification of a store, and `IDEMPOTENCY_STORE=memory`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Change, ReadOutcome, Store, WriteOutcome};
use crate::future::BoxFuture;
use crate::protocol::condition::Condition;
use crate::record::{Attribute, Field, Record, RecordId};

/// Records in a map behind a lock. It protects within one process alone, and forgets when the process ends.
///
/// ```
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::MemoryStore;
/// let store = MemoryStore::new();
/// store.insert(RecordId::new("a#1"), Record::default());
/// assert_eq!(store.record(&RecordId::new("a#1")), Some(Record::default()));
/// ```
#[derive(Default)]
pub struct MemoryStore {
    records: Mutex<HashMap<RecordId, Record>>,
}

impl MemoryStore {
    /// An empty store.
    ///
    /// ```
    /// # use idempotency_core::store::MemoryStore;
    /// assert_eq!(MemoryStore::new().len(), 0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The record under `id`, as an operator would look it up.
    ///
    /// ```
    /// # use idempotency_core::{record::RecordId, store::MemoryStore};
    /// assert_eq!(MemoryStore::new().record(&RecordId::new("a#1")), None);
    /// ```
    pub fn record(&self, id: &RecordId) -> Option<Record> {
        self.records().get(id).cloned()
    }

    /// Puts a record there whatever stands there now, as another program would.
    ///
    /// ```
    /// # use idempotency_core::{record::{Record, RecordId}, store::MemoryStore};
    /// let store = MemoryStore::new();
    /// store.insert(RecordId::new("a#1"), Record::default());
    /// assert_eq!(store.len(), 1);
    /// ```
    pub fn insert(&self, id: RecordId, record: Record) {
        self.records().insert(id, record);
    }

    /// Removes a record whatever it is, as TTL or an operator would.
    ///
    /// ```
    /// # use idempotency_core::{record::RecordId, store::MemoryStore};
    /// assert_eq!(MemoryStore::new().evict(&RecordId::new("a#1")), None);
    /// ```
    pub fn evict(&self, id: &RecordId) -> Option<Record> {
        self.records().remove(id)
    }

    /// How many records there are.
    ///
    /// ```
    /// # use idempotency_core::store::MemoryStore;
    /// assert_eq!(MemoryStore::new().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Whether there is no record.
    ///
    /// ```
    /// # use idempotency_core::store::MemoryStore;
    /// assert!(MemoryStore::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The map. A panic cannot leave it half written, so a poisoned lock is still good.
    fn records(&self) -> MutexGuard<'_, HashMap<RecordId, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `write` to the record under `id` if `condition` holds of it: the one atomic step of every write.
    fn conditionally(
        &self,
        id: &RecordId,
        condition: &Condition,
        write: impl FnOnce(Option<Record>) -> Option<Record>,
    ) -> WriteOutcome {
        let mut records = self.records();
        let existing = records.get(id);
        if !condition.holds(existing) {
            return WriteOutcome::ConditionFailed {
                existing: existing.cloned(),
                maybe_applied: false,
            };
        }
        let existing = records.remove(id);
        if let Some(record) = write(existing) {
            records.insert(id.clone(), record);
        }
        WriteOutcome::Applied
    }
}

impl Store for MemoryStore {
    fn put<'a>(
        &'a self,
        id: &'a RecordId,
        record: &'a Record,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(async move { self.conditionally(id, condition, |_| Some(record.clone())) })
    }

    fn update<'a>(
        &'a self,
        id: &'a RecordId,
        change: &'a Change,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(async move {
            self.conditionally(id, condition, |existing| {
                let mut record = existing.unwrap_or_default();
                record.apply(change);
                Some(record)
            })
        })
    }

    fn delete<'a>(
        &'a self,
        id: &'a RecordId,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(async move { self.conditionally(id, condition, |_| None) })
    }

    fn read<'a>(&'a self, id: &'a RecordId) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            self.record(id)
                .map_or(ReadOutcome::NotFound, ReadOutcome::Found)
        })
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("records", &self.len())
            .finish()
    }
}

impl Record {
    /// What an update does to a record.
    fn apply(&mut self, change: &Change) {
        fn set<T: Clone>(target: &mut Field<T>, new: &Field<T>) {
            if new.value().is_some() {
                *target = new.clone();
            }
        }
        set(&mut self.expiration, &change.set.expiration);
        set(
            &mut self.in_progress_expiration,
            &change.set.in_progress_expiration,
        );
        set(&mut self.status, &change.set.status);
        set(&mut self.data, &change.set.data);
        set(&mut self.validation, &change.set.validation);
        set(&mut self.owner, &change.set.owner);
        set(&mut self.failure, &change.set.failure);
        set(&mut self.operation, &change.set.operation);
        for attribute in &change.remove {
            match attribute {
                Attribute::Expiration => self.expiration = Field::Absent,
                Attribute::InProgressExpiration => self.in_progress_expiration = Field::Absent,
                Attribute::Status => self.status = Field::Absent,
                Attribute::Data => self.data = Field::Absent,
                Attribute::Validation => self.validation = Field::Absent,
                Attribute::Owner => self.owner = Field::Absent,
                Attribute::Failure => self.failure = Field::Absent,
                Attribute::Operation => self.operation = Field::Absent,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_inserted_counted_and_evicted() {
        let (store, id) = (MemoryStore::new(), RecordId::new("a#1"));
        assert_eq!((store.len(), store.is_empty()), (0, true));
        assert_eq!(store.evict(&id), None);
        store.insert(id.clone(), Record::default());
        store.insert(RecordId::new("a#2"), Record::default());
        assert_eq!((store.len(), store.is_empty()), (2, false));
        assert_eq!(store.record(&id), Some(Record::default()));
        assert_eq!(store.evict(&id), Some(Record::default()));
        assert_eq!((store.len(), store.record(&id)), (1, None));
        assert_eq!(store.name(), "memory");
    }
}
