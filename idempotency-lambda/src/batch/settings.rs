//! A batch with its settings, and the function that it runs for each record.

use std::future::Future;
use std::time::Duration;

use idempotency_core::engine::Codec;
use idempotency_core::error::Error;
use idempotency_core::operation::Call;
use lambda_runtime::LambdaEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::run::{Function, Reader, run_batch};
use super::source::{EventSource, FromRecord};
use crate::diagnostic::{BoxError, named};
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

/// A batch of an operation, with its settings: how many records run at a time, in which order, and how much time is kept.
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
///     Ok(batch.run(event, |order: Order| async move { Ok::<_, BoxError>(()) }).await?)
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
    /// Runs `handler` for each record of an event, and returns the partial batch response.
    ///
    /// | event | the handler takes | the key without a `key` expression |
    /// |---|---|---|
    /// | `SqsEvent` | the body as a type, or a [`Message`](super::Message) | the `messageId` |
    /// | `KinesisEvent` | the data as a type, or a [`DataRecord`](super::DataRecord) | the stream's ARN and the `eventID`, which is the shard and the sequence number |
    /// | `dynamodb::Event` | an [`ItemChange`](super::ItemChange) | the `eventID` |
    ///
    /// # Errors
    ///
    /// If the batch cannot be handled at all: a record could not be named in the response, or the operation's settings do not fit a
    /// batch. No handler has run. Lambda then delivers the whole batch again.
    pub fn run<S, A, M, R, E, H>(
        self,
        event: LambdaEvent<S>,
        handler: H,
    ) -> impl Future<Output = Result<S::Response, Error>> + use<S, A, M, R, E, H>
    where
        S: EventSource,
        A: FromRecord<S>,
        R: Serialize + DeserializeOwned,
        E: Into<BoxError>,
        H: RecordHandler<A, M, Future: Future<Output = Result<R, E>>>,
    {
        let function = Function {
            codec: Codec::json(),
            handler: move |record, call| handler.start(record, call),
            named,
        };
        run_batch(self, event, Reader::new(), function)
    }
}

/// A function that runs for each record of a batch. It takes the record `A`, and then its [`Call`] if it asks for it.
///
/// It is implemented for every `Fn(A) -> Fut` and `Fn(A, Call) -> Fut` with a future. `Asks` is what it asks for: `()` or `Call`. The
/// compiler finds it. The parameters of a closure need their types: `|order: Order, call: Call| ..`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function that a batch can run for each record",
    label = "write `async |record: T| ..`, or `async |record: T, call: Call| ..` if it asks for its call",
    note = "it takes a record and nothing more or an `idempotency_lambda::Call`, and returns a future"
)]
pub trait RecordHandler<A, Asks> {
    /// The future of one run.
    type Future: Future;

    /// Starts the run for one record.
    #[doc(hidden)]
    fn start(&self, record: A, call: Call) -> Self::Future;
}

impl<F, A, Fut> RecordHandler<A, ()> for F
where
    F: Fn(A) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, _: Call) -> Fut {
        self(record)
    }
}

impl<F, A, Fut> RecordHandler<A, Call> for F
where
    F: Fn(A, Call) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, call: Call) -> Fut {
        self(record, call)
    }
}
