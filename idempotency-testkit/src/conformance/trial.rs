//! What a case works with: a store, ids of its own, a present, and words for what must have happened.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use idempotency_core::store::{Change, ReadOutcome, Store, WriteOutcome};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::factory::StoreFactory;
use super::foreign::ForeignRecord;
use crate::store::StoreExt;

/// What a case comes to.
pub(super) type Checked<T = ()> = Result<T, Flaw>;

/// Why a case did not pass.
#[derive(Debug)]
pub(super) enum Flaw {
    /// What was seen instead of the rule.
    Broken(String),
    /// What the factory would have to offer.
    Lacks(&'static str),
}

impl From<String> for Flaw {
    fn from(text: String) -> Self {
        Self::Broken(text)
    }
}

impl Flaw {
    /// The same flaw, seen in these circumstances.
    pub(super) fn when(self, circumstances: impl std::fmt::Display) -> Self {
        match self {
            Self::Broken(text) => Self::Broken(format!("{circumstances}: {text}")),
            Self::Lacks(_) => self,
        }
    }
}

/// What must have come of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'a> {
    Applied,
    /// The record that it must have been judged against.
    Refused(Option<&'a Record>),
}

pub(super) struct Trial {
    pub(super) factory: Arc<dyn StoreFactory>,
    pub(super) store: Arc<dyn Store>,
    /// The present, in milliseconds: half past a whole second, so that no rounding goes unnoticed.
    pub(super) now: EpochMillis,
    prefix: String,
    ids: Mutex<Vec<RecordId>>,
}

impl Trial {
    pub(super) async fn new(
        factory: Arc<dyn StoreFactory>,
        now: EpochMillis,
        prefix: String,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let store = factory.store().await?;
        Ok(Self {
            factory,
            store,
            now: EpochMillis::new(now.floor_to_seconds().get() * 1_000 + 500),
            prefix,
            ids: Mutex::default(),
        })
    }

    /// The present, in whole seconds.
    pub(super) fn second(&self) -> EpochSeconds {
        self.now.floor_to_seconds()
    }

    /// The present moved by this many milliseconds.
    pub(super) fn at(&self, milliseconds: i64) -> EpochMillis {
        EpochMillis::new(self.now.get() + milliseconds)
    }

    /// The id of a record that no other case has.
    pub(super) fn id(&self, name: &str) -> RecordId {
        let id = RecordId::new(format!("{}#{name}", self.prefix));
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if !ids.contains(&id) {
            ids.push(id.clone());
        }
        id
    }

    /// Deletes what the case wrote.
    pub(super) async fn clean_up(&self) {
        let ids = self
            .ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for id in ids {
            self.store.delete(&id, &always()).await;
        }
    }

    /// Puts a record there whatever is there.
    pub(super) async fn place(&self, id: &RecordId, record: &Record) -> Checked {
        self.put(id, record, &always(), Expected::Applied).await
    }

    /// Makes `record` the one under `id`, `None` for none.
    pub(super) async fn arrange(&self, id: &RecordId, record: Option<&Record>) -> Checked {
        match record {
            Some(record) => self.place(id, record).await,
            None => self.delete(id, &always(), Expected::Applied).await,
        }
    }

    /// Has a foreign record written.
    pub(super) async fn plant(&self, id: &RecordId, foreign: &ForeignRecord) -> Checked {
        let plant = self.factory.plant(id, foreign);
        let plant = plant.ok_or(Flaw::Lacks("the factory plants no foreign records"))?;
        let planted = plant.await;
        Ok(planted.map_err(|error| format!("the factory could not plant a record: {error}"))?)
    }

