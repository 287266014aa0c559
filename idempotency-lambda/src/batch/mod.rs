//! Batches: each record of an event is a call of its own, and only what is not done is delivered again.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | a batch with its settings |
//! | `handler` | the function that a batch runs for each record |
//! | `source` | SQS, Kinesis and DynamoDB streams: how a record is named, ordered and read |
//! | `body` | the body of a record as a type |
//! | `run` | starts the records and makes the response |
//! | `plan` | the order of the records, and which are returned |
//! | `duplicates` | records of one batch with one key |
//! | `reserve` | whether a record can still start before the deadline |
//! | `verdict` | which records are acknowledged |
//! | `report` | what is logged |
//!
//! # Examples
//!
//! ```
//! use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
//! use idempotency_lambda::batch::Batch;
//! use idempotency_lambda::{BoxError, LambdaEvent, Operation};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     order_id: String,
//! }
//!
//! async fn handler(reserve: &Operation, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, BoxError> {
//!     let response = Batch::new(reserve).run(event, |order: Order| async move {
//!         Ok::<_, BoxError>(format!("reserved {}", order.order_id))
//!     });
//!     Ok(response.await?)
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

mod body;
mod duplicates;
mod handler;
mod plan;
mod report;
mod reserve;
pub(crate) mod run;
mod settings;
pub(crate) mod source;
mod verdict;

pub use body::{Body, RawBody, Undecodable};
pub use handler::RecordHandler;
pub use settings::{Batch, KeyFrom, RecordOrder};
pub use source::{DataRecord, EventSource, FromRecord, ItemChange, Message};
pub(crate) use verdict::ErrorNaming;
