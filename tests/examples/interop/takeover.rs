//! Runs that end without a response, and runs that end too late.

use idempotency_lambda::{ErrorKind, OnError, OnTimeout};
use idempotency_tests::End;
use serde_json::json;

use crate::python::{Call, Python};
use crate::rust::charge;
use crate::{Harness, declined};

/// Checks that Rust takes over the claim of a Python process that was killed.
pub(crate) async fn rust_takes_over_from_python(harness: &mut Harness) {
    let order = harness.order();
    Python::start(&harness.database).begins(&order).await;
    let (rust, response) = (harness.rust(charge()), json!("Rust"));
    rust.refuses(&order, ErrorKind::AlreadyInProgress).await;
    rust.at(31).runs(&order, &response).await;
    harness.python.replays(&order, &response).await;
}

/// Checks that Python takes over the claim of a Rust run that was killed.
pub(crate) async fn python_takes_over_from_rust(harness: &mut Harness) {
    let (order, response) = (harness.order(), json!("Python"));
    // The call starts 60 s ago with 30 s left, so its lease has expired.
    let rust = harness.rust(charge()).at(-60);
    rust.dies_in_its_handler(&order).await;
    harness.python.runs(&order, &response).await;
    harness.rust(charge()).replays(&order, &response).await;
}

/// Checks that `hold` binds only functions that hold: Python takes over a claim that Rust leaves to an operator.
pub(crate) async fn python_takes_over_what_rust_holds(harness: &mut Harness) {
    let order = harness.order();
    let holding = || charge().on_timeout(OnTimeout::Hold);
    harness
        .rust(holding())
        .at(-60)
        .dies_in_its_handler(&order)
        .await;
    let rust = harness.rust(holding());
    rust.refuses(&order, ErrorKind::Unresolved).await;
    harness.python.runs(&order, &json!("Python")).await;
}

/// Checks that a Rust run that outlived its lease neither overwrites nor deletes Python's response.
pub(crate) async fn a_late_rust_run_changes_nothing(harness: &mut Harness) {
    for rust_fails in [false, true] {
        let (order, response) = (harness.order(), json!("Python"));
        let rust = harness.rust(charge()).at(-60);
        let late = rust.call(&order, async |_| {
            harness.python.runs(&order, &response).await;
            match rust_fails {
                true => Err("declined".into()),
                false => Ok(json!("late")),
            }
        });
        let expected = match rust_fails {
            true => declined(),
            false => End::Replayed(response.clone()),
        };
        assert_eq!(late.await, expected);
        harness.python.replays(&order, &response).await;
    }
}

/// Checks a limit of a shared key: Python completes and deletes unconditionally, so a run that outlived its lease overwrites
/// or deletes the winner's response.
pub(crate) async fn a_late_python_run_overwrites(harness: &mut Harness) {
    for python_fails in [false, true] {
        let order = harness.order();
        let short = Call::from(&order).remaining(1);
        harness.python.begins(short).await;
        let rust = harness.rust(charge()).at(1);
        rust.runs(&order, &json!("Rust")).await;
        if python_fails {
            harness.python.fails().await;
            rust.runs(&order, &json!("again")).await;
        } else {
            harness.python.finishes(&json!("late")).await;
            rust.replays(&order, &json!("late")).await;
        }
    }
}

/// Returns true if any record has a failure.
async fn has_failure(harness: &Harness) -> bool {
    let items = harness.database.items("idempotency").await.unwrap();
    items.iter().any(|item| item.contains_key("failure"))
}

/// Checks that Python takes over a failure that Rust recorded.
pub(crate) async fn python_takes_over_a_failure_of_rust(harness: &mut Harness) {
    let (order, response) = (harness.order(), json!("Python"));
    let rust = harness.rust(charge().on_error(OnError::Record));
    let failed = rust.call(&order, async |_| Err("declined".into()));
    assert_eq!(failed.await, declined());
    assert!(has_failure(harness).await, "the failure is recorded");
    harness.python.runs(&order, &response).await;
    assert!(!has_failure(harness).await, "the recorded failure is gone");
    rust.replays(&order, &response).await;
}

/// Checks that each language runs after the other one failed and released the key.
pub(crate) async fn each_runs_after_a_failure_of_the_other(harness: &mut Harness) {
    let rust = harness.rust(charge());
    let order = harness.order();
    let failed = rust.call(&order, async |_| Err("declined".into()));
    assert_eq!(failed.await, declined());
    harness.python.runs(&order, &json!("Python")).await;

    let order = harness.order();
    harness.python.begins(&order).await;
    harness.python.fails().await;
    rust.runs(&order, &json!("Rust")).await;
}
