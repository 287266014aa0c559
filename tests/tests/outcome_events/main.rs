//! The outcome event as an interface (`docs/reference/events.md`): what a `tracing` subscriber is told of each call, word for word,
//! and what it is never told.
#![allow(clippy::unwrap_used)]

mod ends;
mod foreign;
mod recorder;

use idempotency_lambda::{BoxError, Operation, OperationBuilder, Outcome};
use idempotency_tests::{Harness, operation};
use recorder::recorded;
use serde_json::{Value, json};

/// The key of an order with the number 1.
const KEY: &str = "local.shop.charge#c4ca4238a0b923820dcc509a6f75849b";

fn builder() -> OperationBuilder {
    operation().key("order_id")
}

fn charge() -> Operation {
    builder().build().unwrap()
}

fn order() -> Value {
    json!({ "order_id": 1, "card": "s3cr3t" })
}

/// Returns the one line that a call leaves behind, with `{key}` in place of the key.
async fn line_of<R>(call: impl Future<Output = Result<Outcome<R>, BoxError>>) -> String {
    let lines = recorded(async {
        // What the caller is given is tested elsewhere.
        let _given = call.await;
    })
    .await;
    let [line] = &lines[..] else {
        panic!("a call is told in one event, and not in {lines:#?}");
    };
    let told = line.strip_suffix(' ').unwrap_or(line);
    assert!(!told.contains("s3cr3t"), "{told}");
    told.replace(KEY, "{key}")
}

/// As [`line_of`], for a call of [`order`] whose handler has nothing special to do.
async fn line_of_a_call(harness: &Harness, operation: &Operation) -> String {
    line_of(harness.call(operation, order())).await
}

/// What each line begins with, up to the outcome.
fn told(level: &str, rest: &str) -> String {
    format!("{level} idempotency idempotent call: operation=local.shop.charge {rest}")
}
