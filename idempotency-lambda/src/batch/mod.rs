//! Batches: each record of an event is a call of its own, and only what is not done is delivered again.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | the settings of a batch, and its entry points |
//! | `source` | SQS, Kinesis and DynamoDB streams: how a record is named, ordered and read |
//! | `body` | the body of a record as a type |
//! | `run` | starts the records and makes the response |
//! | `plan` | the order of the records, and which are returned |
//! | `duplicates` | records of one batch with one key |
//! | `reserve` | whether a record can still start before the deadline |
//! | `verdict` | which records are acknowledged |
//! | `report` | what is logged |
//! | `catch` | a panic of one record's handler |
//! | `attribute` | what the code of `#[idempotent(sqs, ..)]` calls |
//!
//! # Examples
//!
//! ```
//! use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
//! use idempotency_lambda::{BoxError, LambdaEvent, Operation, batch};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     order_id: String,
//! }
//!
//! async fn handler(reserve: &Operation, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, BoxError> {
//!     Ok(batch::sqs(event, reserve, |order: Order| async move {
//!         Ok::<_, BoxError>(format!("reserved {}", order.order_id))
//!     })
//!     .await?)
//! }
//! # use idempotency_lambda::{Context, MemoryStore};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! # let reserve = Operation::builder("orders::reserve").key("order_id").store(Arc::new(MemoryStore::new())).build()?;
//! # let event: SqsEvent = serde_json::from_value(serde_json::json!({"Records": [
//! #     {"messageId": "m-1", "body": "{\"order_id\": \"o-1\"}"}, {"messageId": "m-2", "body": "no order"}
//! # ]}))?;
//! # let response = handler(&reserve, LambdaEvent::new(event, Context::default())).await?;
//! # assert_eq!(response.batch_item_failures[0].item_identifier, "m-2");
//! # assert_eq!(response.batch_item_failures.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The event source mapping needs `FunctionResponseTypes: [ReportBatchItemFailures]`. Without it Lambda takes any response as
//! success, and **deletes the messages that failed**. `docs/guide/batches.md` of the repository has the rest.

#[doc(hidden)]
#[allow(missing_docs)]
pub mod attribute;
mod body;
mod catch;
mod duplicates;
mod plan;
mod report;
mod reserve;
mod run;
mod settings;
mod source;
mod verdict;

pub use body::{Body, RawBody, Undecodable};
pub use settings::{Batch, KeyFrom, RecordOrder};
pub use source::{
    DataRecord, DynamoDbStream, EventSource, FromRecord, ItemChange, Kinesis, Message, Sqs,
};
pub(crate) use verdict::Named;

use std::future::Future;

use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_lambda_events::streams::{DynamoDbEventResponse, KinesisEventResponse};
use idempotency_core::error::Error;
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BoxError;
use crate::operation::Operation;

macro_rules! entry_points {
    ($($(#[$doc:meta])* $name:ident($source:ty, $event:ty) -> $response:ty;)+) => {
        $(
            $(#[$doc])*
            ///
            /// It has the default settings; [`Batch`] has others.
            ///
            /// # Errors
            ///
            /// If the batch cannot be handled at all: a record could not be named in the response, or the operation's settings
            /// do not fit a batch. No handler has run. Lambda then delivers the whole batch again.
            pub fn $name<A, R, E, F, Fut>(
                event: LambdaEvent<$event>,
                operation: &Operation,
                handler: F,
            ) -> impl Future<Output = Result<$response, Error>> + use<A, R, E, F, Fut>
            where
                A: FromRecord<$source>,
                R: Serialize + DeserializeOwned,
                E: Into<BoxError>,
                F: Fn(A) -> Fut,
                Fut: Future<Output = Result<R, E>>,
            {
                Batch::new(operation).$name(event, handler)
            }
        )+
    };
}

entry_points! {
    /// Runs `handler` for each message of an SQS event, and returns the partial batch response.
    ///
    /// The handler takes the body as a type, or a [`Message`]. Without a `key` expression, the key is the `messageId`.
    sqs(Sqs, SqsEvent) -> SqsBatchResponse;
    /// Runs `handler` for each record of a Kinesis event, and returns the partial batch response.
    ///
    /// The handler takes the data as a type, or a [`DataRecord`]. Without a `key` expression, the key is the stream's ARN and the
    /// `eventID`, which is the shard and the sequence number.
    kinesis(Kinesis, KinesisEvent) -> KinesisEventResponse;
    /// Runs `handler` for each change of a DynamoDB stream's event, and returns the partial batch response.
    ///
    /// The handler takes an [`ItemChange`]. Without a `key` expression, the key is the `eventID`.
    dynamodb_stream(DynamoDbStream, DynamoDbEvent) -> DynamoDbEventResponse;
}
