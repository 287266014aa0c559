//! The set-up of these tests: the sources, an operation, a handler that follows a script, and the reading of a response.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::SqsEvent;
use idempotency_core::time::Clock as _;
use idempotency_lambda::batch::{Batch, ItemChange, RecordOrder};
use idempotency_lambda::{
    BoxError, Context, Error, LambdaEvent, Operation, OperationBuilder, Variables,
};
use idempotency_testkit::events::{self, AwsBatch, AwsRecord};
use idempotency_tests::Harness;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The time that is left of an invocation, if it does not matter.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What a batch comes from, and which order it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A standard queue.
    Standard,
    /// A FIFO queue.
    Fifo,
    /// A shard of Kinesis.
    Shard,
    /// A shard whose partition keys run beside each other.
    PartitionKey,
    /// A stream of DynamoDB. Each record inserts an item.
    Changes,
}

impl Source {
    pub(crate) const ALL: [Self; 5] = [
        Self::Standard,
        Self::Fifo,
        Self::Shard,
        Self::PartitionKey,
        Self::Changes,
    ];

    /// Returns the event of these records: the group of each, and its order, or a body that is no order. A message's id holds its place.
    pub(crate) fn event(self, records: &[(String, Result<String, Vec<u8>>)]) -> AwsBatch {
        let with_group = |(group, order): &(String, Result<String, Vec<u8>>)| {
            let record = match order {
                Ok(id) => AwsRecord::json(&order_of(id)),
                Err(body) => AwsRecord::new(body.clone()),
            };
            record.group(group)
        };
        let messages = records.iter().map(with_group).enumerate();
        let messages = messages.map(|(at, message)| message.id(format!("m-{at}")));
        match self {
            Self::Standard => events::sqs("orders").records(messages),
            Self::Fifo => events::sqs("orders.fifo").records(messages),
            Self::Shard | Self::PartitionKey => {
                events::kinesis("ledger").records(records.iter().map(with_group))
            }
            Self::Changes => {
                let stream = events::dynamodb_stream("orders");
                records.iter().fold(stream, |batch, (group, order)| {
                    let image = match order {
                        Ok(id) => order_of(id),
                        Err(_) => json!({ "order_id": group, "amount": "many" }),
                    };
                    let key = json!({ "order_id": image["order_id"] });
                    batch.change(&key, None, Some(&image))
                })
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) amount: f64,
}

/// What the handler does with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Returns `Ok`.
    Succeed,
    /// Returns an error whose text quotes the body.
    Fail,
    /// Panics.
    Panic,
    /// Takes this long by the clock of the test, and returns `Ok`.
    Take(Duration),
    /// As `Take`, and returns an error.
    TakeAndFail(Duration),
    /// Yields once, so that other records run beside it.
    Yield,
}

/// A handler that does what the script says, and notes which orders it ran.
#[derive(Default)]
pub(crate) struct Shop {
    pub(crate) harness: Harness,
    script: Mutex<BTreeMap<String, Does>>,
    runs: Mutex<Vec<String>>,
    /// The number of handlers that run now, and the most that ran at once.
    inside: Mutex<(usize, usize)>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a shop whose clock moves when a call waits.
    pub(crate) fn with_passing_time() -> Self {
        Self {
            harness: Harness::advancing(),
            ..Self::default()
        }
    }

    /// Sets what the handler does with this order. Without it the handler returns `Ok`.
    pub(crate) fn set(&self, order: &str, does: Does) {
        lock(&self.script).insert(order.to_owned(), does);
    }

    /// Handles one order.
    pub(crate) async fn handle(&self, order: String) -> Result<String, BoxError> {
        let does = lock(&self.script).get(&order).copied();
        lock(&self.runs).push(order.clone());
        {
            let mut inside = lock(&self.inside);
            inside.0 += 1;
            inside.1 = inside.1.max(inside.0);
        }
        let does = does.unwrap_or(Does::Succeed);
        match does {
            Does::Succeed | Does::Fail => {}
            Does::Panic => {
                lock(&self.inside).0 -= 1;
                panic!("the handler of {order} panics")
            }
            Does::Take(time) | Does::TakeAndFail(time) => self.harness.clock.advance(time),
            Does::Yield => tokio::task::yield_now().await,
        }
        lock(&self.inside).0 -= 1;
        match does {
            Does::Fail | Does::TakeAndFail(_) => Err(format!("s3cr3t {order}").into()),
            _ => Ok(order),
        }
    }

