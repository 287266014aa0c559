//! Calls one after the other, and both at once.

use idempotency_lambda::{
    BoxError, Context, ErrorKind, LambdaEvent, OnInProgress, idempotent, with_backend,
};
use idempotency_testkit::dynamodb::Fault;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::Harness;
use crate::python::{Call, Python, Said};
use crate::rust::{CallResult, Rust, charge};

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

pub(crate) async fn python_first(harness: &mut Harness) -> Result<(), BoxError> {
    let (order, response) = (harness.order(), receipt("Python"));
    let first = harness.python.call(Call::of(&order), &response).await?;
    assert_eq!(first, (Said::Returned(response.clone()), true));
    let rust = Rust::start(&harness.database, charge())?;
    let again = rust.call_returning(&order, &receipt("Rust")).await?;
    assert_eq!(again, CallResult::Replayed(response));
    Ok(())
}

pub(crate) async fn rust_first(harness: &mut Harness) -> Result<(), BoxError> {
    let (order, response) = (harness.order(), receipt("Rust"));
    let rust = Rust::start(&harness.database, charge())?;
    assert_eq!(
        rust.call_returning(&order, &response).await?,
        CallResult::Ran(response.clone())
    );
    let again = harness
        .python
        .call(Call::of(&order), &receipt("Python"))
        .await?;
    assert_eq!(again, (Said::Returned(response), false));
    Ok(())
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

pub(crate) async fn annotated(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    for python_is_first in [false, true] {
        let order = harness.order();
        let response = json!({ "charged": if python_is_first { 1 } else { 42 } });
        if python_is_first {
            harness.python.call(Call::of(&order), &response).await?;
        }
        let event = LambdaEvent::new(order.clone(), Context::default());
        let given = with_backend(rust.backend.clone(), handler(event)).await?;
        assert_eq!(given, response);
        let again = harness.python.call(Call::of(&order), &Value::Null).await?;
        assert_eq!(again, (Said::Returned(response), false));
    }
    Ok(())
}

/// Holds both claims back until both are sent. Each of the two wins once.
pub(crate) async fn both_at_once(harness: &mut Harness) -> Result<(), BoxError> {
    for python_wins in [false, true] {
        let order = harness.order();
        let (by_python, by_rust) = (json!("Python"), json!("Rust"));
        let rust = Rust::start(&harness.database, charge())?;
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
        let python_call = harness.python.call(Call::of(&order), &by_python);
        let (said, ended, ()) = tokio::join!(python_call, rust_call, release);
        harness.database.clear_faults();
        // The slower one gets "in progress", or the response if it was stored by then.
        let (said, ended) = (said?, ended?);
        let (winner, agreed) = if python_wins {
            assert_eq!(said, (Said::Returned(by_python.clone()), true));
            let refused = CallResult::Refused(ErrorKind::AlreadyInProgress);
            let given = CallResult::Replayed(by_python.clone());
            (by_python, ended == refused || ended == given)
        } else {
            assert_eq!(ended, CallResult::Ran(by_rust.clone()));
            let given = (Said::Returned(by_rust.clone()), false);
            (by_rust, said == (in_progress(), false) || said == given)
        };
        assert!(agreed, "{said:?}, {ended:?}");
        both_replay(harness, &rust, &order, &winner).await?;
    }
    Ok(())
}

/// A race without control: either of the two may win.
pub(crate) async fn race(harness: &mut Harness) -> Result<(), BoxError> {
    for _ in 0..8 {
        let order = harness.order();
        let (by_python, by_rust) = (json!("Python"), json!("Rust"));
        let rust = Rust::start(&harness.database, charge())?;
        let python_call = harness.python.call(Call::of(&order), &by_python);
        let (said, ended) = tokio::join!(python_call, rust.call_returning(&order, &by_rust));
        let ((_, python_ran), ended) = (said?, ended?);
        assert_ne!(
            python_ran,
            ended == CallResult::Ran(by_rust.clone()),
            "one runs"
        );
        let winner = if python_ran { by_python } else { by_rust };
        both_replay(harness, &rust, &order, &winner).await?;
    }
    Ok(())
}

/// Checks that both replay this response.
async fn both_replay(
    harness: &mut Harness,
    rust: &Rust,
    order: &Value,
    response: &Value,
) -> Result<(), BoxError> {
    let given = harness.python.call(Call::of(order), &Value::Null).await?;
    assert_eq!(given, (Said::Returned(response.clone()), false));
    let given = rust.call_returning(order, &Value::Null).await?;
    assert_eq!(given, CallResult::Replayed(response.clone()));
    Ok(())
}

/// Returns what Python raises while another call runs.
fn in_progress() -> Said {
    Said::Raised("IdempotencyAlreadyInProgressError".to_owned())
}

pub(crate) async fn changed_amount(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    let order = harness.order();
    harness.python.call(Call::of(&order), &json!(1)).await?;
    let mut changed = order.clone();
    changed["amount"] = json!(43);
    let refused = rust.call_returning(&changed, &json!(2)).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::PayloadMismatch));

    let order = harness.order();
    rust.call_returning(&order, &json!(1)).await?;
    let mut changed = order.clone();
    changed["amount"] = json!(43);
    let refused = harness.python.call(Call::of(&changed), &json!(2)).await?;
    let raised = Said::Raised("IdempotencyValidationError".to_owned());
    assert_eq!(refused, (raised, false));
    Ok(())
}

