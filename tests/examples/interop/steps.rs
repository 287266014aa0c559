//! A Rust function with steps: Python ignores their results, and its claim deletes them.

use idempotency_lambda::{BoxError, Call, ErrorKind, OperationBuilder, Steps};
use idempotency_tests::End;
use serde_json::json;

use crate::python::{IN_PROGRESS, Python};
use crate::rust::charge;
use crate::{Harness, declined};

fn stepping() -> OperationBuilder {
    charge().steps(Steps::Keep)
}

async fn reserve(call: &Call) -> Result<u64, BoxError> {
    call.step("reserve", || async { Ok::<_, BoxError>(7) })
        .await
}

/// Returns the number of records that have steps.
async fn with_steps(harness: &Harness) -> usize {
    let items = harness.database.items("idempotency").await.unwrap();
    let with_steps = items.iter().filter(|item| item.contains_key("steps"));
    with_steps.count()
}

/// Checks that Python refuses a live claim with steps, takes it over when its lease has expired, and that a slow Rust run then records
/// nothing and gets Python's response.
pub(crate) async fn python_takes_over_steps(harness: &mut Harness) {
    let order = harness.order();
    let rust = harness.rust(stepping());
    let (response, kept) = (json!("Python"), with_steps(harness).await);
    let failed = rust.call(&order, async |call| {
        reserve(&call).await?;
        harness.python.refuses(&order, IN_PROGRESS).await;
        Err("declined".into())
    });
    assert_eq!(failed.await, declined());
    let keeps = "the failure keeps them";
    assert_eq!(with_steps(harness).await, kept + 1, "{keeps}");

    let order = harness.order();
    let late = harness.rust(stepping()).at(-60);
    let late = late.call(&order, async |call| {
        reserve(&call).await?;
        harness.python.runs(&order, &response).await;
        let step = call.step("ship", || async { Ok::<_, BoxError>(8) });
        Ok(json!(step.await?))
    });
    assert_eq!(late.await, End::Replayed(response.clone()));
    let deletes = "Python's claim deletes them";
    assert_eq!(with_steps(harness).await, kept + 1, "{deletes}");
    rust.replays(&order, &response).await;
}

/// Checks that Python runs from the beginning after a Rust run that failed and kept its steps.
pub(crate) async fn python_after_kept_steps(harness: &mut Harness) {
    let (order, kept) = (harness.order(), with_steps(harness).await);
    let rust = harness.rust(stepping());
    let failed = rust.call(&order, async |call| {
        reserve(&call).await?;
        Err("declined".into())
    });
    assert_eq!(failed.await, declined());
    let response = json!("Python");
    harness.python.runs(&order, &response).await;
    assert_eq!(with_steps(harness).await, kept);
    rust.replays(&order, &response).await;
}

/// Checks that Rust with steps takes over the claim of a Python process that was killed, and that Python replays its response.
pub(crate) async fn rust_with_steps_takes_over(harness: &mut Harness) {
    let order = harness.order();
    Python::start(&harness.database).begins(&order).await;
    let rust = harness.rust(stepping());
    rust.refuses(&order, ErrorKind::AlreadyInProgress).await;
    let runs = async |call: Call| Ok(json!(reserve(&call).await?));
    let ran = rust.at(31).call(&order, runs).await;
    assert_eq!(ran, End::Ran(json!(7)));
    harness.python.replays(&order, &json!(7)).await;
}
