//! Batches: messages of SQS, records of Kinesis, changes of a DynamoDB table.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{default, filled, hex32, json_value, md5, set_all, sha256, uuid};

/// The time of every event, in milliseconds since the epoch.
const TIME: u64 = 1_744_193_729_512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Sqs,
    Kinesis,
    DynamoDbStream,
}

/// A batch of records. [`sqs`], [`kinesis`] and [`dynamodb_stream`] make it.
#[derive(Clone, Debug)]
#[must_use]
pub struct AwsBatch {
    source: Source,
    /// The queue, the stream or the table.
    name: String,
    shard: u32,
    position: u64,
    records: Vec<AwsRecord>,
    changes: Vec<(String, Value)>,
}

/// Starts a batch of messages of a queue. A queue whose name ends in `.fifo` is a FIFO queue.
///
/// The id of a message is computed from the queue, the body and the group: a message that is delivered again in another event
/// has the same id. A second message with the same body in one event has an id of its own.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events::{self, AwsRecord};
/// use serde_json::json;
///
/// let event = events::sqs("orders.fifo")
///     .records(["o-1", "o-2"].map(|id| AwsRecord::json(&json!({ "order_id": id })).group("u-1")))
///     .to_value();
/// assert_eq!(event["Records"][1]["attributes"]["MessageGroupId"], "u-1");
/// assert_eq!(event["Records"][1]["attributes"]["SequenceNumber"], "18849496460467696129");
/// ```
pub fn sqs(queue: impl Into<String>) -> AwsBatch {
    AwsBatch::new(Source::Sqs, queue.into())
}

/// Starts a batch of records of a Kinesis stream. All records of a batch come from one shard.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events::{self, AwsRecord};
/// use serde_json::json;
///
/// let event = events::kinesis("ledger")
///     .json(&json!({"entry": 1}))
///     .records([AwsRecord::json(&json!({"entry": 2})).group("account-7")])
///     .to_value();
/// assert_eq!(event["Records"][1]["kinesis"]["partitionKey"], "account-7");
/// assert_eq!(event["Records"][0]["kinesis"]["data"], "eyJlbnRyeSI6MX0=");
/// ```
pub fn kinesis(stream: impl Into<String>) -> AwsBatch {
    AwsBatch::new(Source::Kinesis, stream.into())
}

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
///     .change(&json!({"id": "o-1"}), None, Some(&json!({"id": "o-1", "amount": 42})))
///     .change(&json!({"id": "o-2"}), Some(&json!({"id": "o-2"})), None)
///     .to_value();
/// assert_eq!(event["Records"][0]["dynamodb"]["NewImage"]["amount"], json!({"N": "42"}));
/// assert_eq!(event["Records"][1]["eventName"], "REMOVE");
/// ```
pub fn dynamodb_stream(table: impl Into<String>) -> AwsBatch {
    AwsBatch::new(Source::DynamoDbStream, table.into())
}

