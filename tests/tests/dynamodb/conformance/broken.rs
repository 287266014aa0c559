//! Variants of the memory store with one mistake each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId, StoredEvent};
use idempotency_core::store::{
    Change, Consistency, MemoryStore, RecordWrite, SendLog, Store, StoreError, StoreErrorKind,
    StoreReply, StoreRequest, Write,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::BoxError;
use idempotency_testkit::conformance::{ForeignRecord, StoreFactory};
use idempotency_testkit::store::{StoreExt, StoreOperation};
use serde::Deserialize;

/// The mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Broken {
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
    UnreadableIsMissing,
    TooLargeIsRejected,
    PanicsOnEmptyChange,
    StepReplacesOthers,
}

pub(crate) struct BrokenStore {
    broken: Broken,
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

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        *self.0.loses.lock().unwrap() = Some(operation);
        true
    }

    fn largest_record(&self) -> Option<usize> {
        (self.0.broken == Broken::TooLargeIsRejected).then_some(LARGEST)
    }
}

/// The size limit, in bytes of data, of the one store that has a limit.
const LARGEST: usize = 350 * 1024;

impl BrokenStore {
    pub(crate) fn new(broken: Broken) -> Self {
        Self {
            broken,
            inner: MemoryStore::new(),
            earlier: Mutex::default(),
            loses: Mutex::default(),
        }
    }

    fn id(&self, id: &RecordId) -> RecordId {
        match self.broken {
            Broken::FoldsIds => RecordId::new(id.as_str().to_lowercase()),
            _ => id.clone(),
        }
    }

