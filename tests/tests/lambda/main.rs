//! The behaviour of protected functions: the attribute and `Operation`, on a store in memory and a manual clock.
#![allow(clippy::unwrap_used)]

mod attribute;
mod cache;
mod compatibility;
mod deploys;
mod error_reporting;
mod hazards;
mod lock_only;
mod lookup;
mod outcome_events;
mod partial_keys;
mod properties;
mod single_flight;
mod store_error;
mod types;
mod windows;

use idempotency_core::config::Variables;
use idempotency_core::record::{Record, RecordId};
use idempotency_lambda::{Context, LambdaEvent, Operation};
use idempotency_tests::{Harness, START, keyed};
use serde_json::{Value, json};

/// Returns an event of an invocation with 30 s left.
fn event(payload: Value) -> LambdaEvent<Value> {
    let mut context = Context::default();
    context.deadline = u64::try_from(START + 30_000).unwrap();
    LambdaEvent::new(payload, context)
}

/// Returns the only record in the harness's store.
fn only_record(harness: &Harness) -> (RecordId, Record) {
    let (id, _) = harness.puts().swap_remove(0);
    let record = harness.store.inner().record(&id).unwrap();
    (id, record)
}

/// Returns the operation of most tests: its key is `order_id`, and it has no other settings.
fn charge() -> Operation {
    keyed(|of| of)
}

fn order() -> Value {
    order_of(42)
}

/// Returns the same order with this amount.
fn order_of(amount: u32) -> Value {
    json!({ "order_id": 7, "amount": amount })
}

/// Returns the environment of a process in which this variable is set.
fn variable(name: &str, value: &str) -> Variables {
    Variables::from_iter([(name.to_owned(), value.to_owned())])
}

/// Lets the other futures of the task go on, so many times.
async fn let_others_run(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// A response that can be read but not written.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Unwritable;

impl serde::Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("s3cr3t"))
    }
}
