//! The environment of one case: a store, its own record ids, a fixed time, and checks of outcomes.

use std::error::Error;
use std::sync::{Arc, Mutex};

use idempotency_core::protocol::condition::held_by;
use idempotency_core::store::{Consistency, StoreScan};

use super::factory::{ForeignRecord, StoreFactory};
use crate::lock::lock;

// The names that nearly every case uses.
pub(super) use self::Expected::{Applied, Refused};
pub(super) use crate::store::{StoreExt, StoreOperation};
pub(super) use idempotency_core::example::compared;
pub(super) use idempotency_core::protocol::condition::Condition::{self, NoRecord};
pub(super) use idempotency_core::protocol::condition::Operand;
pub(super) use idempotency_core::protocol::condition::claimable;
pub(super) use idempotency_core::protocol::policy::OnTimeout;
pub(super) use idempotency_core::record::{
    Attribute, Columns, Data, Field, FieldValue, OwnerToken, Record, RecordId, RecordedSteps,
    Status,
};
pub(super) use idempotency_core::store::{
    Change, Replaced, SendLog, Store, StoreErrorKind, StoreReply, StoreRequest, Write,
};
pub(super) use idempotency_core::time::{EpochMillis, EpochSeconds};

/// The result of a check.
pub(super) type Check<T = ()> = Result<T, Flaw>;

/// Why a case did not pass.
#[derive(Debug)]
pub(super) enum Flaw {
    /// The rule does not hold. The text says what was observed.
    Broken(String),
    /// The case needs something that the factory does not offer.
    NotOffered(&'static str),
}

impl From<String> for Flaw {
    fn from(text: String) -> Self {
        Self::Broken(text)
    }
}

impl Flaw {
    /// Adds the circumstances in which the flaw was observed.
    pub(super) fn when(self, circumstances: impl std::fmt::Display) -> Self {
        match self {
            Self::Broken(text) => Self::Broken(format!("{circumstances}: {text}")),
            Self::NotOffered(_) => self,
        }
    }
}

/// The expected outcome of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'a> {
    Applied,
    /// The condition failed, for this record.
    Refused(Option<&'a Record>),
}

/// Returns the expected outcome of a write to `existing` whose condition holds, or does not.
pub(super) fn expected(holds: bool, existing: Option<&Record>) -> Expected<'_> {
    if holds { Applied } else { Refused(existing) }
}

/// The environment of one case.
pub(super) struct Trial {
    pub(super) factory: Arc<dyn StoreFactory>,
    pub(super) store: Arc<dyn Store>,
    /// The time of the case: half a second after a whole second, so that rounding errors are detected.
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

    /// Returns the time of the case, in whole seconds.
    pub(super) fn second(&self) -> EpochSeconds {
        self.now.floor_to_seconds()
    }

    /// Returns the time of the case plus this many milliseconds.
    pub(super) fn at(&self, milliseconds: i64) -> EpochMillis {
        EpochMillis::new(self.now.get() + milliseconds)
    }

    /// Returns the key of a record that only this case uses.
    pub(super) fn key(&self, name: &str) -> Key<'_> {
        let (trial, id) = (self, self.id(name));
        Key { trial, id }
    }

    /// Returns a record id that only this case uses.
    pub(super) fn id(&self, name: &str) -> RecordId {
        let id = RecordId::new(format!("{}#{name}", self.prefix));
        let mut ids = lock(&self.ids);
        if !ids.contains(&id) {
            ids.push(id.clone());
        }
        id
    }

    /// Deletes the records of the case.
    pub(super) async fn clean_up(&self) {
        let ids = lock(&self.ids).clone();
        for id in ids {
            self.store.write(&id, Write::Delete, &always()).await;
        }
    }

    /// Returns another store of the factory, as another process has it.
    pub(super) async fn second_store(&self) -> Check<Arc<dyn Store>> {
        let second = self.factory.store().await;
        Ok(second.map_err(|error| format!("the factory returned no second store: {error}"))?)
    }
}

impl Trial {
    /// Returns a store of the factory whose records can be listed.
    pub(super) async fn listing(&self) -> Check<Arc<dyn StoreScan>> {
        let listing = self.factory.listing();
        let listing = listing.ok_or(Flaw::NotOffered("the factory offers no listing"))?;
        let listing = listing.await;
        Ok(listing.map_err(|error| format!("the factory returned no listing: {error}"))?)
    }
}

/// The key of a record, and the checks of what is written and read under it.
#[derive(Clone)]
pub(super) struct Key<'a> {
    trial: &'a Trial,
    pub(super) id: RecordId,
}

