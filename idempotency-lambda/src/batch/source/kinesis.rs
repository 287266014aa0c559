//! Kinesis data streams.

use aws_lambda_events::kinesis::{KinesisEvent, KinesisEventRecord};
use aws_lambda_events::streams::KinesisEventResponse;
use idempotency_core::error::Error;

use super::{EventSource, FromRecord, Spec};
use crate::batch::body::{Body, BodyOrText, Undecodable};
use crate::batch::plan::Position;
use crate::batch::settings::RecordOrder;
use crate::invocation::Deadline;
use crate::operation::{IdentifiedCall, Operation};

impl EventSource for KinesisEvent {}

/// A record of Kinesis with its data as a type, for a handler that needs more than the data.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::BoxError;
/// use idempotency_lambda::batch::DataRecord;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Entry;
///
/// async fn post(data: DataRecord<Entry>) -> Result<(), BoxError> {
///     tracing::info!(partition_key = data.record.kinesis.partition_key);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DataRecord<T> {
    /// The data.
    pub body: T,
    /// The record as Kinesis sent it.
    pub record: KinesisEventRecord,
}

impl<T> DataRecord<T> {
    /// Makes a record for a unit test of a handler.
    pub fn new(body: T, record: KinesisEventRecord) -> Self {
        Self { body, record }
    }
}

impl Spec for KinesisEvent {
    type Record = KinesisEventRecord;
    type Response = KinesisEventResponse;

    const NAME: &'static str = "kinesis";
    const IDENTIFIER: &'static str = "kinesis.sequenceNumber";
    const ID: &'static str = "eventID";
    const WAITS: bool = true;

    fn records(self) -> Vec<KinesisEventRecord> {
        self.records
    }

    fn identifier(record: &KinesisEventRecord) -> Option<&str> {
        Some(record.kinesis.sequence_number.as_str()).filter(|number| !number.is_empty())
    }

    fn position(record: &KinesisEventRecord, order: RecordOrder) -> Position {
        // Lambda sends the records of one shard at a time. An event made by hand can have several shards: each has a checkpoint.
        let stream = record.event_source_arn.as_deref().unwrap_or_default();
        let id = record.event_id.as_deref().unwrap_or_default();
        let shard = id.rsplit_once(':').map_or("", |(shard, _)| shard);
        let group = match order {
            RecordOrder::Source => String::new(),
            RecordOrder::PartitionKey => record.kinesis.partition_key.clone(),
        };
        Position {
            lane: Some(format!("{stream} {shard}")),
            group: Some(group),
        }
    }

    fn id(record: &KinesisEventRecord) -> Option<String> {
        // The stream is a part of it, because two streams have shards of one name.
        let id = record.event_id.as_deref().filter(|id| !id.is_empty())?;
        let stream = record.event_source_arn.as_deref();
        serde_json::to_string(&(stream, id)).ok()
    }

    fn document(record: &KinesisEventRecord) -> Result<String, Undecodable> {
        let document = Document {
            event_id: record.event_id.as_deref(),
            event_source_arn: record.event_source_arn.as_deref(),
            kinesis: Inner {
                partition_key: &record.kinesis.partition_key,
                sequence_number: &record.kinesis.sequence_number,
                data: record.kinesis.data.as_slice().into(),
            },
        };
        serde_json::to_string(&document)
            .map_err(|_| Undecodable::new("cannot be written as a part of the record"))
    }

    fn response(returned: Vec<String>) -> KinesisEventResponse {
        let mut response = KinesisEventResponse::default();
        response.set_failures(returned);
        response
    }
}

/// A record as an expression sees it.
#[derive(serde::Serialize)]
struct Document<'a> {
    #[serde(rename = "eventID")]
    event_id: Option<&'a str>,
    #[serde(rename = "eventSourceARN")]
    event_source_arn: Option<&'a str>,
    kinesis: Inner<'a>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Inner<'a> {
    partition_key: &'a str,
    sequence_number: &'a str,
    data: BodyOrText<'a>,
}

#[diagnostic::do_not_recommend]
impl<T: Body> FromRecord<KinesisEvent> for T {
    fn from_record(record: KinesisEventRecord) -> Result<Self, Undecodable> {
        T::decode(&record.kinesis.data)
    }

    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error> {
        IdentifiedCall::new(operation, self, deadline)
    }
}

impl<T: Body> FromRecord<KinesisEvent> for DataRecord<T> {
    fn from_record(record: KinesisEventRecord) -> Result<Self, Undecodable> {
        Ok(Self {
            body: T::decode(&record.kinesis.data)?,
            record,
        })
    }

    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error> {
        IdentifiedCall::new(operation, &self.body, deadline)
    }
}