    /// Returns the orders that ran since the last call, in order.
    pub(crate) fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.runs))
    }

    /// Returns the most handlers that ran beside each other.
    pub(crate) fn most_at_once(&self) -> usize {
        lock(&self.inside).1
    }

    /// Returns an event of an invocation that has this much time left.
    pub(crate) fn event<T>(&self, payload: T, left: Duration) -> LambdaEvent<T> {
        let mut context = Context::default();
        context.request_id = "r-1".to_owned();
        let end = self.harness.clock.now().plus(left);
        context.deadline = u64::try_from(end.get()).unwrap();
        LambdaEvent::new(payload, context)
    }

    /// Returns the event of an invocation that has a minute left, as its handler gets it.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, event: &AwsBatch) -> LambdaEvent<T> {
        self.event(event.parse().unwrap(), MINUTE)
    }

    /// Gives an event to a batch. Returns the identifiers in the response.
    pub(crate) async fn deliver(
        &self,
        source: Source,
        batch: &Batch,
        event: &AwsBatch,
        left: Duration,
    ) -> Result<Vec<String>, Error> {
        let (batch, handler) = (batch.clone(), |order: Order| self.handle(order.order_id));
        macro_rules! run {
            ($batch:expr, $event:ty, $handler:expr) => {{
                let event = self.event(event.parse::<$event>().unwrap(), left);
                let response = self.harness.within($batch.run(event, $handler)).await?;
                serde_json::to_value(response)
            }};
        }
        let response = match source {
            Source::Standard | Source::Fifo => run!(batch, SqsEvent, handler),
            Source::Shard => run!(batch, KinesisEvent, handler),
            Source::PartitionKey => {
                let batch = batch.order(RecordOrder::PartitionKey);
                run!(batch, KinesisEvent, handler)
            }
            Source::Changes => run!(batch, DynamoDbEvent, |change: ItemChange<Order>| {
                self.handle(change.new.unwrap().order_id)
            }),
        };
        Ok(named(&response.unwrap()))
    }

    /// Gives messages of a standard queue to an operation. Returns the identifiers in the response.
    pub(crate) async fn queue(&self, operation: &Operation, event: &AwsBatch) -> Vec<String> {
        let batch = Batch::new(operation);
        let delivered = self.deliver(Source::Standard, &batch, event, MINUTE);
        delivered.await.unwrap()
    }

    /// Gives records that are written as a text to a batch. Returns those that the response names and the orders that ran.
    ///
    /// A record is its group, a colon and its order; or its order, whose first letter is its group; or its group, `?` and a body that
    /// is no order. Behind the order is what the handler does: `!` fails, `*` panics, `~` yields, `+` takes 10 s.
    pub(crate) async fn deliver_text(
        &self,
        source: Source,
        batch: &Batch,
        records: &str,
        left: Duration,
    ) -> (String, String) {
        let texts: Vec<_> = records.split_whitespace().collect();
        let read = |text: &&str| {
            if let Some((group, body)) = text.split_once('?') {
                return (group.to_owned(), Err(body.as_bytes().to_vec()));
            }
            let record = text.trim_end_matches(MARKS);
            let (group, order) = record.split_once(':').unwrap_or((&record[..1], record));
            let does = match &text[record.len()..] {
                "!" => Does::Fail,
                "*" => Does::Panic,
                "~" => Does::Yield,
                "+" => Does::Take(Duration::from_secs(10)),
                _ => Does::Succeed,
            };
            self.set(order, does);
            (group.to_owned(), Ok(order.to_owned()))
        };
        let event = source.event(&texts.iter().map(read).collect::<Vec<_>>());
        let returned = self.deliver(source, batch, &event, left).await.unwrap();
        let ids = event.ids();
        let text = |id: &String| {
            let at = ids.iter().position(|known| known == id).unwrap();
            texts[at].trim_end_matches(MARKS)
        };
        let returned: Vec<_> = returned.iter().map(text).collect();
        (returned.join(" "), self.ran().join(" "))
    }

    /// Returns an operation with the key `order_id`.
    pub(crate) fn operation(&self, name: &str) -> Operation {
        builder(name).key("order_id").build().unwrap()
    }
}

/// The marks behind an order in a text.
pub(crate) const MARKS: [char; 4] = ['!', '*', '~', '+'];

/// Starts an operation that reads no variable. The operations of a test's rows share its name.
pub(crate) fn builder(name: &str) -> OperationBuilder {
    Operation::builder(name)
        .key_prefix(name)
        .shared_key_prefix(true)
        .variables(Variables::default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the body of an order.
pub(crate) fn order_of(id: &str) -> Value {
    json!({ "order_id": id, "amount": 1 })
}

/// Returns an event of a standard queue with one message for each order. The id of the message is `m-` and the order.
pub(crate) fn queue(orders: &[&str]) -> AwsBatch {
    let messages = orders
        .iter()
        .map(|id| AwsRecord::json(&order_of(id)).id(format!("m-{id}")));
    events::sqs("orders").records(messages)
}

/// Returns the identifiers that a partial batch response names.
pub(crate) fn named(response: &impl Serialize) -> Vec<String> {
    let response = serde_json::to_value(response).unwrap();
    let failures = response["batchItemFailures"].as_array().unwrap();
    failures
        .iter()
        .map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
        .collect()
}
