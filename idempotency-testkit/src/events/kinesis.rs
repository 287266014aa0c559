//! A batch of Kinesis records.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::value::{identifiers, json_text};
use super::{ACCOUNT, REGION, TIME};

/// The sequence number before the first record of a shard, without its last digits.
const SEQUENCE: u128 = 96_256_608_559_692_538_361_571_095_921_575;

/// Starts a batch of records of a Kinesis stream. All records of a batch come from one shard.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events::{self, KinesisRecord};
/// use serde_json::json;
///
/// let event = events::kinesis("ledger")
///     .json(&json!({"entry": 1}))
///     .record(KinesisRecord::json(&json!({"entry": 2})).partition_key("account-7"))
///     .to_value();
/// assert_eq!(event["Records"][1]["kinesis"]["partitionKey"], "account-7");
/// assert_eq!(event["Records"][0]["kinesis"]["data"], "eyJlbnRyeSI6MX0=");
/// ```
pub fn kinesis(stream: impl Into<String>) -> KinesisBatch {
    KinesisBatch {
        stream: stream.into(),
        shard: 0,
        position: 1,
        records: Vec::new(),
        changes: Vec::new(),
    }
}

/// A batch of Kinesis records. [`kinesis`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct KinesisBatch {
    stream: String,
    shard: u32,
    position: u64,
    records: Vec<KinesisRecord>,
    changes: Vec<(String, Value)>,
}

event!(KinesisBatch);

impl KinesisBatch {
    /// Adds a record with this JSON as its data.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, data: &T) -> Self {
        self.record(KinesisRecord::json(data))
    }

    /// Adds a record.
    pub fn record(mut self, record: KinesisRecord) -> Self {
        self.records.push(record);
        self
    }

    /// Adds several records.
    pub fn records(mut self, records: impl IntoIterator<Item = KinesisRecord>) -> Self {
        self.records.extend(records);
        self
    }

    /// Sets the number of the shard. By default it is 0.
    pub fn shard(mut self, number: u32) -> Self {
        self.shard = number;
        self
    }

    /// Sets the position of the first record in its shard, counted from 1: the sequence numbers follow from it.
    ///
    /// By default every batch begins at 1. So two batches with other data need other positions, or their records have the same
    /// sequence numbers.
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    /// Returns the sequence numbers of the records, in order: the `itemIdentifier` of a partial batch response.
    #[must_use]
    pub fn sequence_numbers(&self) -> Vec<String> {
        identifiers(&self.to_value(), "/kinesis/sequenceNumber")
    }

    fn render(&self) -> Value {
        let records = self.records.iter().zip(self.position..);
        let records = records.map(|(record, position)| {
            let number = || format!("495903382714902{SEQUENCE}{position:09}");
            let number = record.sequence_number.clone().unwrap_or_else(number);
            // As Kinesis writes it: seconds, with milliseconds as a fraction.
            let arrival = (TIME + position) as f64 / 1000.0;
            json!({
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    "partitionKey": record.partition_key,
                    "sequenceNumber": number,
                    "data": STANDARD.encode(&record.data),
                    "approximateArrivalTimestamp": arrival,
                },
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": format!("shardId-{:012}:{number}", self.shard),
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": format!("arn:aws:iam::{ACCOUNT}:role/ledger"),
                "awsRegion": REGION,
                "eventSourceARN": format!("arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{}", self.stream),
            })
        });
        json!({ "Records": records.collect::<Vec<_>>() })
    }
}

/// A record of a Kinesis stream.
#[derive(Clone, Debug)]
#[must_use]
pub struct KinesisRecord {
    data: Vec<u8>,
    partition_key: String,
    sequence_number: Option<String>,
}

impl KinesisRecord {
    /// Makes a record with this JSON as its data.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(data: &T) -> Self {
        Self::bytes(json_text(data))
    }

    /// Makes a record with these bytes as its data.
    pub fn bytes(data: impl Into<Vec<u8>>) -> Self {
        Self {
            data: data.into(),
            partition_key: "1".to_owned(),
            sequence_number: None,
        }
    }

    /// Sets the partition key. By default it is `1`.
    pub fn partition_key(mut self, key: impl Into<String>) -> Self {
        self.partition_key = key.into();
        self
    }

    /// Sets the sequence number. By default it follows from the position in the batch.
    pub fn sequence_number(mut self, number: impl Into<String>) -> Self {
        self.sequence_number = Some(number.into());
        self
    }
}
