//! Variants of the memory store with one mistake each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId, StoredEvent};
use idempotency_core::store::{
    Change, Consistency, MemoryStore, MemoryTransaction, OpenTransaction, ScanPage, ScanRequest,
    SendLog, Staged, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
    StoreScan, TransactionRequest, Write,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::BoxError;
use idempotency_testkit::conformance::{ForeignRecord, StoreFactory};
use idempotency_testkit::store::{StoreExt, StoreOperation};
use serde::Deserialize;

/// The mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Mistake {
    UnfencedUpdate,
    UnfencedDelete,
    OwnerIgnored,
    BelowOrEqual,
    ReturnsAnotherRecord,
    /// No mistake: the contract allows it.
    ReturnsNoRecord,
    PutInTwoSteps,
    UpdateInTwoSteps,
    PutMerges,
    UpdateReplaces,
    RemovesNothing,
    WritesWhenRefused,
    DiffersNeedsAttribute,
    StaleReads,
    MixesEventualReads,
    InventsEventualReads,
    DropsEmptyTexts,
    MarksEventsAsWhole,
    TimesAsDoubles,
    FoldsIds,
    CutsData,
    HidesLostSends,
    ForgetsLostSends,
    ReplacesNothing,
    NotesNoSend,
    UnreadableIsMissing,
    TooLargeIsRejected,
    PanicsOnEmptyChange,
    StepReplacesOthers,
    PagesSkipOne,
    PagesWithoutLimit,
    FilterNeedsLease,
    CompletesBesideItsTransaction,
    CommitsWhatIsGone,
}

pub(crate) struct BrokenStore {
    mistake: Mistake,
    inner: MemoryStore,
    /// The earlier records, which a stale read returns.
    earlier: Mutex<HashMap<RecordId, Record>>,
    /// The kind of write whose next reply is lost.
    loses: Mutex<Option<StoreOperation>>,
}

/// The factory of one broken store.
pub(crate) struct Factory(pub(crate) Arc<BrokenStore>);

impl StoreFactory for Factory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.0.clone();
        Box::pin(async move { Ok(store) })
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        let record = self.0.stored(&foreign.reads_as);
        self.0.inner.insert(self.0.id(id), record);
        Some(Box::pin(async { Ok(()) }))
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        let store: Arc<dyn StoreScan> = self.0.clone();
        Some(Box::pin(async move { Ok(store) }))
    }

    fn open_taking_one<'a>(
        &'a self,
        name: &'a str,
    ) -> Option<BoxFuture<'a, Result<OpenTransaction, BoxError>>> {
        Some(Box::pin(super::open_taking_one(&*self.0, name)))
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        let taken = -self.0.inner.balance(name);
        Box::pin(async move { Ok(u32::try_from(taken)?) })
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        *self.0.loses.lock().unwrap() = Some(operation);
        true
    }
}

/// The size limit, in bytes of data, of the one store that has a limit.
const LARGEST: usize = 350 * 1024;

impl BrokenStore {
    pub(crate) fn new(mistake: Mistake) -> Self {
        Self {
            mistake,
            inner: MemoryStore::new(),
            earlier: Mutex::default(),
            loses: Mutex::default(),
        }
    }

    fn id(&self, id: &RecordId) -> RecordId {
        match self.mistake {
            Mistake::FoldsIds => RecordId::new(id.as_str().to_lowercase()),
            _ => id.clone(),
        }
    }

    /// Returns a record as this store keeps it.
    fn stored(&self, record: &Record) -> Record {
        let mut record = record.clone();
        match self.mistake {
            Mistake::DropsEmptyTexts => {
                let empty = |text: &Field<String>| text.value().is_some_and(String::is_empty);
                if empty(&record.failure) {
                    record.failure = Field::Absent;
                }
                if empty(&record.validation) {
                    record.validation = Field::Absent;
                }
            }
            Mistake::MarksEventsAsWhole => {
                let event = std::mem::take(&mut record.event);
                record.event =
                    event.map(|event| StoredEvent::all(event.as_str()).expect("it was stored"));
            }
            Mistake::TimesAsDoubles => {
                let double = |time: i64| time as f64 as i64;
                if let Field::Value(at) = &mut record.expiration {
                    *at = EpochSeconds::new(double(at.get()));
                }
                if let Field::Value(at) = &mut record.in_progress_expiration {
                    *at = EpochMillis::new(double(at.get()));
                }
            }
            Mistake::CutsData => {
                let data = record.data.value();
                let cut: Option<String> =
                    data.map(|data| data.as_str().chars().take(65_535).collect());
                record.data = cut.map(Data::new).into();
            }
            Mistake::UnreadableIsMissing => {
                fn forget<T>(field: &mut Field<T>) {
                    if field.value().is_none() {
                        *field = Field::Absent;
                    }
                }
                forget(&mut record.expiration);
                forget(&mut record.in_progress_expiration);
                forget(&mut record.owner);
                forget(&mut record.failure);
                forget(&mut record.operation);
                forget(&mut record.decision);
            }
            _ => {}
        }
        record
    }