impl AwsBatch {
    fn new(source: Source, name: String) -> Self {
        Self {
            source,
            name,
            shard: 0,
            position: 1,
            records: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Adds a message or a record with this JSON.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON, or the batch is one of a DynamoDB stream.
    pub fn json<T: Serialize + ?Sized>(self, data: &T) -> Self {
        self.records([AwsRecord::json(data)])
    }

    /// Adds messages or records.
    ///
    /// # Panics
    ///
    /// If the batch is one of a DynamoDB stream.
    pub fn records(mut self, records: impl IntoIterator<Item = AwsRecord>) -> Self {
        let is_stream = self.source == Source::DynamoDbStream;
        assert!(!is_stream, "a DynamoDB stream has changes: `change`");
        self.records.extend(records);
        self
    }

    /// Adds the change of an item: a new one without `old`, a deletion without `new`.
    ///
    /// # Panics
    ///
    /// If a value is not a JSON object, or the batch is not one of a DynamoDB stream.
    pub fn change(mut self, keys: &Value, old: Option<&Value>, new: Option<&Value>) -> Self {
        let is_stream = self.source == Source::DynamoDbStream;
        assert!(is_stream, "only a DynamoDB stream has changes of items");
        let name = match (old, new) {
            (None, _) => "INSERT",
            (Some(_), Some(_)) => "MODIFY",
            (Some(_), None) => "REMOVE",
        };
        let mut record = AwsRecord::new("").with("/eventName", name);
        let images = [("Keys", Some(keys)), ("OldImage", old), ("NewImage", new)];
        for (image, value) in images {
            if let Some(value) = value {
                record = record.with(format!("/dynamodb/{image}"), item(value));
            }
        }
        self.records.push(record);
        self
    }

    /// Sets the number of the shard of Kinesis. By default it is 0.
    pub fn shard(mut self, number: u32) -> Self {
        self.shard = number;
        self
    }

    /// Sets the position of the first record in its shard, counted from 1: the sequence numbers follow from it.
    ///
    /// By default every batch begins at 1. Give two batches with different data different positions. Otherwise their records have the
    /// same sequence numbers.
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    /// Sets the field at a JSON pointer, such as `/Records/0/awsRegion`, after all other methods.
    ///
    /// Missing objects on the way are created. The event panics when it is written if a list has no such item.
    pub fn with(mut self, pointer: impl Into<String>, value: impl Into<Value>) -> Self {
        self.changes.push((pointer.into(), value.into()));
        self
    }

    /// Returns what a partial batch response names, in order: message ids of SQS, sequence numbers of a stream.
    pub fn ids(&self) -> Vec<String> {
        let event = self.to_value();
        let records = event["Records"].as_array().into_iter().flatten();
        let ids = records.filter_map(|record| record.pointer(self.source.id())?.as_str());
        ids.map(str::to_owned).collect()
    }

    /// Returns the event as a JSON value.
    pub fn to_value(&self) -> Value {
        let records: Vec<Value> = (0..self.records.len()).map(|at| self.written(at)).collect();
        let mut event = json!({ "Records": records });
        set_all(&mut event, &self.changes);
        event
    }

    /// Reads the event as a handler of this type receives it.
    ///
    /// # Errors
    ///
    /// If the event does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.to_string())
    }

    /// Writes the record at an index: the template, what the test has set, and what follows from both.
    fn written(&self, at: usize) -> Value {
        let record = &self.records[at];
        let template = match self.source {
            Source::Sqs => include_str!("templates/sqs.json"),
            Source::Kinesis => include_str!("templates/kinesis.json"),
            Source::DynamoDbStream => include_str!("templates/dynamodb_stream.json"),
        };
        let mut event = filled(template, &[("name", &self.name)]);
        set_all(&mut event, &record.changes);
        let (id, group) = (self.source.id(), self.source.group());
        for (pointer, value) in [(id, &record.id), (group, &record.group)] {
            if let Some(value) = value {
                set_all(&mut event, &[(pointer.to_owned(), value.as_str().into())]);
            }
        }
        let position = self.position + at as u64;
        match self.source {
            Source::Sqs => self.finish_message(&mut event, at),
            Source::Kinesis => {
                let kinesis = &mut event["kinesis"];
                kinesis["data"] = STANDARD.encode(&record.data).into();
                // As Kinesis writes it: seconds, with milliseconds as a fraction.
                kinesis["approximateArrivalTimestamp"] = json!((TIME + position) as f64 / 1000.0);
                let number = &mut kinesis["sequenceNumber"];
                let prefix = "49590338271490296256608559692538361571095921575";
                default(number, || format!("{prefix}{position:09}"));
                let number = number.as_str().unwrap_or_default().to_owned();
                let shard = self.shard;
                default(&mut event["eventID"], || {
                    format!("shardId-{shard:012}:{number}")
                });
            }
            Source::DynamoDbStream => {
                let change = &mut event["dynamodb"];
                let number = &mut change["SequenceNumber"];
                let before = 4_421_584_500_000_000_017_450_439_090_u128;
                default(number, || (before + u128::from(position)).to_string());
                let number = number.as_str().unwrap_or_default().to_owned();
                let images = ["Keys", "OldImage", "NewImage"];
                let sizes = images.map(|image| change.get(image).map_or(1, size));
                change["SizeBytes"] = sizes.iter().sum::<usize>().into();
                default(&mut event["eventID"], || hex32(&[&self.name, &number]));
            }
        }
        event
    }

    fn finish_message(&self, event: &mut Value, at: usize) {
        let message = &self.records[at];
        let body = match std::str::from_utf8(&message.data) {
            Ok(body) => body,
            Err(error) => panic!("the body of a message is a text: {error}"),
        };
        event["body"] = body.into();
        event["md5OfBody"] = md5(&message.data).into();
        let same = |other: &&AwsRecord| other.data == message.data && other.group == message.group;
        let copy = self.records[..at].iter().filter(same).count().to_string();
        let group = message.group.as_deref().unwrap_or_default();
        let id = || uuid(&[&self.name, body, group, &copy]);
        default(&mut event["messageId"], id);
        let attributes = &mut event["attributes"];
        if self.name.ends_with(".fifo") {
            let number = 18_849_496_460_467_696_128_u128 + at as u128;
            default(&mut attributes["SequenceNumber"], || number.to_string());
            default(&mut attributes["MessageDeduplicationId"], || {
                sha256(&message.data)
            });
            default(&mut attributes["MessageGroupId"], || "1".to_owned());
        }
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
        let (id, count) = (
            text("/messageId"),
            text("/attributes/ApproximateReceiveCount"),
        );
        let handle = [id, count].map(Option::unwrap_or_default).concat();
        event["receiptHandle"] = format!("AQEB{}", sha256(handle.as_bytes())).into();
        if let Some(digest) = md5_of_attributes(&event["messageAttributes"]) {
            event["md5OfMessageAttributes"] = digest.into();
        }
    }
}

impl Source {
    /// Returns where a record has what a partial batch response names.
    fn id(self) -> &'static str {
        match self {
            Self::Sqs => "/messageId",
            Self::Kinesis => "/kinesis/sequenceNumber",
            Self::DynamoDbStream => "/dynamodb/SequenceNumber",
        }
    }

