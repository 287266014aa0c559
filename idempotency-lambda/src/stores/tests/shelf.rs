//! A store in a file: a kind that is in the list under the hidden feature `__shelf`. Tests show with it that a function and the operator's
//! command serve a kind that neither of them knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use idempotency_core::config::ConfigurationError;
use idempotency_core::record::{
    Attribute, Columns, Data, Field, FieldValue, Record, RecordId, RecordedSteps, StoredEvent,
};
use idempotency_core::store::{
    BoxFuture, MemoryStore, ScanPage, ScanRequest, SendLog, Store, StoreError, StoreErrorKind,
    StoreKind, StoreLimits, StoreReply, StoreRequest, StoreScan, StoreUse,
};
use serde_json::{Map, Value};

/// The variable that only a test sets.
const FILE: &str = "TESTS_SHELF_FILE";

/// A file with one record a line, as a JSON object. One process at a time may use it.
struct Shelf(PathBuf);

/// Returns the kind of these stores.
pub(crate) fn kind<S: StoreUse + ?Sized>() -> StoreKind<S> {
    StoreKind {
        name: "shelf",
        variables: &[FILE],
        warning: None,
        check: |_| Ok(()),
        open: |variables| {
            Box::pin(async move {
                let file = variables.value(FILE);
                let file = file.ok_or_else(|| {
                    let text = "the store `shelf` is for the tests of this crate alone, and can lose records: leave out its feature, \
                                and set IDEMPOTENCY_STORE to another kind of store";
                    ConfigurationError::new(text)
                })?;
                Ok(S::shared(Shelf(file.into())))
            })
        },
    }
}

impl Shelf {
    fn records(&self) -> Result<BTreeMap<RecordId, Record>, StoreError> {
        let lines = fs::read_to_string(&self.0).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(String::new()),
            _ => Err(failed(error)),
        })?;
        let record = |line: &str| {
            let mut line = Line(serde_json::from_str(line).map_err(failed)?);
            let id = RecordId::new(line.0["id"].as_str().unwrap_or_default());
            Ok((id, Record::read(&mut line)))
        };
        lines.lines().map(record).collect()
    }

    /// Returns a store in memory with the records of the file.
    fn in_memory(&self) -> Result<MemoryStore, StoreError> {
        let store = MemoryStore::new();
        for (id, record) in self.records()? {
            store.insert(id, record);
        }
        Ok(store)
    }

    async fn perform(
        &self,
        request: StoreRequest<'_>,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        let (store, mut records) = (self.in_memory()?, self.records()?);
        let reply = store.send(request, log).await;
        if let Some(write) = request.record() {
            records.remove(write.id);
            records.extend(
                store
                    .record(write.id)
                    .map(|record| (write.id.clone(), record)),
            );
            let lines = records.iter().map(|(id, record)| line(id, record));
            fs::write(&self.0, lines.collect::<String>()).map_err(failed)?;
        }
        Ok(reply)
    }
}

impl Store for Shelf {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            self.perform(request, log)
                .await
                .unwrap_or_else(StoreReply::failed)
        })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::NONE
    }

    fn name(&self) -> String {
        format!("shelf `{}`", self.0.display())
    }
}

impl StoreScan for Shelf {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move { self.in_memory()?.scan(request).await })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move { self.in_memory()?.stored_event(id).await })
    }
}

fn failed(error: impl std::error::Error) -> StoreError {
    StoreError::new(
        StoreErrorKind::Internal,
        format!("the shelf cannot be used: {error}"),
    )
}

fn line(id: &RecordId, record: &Record) -> String {
    let value = |value: FieldValue<'_>| match value {
        FieldValue::Seconds(at) => at.get().into(),
        FieldValue::Millis(at) => at.get().into(),
        FieldValue::Text(text) => text.into(),
        FieldValue::Data(data) => data.as_str().into(),
        FieldValue::Steps(steps) => {
            let steps = steps
                .iter()
                .map(|(name, result)| (name.to_owned(), result.as_str().into()));
            Value::Object(steps.collect())
        }
        FieldValue::Event(event) => event.stored().into(),
    };
    let columns = record
        .fields()
        .map(|(attribute, it)| (attribute.default_name().to_owned(), value(it)));
    let id = ("id".to_owned(), id.as_str().into());
    let line: Map<String, Value> = columns.chain([id]).collect();
    format!("{}\n", Value::Object(line))
}

struct Line(Map<String, Value>);

impl Line {
    fn column<T>(&self, attribute: Attribute, of: impl Fn(&Value) -> Option<T>) -> Field<T> {
        Field::from(self.0.get(attribute.default_name())).and_then(of)
    }
}

impl Columns for Line {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.column(attribute, Value::as_i64)
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        self.column(attribute, |text| text.as_str().map(str::to_owned))
    }

    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
        self.column(attribute, |steps| {
            let steps = steps.as_object()?.iter();
            let steps =
                steps.map(|(name, result)| Some((name.clone(), Data::new(result.as_str()?))));
            steps.collect()
        })
    }

    fn event(&mut self, attribute: Attribute) -> Field<StoredEvent> {
        self.column(attribute, |event| StoredEvent::from_stored(event.as_str()?))
    }
}
