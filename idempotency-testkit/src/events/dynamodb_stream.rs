//! A batch of changes of a DynamoDB table.

use serde::Serialize;
use serde_json::{Value, json};

use super::value::{identifiers, json_value, put};
use super::{ACCOUNT, REGION, TIME, ids};

/// The sequence number before the first record of a shard.
const SEQUENCE: u128 = 4_421_584_500_000_000_017_450_439_090;

/// Starts a batch of changes of a table, as a stream with new and old images sends them.
///
/// Keys and images are given as plain JSON objects. The event has them as DynamoDB writes them.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::dynamodb_stream("orders")
///     .insert(&json!({"id": "o-1"}), &json!({"id": "o-1", "amount": 42}))
///     .remove(&json!({"id": "o-2"}), &json!({"id": "o-2"}))
///     .to_value();
/// assert_eq!(event["Records"][0]["dynamodb"]["NewImage"]["amount"], json!({"N": "42"}));
/// assert_eq!(event["Records"][1]["eventName"], "REMOVE");
/// ```
pub fn dynamodb_stream(table: impl Into<String>) -> DynamoDbStreamBatch {
    DynamoDbStreamBatch {
        table: table.into(),
        position: 1,
        records: Vec::new(),
        changes: Vec::new(),
    }
}

/// A batch of changes of a DynamoDB table. [`dynamodb_stream`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct DynamoDbStreamBatch {
    table: String,
    position: u64,
    records: Vec<StreamRecord>,
    changes: Vec<(String, Value)>,
}

event!(DynamoDbStreamBatch);

impl DynamoDbStreamBatch {
    /// Adds the change of a new item.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn insert<K, N>(self, keys: &K, new: &N) -> Self
    where
        K: Serialize + ?Sized,
        N: Serialize + ?Sized,
    {
        self.record(StreamRecord::insert(keys, new))
    }

    /// Adds the change of an item that existed.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn modify<K, O, N>(self, keys: &K, old: &O, new: &N) -> Self
    where
        K: Serialize + ?Sized,
        O: Serialize + ?Sized,
        N: Serialize + ?Sized,
    {
        self.record(StreamRecord::modify(keys, old, new))
    }

    /// Adds the deletion of an item.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn remove<K, O>(self, keys: &K, old: &O) -> Self
    where
        K: Serialize + ?Sized,
        O: Serialize + ?Sized,
    {
        self.record(StreamRecord::remove(keys, old))
    }

    /// Adds a change.
    pub fn record(mut self, record: StreamRecord) -> Self {
        self.records.push(record);
        self
    }

    /// Sets the position of the first change in its shard, counted from 1: sequence numbers and event ids follow from it.
    ///
    /// By default every batch begins at 1. So two batches with other changes need other positions, or their changes have the
    /// same ids.
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    /// Returns the sequence numbers of the changes, in order: the `itemIdentifier` of a partial batch response.
    #[must_use]
    pub fn sequence_numbers(&self) -> Vec<String> {
        identifiers(&self.to_value(), "/dynamodb/SequenceNumber")
    }

    fn render(&self) -> Value {
        let records = self.records.iter().zip(self.position..);
        let records = records.map(|(record, position)| {
            let number = (SEQUENCE + u128::from(position)).to_string();
            record.render(&self.table, &number)
        });
        json!({ "Records": records.collect::<Vec<_>>() })
    }
}

/// A change of one item.
#[derive(Clone, Debug)]
#[must_use]
pub struct StreamRecord {
    name: &'static str,
    keys: Value,
    old: Value,
    new: Value,
    event_id: Option<String>,
    is_expired: bool,
}

impl StreamRecord {
    /// Makes the change of a new item.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn insert<K, N>(keys: &K, new: &N) -> Self
    where
        K: Serialize + ?Sized,
        N: Serialize + ?Sized,
    {
        Self::new("INSERT", keys, Value::Null, item(new))
    }

    /// Makes the change of an item that existed.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn modify<K, O, N>(keys: &K, old: &O, new: &N) -> Self
    where
        K: Serialize + ?Sized,
        O: Serialize + ?Sized,
        N: Serialize + ?Sized,
    {
        Self::new("MODIFY", keys, item(old), item(new))
    }

    /// Makes the deletion of an item.
    ///
    /// # Panics
    ///
    /// If a value cannot be written as a JSON object.
    pub fn remove<K, O>(keys: &K, old: &O) -> Self
    where
        K: Serialize + ?Sized,
        O: Serialize + ?Sized,
    {
        Self::new("REMOVE", keys, item(old), Value::Null)
    }

    fn new<K: Serialize + ?Sized>(name: &'static str, keys: &K, old: Value, new: Value) -> Self {
        Self {
            name,
            keys: item(keys),
            old,
            new,
            event_id: None,
            is_expired: false,
        }
    }

    /// Sets the event id. By default it is computed from the table and the sequence number.
    pub fn event_id(mut self, id: impl Into<String>) -> Self {
        self.event_id = Some(id.into());
        self
    }

    /// Marks a deletion as one by time to live: it has the `userIdentity` of the service.
    pub fn by_time_to_live(mut self) -> Self {
        self.is_expired = true;
        self
    }

    fn render(&self, table: &str, number: &str) -> Value {
        let id = || ids::hex32(&[table, number]);
        let images = [&self.keys, &self.old, &self.new];
        let mut change = json!({
            "ApproximateCreationDateTime": TIME / 1000,
            "Keys": self.keys,
            "SequenceNumber": number,
            "SizeBytes": images.into_iter().map(size).sum::<usize>(),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        });
        put(&mut change, "NewImage", self.new.clone());
        put(&mut change, "OldImage", self.old.clone());
        let mut record = json!({
            "eventID": self.event_id.clone().unwrap_or_else(id),
            "eventName": self.name,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": REGION,
            "dynamodb": change,
            "eventSourceARN": format!(
                "arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}/stream/2025-04-09T10:00:00.000"
            ),
        });
        if self.is_expired {
            record["userIdentity"] =
                json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
        }
        record
    }
}

/// Turns a JSON object into an item.
///
/// # Panics
///
/// If the value cannot be written as a JSON object.
fn item<T: Serialize + ?Sized>(value: &T) -> Value {
    let Value::Object(fields) = json_value(value) else {
        panic!("keys and images are JSON objects");
    };
    Value::Object(
        fields
            .into_iter()
            .map(|(name, value)| (name, attribute(value)))
            .collect(),
    )
}

/// Turns a JSON value into an attribute value.
fn attribute(value: Value) -> Value {
    match value {
        Value::Null => json!({"NULL": true}),
        Value::Bool(value) => json!({ "BOOL": value }),
        Value::Number(value) => json!({"N": value.to_string()}),
        Value::String(value) => json!({ "S": value }),
        Value::Array(values) => json!({"L": values.into_iter().map(attribute).collect::<Vec<_>>()}),
        Value::Object(_) => json!({"M": item(&value)}),
    }
}

/// Returns the length of all names and values of an item, which is about what DynamoDB counts.
fn size(item: &Value) -> usize {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + size(value))
            .sum(),
    }
}
