//! The store in memory: the specification of a store, and `IDEMPOTENCY_STORE=memory`.

mod ledger;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use ledger::{LedgerEntry, MemoryWrites};

use super::{
    Change, RecordWrite, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
    TransactionRequest, Write,
};
use crate::future::BoxFuture;
use crate::record::{Attribute, Field, Record, RecordId};

/// A map of records behind a lock. It protects within one process only, and its records end with the process.
///
/// Beside them it has a ledger: numbers that staged writes ([`MemoryWrites`]) change, so that tests have data of their own in one
/// transaction with a record.
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: HashMap<RecordId, Record>,
    /// The balances of the accounts that staged writes change.
    ledger: HashMap<String, i64>,
    /// The tokens of the transactions without a record that were applied.
    tokens: HashSet<String>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the record with this id, as an operator would look it up.
    pub fn record(&self, id: &RecordId) -> Option<Record> {
        self.state().records.get(id).cloned()
    }

    /// Inserts a record unconditionally, as another program would.
    pub fn insert(&self, id: RecordId, record: Record) {
        self.state().records.insert(id, record);
    }

    /// Removes a record unconditionally, as TTL or an operator would, and returns it.
    pub fn evict(&self, id: &RecordId) -> Option<Record> {
        self.state().records.remove(id)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.state().records.len()
    }

    /// Returns true if there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maps. A panic cannot leave them half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a transaction, under one lock.
    fn transact(&self, transaction: TransactionRequest<'_>) -> StoreReply {
        let Some(writes) = transaction.staged.downcast_ref::<MemoryWrites>() else {
            return StoreReply::failed(transaction.staged.unsupported(&self.name()));
        };
        let mut state = self.state();
        if transaction.record.is_none() && state.tokens.contains(transaction.token) {
            return StoreReply::applied();
        }
        if let Some(refused) = transaction.record.and_then(|record| state.refuse(record)) {
            return refused;
        }
        if let Err(rejection) = writes.apply(&mut state.ledger) {
            return StoreReply::Rejected {
                rejection,
                maybe_applied: false,
            };
        }
        match transaction.record {
            Some(record) => state.write(record),
            None => {
                state.tokens.insert(transaction.token.to_owned());
                StoreReply::applied()
            }
        }
    }
}

/// The ledger, for the tests of this product.
#[doc(hidden)]
impl MemoryStore {
    /// Returns the balance of an account of the ledger. An account that was never written has 0.
    pub fn balance(&self, account: &str) -> i64 {
        self.state().ledger.get(account).copied().unwrap_or(0)
    }

    /// Sets the balance of an account of the ledger, without a condition.
    pub fn set_balance(&self, account: impl Into<String>, balance: i64) {
        self.state().ledger.insert(account.into(), balance);
    }
}

impl State {
    /// Returns the reply to a write whose condition does not hold, or `None` if it holds.
    fn refuse(&self, record: RecordWrite<'_>) -> Option<StoreReply> {
        let existing = self.records.get(record.id);
        (!record.condition.holds(existing)).then(|| StoreReply::condition_failed(existing.cloned()))
    }

    /// Performs a write whose condition holds. Only the write of a step can fail.
    fn write(&mut self, RecordWrite { id, write, .. }: RecordWrite<'_>) -> StoreReply {
        match write {
            Write::Put(record) => {
                return StoreReply::replaced(self.records.insert(id.clone(), record.clone()));
            }
            Write::Update(change) => self.records.entry(id.clone()).or_default().apply(change),
            Write::Delete => drop(self.records.remove(id)),
            Write::Step { name, result } => {
                let record = self.records.get_mut(id);
                let Some(Field::Value(steps)) = record.map(|record| &mut record.steps) else {
                    let text = "the record has no steps: its claim was made without them";
                    return StoreReply::failed(StoreError::new(StoreErrorKind::Rejected, text));
                };
                steps.insert(name.clone(), result.clone());
            }
        }
        StoreReply::applied()
    }
}

impl Store for MemoryStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            match request {
                StoreRequest::Read(..) => log.reading(),
                StoreRequest::Write(_) | StoreRequest::Transact(_) => log.sending(),
            }
            match request {
                StoreRequest::Write(record) => {
                    let mut state = self.state();
                    let refused = state.refuse(record);
                    refused.unwrap_or_else(|| state.write(record))
                }
                StoreRequest::Transact(transaction) => self.transact(transaction),
                StoreRequest::Read(id, _) => StoreReply::found(self.record(id)),
            }
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
