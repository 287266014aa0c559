//! Runs that end without a response, and runs that end too late.

use idempotency_lambda::{BoxError, ErrorKind, OnError, OnTimeout};
use serde_json::json;
use tokio::sync::Notify;

use crate::Harness;
use crate::python::{Call, Python, Said};
use crate::rust::{CallResult, Rust, charge};

/// Checks that Rust takes over the claim of a Python process that was killed.
pub(crate) async fn rust_takes_over_from_python(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let mut killed = Python::start(&harness.database)?;
    assert_eq!(killed.begin(Call::of(&order)).await?, Said::Running);
    drop(killed);
    let (rust, response) = (Rust::start(&harness.database, charge())?, json!("Rust"));
    let refused = rust.call_returning(&order, &response).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::AlreadyInProgress));
    let ran = rust.at(31)?.call_returning(&order, &response).await?;
    assert_eq!(ran, CallResult::Ran(response.clone()));
    let again = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(again, (Said::Returned(response), false));
    Ok(())
}

/// Checks that Python takes over the claim of a Rust run that was killed.
pub(crate) async fn python_takes_over_from_rust(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    // Its lease expired half a minute ago.
    let killed = Rust::start(&harness.database, charge())?.at(-60)?;
    let started = Notify::new();
    let runs = killed.call(&order, async || {
        started.notify_one();
        std::future::pending().await
    });
    tokio::select! {
        ended = runs => panic!("it ended: {ended:?}"),
        () = started.notified() => {}
    }
    let response = json!("Python");
    let ran = harness.python.call(Call::of(&order), &response).await?;
    assert_eq!(ran, (Said::Returned(response.clone()), true));
    let rust = Rust::start(&harness.database, charge())?;
    let ended = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(ended, CallResult::Replayed(response));
    Ok(())
}

/// Checks that `hold` binds only functions that hold: Python takes over a claim that Rust leaves to an operator.
pub(crate) async fn held_by_rust(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let holding = || charge().on_timeout(OnTimeout::Hold);
    let killed = Rust::start(&harness.database, holding())?.at(-60)?;
    let started = Notify::new();
    let runs = killed.call(&order, async || {
        started.notify_one();
        std::future::pending().await
    });
    tokio::select! {
        ended = runs => panic!("it ended: {ended:?}"),
        () = started.notified() => {}
    }
    let rust = Rust::start(&harness.database, holding())?;
    let held = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(held, CallResult::Refused(ErrorKind::Unresolved));
    let ran = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(ran, (Said::Returned(json!("Python")), true));
    Ok(())
}

/// Checks that a Rust run that outlived its lease neither overwrites nor deletes Python's response.
pub(crate) async fn a_late_rust_run_changes_nothing(harness: &mut Harness) -> Result<(), BoxError> {
    for rust_fails in [false, true] {
        let order = harness.order();
        let late = Rust::start(&harness.database, charge())?.at(-60)?;
        let response = json!("Python");
        let (started, go_on) = (Notify::new(), Notify::new());
        let runs = late.call(&order, async || {
            started.notify_one();
            go_on.notified().await;
            if rust_fails {
                Err("declined".into())
            } else {
                Ok(json!("late"))
            }
        });
        let winner = async {
            started.notified().await;
            let ran = harness.python.call(Call::of(&order), &response).await?;
            go_on.notify_one();
            Ok::<_, BoxError>(ran)
        };
        let (late, ran) = tokio::join!(runs, winner);
        assert_eq!(ran?, (Said::Returned(response.clone()), true));
        let expected = if rust_fails {
            CallResult::Failed
        } else {
            CallResult::Replayed(response.clone())
        };
        assert_eq!(late?, expected);
        // The winner's record was neither overwritten nor deleted.
        let again = harness
            .python
            .call(Call::of(&order), &json!("again"))
            .await?;
        assert_eq!(again, (Said::Returned(response), false));
    }
    Ok(())
}

/// Checks a limit of a shared key: Python completes and deletes unconditionally, so a run that outlived its lease overwrites
/// or deletes the winner's response.
pub(crate) async fn a_late_python_run_overwrites(harness: &mut Harness) -> Result<(), BoxError> {
    for python_fails in [false, true] {
        let order = harness.order();
        let begun = harness.python.begin(Call::of(&order).remaining(1)).await?;
        assert_eq!(begun, Said::Running);
        let rust = Rust::start(&harness.database, charge())?.at(1)?;
        let ran = rust.call_returning(&order, &json!("Rust")).await?;
        assert_eq!(ran, CallResult::Ran(json!("Rust")));
        let expected = if python_fails {
            let failed = harness
                .python
                .instruct(&json!({ "raise": "declined" }))
                .await?;
            assert_eq!(failed, Said::Raised("Declined".to_owned()));
            CallResult::Ran(json!("again"))
        } else {
            let late = json!("late");
            assert_eq!(
                harness.python.finish(&late).await?,
                Said::Returned(late.clone())
            );
            CallResult::Replayed(late)
        };
        assert_eq!(
            rust.call_returning(&order, &json!("again")).await?,
            expected
        );
    }
    Ok(())
}

/// Checks that Python takes over a failure that Rust recorded.
pub(crate) async fn failure_recorded_by_rust(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let rust = Rust::start(&harness.database, charge().on_error(OnError::Record))?;
    let failed = rust.call(&order, async || Err("declined".into())).await?;
    assert_eq!(failed, CallResult::Failed);
    let items = harness.database.items("idempotency").await?;
    assert!(
        items.iter().any(|item| item.contains_key("failure")),
        "the failure is recorded"
    );
    let response = json!("Python");
    let ran = harness.python.call(Call::of(&order), &response).await?;
    assert_eq!(ran, (Said::Returned(response.clone()), true));
    let items = harness.database.items("idempotency").await?;
    assert!(
        items.iter().all(|item| !item.contains_key("failure")),
        "the recorded failure is gone"
    );
    let ended = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(ended, CallResult::Replayed(response));
    Ok(())
}

/// Checks that each language runs after a failure that the other one released.
pub(crate) async fn failure_released(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    let order = harness.order();
    let failed = rust.call(&order, async || Err("declined".into())).await?;
    assert_eq!(failed, CallResult::Failed);
    let ran = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(ran, (Said::Returned(json!("Python")), true));

    let order = harness.order();
    assert_eq!(harness.python.begin(Call::of(&order)).await?, Said::Running);
    let failed = harness
        .python
        .instruct(&json!({ "raise": "declined" }))
        .await?;
    assert_eq!(failed, Said::Raised("Declined".to_owned()));
    let ran = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(ran, CallResult::Ran(json!("Rust")));
    Ok(())
}
