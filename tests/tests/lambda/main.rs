//! The behaviour of protected functions: the attribute and `Operation`, on a store in memory and a manual clock.
#![allow(clippy::unwrap_used)]

mod attribute;
mod cache;
mod compatibility;
mod deploys;
mod error_reporting;
mod hazards;
mod outcome_events;
mod partial_keys;
mod properties;
mod single_flight;
mod store_error;
mod types;

use idempotency_core::record::{Record, RecordId};
use idempotency_lambda::{Context, LambdaEvent};
use idempotency_tests::{Harness, START};
use serde_json::Value;

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