    /// Returns where a record has its group.
    fn group(self) -> &'static str {
        match self {
            Self::Sqs => "/attributes/MessageGroupId",
            Self::Kinesis | Self::DynamoDbStream => "/kinesis/partitionKey",
        }
    }
}

/// Writes the event as JSON text.
impl fmt::Display for AwsBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

/// A message of SQS or a record of Kinesis.
#[derive(Clone, Debug)]
#[must_use]
pub struct AwsRecord {
    data: Vec<u8>,
    id: Option<String>,
    group: Option<String>,
    changes: Vec<(String, Value)>,
}

impl AwsRecord {
    /// Makes a record with this JSON.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(data: &T) -> Self {
        Self::new(json_value(data).to_string())
    }

    /// Makes a record with this text or these bytes. The body of a message of SQS is a text.
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        Self {
            data: data.into(),
            id: None,
            group: None,
            changes: Vec::new(),
        }
    }

    /// Sets what a partial batch response names: the id of a message of SQS, the sequence number of a record of Kinesis.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets what keeps records in order: the group of a message of SQS, the partition key of a record of Kinesis. It is `1` by
    /// default, for a message of a FIFO queue and for a record of Kinesis.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds a message attribute of type `String`, which the sender of a message of SQS sets.
    pub fn attribute(self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        let name = name.as_ref().replace('~', "~0").replace('/', "~1");
        let value = json!({
            "stringValue": value.into(),
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": "String",
        });
        self.with(format!("/messageAttributes/{name}"), value)
    }

    /// Sets the field at a JSON pointer, such as `/attributes/AWSTraceHeader`. Data and digests are set after it.
    pub fn with(mut self, pointer: impl Into<String>, value: impl Into<Value>) -> Self {
        self.changes.push((pointer.into(), value.into()));
        self
    }
}

/// Returns the digest that SQS documents: names in order, each part with its length in front. `None` without attributes.
fn md5_of_attributes(attributes: &Value) -> Option<String> {
    let attributes = attributes
        .as_object()
        .filter(|attributes| !attributes.is_empty())?;
    let mut bytes = Vec::new();
    let part = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(text.as_bytes());
    };
    for (name, attribute) in attributes {
        part(&mut bytes, name);
        part(
            &mut bytes,
            attribute["dataType"].as_str().unwrap_or_default(),
        );
        // 1: the value is a text, not binary.
        bytes.push(1);
        part(
            &mut bytes,
            attribute["stringValue"].as_str().unwrap_or_default(),
        );
    }
    Some(md5(&bytes))
}

/// Turns a JSON object into an item.
///
/// # Panics
///
/// If the value is not a JSON object.
fn item(value: &Value) -> Value {
    let Value::Object(fields) = value else {
        panic!("keys and images are JSON objects");
    };
    let fields = fields
        .iter()
        .map(|(name, value)| (name.clone(), attribute(value)));
    Value::Object(fields.collect())
}

/// Turns a JSON value into an attribute value.
fn attribute(value: &Value) -> Value {
    match value {
        Value::Null => json!({"NULL": true}),
        Value::Bool(value) => json!({ "BOOL": value }),
        Value::Number(value) => json!({"N": value.to_string()}),
        Value::String(value) => json!({ "S": value }),
        Value::Array(values) => json!({"L": values.iter().map(attribute).collect::<Vec<_>>()}),
        Value::Object(_) => json!({"M": item(value)}),
    }
}

/// Returns the length of all names and values of an item, which is about what DynamoDB counts.
fn size(item: &Value) -> usize {
    match item {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => {
            let sizes = fields.iter().map(|(name, value)| name.len() + size(value));
            sizes.sum()
        }
    }
}
