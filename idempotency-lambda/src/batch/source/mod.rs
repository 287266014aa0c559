//! The sources of batches. Each says how a record is named, ordered and read; it decides nothing.

mod dynamodb;
mod kinesis;
mod sqs;

pub use dynamodb::ItemChange;
pub use kinesis::DataRecord;
pub use sqs::Message;

use idempotency_core::error::Error;

use super::body::Undecodable;
use super::plan::Position;
use super::settings::RecordOrder;
use crate::invocation::Deadline;
use crate::operation::{IdentifiedCall, Operation};

/// The event of a source of batches. It is implemented by the `SqsEvent`, the `KinesisEvent` and the `dynamodb::Event` of
/// `aws_lambda_events` alone.
pub trait EventSource: Spec {}

/// The hidden part of [`EventSource`].
#[doc(hidden)]
#[allow(missing_docs)]
pub trait Spec: Sized + 'static {
    /// One record of the event.
    type Record;
    /// The partial batch response.
    type Response;

    /// The name of the source, for events.
    const NAME: &'static str;

    /// The name of the field that a partial batch response names a record by.
    const IDENTIFIER: &'static str;

    /// The name of the field that has the id of a record.
    const ID: &'static str;

    /// True if a record whose key is in progress waits by default. A stream delivers a returned record again at once, so its few
    /// retries would be used up before the lease of a killed run ends.
    const WAITS: bool;

    fn records(self) -> Vec<Self::Record>;

    /// Returns what a partial batch response names this record by.
    fn identifier(record: &Self::Record) -> Option<&str>;

    /// Returns the order that the source promises for this record, or that was asked for.
    fn position(record: &Self::Record, order: RecordOrder) -> Position;

    /// Returns the record's own id as JSON text, for its key.
    fn id(record: &Self::Record) -> Option<String>;

    /// Returns the record as JSON text, with its body as JSON.
    fn document(record: &Self::Record) -> Result<String, Undecodable>;

    /// Returns the partial batch response that names these records.
    fn response(returned: Vec<String>) -> Self::Response;
}

/// What a handler of one record can take.
///
/// A handler of SQS or Kinesis takes the body as a type ([`Body`](super::Body)), or the whole record: [`Message`] or
/// [`DataRecord`]. A handler of a DynamoDB stream takes an [`ItemChange`].
#[diagnostic::on_unimplemented(
    message = "a record of this source cannot be read as `{Self}`",
    label = "a handler of one record cannot take this type",
    note = "for SQS and Kinesis, derive `serde::Serialize` and `serde::Deserialize`: the key is taken from the body as JSON; or take `RawBody`, or implement `batch::Body`",
    note = "the whole record is a `batch::Message<T>` (SQS) or a `batch::DataRecord<T>` (Kinesis); a DynamoDB stream has `batch::ItemChange<T>`",
    note = "a `Call` comes after the record, under its own name: `call: Call`"
)]
pub trait FromRecord<S: EventSource>: Sized {
    /// Reads the record.
    #[doc(hidden)]
    fn from_record(record: S::Record) -> Result<Self, Undecodable>;

    /// Identifies the call of this record by its body.
    #[doc(hidden)]
    fn identify(&self, operation: &Operation, deadline: Deadline) -> Result<IdentifiedCall, Error>;
}
