//! `IdempotencyLayer`: a service of events among other tower layers, in a process that counts as a Lambda environment.

mod compose;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotency_lambda::{BoxError, Context, IdempotencyLayer, LambdaEvent, Operation};
use idempotency_tests::{Harness, START, operation};
use lambda_runtime::Service;
use serde_json::{Value, json};
use tower::ServiceBuilder;

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}

fn charge() -> Operation {
    let operation = operation().key("order_id").validate("amount");
    operation.build().unwrap()
}

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(charge())
}

/// Returns an event of an invocation with 30 s left.
fn event<T>(payload: T) -> LambdaEvent<T> {
    let mut context = Context::default();
    context.deadline = u64::try_from(START + 30_000).unwrap();
    LambdaEvent::new(payload, context)
}

fn order(amount: u32) -> LambdaEvent<Value> {
    event(json!({ "order_id": 7, "amount": amount }))
}

/// Counts the runs of a handler.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a service that returns the number of its run.
    fn service(
        &self,
    ) -> impl Service<LambdaEvent<Value>, Response = usize, Error = BoxError, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static {
        let runs = self.clone();
        ServiceBuilder::new().service_fn(move |_: LambdaEvent<Value>| {
            let run = runs.next();
            async move { Ok::<_, BoxError>(run) }
        })
    }
}
