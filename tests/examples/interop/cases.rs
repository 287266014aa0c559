//! Calls of Python and Rust with one key: one after the other, and both at once.

use idempotency_lambda::{
    BoxError, Context, ErrorKind, LambdaEvent, OnInProgress, idempotent, with_backend,
};
use idempotency_testkit::dynamodb::Fault;
use idempotency_tests::End;
use serde_json::{Value, json};

use crate::python::{Call, IN_PROGRESS, Python, Report};
use crate::rust::{Rust, charge};
use crate::{Harness, declined};

/// Python's exception for another payload.
const MISMATCH: &str = "IdempotencyValidationError";

/// Returns a response with everything that two JSON libraries could write differently.
fn receipt(by: &str) -> Value {
    json!({
        "by": by,
        "text": "Zürich \u{1F4B3} \"7\"\n/",
        "numbers": [1, -1, 1.5, 1e21, 12_345_678_901_234_567_890_u64],
        "nothing": null,
        "nested": { "b": [], "a": {} },
    })
}

pub(crate) async fn python_first(harness: &mut Harness) {
    let (order, response) = (harness.order(), receipt("Python"));
    harness.python.runs(&order, &response).await;
    harness.rust(charge()).replays(&order, &response).await;
}

pub(crate) async fn rust_first(harness: &mut Harness) {
    let (order, response) = (harness.order(), receipt("Rust"));
    harness.rust(charge()).runs(&order, &response).await;
    harness.python.replays(&order, &response).await;
}

#[idempotent(
    key = "[user_id, order_id]",
    validate = "amount",
    key_prefix = "shop.charge",
    shared_key_prefix = true
)]
async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "charged": event.payload["amount"] }))
}

pub(crate) async fn annotated(harness: &mut Harness) {
    let rust = harness.rust(charge());
    for python_is_first in [false, true] {
        let order = harness.order();
        let response = json!({ "charged": if python_is_first { 1 } else { 42 } });
        if python_is_first {
            harness.python.runs(&order, &response).await;
        }
        let event = LambdaEvent::new(order.clone(), Context::default());
        let given = with_backend(rust.backend.clone(), handler(event)).await;
        assert_eq!(given.unwrap(), response);
        harness.python.replays(&order, &response).await;
    }
}

/// Makes a call in Python whose handler returns this if it runs. Returns the result and whether the handler ran.
async fn call(python: &mut Python, order: &Value, response: &Value) -> (Report, bool) {
    match python.begin(order).await {
        Report::Running => {
            python.finishes(response).await;
            (Report::Returned(response.clone()), true)
        }
        ended => (ended, false),
    }
}

/// Holds both claims back until both are sent. Each of the two wins once.
pub(crate) async fn both_at_once(harness: &mut Harness) {
    for python_wins in [false, true] {
        let order = harness.order();
        let (by_python, by_rust) = (json!("Python"), json!("Rust"));
        let rust = harness.rust(charge());
        let from_python = harness.database.inject(Fault::on("PutItem").hold());
        let from_rust = harness.database.inject(Fault::on("PutItem").nth(2).hold());
        let (first, second) = match python_wins {
            true => (&from_python, &from_rust),
            false => (&from_rust, &from_python),
        };
        let rust_call = async {
            from_python.reached().await;
            rust.call_returning(&order, &by_rust).await
        };
        let release = async {
            from_rust.reached().await;
            first.release().await;
            second.release().await;
        };
        let python_call = call(&mut harness.python, &order, &by_python);
        let (said, ended, ()) = tokio::join!(python_call, rust_call, release);
        harness.database.clear_faults();
        // The slower one gets "in progress", or the response if it was stored by then.
        let (winner, agreed) = if python_wins {
            assert_eq!(said, (Report::Returned(by_python.clone()), true));
            let refused = End::Refused(ErrorKind::AlreadyInProgress);
            let given = End::Replayed(by_python.clone());
            (by_python, ended == refused || ended == given)
        } else {
            assert_eq!(ended, End::Ran(by_rust.clone()));
            let refused = (Report::Raised(IN_PROGRESS.to_owned()), false);
            let given = (Report::Returned(by_rust.clone()), false);
            (by_rust, said == refused || said == given)
        };
        assert!(agreed, "{said:?}, {ended:?}");
        both_replay(harness, &rust, &order, &winner).await;
    }
}

