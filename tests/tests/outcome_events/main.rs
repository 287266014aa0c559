//! The outcome event and the span as an interface (`docs/reference/events.md`): their exact fields for each call, and what they
//! never contain.
#![allow(clippy::unwrap_used)]

mod batch;
mod ends;
mod foreign;
mod lookup;
mod observers;
mod recorder;
mod spans;
mod staged;
mod store_failures;

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

/// Makes a call and returns its only event as a line, with `{key}` in place of the key.
async fn line_of<R>(call: impl Future<Output = Result<Outcome<R>, BoxError>>) -> String {
    let lines = recorded(async {
        // Other tests check the result.
        let _given = call.await;
    })
    .await;
    let [line] = &lines[..] else {
        panic!("a call emits one event, and not {lines:#?}");
    };
    let line = line.strip_suffix(' ').unwrap_or(line);
    assert!(!line.contains("s3cr3t"), "{line}");
    line.replace(KEY, "{key}")
}

/// As [`line_of`], for a call of [`order`] with the default handler.
async fn line_of_a_call(harness: &Harness, operation: &Operation) -> String {
    line_of(harness.call(operation, order())).await
}

/// Returns a line: the part that all events share, and the rest.
fn event(level: &str, rest: &str) -> String {
    format!("{level} idempotency idempotent call: operation=local.shop.charge {rest}")
}
