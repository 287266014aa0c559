//! `retry_safety` on functions that are unsafe in many ways, and on safe ones beside them.

mod corpus;
mod http;
mod known;
mod misuse;
mod tools;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use idempotency_lambda::{
    BoxError, Call, Deadline, Operation, OperationBuilder, Outcome, Variables,
};
use idempotency_testkit::retry_safety::{
    Mutex, RetrySafety, Row, SafetyReport, SafetyVerdict, World, retry_safety,
};
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

/// Checks what a handler does with an event in this operation.
fn in_operation(
    event: Value,
    operation: impl Fn() -> OperationBuilder + Send + Sync + 'static,
    handler: impl AsyncFn(&World, &Value, Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    retry_safety(event, async move |world: World, event: Value| {
        let operation = operation().build()?;
        let run = async |call| handler(&world, &event, call).await;
        let outcome = operation.run(&event, Deadline::Inherited, run);
        Ok::<_, BoxError>(outcome.await?.into_response())
    })
}

/// Faults, as a report names them.
mod fault {
    pub(super) const CRASH_AFTER: &str = "crash after";
    pub(super) const CRASH_BEFORE: &str = "crash before";
    pub(super) const DUPLICATE: &str = "duplicate";
    pub(super) const LOST_REPLY: &str = "lost reply";
    pub(super) const NO_REPLY: &str = "no reply";
    pub(super) const OUTAGE: &str = "outage";
    pub(super) const PARTIAL: &str = "partial";
    pub(super) const REFUSED: &str = "refused";
    pub(super) const TAKEOVER: &str = "takeover";
}

/// Fails unless a fault at a request that begins with `point` has this verdict, and unless that is the worst of the report.
#[track_caller]
fn assert_found(report: &SafetyReport, point: &str, fault: &str, verdict: SafetyVerdict) {
    assert_eq!(report.failure(), None);
    let is_case = |row: &&Row| row.point.starts_with(point) && row.fault == Some(fault);
    let found = report.rows().iter().find(is_case);
    let found = found.map(|row| row.verdict);
    assert_eq!(found, Some(verdict), "{point}, {fault}\n\n{report}");
    assert_eq!(report.unsafe_rows()[0].verdict, verdict, "{report}");
}

/// A bank. It charges on each request, unless the request has the token of an earlier one.
#[derive(Default)]
struct Bank(Mutex<Charges>);

#[derive(Default)]
struct Charges {
    count: usize,
    by_token: BTreeMap<String, usize>,
}

impl Bank {
    /// Charges, and returns the number of the charge.
    fn charge(&self, token: Option<&str>) -> usize {
        let mut charges = self.0.lock().unwrap();
        if let Some(known) = token.and_then(|token| charges.by_token.get(token)) {
            return *known;
        }
        charges.count += 1;
        let number = charges.count;
        if let Some(token) = token {
            charges.by_token.insert(token.to_owned(), number);
        }
        number
    }

    /// Charges in 40 ms.
    async fn charge_slowly(&self, token: Option<&str>) -> usize {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let number = self.charge(token);
        tokio::time::sleep(Duration::from_millis(20)).await;
        number
    }
}

/// Counts the charges of a world.
async fn charges(world: World) -> usize {
    world.fake::<Bank>().0.lock().unwrap().count
}

/// The mails that were sent.
#[derive(Default)]
struct Outbox(Mutex<usize>);

impl Outbox {
    fn send(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

/// Counts the mails of a world.
async fn mails(world: World) -> usize {
    *world.fake::<Outbox>().0.lock().unwrap()
}

/// What the function notes for itself.
#[derive(Default)]
struct Marks(Mutex<BTreeSet<String>>);

impl Marks {
    /// Marks this. Returns true if it was not marked before.
    fn mark(&self, name: &str) -> bool {
        self.0.lock().unwrap().insert(name.to_owned())
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains(name)
    }
}