    /// Returns a record as this store keeps it.
    fn stored(&self, record: &Record) -> Record {
        let mut record = record.clone();
        match self.broken {
            Broken::DropsEmptyTexts => {
                let empty = |text: &Field<String>| text.value().is_some_and(String::is_empty);
                if empty(&record.failure) {
                    record.failure = Field::Absent;
                }
                if empty(&record.validation) {
                    record.validation = Field::Absent;
                }
            }
            Broken::MarksEventsAsWhole => {
                let event = record.event.take();
                record.event = event.and_then(|event| StoredEvent::all(event.as_str()));
            }
            Broken::TimesAsDoubles => {
                let double = |time: i64| time as f64 as i64;
                if let Field::Value(at) = &mut record.expiration {
                    *at = EpochSeconds::new(double(at.get()));
                }
                if let Field::Value(at) = &mut record.in_progress_expiration {
                    *at = EpochMillis::new(double(at.get()));
                }
            }
            Broken::CutsData => {
                let data = record.data.value();
                let cut: Option<String> =
                    data.map(|data| data.as_str().chars().take(65_535).collect());
                record.data = cut.map(Data::new).into();
            }
            Broken::UnreadableIsMissing => {
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
        match (self.broken, condition) {
            (Broken::UnfencedUpdate, _) if operation == StoreOperation::Update => always(),
            (Broken::UnfencedDelete, _) if operation == StoreOperation::Delete => always(),
            (Broken::OwnerIgnored, Condition::Equals(Attribute::Owner, _)) => always(),
            (Broken::BelowOrEqual, Condition::Below(attribute, operand)) => Condition::Any(vec![
                condition.clone(),
                Condition::Equals(*attribute, operand.clone()),
            ]),
            (Broken::DiffersNeedsAttribute, Condition::Differs(attribute, _)) => {
                Condition::All(vec![Condition::Exists(*attribute), condition.clone()])
            }
            (_, Condition::All(conditions)) => Condition::All(all(conditions)),
            (_, Condition::Any(conditions)) => Condition::Any(all(conditions)),
            _ => condition.clone(),
        }
    }

    /// Evaluates the condition in one step and writes in another, so that another write can happen between them.
    async fn in_two_steps(&self, id: &RecordId, condition: &Condition) -> Option<StoreReply> {
        let existing = self.inner.record(id);
        tokio::task::yield_now().await;
        (!condition.holds(existing.as_ref())).then_some(StoreReply::condition_failed(existing))
    }

    /// Returns the outcome that the caller gets for a write.
    fn reported(&self, operation: StoreOperation, write: StoreReply) -> StoreReply {
        let mut loses = self.loses.lock().unwrap();
        if *loses == Some(operation) {
            *loses = None;
            if self.broken == Broken::ForgetsLostSends {
                return StoreReply::applied();
            }
            let error = StoreError::new(StoreErrorKind::Unreachable, "lost: try again");
            return StoreReply::Failed {
                error,
                maybe_applied: self.broken != Broken::HidesLostSends,
            };
        }
        match write {
            StoreReply::ConditionFailed { .. } if self.broken == Broken::ReturnsNoRecord => {
                StoreReply::condition_failed(None)
            }
            StoreReply::ConditionFailed { .. } if self.broken == Broken::ReturnsAnotherRecord => {
                StoreReply::condition_failed(Some(Record::default()))
            }
            StoreReply::Applied { .. } if self.broken == Broken::ReplacesNothing => {
                StoreReply::replaced(None)
            }
            other => other,
        }
    }

    fn too_large(&self, record: &Record) -> Option<StoreReply> {
        let bytes = record.data.value().map_or(0, |data| data.as_str().len());
        let refused = self.broken == Broken::TooLargeIsRejected && bytes >= LARGEST;
        refused.then(|| {
            let error = StoreError::new(StoreErrorKind::Rejected, "no: send less");
            StoreReply::failed(error)
        })
    }

    fn remember(&self, id: &RecordId) {
        if let Some(record) = self.inner.record(id) {
            self.earlier.lock().unwrap().insert(id.clone(), record);
        }
    }
}

fn always() -> Condition {
    Condition::All(Vec::new())
}

/// Returns the change that sets these attributes and removes none.
fn setting(set: Record) -> Change {
    let remove = Vec::new();
    Change { set, remove }
}

impl BrokenStore {
    async fn put(&self, id: &RecordId, record: &Record, condition: &Condition) -> StoreReply {
        if let Some(refusal) = self.too_large(record) {
            return refusal;
        }
        let (id, record) = (self.id(id), self.stored(record));
        let mut condition = self.evaluated(StoreOperation::Put, condition);
        self.remember(&id);
        if self.broken == Broken::PutInTwoSteps {
            if let Some(refusal) = self.in_two_steps(&id, &condition).await {
                return refusal;
            }
            condition = always();
        }
        let write = if self.broken == Broken::PutMerges {
            self.inner.update(&id, &setting(record.clone()), &condition)
        } else {
            self.inner.put(&id, &record, &condition)
        };
        let write = write.await;
        if self.broken == Broken::WritesWhenRefused {
            self.inner.insert(id, record);
        }
        self.reported(StoreOperation::Put, write)
    }

    async fn update(&self, id: &RecordId, change: &Change, condition: &Condition) -> StoreReply {
        let id = self.id(id);
        let mut change = Change {
            set: self.stored(&change.set),
            remove: change.remove.clone(),
        };
        let mut condition = self.evaluated(StoreOperation::Update, condition);
        assert!(
            self.broken != Broken::PanicsOnEmptyChange || change != Change::default(),
            "an empty change"
        );
        self.remember(&id);
        if self.broken == Broken::RemovesNothing {
            change.remove.clear();
        }
        if self.broken == Broken::UpdateInTwoSteps {
            if let Some(refusal) = self.in_two_steps(&id, &condition).await {
                return refusal;
            }
            condition = always();
        }
        let write = match self.broken {
            Broken::UpdateReplaces => self.inner.put(&id, &change.set, &condition).await,
            _ => self.inner.update(&id, &change, &condition).await,
        };
        self.reported(StoreOperation::Update, write)
    }

    async fn delete(&self, id: &RecordId, condition: &Condition) -> StoreReply {
        let condition = self.evaluated(StoreOperation::Delete, condition);
        let write = self.inner.delete(&self.id(id), &condition).await;
        self.reported(StoreOperation::Delete, write)
    }

    async fn step(
        &self,
        id: &RecordId,
        name: &str,
        result: &Data,
        condition: &Condition,
    ) -> StoreReply {
        let id = self.id(id);
        let condition = self.evaluated(StoreOperation::Step, condition);
        if self.broken == Broken::StepReplacesOthers {
            let steps = [(name.to_owned(), result.clone())].into_iter().collect();
            let change = setting(Record {
                steps: Field::Value(steps),
                ..Record::default()
            });
            return self.inner.update(&id, &change, &condition).await;
        }
        let step = Write::Step {
            name: name.to_owned(),
            result: result.clone(),
        };
        let write = self.inner.write(&id, step, &condition).await;
        self.reported(StoreOperation::Step, write)
    }
}

impl BrokenStore {
    async fn read(&self, id: &RecordId, consistency: Consistency, log: &SendLog) -> StoreReply {
        let id = self.id(id);
        let earlier = self.earlier.lock().unwrap().remove(&id);
        match (self.broken, earlier, consistency) {
            (Broken::StaleReads, Some(earlier), _) => StoreReply::found(Some(earlier)),
            (Broken::MixesEventualReads, Some(earlier), Consistency::Eventual) => {
                let status = self.inner.record(&id).unwrap_or_default().status;
                StoreReply::found(Some(Record { status, ..earlier }))
            }
            (Broken::InventsEventualReads, _, Consistency::Eventual)
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

impl Store for BrokenStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let RecordWrite {
                id,
                write,
                condition,
            } = match request {
                StoreRequest::Write(record) => record,
                StoreRequest::Read(id, consistency) => {
                    return self.read(id, consistency, log).await;
                }
                StoreRequest::Transact(transaction) => {
                    return StoreReply::failed(transaction.staged.unsupported(&self.name()));
                }
            };
            match write {
                Write::Put(record) => self.put(id, record, condition).await,
                Write::Update(change) => self.update(id, change, condition).await,
                Write::Delete => self.delete(id, condition).await,
                Write::Step { name, result } => self.step(id, name, result, condition).await,
            }
        })
    }

    fn name(&self) -> String {
        format!("a store with the mistake {:?}", self.broken)
    }
}
