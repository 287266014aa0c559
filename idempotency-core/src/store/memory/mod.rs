//! The store in memory: the specification of a store, and `IDEMPOTENCY_STORE=memory`.

mod ledger;
mod transaction;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger::Ledger;
pub use ledger::{LedgerEntry, MemoryWrites};
pub use transaction::MemoryTransaction;

use super::{
    OpenTransaction, RecordWrite, ScanPage, ScanRequest, SendLog, Store, StoreError,
    StoreErrorKind, StoreKind, StoreLimits, StoreReply, StoreRequest, StoreScan, StoreUse,
    TransactionRequest, Write,
};
use crate::future::BoxFuture;
use crate::protocol::condition::time_of_claim;
use crate::record::{Field, Record, RecordId, StoredEvent};
use crate::time::EpochSeconds;

/// A map of records behind a lock. It protects within one process only, and its records end with the process.
///
/// Each claim drops the other records that have expired by its clock, as TTL does. So the memory is that of the records that arrive within
/// one window.
///
/// Beside them it has a ledger: numbers that staged writes ([`MemoryWrites`]) or an open transaction ([`MemoryTransaction`]) change, so that
/// tests have data of their own in one transaction with a record.
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
    /// When each record expires, if it says so.
    ends: BTreeSet<(EpochSeconds, RecordId)>,
    ledger: Ledger,
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
        self.state().set(&id, Some(record));
    }

    /// Removes a record unconditionally, as TTL or an operator would, and returns it.
    pub fn evict(&self, id: &RecordId) -> Option<Record> {
        self.state().set(id, None)
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
        let mut open = None;
        let writes = transaction.staged.downcast_ref::<MemoryWrites>();
        if writes.is_none() {
            match transaction.staged.take_open::<Box<MemoryTransaction>>(self) {
                Ok(taken) => open = Some(taken),
                Err(reply) => return *reply,
            }
        }
        let mut state = self.state();
        if transaction.record.is_none() && state.tokens.contains(transaction.token) {
            return StoreReply::applied();
        }
        if let Some(refused) = transaction.record.and_then(|record| state.refuse(record)) {
            return refused;
        }
        if let Some(Err(rejection)) = writes.map(|writes| writes.apply(&mut state.ledger)) {
            return StoreReply::Rejected {
                rejection,
                maybe_applied: false,
            };
        }
        if let Some(Err(reply)) = open.map(|open| open.commit(&mut state.ledger)) {
            return *reply;
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

#[doc(hidden)]
impl MemoryStore {
    /// Returns the kind of these stores.
    pub fn kind<S: StoreUse + ?Sized>() -> StoreKind<S> {
        StoreKind {
            name: "memory",
            variables: &[],
            warning: Some(
                "IDEMPOTENCY_STORE is `memory`: calls are protected within this process alone, and not after it ends",
            ),
            check: |_| Ok(()),
            open: |_| Box::pin(async { Ok(S::shared(Self::new())) }),
        }
    }
}

/// The ledger, for the tests of this product.
#[doc(hidden)]
impl MemoryStore {
    /// Returns the balance of an account of the ledger. An account that was never written has 0.
    pub fn balance(&self, account: &str) -> i64 {
        self.state().ledger.balance(account)
    }

    /// Sets the balance of an account of the ledger, without a condition.
    pub fn set_balance(&self, account: impl Into<String>, balance: i64) {
        self.state().ledger.set(account.into(), balance);
    }
}

impl State {
    /// Returns the reply to a write whose condition does not hold, or `None` if it holds.
    fn refuse(&self, record: RecordWrite<'_>) -> Option<StoreReply> {
        let existing = self.records.get(record.id);
        (!record.condition.holds(existing)).then(|| StoreReply::condition_failed(existing.cloned()))
    }

    /// Performs a write whose condition holds. Only the write of a step can fail.
    fn write(
        &mut self,
        RecordWrite {
            id,
            write,
            condition,
        }: RecordWrite<'_>,
    ) -> StoreReply {
        match write {
            Write::Put(record) => {
                let replaced = self.set(id, Some(record.clone()));
                if let Some(now) = time_of_claim(condition) {
                    self.drop_expired(now, id);
                }
                return StoreReply::replaced(replaced);
            }
            Write::Update(change) => {
                let mut record = self.set(id, None).unwrap_or_default();
                record.apply(change);
                self.set(id, Some(record));
            }
            Write::Delete => drop(self.set(id, None)),
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

    /// Stores a record, or removes it. Returns the one before.
    fn set(&mut self, id: &RecordId, record: Option<Record>) -> Option<Record> {
        let end = |record: &Record| Some((*record.expiration.value()?, id.clone()));
        let added = record.as_ref().and_then(end);
        let before = match record {
            Some(record) => self.records.insert(id.clone(), record),
            None => self.records.remove(id),
        };
        if let Some(removed) = before.as_ref().and_then(end) {
            self.ends.remove(&removed);
        }
        self.ends.extend(added);
        before
    }

    /// Drops the records that have expired at the time `now`, except this one.
    fn drop_expired(&mut self, now: EpochSeconds, except: &RecordId) {
        let first = (now, RecordId::new(""));
        let later = self.ends.split_off(&first);
        for (end, id) in std::mem::replace(&mut self.ends, later) {
            if id == *except {
                self.ends.insert((end, id));
            } else {
                self.records.remove(&id);
            }
        }
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

    fn begin(
        &self,
        _left: Option<std::time::Duration>,
    ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        let open = Box::new(MemoryTransaction::begin(&self.state().ledger));
        Box::pin(async move { Ok(Box::new(open) as OpenTransaction) })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::NONE
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

/// Lists the records in the order of their ids. A page begins after the id that the one before ended with.
impl StoreScan for MemoryStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let records = &self.state().records;
            let follows = |id: &str| request.after.is_none_or(|after| id > after);
            let asked = |id: &str| id.starts_with(request.prefix) && follows(id);
            let mut ids: Vec<_> = records.keys().filter(|id| asked(id.as_str())).collect();
            ids.sort_unstable();
            let limit = request.limit.max(1);
            let has_more = ids.len() > limit;
            ids.truncate(limit);
            let holds = |record: &Record| request.filter.is_none_or(|it| it.holds(Some(record)));
            let found = ids.iter().map(|id| ((*id).clone(), &records[*id]));
            let found = found.filter(|(_, record)| holds(record));
            Ok(ScanPage {
                records: found.map(|(id, it)| (id, it.clone().listed())).collect(),
                read: ids.len(),
                billed: None,
                next: ids
                    .last()
                    .filter(|_| has_more)
                    .map(|id| id.as_str().to_owned()),
            })
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            match self.record(id).unwrap_or_default().event {
                Field::Absent => Ok(None),
                Field::Value(event) => Ok(Some(event)),
                Field::Unreadable => {
                    let text = format!("the event of the record `{id}` cannot be read");
                    Err(StoreError::new(StoreErrorKind::Rejected, text))
                }
            }
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("records", &self.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::engine::Backend;
    use crate::error::Error;
    use crate::example::shared::{At, operation, run};
    use crate::example::{Fixed, ready};
    use crate::time::EpochMillis;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn an_event_that_cannot_be_read_is_an_error() {
        let (store, id) = (MemoryStore::new(), RecordId::new("pay#1"));
        assert!(ready(store.stored_event(&id)).unwrap().is_none());
        let kept = |event| Record {
            event,
            ..Record::default()
        };
        store.insert(id.clone(), kept(Field::Absent));
        assert!(ready(store.stored_event(&id)).unwrap().is_none());
        let event = StoredEvent::all("7").unwrap();
        store.insert(id.clone(), kept(Field::Value(event.clone())));
        assert_eq!(ready(store.stored_event(&id)).unwrap(), Some(event));
        store.insert(id.clone(), kept(Field::Unreadable));
        let text = "the event of the record `pay#1` cannot be read";
        let error = ready(store.stored_event(&id)).unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_claim_drops_the_other_records_that_have_expired_and_no_live_one() {
        let store = Arc::new(MemoryStore::new());
        let set = |it: &mut Settings| it.expires_after = Some(Duration::from_secs(1));
        let ends = || store.state().ends.len();
        let call = |second: i64, key: i64| {
            let clock = Arc::new(At(EpochMillis::new(second * 1_000)));
            let backend = Backend::new(store.clone(), clock, Arc::new(Fixed));
            let (operation, key) = (operation(set), key.to_string());
            let paid = run(&backend, &operation, &key, |_| async {
                Ok::<_, Error>("x".repeat(1_000))
            });
            ready(paid).unwrap();
        };
        for second in 0..1_000 {
            call(second, second);
            assert!(store.len() <= 3, "{}", store.len());
            assert_eq!(ends(), store.len());
        }
        // A live record is kept, however many others there are, and so is one without an end.
        let without_end = RecordId::new("other#1");
        store.insert(without_end.clone(), Record::default());
        for key in 0..100 {
            call(2_000, key);
        }
        assert_eq!(store.len(), 101);
        assert_eq!(store.record(&without_end), Some(Record::default()));
        store.evict(&without_end);
        assert_eq!((store.len(), ends()), (100, 100));
    }

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