/// Both also compare the payload while the first call runs.
pub(crate) async fn changed_amount_in_progress(harness: &mut Harness) -> Result<(), BoxError> {
    let rust = Rust::start(&harness.database, charge())?;
    let changed = |order: &Value| {
        let mut changed = order.clone();
        changed["amount"] = json!(43);
        changed
    };
    let order = harness.order();
    assert_eq!(harness.python.begin(Call::of(&order)).await?, Said::Running);
    let refused = rust.call_returning(&changed(&order), &json!(2)).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::PayloadMismatch));
    harness.python.finish(&json!(1)).await?;

    let order = harness.order();
    let started = Notify::new();
    let runs = rust.call(&order, async || {
        started.notify_one();
        std::future::pending().await
    });
    let duplicate = async {
        started.notified().await;
        harness
            .python
            .call(Call::of(&changed(&order)), &json!(2))
            .await
    };
    tokio::select! {
        ended = runs => panic!("it ended: {ended:?}"),
        said = duplicate => {
            let raised = Said::Raised("IdempotencyValidationError".to_owned());
            assert_eq!(said?, (raised, false));
        }
    }
    Ok(())
}

pub(crate) async fn in_progress_in_python(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let rust = Rust::start(&harness.database, charge())?;
    assert_eq!(harness.python.begin(Call::of(&order)).await?, Said::Running);
    let refused = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::AlreadyInProgress));
    let response = json!("Python");
    assert_eq!(
        harness.python.finish(&response).await?,
        Said::Returned(response.clone())
    );
    let given = rust.call_returning(&order, &json!("Rust")).await?;
    assert_eq!(given, CallResult::Replayed(response));
    Ok(())
}

pub(crate) async fn rust_waits_for_python(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let waiting = charge().on_in_progress(OnInProgress::Wait);
    let rust = Rust::start(&harness.database, waiting)?;
    assert_eq!(harness.python.begin(Call::of(&order)).await?, Said::Running);
    let held = harness.database.inject(Fault::on("GetItem").hold());
    let response = json!("Python");
    let finish = async {
        // Rust's claim was refused; it paused and reads again.
        held.reached().await;
        let said = harness.python.finish(&response).await?;
        held.release().await;
        Ok::<_, BoxError>(said)
    };
    let nothing = json!("Rust");
    let (given, said) = tokio::join!(rust.call_returning(&order, &nothing), finish);
    assert_eq!(said?, Said::Returned(response.clone()));
    assert_eq!(given?, CallResult::Replayed(response));
    harness.database.clear_faults();
    Ok(())
}

pub(crate) async fn in_progress_in_rust(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let rust = Rust::start(&harness.database, charge())?;
    let response = json!("Rust");
    let (started, go_on) = (Notify::new(), Notify::new());
    let runs = rust.call(&order, async || {
        started.notify_one();
        go_on.notified().await;
        Ok(response.clone())
    });
    let duplicate = async {
        started.notified().await;
        let said = harness
            .python
            .call(Call::of(&order), &json!("Python"))
            .await?;
        go_on.notify_one();
        Ok::<_, BoxError>(said)
    };
    let (ended, said) = tokio::join!(runs, duplicate);
    assert_eq!(said?, (in_progress(), false));
    assert_eq!(ended?, CallResult::Ran(response.clone()));
    let again = harness
        .python
        .call(Call::of(&order), &json!("Python"))
        .await?;
    assert_eq!(again, (Said::Returned(response), false));
    Ok(())
}

/// A claim without a lease counts as live until its window ends, because it does not say when its run ends.
pub(crate) async fn python_without_a_deadline(harness: &mut Harness) -> Result<(), BoxError> {
    let order = harness.order();
    let mut killed = Python::start(&harness.database)?;
    let call = Call::of(&order).without_a_deadline();
    assert_eq!(killed.begin(call).await?, Said::Running);
    drop(killed);
    let rust = |at| Rust::start(&harness.database, charge())?.at(at);
    let refused = rust(30 * 60)?
        .call_returning(&order, &json!("Rust"))
        .await?;
    assert_eq!(refused, CallResult::Refused(ErrorKind::AlreadyInProgress));
    let ran = rust(61 * 60)?
        .call_returning(&order, &json!("Rust"))
        .await?;
    assert_eq!(ran, CallResult::Ran(json!("Rust")));
    Ok(())
}