    pub(super) async fn put(
        &self,
        id: &RecordId,
        record: &Record,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Checked {
        let write = self.store.put(id, record, condition).await;
        self.came_to("put", id, write, expected).await
    }

    pub(super) async fn update(
        &self,
        id: &RecordId,
        change: &Change,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Checked {
        let write = self.store.update(id, change, condition).await;
        self.came_to("update", id, write, expected).await
    }

    pub(super) async fn delete(
        &self,
        id: &RecordId,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Checked {
        let write = self.store.delete(id, condition).await;
        self.came_to("delete", id, write, expected).await
    }

    /// The record under `id`.
    pub(super) async fn read(&self, id: &RecordId) -> Checked<Option<Record>> {
        read(self.store.as_ref(), id).await
    }

    /// A read must find this.
    pub(super) async fn finds(&self, id: &RecordId, expected: Option<&Record>) -> Checked {
        same("a read", self.read(id).await?.as_ref(), expected)
    }

    /// A write must have come to this.
    pub(super) async fn came_to(
        &self,
        operation: &str,
        id: &RecordId,
        write: WriteOutcome,
        expected: Expected<'_>,
    ) -> Checked {
        match (write, expected) {
            (WriteOutcome::Applied, Expected::Applied) => Ok(()),
            (WriteOutcome::Applied, Expected::Refused(record)) => broken(format!(
                "a {operation} was applied whose condition does not hold of {}",
                shown(record)
            )),
            (
                WriteOutcome::ConditionFailed {
                    maybe_applied: true,
                    ..
                },
                _,
            ) => broken(format!(
                "a {operation} was refused after a send of it was lost, which proves nothing: run again"
            )),
            (WriteOutcome::ConditionFailed { existing, .. }, Expected::Applied) => broken(format!(
                "a {operation} was refused whose condition holds; it brought back {}",
                shown(existing.as_ref())
            )),
            (WriteOutcome::ConditionFailed { existing, .. }, Expected::Refused(record)) => {
                self.brings_back(operation, id, existing, record).await
            }
            (
                WriteOutcome::Failed {
                    error,
                    maybe_applied,
                },
                _,
            ) => broken(format!(
                "a {operation} failed (maybe applied: {maybe_applied}): {error}"
            )),
            (other, _) => broken(format!(
                "a {operation} came to what the suite does not know: {other:?}"
            )),
        }
    }

    /// A refusal must have brought back this record; where the store's refusals cannot, a read must.
    pub(super) async fn brings_back(
        &self,
        operation: &str,
        id: &RecordId,
        existing: Option<Record>,
        expected: Option<&Record>,
    ) -> Checked {
        if existing.is_none() && expected.is_some() && !self.factory.refusals_bring_the_record() {
            return self.finds(id, expected).await;
        }
        same(
            &format!("a refused {operation}"),
            existing.as_ref(),
            expected,
        )
    }
}

/// The rule does not hold, and this was seen instead.
pub(super) fn broken<T>(text: impl Into<String>) -> Checked<T> {
    Err(Flaw::Broken(text.into()))
}

/// What always holds.
pub(super) fn always() -> Condition {
    Condition::All(Vec::new())
}

/// What never holds.
pub(super) fn never() -> Condition {
    Condition::Any(Vec::new())
}

pub(super) async fn read(store: &dyn Store, id: &RecordId) -> Checked<Option<Record>> {
    match store.get(id).await {
        ReadOutcome::Found(record) => Ok(Some(record)),
        ReadOutcome::NotFound => Ok(None),
        ReadOutcome::Failed(error) => broken(format!("a read failed: {error}")),
        other => broken(format!(
            "a read came to what the suite does not know: {other:?}"
        )),
    }
}

fn same(what: &str, found: Option<&Record>, expected: Option<&Record>) -> Checked {
    if found == expected {
        return Ok(());
    }
    broken(format!(
        "{what} brought back {} instead of {}",
        shown(found),
        shown(expected)
    ))
}

/// A record in a report: what differs in long texts is not shown.
pub(super) fn shown(record: Option<&Record>) -> String {
    const LONGEST: usize = 500;
    let Some(record) = record else {
        return "no record".to_owned();
    };
    let text = format!("{record:?}");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

pub(super) fn owner(number: u8) -> OwnerToken {
    OwnerToken::from_bytes([number; 16])
}

/// A claim whose lease ends at `lease`.
pub(super) fn claim(owner: &OwnerToken, lease: EpochMillis) -> Record {
    Record {
        expiration: Field::Value(EpochSeconds::new(lease.ceil_to_seconds().get() + 3_600)),
        in_progress_expiration: Field::Value(lease),
        status: Field::Value(Status::InProgress),
        validation: Field::Value("c4ca4238a0b923820dcc509a6f75849b".to_owned()),
        owner: Field::Value(owner.clone()),
        ..Record::default()
    }
}

/// What a completion sets.
pub(super) fn answer(data: &str, expiration: EpochSeconds) -> Change {
    Change {
        set: Record {
            expiration: Field::Value(expiration),
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new(data)),
            ..Record::default()
        },
        remove: Vec::new(),
    }
}

/// The record after a completion of `claim`.
pub(super) fn completed(claim: &Record, data: &str, expiration: EpochSeconds) -> Record {
    Record {
        expiration: Field::Value(expiration),
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(data)),
        ..claim.clone()
    }
}

/// A record with every attribute.
pub(super) fn whole(now: EpochMillis) -> Record {
    Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(r#"{"paid":true}"#)),
        failure: Field::Value("Timeout".to_owned()),
        operation: Field::Value("shop::charge".to_owned()),
        ..claim(&owner(9), now)
    }
}
