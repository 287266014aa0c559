//! The settings of a batch.

use std::future::Future;
use std::time::Duration;

use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_lambda_events::streams::{DynamoDbEventResponse, KinesisEventResponse};
use idempotency_core::engine::Codec;
use idempotency_core::error::Error;
use idempotency_core::operation::{Call, OfferedCall};
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::run::{Function, Reader, run_batch};
use super::source::{DynamoDbStream, FromRecord, Kinesis, Sqs};
use crate::BoxError;
use crate::diagnostic::named;
use crate::operation::Operation;

/// What the `key` and `validate` expressions of a batch's operation see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFrom {
    /// The body, as the attribute sees the payload of an event: the same expression makes the same stored record.
    #[default]
    Body,
    /// The whole record with its body as JSON, or as text if it is not JSON. So a key can hold an attribute of the message.
    Record,
}

/// Which records wait for one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordOrder {
    /// The order that the source promises: of a message group (SQS FIFO), of a shard (streams). None for a standard queue.
    #[default]
    Source,
    /// The order of one partition key (Kinesis) or of one item (DynamoDB stream). Records of other keys run beside it, if
    /// `concurrency` allows it. It changes nothing for SQS.
    PartitionKey,
}

/// The settings of a batch: how many records run at a time, in which order, and how much time is kept.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::batch::Batch;
/// # use idempotency_lambda::{BoxError, Context, LambdaEvent, MemoryStore, Operation};
/// # use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
/// # use std::sync::Arc;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Order;
///
/// async fn handler(reserve: &Operation, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, BoxError> {
///     let batch = Batch::new(reserve).concurrency(4);
///     Ok(batch.sqs(event, |order: Order| async move { Ok::<_, BoxError>(()) }).await?)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let reserve = Operation::builder("orders::reserve").store(Arc::new(MemoryStore::new())).build()?;
/// # let event = LambdaEvent::new(SqsEvent::default(), Context::default());
/// # assert!(handler(&reserve, event).await?.batch_item_failures.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a batch does nothing until it gets an event"]
pub struct Batch {
    pub(super) operation: Operation,
    pub(super) concurrency: Option<usize>,
    pub(super) reserve: Option<Duration>,
    pub(super) order: RecordOrder,
    pub(super) key_from: KeyFrom,
    pub(super) log_errors: bool,
}

impl Batch {
    /// Returns the default settings for the records of this operation.
    pub fn new(operation: &Operation) -> Self {
        Self {
            operation: operation.clone(),
            concurrency: None,
            reserve: None,
            order: RecordOrder::default(),
            key_from: KeyFrom::default(),
            log_errors: false,
        }
    }

    /// Sets how many records run at a time. The default is 1 if the source has an order, and 10 for a standard queue. 0 counts
    /// as 1.
    ///
    /// Records of one group never run beside each other.
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = Some(records.max(1));
        self
    }

    /// Sets how much time is kept for the rest of the invocation. The default is 1 s, but at most a tenth of the time that is
    /// left when the batch starts.
    ///
    /// A handler starts only if this time and the longest time of a handler before it in this batch are left. The other records
    /// are returned without a run.
    pub fn reserve(mut self, time: Duration) -> Self {
        self.reserve = Some(time);
        self
    }

    /// Sets which records wait for one another.
    pub fn order(mut self, order: RecordOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets what the operation's `key` and `validate` see.
    pub fn key_from(mut self, key_from: KeyFrom) -> Self {
        self.key_from = key_from;
        self
    }

    /// Sets whether the log has the texts of a handler's error and its causes, beside the name of its type. The default is false.
    ///
    /// Such a text may quote the body of its record.
    pub fn log_errors(mut self, log_errors: bool) -> Self {
        self.log_errors = log_errors;
        self
    }
}

macro_rules! sources {
    ($($(#[$doc:meta])* $name:ident, $with_call:ident($source:ty, $event:ty) -> $response:ty;)+) => {
        impl Batch {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// If the batch cannot be handled at all: a record could not be named in the response, or the operation's
                /// settings do not fit a batch. No handler has run. Lambda then delivers the whole batch again.
                pub fn $name<A, R, E, F, Fut>(
                    self,
                    event: LambdaEvent<$event>,
                    handler: F,
                ) -> impl Future<Output = Result<$response, Error>> + use<A, R, E, F, Fut>
                where
                    A: FromRecord<$source>,
                    R: Serialize + DeserializeOwned,
                    E: Into<BoxError>,
                    F: Fn(A) -> Fut,
                    Fut: Future<Output = Result<R, E>>,
                {
                    let function = Function {
                        codec: Codec::json(),
                        ask: |_| (),
                        handler: move |record, ()| handler(record),
                        named,
                    };
                    run_batch::<$source, _, _, _, _, _, _>(self, event, Reader::new(), function)
                }

                #[doc = concat!("Does what [`", stringify!($name), "`](Self::", stringify!($name), ") does, and gives `handler` the [`Call`] of each record too.")]
                ///
                /// # Errors
                ///
                #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), ").")]
                pub fn $with_call<A, R, E, F, Fut>(
                    self,
                    event: LambdaEvent<$event>,
                    handler: F,
                ) -> impl Future<Output = Result<$response, Error>> + use<A, R, E, F, Fut>
                where
                    A: FromRecord<$source>,
                    R: Serialize + DeserializeOwned,
                    E: Into<BoxError>,
                    F: Fn(A, Call) -> Fut,
                    Fut: Future<Output = Result<R, E>>,
                {
                    let function = Function {
                        codec: Codec::json(),
                        ask: |offered: OfferedCall<'_>| offered.take(),
                        handler,
                        named,
                    };
                    run_batch::<$source, _, _, _, _, _, _>(self, event, Reader::new(), function)
                }
            )+
        }
    };
}

sources! {
    /// Runs `handler` for each message of an SQS event, and returns the partial batch response.
    sqs, sqs_with_call(Sqs, SqsEvent) -> SqsBatchResponse;
    /// Runs `handler` for each record of a Kinesis event, and returns the partial batch response.
    kinesis, kinesis_with_call(Kinesis, KinesisEvent) -> KinesisEventResponse;
    /// Runs `handler` for each change of a DynamoDB stream's event, and returns the partial batch response.
    dynamodb_stream, dynamodb_stream_with_call(DynamoDbStream, DynamoDbEvent) -> DynamoDbEventResponse;
}