    /// Returns a condition as this store evaluates it.
    fn evaluated(&self, operation: StoreOperation, condition: &Condition) -> Condition {
        let all = |conditions: &[Condition]| {
            conditions
                .iter()
                .map(|condition| self.evaluated(operation, condition))
                .collect()
        };
        match (self.mistake, condition) {
            (Mistake::UnfencedUpdate, _) if operation == StoreOperation::Update => always(),
            (Mistake::UnfencedDelete, _) if operation == StoreOperation::Delete => always(),
            (Mistake::OwnerIgnored, Condition::Equals(Attribute::Owner, _)) => always(),
            (Mistake::BelowOrEqual, Condition::Below(attribute, operand)) => Condition::Any(vec![
                condition.clone(),
                Condition::Equals(*attribute, operand.clone()),
            ]),
            (Mistake::DiffersNeedsAttribute, Condition::Differs(attribute, _)) => {
                Condition::All(vec![Condition::Exists(*attribute), condition.clone()])
            }
            (_, Condition::All(conditions)) => Condition::All(all(conditions)),
            (_, Condition::Any(conditions)) => Condition::Any(all(conditions)),
            _ => condition.clone(),
        }
    }

    /// Returns the outcome that the caller gets for a write.
    fn reported(&self, operation: StoreOperation, write: StoreReply) -> StoreReply {
        let mut loses = self.loses.lock().unwrap();
        if *loses == Some(operation) {
            *loses = None;
            if self.mistake == Mistake::ForgetsLostSends {
                return StoreReply::applied();
            }
            let error = StoreError::new(StoreErrorKind::Unreachable, "lost: try again");
            return StoreReply::Failed {
                error,
                maybe_applied: self.mistake != Mistake::HidesLostSends,
            };
        }
        match write {
            StoreReply::ConditionFailed { .. } if self.mistake == Mistake::ReturnsNoRecord => {
                StoreReply::condition_failed(None)
            }
            StoreReply::ConditionFailed { .. } if self.mistake == Mistake::ReturnsAnotherRecord => {
                StoreReply::condition_failed(Some(Record::default()))
            }
            StoreReply::Applied { .. } if self.mistake == Mistake::ReplacesNothing => {
                StoreReply::replaced(None)
            }
            other => other,
        }
    }
}

fn always() -> Condition {
    Condition::All(Vec::new())
}

/// Returns the update that sets these attributes and removes none.
fn setting(set: Record) -> Write {
    let remove = Vec::new();
    Write::Update(Change { set, remove })
}

impl BrokenStore {
    async fn write(&self, id: &RecordId, write: &Write, condition: &Condition) -> StoreReply {
        let (kind, mut write) = match write {
            Write::Put(record) => (StoreOperation::Put, Write::Put(self.stored(record))),
            Write::Update(change) => {
                let (set, remove) = (self.stored(&change.set), change.remove.clone());
                (
                    StoreOperation::Update,
                    Write::Update(Change { set, remove }),
                )
            }
            Write::Delete => (StoreOperation::Delete, Write::Delete),
            Write::Step { .. } => (StoreOperation::Step, write.clone()),
        };
        let (id, mut condition) = (self.id(id), self.evaluated(kind, condition));
        if let Write::Put(record) = &write
            && self.mistake == Mistake::TooLargeIsRejected
            && record
                .data
                .value()
                .is_some_and(|data| data.as_str().len() >= LARGEST)
        {
            let error = StoreError::new(StoreErrorKind::Rejected, "no: send less");
            return StoreReply::failed(error);
        }
        let current = self.inner.record(&id);
        if let (Write::Put(_) | Write::Update(_), Some(record)) = (&write, &current) {
            self.earlier
                .lock()
                .unwrap()
                .insert(id.clone(), record.clone());
        }
        write = match (self.mistake, write) {
            (Mistake::PutMerges, Write::Put(record)) => setting(record),
            (Mistake::UpdateReplaces, Write::Update(change)) => Write::Put(change.set),
            (Mistake::RemovesNothing, Write::Update(change)) => setting(change.set),
            (Mistake::PanicsOnEmptyChange, Write::Update(change)) => {
                assert!(change != Change::default(), "an empty change");
                Write::Update(change)
            }
            (Mistake::StepReplacesOthers, Write::Step { name, result }) => setting(Record {
                steps: Field::Value([(name, result)].into_iter().collect()),
                ..Record::default()
            }),
            (_, write) => write,
        };
        let two_steps = match kind {
            StoreOperation::Put => Mistake::PutInTwoSteps,
            _ => Mistake::UpdateInTwoSteps,
        };
        // It evaluates the condition in one step and writes in another, so that another write can happen between them.
        if self.mistake == two_steps && matches!(write, Write::Put(_) | Write::Update(_)) {
            tokio::task::yield_now().await;
            if !condition.holds(current.as_ref()) {
                return StoreReply::condition_failed(current);
            }
            condition = always();
        }
        let reply = self.inner.write(&id, write.clone(), &condition).await;
        if let (Mistake::WritesWhenRefused, Write::Put(record)) = (self.mistake, write) {
            self.inner.insert(id, record);
        }
        self.reported(kind, reply)
    }
}

