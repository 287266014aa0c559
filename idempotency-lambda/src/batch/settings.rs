//! A batch with its settings.

use std::time::Duration;

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
}