impl Key<'_> {
    /// Writes a record without a condition.
    pub(super) async fn place(&self, record: &Record) -> Check {
        self.put(record, &always(), Applied).await
    }

    /// Writes or deletes without a condition, so that `record` is the record under the id.
    pub(super) async fn arrange(&self, record: Option<&Record>) -> Check {
        match record {
            Some(record) => self.place(record).await,
            None => self.delete(&always(), Applied).await,
        }
    }

    /// Lets the factory write a foreign record.
    pub(super) async fn plant(&self, foreign: &ForeignRecord) -> Check {
        let plant = self.trial.factory.plant(&self.id, foreign);
        let plant = plant.ok_or(Flaw::NotOffered("the factory plants no foreign records"))?;
        let planted = plant.await;
        Ok(planted.map_err(|error| format!("the factory could not plant a record: {error}"))?)
    }

    /// Sends a put, and returns the reply without a check.
    pub(super) async fn put_unchecked(&self, record: &Record, condition: &Condition) -> StoreReply {
        self.trial
            .store
            .write(&self.id, Write::Put(record.clone()), condition)
            .await
    }

    pub(super) async fn update_unchecked(
        &self,
        change: &Change,
        condition: &Condition,
    ) -> StoreReply {
        self.trial
            .store
            .write(&self.id, Write::Update(change.clone()), condition)
            .await
    }

    pub(super) async fn put(
        &self,
        record: &Record,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Check {
        let write = self.put_unchecked(record, condition).await;
        check_outcome("a put", write, expected)
    }

    pub(super) async fn update(
        &self,
        change: &Change,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Check {
        let write = self.update_unchecked(change, condition).await;
        check_outcome("an update", write, expected)
    }

    pub(super) async fn delete(&self, condition: &Condition, expected: Expected<'_>) -> Check {
        let write = self
            .trial
            .store
            .write(&self.id, Write::Delete, condition)
            .await;
        check_outcome("a delete", write, expected)
    }

    /// Writes the result of a step.
    pub(super) async fn step(
        &self,
        name: &str,
        result: &str,
        condition: &Condition,
        expected: Expected<'_>,
    ) -> Check {
        let step = Write::Step {
            name: name.to_owned(),
            result: Data::new(result),
        };
        let write = self.trial.store.write(&self.id, step, condition).await;
        check_outcome("a step", write, expected)
    }

    /// Reads the record under the id.
    pub(super) async fn read(&self) -> Check<Option<Record>> {
        read(self.trial.store.as_ref(), &self.id).await
    }

    /// Reads the record under the id as it is now, or as it was.
    pub(super) async fn read_eventually(&self) -> Check<Option<Record>> {
        let request = StoreRequest::Read(&self.id, Consistency::Eventual);
        found(self.trial.store.send(request, &SendLog::new()).await)
    }

    /// Checks that a read returns this record.
    pub(super) async fn finds(&self, expected: Option<&Record>) -> Check {
        same("a read", self.read().await?.as_ref(), expected)
    }
}

/// Checks the outcome of a write.
pub(super) fn check_outcome(operation: &str, write: StoreReply, expected: Expected<'_>) -> Check {
    match (write, expected) {
        (StoreReply::Applied { .. }, Applied) => Ok(()),
        (StoreReply::Applied { .. }, Refused(record)) => broken(format!(
            "{operation} was applied although its condition does not hold for {}",
            shown(record)
        )),
        (
            StoreReply::ConditionFailed {
                maybe_applied: true,
                ..
            },
            _,
        ) => broken(format!(
            "the condition of {operation} failed, but an earlier send may have been applied, which proves nothing: run again; \
             if it happens again, `ended(false, ..)` was not noted after a send that was refused"
        )),
        (StoreReply::ConditionFailed { existing, .. }, Applied) => broken(format!(
            "the condition of {operation} failed although it holds; it returned {}",
            shown(existing.as_ref())
        )),
        (StoreReply::ConditionFailed { existing, .. }, Refused(record)) => {
            check_existing(operation, existing.as_ref(), record)
        }
        (
            StoreReply::Failed {
                error,
                maybe_applied,
            },
            _,
        ) => broken(format!(
            "{operation} failed (maybe applied: {maybe_applied}): {error}"
        )),
        (other, _) => broken(format!(
            "{operation} had an outcome that the suite does not know: {other:?}"
        )),
    }
}

/// Checks that a failed condition returned this record, or none: a store need not bring it back.
pub(super) fn check_existing(
    operation: &str,
    existing: Option<&Record>,
    expected: Option<&Record>,
) -> Check {
    if existing.is_none() {
        return Ok(());
    }
    let write = format!("{operation} whose condition failed");
    same(&write, existing, expected)
}

/// Returns the flaw of a rule that does not hold.
pub(super) fn broken<T>(text: impl Into<String>) -> Check<T> {
    Err(Flaw::Broken(text.into()))
}

/// Returns a condition that always holds.
pub(super) fn always() -> Condition {
    Condition::All(Vec::new())
}

/// Returns a condition that never holds.
pub(super) fn never() -> Condition {
    Condition::Any(Vec::new())
}

pub(super) async fn read(store: &dyn Store, id: &RecordId) -> Check<Option<Record>> {
    found(store.get(id).await)
}

/// Returns the record that a read found.
fn found(read: StoreReply) -> Check<Option<Record>> {
    match read {
        StoreReply::Found { record, .. } => Ok(record),
        StoreReply::Failed { error, .. } => broken(format!("a read failed: {error}")),
        other => broken(format!(
            "a read had an outcome that the suite does not know: {other:?}"
        )),
    }
}

fn same(what: &str, found: Option<&Record>, expected: Option<&Record>) -> Check {
    if found == expected {
        return Ok(());
    }
    let differ = match (found, expected) {
        (Some(found), Some(expected)) => {
            format!(": they differ in {}", differences(found, expected))
        }
        _ => String::new(),
    };
    broken(format!(
        "{what} returned {} instead of {}{differ}",
        shown(found),
        shown(expected)
    ))
}

/// Returns the names of the attributes that differ.
fn differences(one: &Record, other: &Record) -> String {
    let attributes = Attribute::ALL.into_iter();
    let differing = attributes.filter(|attribute| one.field(*attribute) != other.field(*attribute));
    let names: Vec<_> = differing
        .map(|attribute| format!("{attribute:?}"))
        .collect();
    names.join(", ")
}

/// Formats a record for the report, cut to a readable length.
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

/// Returns the condition of the writes of this owner.
pub(super) fn held_by_owner(number: u8) -> Condition {
    held_by(&owner(number))
}

/// Returns a record with a change.
pub(super) fn with(mut record: Record, change: impl FnOnce(&mut Record)) -> Record {
    change(&mut record);
    record
}

/// Returns a record with this response.
pub(super) fn with_response(record: Record, data: impl Into<String>) -> Record {
    let data = Field::Value(Data::new(data.into()));
    Record { data, ..record }
}

/// Returns the change that sets the attributes of this record.
pub(super) fn setting(set: Record) -> Change {
    let remove = Vec::new();
    Change { set, remove }
}

/// Returns the change that removes these attributes.
pub(super) fn removing(attributes: &[Attribute]) -> Change {
    let (set, remove) = (Record::default(), attributes.to_vec());
    Change { set, remove }
}

/// Returns a claim whose lease ends at `lease`.
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

/// Returns the change that completes a claim.
pub(super) fn completion(data: &str, expiration: EpochSeconds) -> Change {
    setting(completed(&Record::default(), data, expiration))
}

/// Returns the record after the completion of `claim`.
pub(super) fn completed(claim: &Record, data: &str, expiration: EpochSeconds) -> Record {
    Record {
        expiration: Field::Value(expiration),
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(data)),
        ..claim.clone()
    }
}

