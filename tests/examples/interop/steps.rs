//! A Rust function with steps: Python ignores their results, and its claim deletes them.

use idempotency_lambda::{BoxError, Call as RustCall, ErrorKind, OperationBuilder, Steps};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::Harness;
use crate::python::{Call, Python, Said};
use crate::rust::{CallResult, Rust, charge};

fn stepping() -> OperationBuilder {
    charge().steps(Steps::Keep)
}

async fn reserve(call: &RustCall) -> Result<u64, BoxError> {
    call.step("reserve", || async { Ok::<_, BoxError>(7) })
        .await
}

/// Returns the number of records that have steps.
async fn with_steps(harness: &Harness) -> Result<usize, BoxError> {
    let items = harness.database.items("idempotency").await?;
    Ok(items
        .iter()
        .filter(|item| item.contains_key("steps"))
        .count())
}

/// Checks that Python refuses a live claim with steps, takes it over when its lease has expired, and that a slow Rust run then records
/// nothing and gets Python's response.
pub(crate) async fn python_takes_over_steps(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let live = Rust::start(&harness.database, stepping())?;
    let (response, kept) = (json!("Python"), with_steps(harness).await?);
    let failed = live.call_stepping(&order, async |call| {
        reserve(&call).await?;
        let refused = harness.python.call(Call::of(&order), &response).await?;
        let in_progress = Said::Raised("IdempotencyAlreadyInProgressError".to_owned());
        assert_eq!(refused, (in_progress, false));
        Err("declined".into())
    });
    assert_eq!(failed.await?, CallResult::Failed);
    assert_eq!(
        with_steps(harness).await?,
        kept + 1,
        "the failure keeps them"
    );

    let order = harness.order();
    let late = Rust::start(&harness.database, stepping())?.at(-60)?;
    let (started, go_on) = (Notify::new(), Notify::new());
    let runs = late.call_stepping(&order, async |call| {
        reserve(&call).await?;
        started.notify_one();
        go_on.notified().await;
        let step = call.step("ship", || async { Ok::<_, BoxError>(8) });
        Ok(json!(step.await?))
    });
    let winner = async {
        started.notified().await;
        let ran = harness.python.call(Call::of(&order), &response).await?;
        go_on.notify_one();
        Ok::<_, BoxError>(ran)
    };
    let (late, ran) = tokio::join!(runs, winner);
    assert_eq!(ran?, (Said::Returned(response.clone()), true));
    assert_eq!(late?, CallResult::Replayed(response.clone()));
    assert_eq!(
        with_steps(harness).await?,
        kept + 1,
        "Python's claim deletes them"
    );
    let rust = Rust::start(&harness.database, stepping())?;
    let ended = rust.call_stepping(&order, async |_| Ok(Value::Null));
    assert_eq!(ended.await?, CallResult::Replayed(response));
    Ok(())
}

/// Checks that Python runs from the beginning after a Rust run that failed and kept its steps.
pub(crate) async fn python_after_kept_steps(harness: &mut Harness) -> Result<(), BoxError> {
    let (order, kept) = (harness.order(), with_steps(harness).await?);
    let rust = Rust::start(&harness.database, stepping())?;
    let failed = rust.call_stepping(&order, async |call| {
        reserve(&call).await?;
        Err("declined".into())
    });
    assert_eq!(failed.await?, CallResult::Failed);
    let response = json!("Python");
    let ran = harness.python.call(Call::of(&order), &response).await?;
    assert_eq!(ran, (Said::Returned(response.clone()), true));
    assert_eq!(with_steps(harness).await?, kept);
    let ended = rust.call_stepping(&order, async |_| Ok(Value::Null));
    assert_eq!(ended.await?, CallResult::Replayed(response));
    Ok(())
}

/// Checks that Rust with steps takes over the claim of a Python process that was killed, and that Python replays its response.
pub(crate) async fn rust_with_steps_takes_over(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let mut killed = Python::start(&harness.database)?;
    assert_eq!(killed.begin(Call::of(&order)).await?, Said::Running);
    drop(killed);
    let rust = Rust::start(&harness.database, stepping())?;
    let runs = async |call: RustCall| Ok(json!(reserve(&call).await?));
    let refused = rust.call_stepping(&order, runs).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::AlreadyInProgress));
    let ran = rust.at(31)?.call_stepping(&order, runs).await?;
    assert_eq!(ran, CallResult::Ran(json!(7)));
    let again = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(again, (Said::Returned(json!(7)), false));
    Ok(())
}
