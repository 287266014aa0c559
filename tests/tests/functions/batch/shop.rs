//! The set-up of these tests: an operation, a handler that follows a script, and the reading of a response.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use idempotency_core::time::Clock as _;
use idempotency_lambda::{BoxError, Context, LambdaEvent, Operation, OperationBuilder, Variables};
use idempotency_testkit::{ManualClock, events};
use idempotency_tests::{Harness, START};
use serde::Serialize;
use serde_json::{Value, json};

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
pub(crate) struct Shop {
    pub(crate) harness: Harness,
    script: Mutex<BTreeMap<String, Does>>,
    runs: Mutex<Vec<String>>,
    inside: Mutex<(usize, usize)>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::over(Harness::default())
    }

    /// Returns a shop whose clock moves when a call waits.
    pub(crate) fn with_passing_time() -> Self {
        Self::over(Harness::with_clock(ManualClock::auto_advancing(START)))
    }

    fn over(harness: Harness) -> Self {
        Self {
            harness,
            script: Mutex::default(),
            runs: Mutex::default(),
            inside: Mutex::default(),
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
        let result = match does.unwrap_or(Does::Succeed) {
            Does::Succeed => Ok(order),
            Does::Fail => Err(format!("s3cr3t {order}").into()),
            Does::Panic => {
                lock(&self.inside).0 -= 1;
                panic!("the handler of {order} panics")
            }
            Does::Take(time) => {
                self.harness.clock.advance(time);
                Ok(order)
            }
            Does::TakeAndFail(time) => {
                self.harness.clock.advance(time);
                Err(format!("s3cr3t {order}").into())
            }
            Does::Yield => {
                tokio::task::yield_now().await;
                Ok(order)
            }
        };
        lock(&self.inside).0 -= 1;
        result
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

    /// Returns an operation with the key `order_id`.
    pub(crate) fn operation(&self, name: &str) -> Operation {
        builder(name).key("order_id").build().unwrap()
    }
}

/// Starts an operation that reads no variable.
pub(crate) fn builder(name: &str) -> OperationBuilder {
    Operation::builder(name)
        .key_prefix(name)
        .variables(Variables::default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the body of an order.
pub(crate) fn order(id: &str) -> Value {
    json!({ "order_id": id, "amount": 1 })
}

/// Returns an event of a standard queue with one message for each order. The id of the message is `m-` and the order.
pub(crate) fn queue(orders: &[&str]) -> SqsEvent {
    let messages = orders
        .iter()
        .map(|id| events::AwsRecord::json(&order(id)).id(format!("m-{id}")));
    events::sqs("orders").records(messages).parse().unwrap()
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