/// Returns a record with every attribute that a condition may name.
pub(super) fn full_record(now: EpochMillis) -> Record {
    Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(r#"{"paid":true}"#)),
        failure: Field::Value("Timeout".to_owned()),
        operation: Field::Value("shop::charge".to_owned()),
        decision: Field::Value(r#"{"by":"ana"}"#.to_owned()),
        steps: Field::Value(
            [("reserve".to_owned(), Data::new("7"))]
                .into_iter()
                .collect(),
        ),
        undo: Field::Value(r#"{"left":[],"undone":[]}"#.to_owned()),
        ..claim(&owner(9), now)
    }
}

/// Returns each attribute, with a record that has only a new value of it.
pub(super) fn single_attributes() -> impl Iterator<Item = (Attribute, Record)> {
    let new = Record::read(&mut Alike::of("8"));
    compared().map(move |attribute| (attribute, taking(&Record::default(), attribute, &new)))
}

/// Returns `record` with one attribute copied from `from`.
pub(super) fn taking(record: &Record, attribute: Attribute, from: &Record) -> Record {
    let mut record = record.clone();
    record.copy(attribute, from);
    record
}

/// The columns of a record whose attributes are all alike.
pub(super) struct Alike {
    pub(super) number: Field<i64>,
    pub(super) text: Field<String>,
    pub(super) steps: Field<RecordedSteps>,
}

impl Alike {
    /// Returns columns that have this text, the number 8 and one step.
    pub(super) fn of(text: &str) -> Self {
        Self {
            number: Field::Value(8),
            text: Field::Value(text.to_owned()),
            steps: Field::Value([("a".to_owned(), Data::new(text))].into_iter().collect()),
        }
    }
}

impl Columns for Alike {
    fn number(&mut self, _: Attribute) -> Field<i64> {
        self.number.clone()
    }

    fn text(&mut self, _: Attribute) -> Field<String> {
        self.text.clone()
    }

    fn steps(&mut self, _: Attribute) -> Field<RecordedSteps> {
        self.steps.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_core::record::StoredEvent;

    #[test]
    fn a_full_record_has_each_attribute_that_a_condition_may_name() {
        let full = full_record(EpochMillis::new(0));
        let named: Vec<_> = full.fields().map(|(attribute, _)| attribute).collect();
        assert_eq!(named, compared().collect::<Vec<_>>());
    }

    #[test]
    fn a_comparison_names_the_attributes_that_differ() {
        let found = with(full_record(EpochMillis::new(0)), |it| {
            it.event = StoredEvent::all("7").into()
        });
        let expected = with(full_record(EpochMillis::new(0)), |it| {
            it.owner = Field::Absent
        });
        assert_eq!(differences(&found, &expected), "Owner, Event");
        assert_eq!(differences(&found, &found), "");
    }
}
