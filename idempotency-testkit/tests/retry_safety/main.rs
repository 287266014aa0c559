//! `retry_safety` on functions that are unsafe in many ways, and on safe ones beside them.
#![allow(clippy::unwrap_used)]

mod bank;
mod http;
mod known;
mod misuse;
mod steps;
mod tools;

use std::future::Future;

use idempotency_lambda::{BoxError, Deadline, Operation, OperationBuilder, Outcome, Variables};
use idempotency_testkit::retry_safety::{FaultKind, Row, SafetyReport, SafetyVerdict};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Returns the event of the order `o-1`.
fn order() -> Value {
    json!({ "order_id": "o-1", "amount": 100 })
}

/// Returns the operation of this name. Each process makes it again.
fn operation(name: &str) -> OperationBuilder {
    Operation::builder(name)
        .variables(Variables::default())
        .key_prefix(name)
        .key("order_id")
        .validate("amount")
}

/// Runs a handler under the operation of this name.
async fn protected<R, F>(
    name: &str,
    event: &Value,
    handler: impl FnOnce() -> F,
) -> Result<R, BoxError>
where
    R: Serialize + DeserializeOwned,
    F: Future<Output = Result<R, BoxError>>,
{
    let operation = operation(name).build()?;
    let outcome = operation.run(event, Deadline::Inherited, handler).await?;
    Ok(Outcome::into_response(outcome))
}

/// Fails unless a fault at a request that begins with `point` has this verdict, and unless that is the worst of the report.
#[track_caller]
fn assert_found(report: &SafetyReport, point: &str, fault: FaultKind, verdict: SafetyVerdict) {
    assert_eq!(report.failure(), None);
    let is_case = |row: &&Row| row.point.starts_with(point) && row.fault == Some(fault);
    let found = report.rows().iter().find(is_case);
    let found = found.map(|row| row.verdict);
    assert_eq!(found, Some(verdict), "{point}, {fault}\n\n{report}");
    assert_eq!(report.unsafe_rows()[0].verdict, verdict, "{report}");
}
