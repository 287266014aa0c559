//! The store in memory: the specification of a store, and `IDEMPOTENCY_STORE=memory`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    Change, Consistency, ReadOutcome, SendLog, Store, StoreError, StoreErrorKind, Write,
    WriteOutcome,
};
use crate::future::BoxFuture;
use crate::protocol::condition::Condition;
use crate::record::{Attribute, Field, Record, RecordId};

/// A map of records behind a lock. It protects within one process only, and its records end with the process.
///
/// # Examples
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
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the record with this id, as an operator would look it up.
    pub fn record(&self, id: &RecordId) -> Option<Record> {
        self.records().get(id).cloned()
    }

    /// Inserts a record unconditionally, as another program would.
    pub fn insert(&self, id: RecordId, record: Record) {
        self.records().insert(id, record);
    }

    /// Removes a record unconditionally, as TTL or an operator would, and returns it.
    pub fn evict(&self, id: &RecordId) -> Option<Record> {
        self.records().remove(id)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Returns true if there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the map. A panic cannot leave it half written, so a poisoned lock is still good.
    fn records(&self) -> MutexGuard<'_, HashMap<RecordId, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs `write` if `condition` holds, under one lock, and notes the record that a put replaced.
    fn apply(
        &self,
        id: &RecordId,
        write: &Write,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        let mut records = self.records();
        let existing = records.get(id);
        if !condition.holds(existing) {
            return WriteOutcome::ConditionFailed {
                existing: existing.cloned(),
                maybe_applied: false,
            };
        }
        match write {
            Write::Put(record) => {
                log.replaced(records.insert(id.clone(), record.clone()));
            }
            Write::Update(change) => records.entry(id.clone()).or_default().apply(change),
            Write::Delete => drop(records.remove(id)),
            Write::Step { name, result } => {
                let Some(Field::Value(steps)) = records.get_mut(id).map(|record| &mut record.steps)
                else {
                    return WriteOutcome::Failed {
                        maybe_applied: false,
                        error: StoreError::new(
                            StoreErrorKind::Rejected,
                            "the record has no steps: its claim was made without them",
                        ),
                    };
                };
                steps.insert(name.clone(), result.clone());
            }
        }
        WriteOutcome::Applied
    }
}

impl Store for MemoryStore {
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(async move { self.apply(id, write, condition, log) })
    }

    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        _: Consistency,
        _: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome> {
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
    /// Applies an update.
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
        set(&mut self.decision, &change.set.decision);
        if change.set.event.is_some() {
            self.event.clone_from(&change.set.event);
        }
        set(&mut self.steps, &change.set.steps);
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
                Attribute::Decision => self.decision = Field::Absent,
                Attribute::Event => self.event = None,
                Attribute::Steps => self.steps = Field::Absent,
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