impl BrokenStore {
    async fn read(&self, id: &RecordId, consistency: Consistency, log: &SendLog) -> StoreReply {
        let id = self.id(id);
        let earlier = self.earlier.lock().unwrap().remove(&id);
        match (self.mistake, earlier, consistency) {
            (Mistake::StaleReads, Some(earlier), _) => StoreReply::found(Some(earlier)),
            (Mistake::MixesEventualReads, Some(earlier), Consistency::Eventual) => {
                let status = self.inner.record(&id).unwrap_or_default().status;
                StoreReply::found(Some(Record { status, ..earlier }))
            }
            (Mistake::InventsEventualReads, _, Consistency::Eventual)
                if self.inner.record(&id).is_none() =>
            {
                StoreReply::found(Some(Record::default()))
            }
            _ => {
                let read = StoreRequest::Read(&id, consistency);
                self.inner.send(read, log).await
            }
        }
    }
}

impl BrokenStore {
    /// Performs the open transaction of a handler.
    async fn transact(&self, transaction: TransactionRequest<'_>) -> StoreReply {
        let log = SendLog::new();
        let send = |request| self.inner.send(request, &log);
        let (Some(record), staged) = (transaction.record, transaction.staged) else {
            return send(StoreRequest::Transact(transaction)).await;
        };
        let alone = TransactionRequest {
            record: None,
            ..transaction
        };
        match self.mistake {
            Mistake::CompletesBesideItsTransaction => {
                let written = send(StoreRequest::Write(record)).await;
                send(StoreRequest::Transact(alone)).await;
                written
            }
            Mistake::CommitsWhatIsGone => match staged.take_open::<Box<MemoryTransaction>>(self) {
                Err(_) => send(StoreRequest::Write(record)).await,
                Ok(open) => {
                    let staged = Staged::open(Box::new(open));
                    let transaction = TransactionRequest {
                        staged: &staged,
                        ..transaction
                    };
                    send(StoreRequest::Transact(transaction)).await
                }
            },
            _ => {
                let reply = send(StoreRequest::Transact(transaction)).await;
                self.reported(StoreOperation::Transact, reply)
            }
        }
    }
}

impl Store for BrokenStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            match request {
                StoreRequest::Write(record) => {
                    if self.mistake == Mistake::NotesNoSend {
                        log.preparing();
                    }
                    self.write(record.id, record.write, record.condition).await
                }
                StoreRequest::Read(id, consistency) => self.read(id, consistency, log).await,
                StoreRequest::Transact(transaction) => self.transact(transaction).await,
            }
        })
    }

    fn begin(
        &self,
        left: Option<std::time::Duration>,
    ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        self.inner.begin(left)
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits {
            record: (self.mistake == Mistake::TooLargeIsRejected).then_some(LARGEST),
            ..StoreLimits::NONE
        }
    }

    fn name(&self) -> String {
        format!("a store with the mistake {:?}", self.mistake)
    }
}

impl StoreScan for BrokenStore {
    fn scan<'a>(
        &'a self,
        mut request: ScanRequest<'a>,
    ) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            if self.mistake == Mistake::PagesWithoutLimit {
                request.limit = usize::MAX;
            }
            let mut page = self.inner.scan(request).await?;
            match self.mistake {
                // It goes on after the record that should be the first one of the next page.
                Mistake::PagesSkipOne => {
                    let (after, limit) = (page.next.as_deref(), 1);
                    if after.is_some() {
                        let skipped = ScanRequest {
                            after,
                            limit,
                            ..request
                        };
                        page.next = self.inner.scan(skipped).await?.next;
                    }
                }
                Mistake::FilterNeedsLease if request.filter.is_some() => {
                    let has_lease = |record: &Record| record.in_progress_expiration.exists();
                    page.records.retain(|(_, record)| has_lease(record));
                }
                _ => {}
            }
            Ok(page)
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        self.inner.stored_event(id)
    }
}