/// A race without control: either of the two may win.
pub(crate) async fn race(harness: &mut Harness) {
    for _ in 0..8 {
        let order = harness.order();
        let (by_python, by_rust) = (json!("Python"), json!("Rust"));
        let rust = harness.rust(charge());
        let python_call = call(&mut harness.python, &order, &by_python);
        let (said, ended) = tokio::join!(python_call, rust.call_returning(&order, &by_rust));
        let (_, python_ran) = said;
        let rust_ran = ended == End::Ran(by_rust.clone());
        assert_ne!(python_ran, rust_ran, "one runs");
        let winner = if python_ran { by_python } else { by_rust };
        both_replay(harness, &rust, &order, &winner).await;
    }
}

/// Checks that both replay this response.
async fn both_replay(harness: &mut Harness, rust: &Rust, order: &Value, response: &Value) {
    harness.python.replays(order, response).await;
    rust.replays(order, response).await;
}

/// Returns an order, and the same order with another amount.
fn changed(harness: &mut Harness) -> (Value, Value) {
    let order = harness.order();
    let mut changed = order.clone();
    changed["amount"] = json!(43);
    (order, changed)
}

pub(crate) async fn changed_amount(harness: &mut Harness) {
    let rust = harness.rust(charge());
    let (order, other) = changed(harness);
    harness.python.runs(&order, &json!(1)).await;
    rust.refuses(&other, ErrorKind::PayloadMismatch).await;

    let (order, other) = changed(harness);
    rust.runs(&order, &json!(1)).await;
    harness.python.refuses(&other, MISMATCH).await;
}

/// Both also compare the payload while the first call runs.
pub(crate) async fn changed_amount_in_progress(harness: &mut Harness) {
    let rust = harness.rust(charge());
    let (order, other) = changed(harness);
    harness.python.begins(&order).await;
    rust.refuses(&other, ErrorKind::PayloadMismatch).await;
    harness.python.finishes(&json!(1)).await;

    let (order, other) = changed(harness);
    let runs = rust.call(&order, async |_| {
        harness.python.refuses(&other, MISMATCH).await;
        Err("declined".into())
    });
    assert_eq!(runs.await, declined());
}

pub(crate) async fn in_progress_in_python(harness: &mut Harness) {
    let (order, response) = (harness.order(), json!("Python"));
    let rust = harness.rust(charge());
    harness.python.begins(&order).await;
    rust.refuses(&order, ErrorKind::AlreadyInProgress).await;
    harness.python.finishes(&response).await;
    rust.replays(&order, &response).await;
}

pub(crate) async fn rust_waits_for_python(harness: &mut Harness) {
    let (order, response) = (harness.order(), json!("Python"));
    let rust = harness.rust(charge().on_in_progress(OnInProgress::Wait));
    harness.python.begins(&order).await;
    let held = harness.database.inject(Fault::on("GetItem").hold());
    let finish = async {
        // Rust's claim was refused; it paused and reads again.
        held.reached().await;
        harness.python.finishes(&response).await;
        held.release().await;
    };
    tokio::join!(rust.replays(&order, &response), finish);
    harness.database.clear_faults();
}

pub(crate) async fn in_progress_in_rust(harness: &mut Harness) {
    let (order, response) = (harness.order(), json!("Rust"));
    let rust = harness.rust(charge());
    let runs = rust.call(&order, async |_| {
        harness.python.refuses(&order, IN_PROGRESS).await;
        Ok(response.clone())
    });
    assert_eq!(runs.await, End::Ran(response.clone()));
    harness.python.replays(&order, &response).await;
}

/// A claim without a lease counts as live until its window ends, because it does not say when its run ends.
pub(crate) async fn python_without_a_deadline(harness: &mut Harness) {
    let order = harness.order();
    let call = Call::from(&order).without_a_deadline();
    Python::start(&harness.database).begins(call).await;
    let live = harness.rust(charge()).at(30 * 60);
    live.refuses(&order, ErrorKind::AlreadyInProgress).await;
    let expired = harness.rust(charge()).at(61 * 60);
    expired.runs(&order, &json!("Rust")).await;
}
