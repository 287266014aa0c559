//! Functions that panic, under each policy, and calls that are dropped: the claim, retries, and duplicates in the same process.

use std::panic::resume_unwind;
use std::time::Duration;

use idempotency_core::record::{Field, Record, Status};
use idempotency_lambda::{
    BoxError, Deadline, ErrorKind, LambdaEvent, OnInProgress, OnTimeout, Operation, idempotent,
    with_backend,
};
use idempotency_testkit::store::StoreCall;
use idempotency_tests::{Harness, START, operation, ours, unless_it_panics};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::event;

fn order() -> LambdaEvent<Value> {
    event(json!({ "order_id": 1 }))
}

#[idempotent(key = "order_id")]
async fn charge_card(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    match event.payload["card"].as_str() {
        Some("panics") => panic!("in the gateway"),
        Some("stuck") => std::future::pending().await,
        _ => Ok(json!({ "paid": event.payload["amount"] })),
    }
}

#[idempotent(key = "order_id", on_timeout = "hold")]
async fn charge_once(_event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    panic!("after the charge")
}

#[idempotent(key = "order_id", on_timeout = "hold", on_error = "record")]
async fn charge_once_and_record(_event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    panic!("after the charge")
}

#[idempotent(key = "order_id", on_error = "record")]
async fn charge_and_record(_event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    panic!("in the gateway")
}

#[idempotent(key = "order_id", on_timeout = "hold")]
async fn declined_once(_event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Err("declined".into())
}

/// Returns the record of the harness's first claim, if it is still there.
fn record(harness: &Harness) -> Option<Record> {
    let id = harness
        .store
        .calls()
        .into_iter()
        .find_map(|call| match call {
            StoreCall::Put { id, .. } => Some(id),
            _ => None,
        });
    harness.store.inner().record(&id.unwrap())
}

/// Returns the message of a call's panic.
async fn panic_of(call: impl Future<Output = Result<Value, BoxError>> + Send + 'static) -> String {
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    panic.downcast_ref::<&str>().unwrap().to_string()
}

#[tokio::test]
async fn a_panic_releases_the_claim_and_propagates() {
    let harness = Harness::default();
    let call = with_backend(
        harness.backend.clone(),
        charge_card(event(json!({ "order_id": 1, "card": "panics" }))),
    );
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the gateway"));
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_its_claim_until_the_lease_ends() {
    let harness = Harness::default();
    let stuck = with_backend(
        harness.backend.clone(),
        charge_card(event(json!({ "order_id": 1, "card": "stuck" }))),
    );
    tokio::select! {
        biased;
        _ = stuck => unreachable!("it never returns"),
        () = std::future::ready(()) => {}
    }
    let again = || {
        with_backend(
            harness.backend.clone(),
            charge_card(event(json!({ "order_id": 1, "amount": 5 }))),
        )
    };
    assert_eq!(
        ours(&again().await.unwrap_err()).kind(),
        ErrorKind::AlreadyInProgress
    );
    harness.clock.advance(Duration::from_millis(29_999));
    assert_eq!(
        ours(&again().await.unwrap_err()).kind(),
        ErrorKind::AlreadyInProgress
    );
    // A retry by Lambda has a later deadline.
    harness.clock.advance(Duration::from_millis(2));
    let mut retry = event(json!({ "order_id": 1, "amount": 5 }));
    retry.context.deadline += 60_000;
    assert_eq!(
        with_backend(harness.backend.clone(), charge_card(retry))
            .await
            .unwrap()["paid"],
        5
    );
}

#[tokio::test]
async fn under_hold_a_panic_propagates_and_its_key_waits_for_an_operator() {
    let harness = Harness::default();
    let backend = || harness.backend.clone();
    let panic = panic_of(with_backend(backend(), charge_once(order()))).await;
    assert_eq!(panic, "after the charge");
    let claim = record(&harness).unwrap();
    assert_eq!(claim.status, Field::Value(Status::InProgress));

    let result = async || {
        let call = with_backend(backend(), charge_once(order()));
        ours(&call.await.unwrap_err()).kind()
    };
    assert_eq!(result().await, ErrorKind::AlreadyInProgress);
    harness.clock.advance(Duration::from_secs(30));
    assert_eq!(result().await, ErrorKind::AlreadyInProgress);
    harness.clock.advance(Duration::from_millis(1));
    // This delivery has a later deadline.
    let later = || {
        let mut later = order();
        later.context.deadline += 60_000;
        later
    };
    let call = with_backend(backend(), charge_once(later()));
    let error = call.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::Unresolved);
    assert_eq!(record(&harness), Some(claim));
}

#[tokio::test]
async fn under_hold_a_panic_is_not_recorded_as_a_failure() {
    let harness = Harness::default();
    let call = charge_once_and_record(order());
    panic_of(with_backend(harness.backend.clone(), call)).await;
    let claim = record(&harness).unwrap();
    assert_eq!(claim.failure, Field::Absent);
    assert!(claim.owner.exists());
    assert_eq!(harness.requests(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn under_rerun_a_panic_leaves_a_mark() {
    let harness = Harness::default();
    let call = charge_and_record(order());
    let panic = panic_of(with_backend(harness.backend.clone(), call)).await;
    assert_eq!(panic, "in the gateway");
    let record = record(&harness).unwrap();
    let mark = Field::Value("unreported: panic".to_owned());
    assert_eq!(record.failure, mark);
}

#[tokio::test]
async fn under_hold_a_returned_error_frees_the_key() {
    let harness = Harness::default();
    for _ in 0..2 {
        let call = with_backend(harness.backend.clone(), declined_once(order()));
        assert_eq!(call.await.unwrap_err().to_string(), "declined");
    }
    assert!(record(&harness).is_none());
}

/// Panics without the panic hook, which would print a trace.
fn panics_silently() -> Result<u32, BoxError> {
    resume_unwind(Box::new("after the charge"))
}

/// Makes a call that panics while a duplicate of its process follows it. Returns the duplicate's error and its time in
/// milliseconds.
async fn beside_a_panic(charge: &Operation, harness: &Harness) -> (ErrorKind, i64) {
    let payload = json!({ "order_id": 1 });
    let backend = || harness.backend.clone();
    let deadline = |seconds| harness.deadline_in(Duration::from_secs(seconds));
    let (panics, now) = oneshot::channel::<()>();
    let first = async {
        let run = charge.run(&payload, deadline(30), || async {
            now.await?;
            panics_silently()
        });
        let ended = unless_it_panics(with_backend(backend(), run)).await;
        assert!(ended.is_err(), "the caller sees the panic");
    };
    let duplicate = async {
        tokio::task::yield_now().await;
        let run = charge.run(&payload, deadline(60), || async { Ok::<u32, BoxError>(1) });
        let error = with_backend(backend(), run).await.unwrap_err();
        (ours(&error).kind(), harness.now().get() - START)
    };
    let time = async {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        panics.send(()).unwrap();
        loop {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            harness.clock.advance(Duration::from_millis(100));
        }
    };
    let calls = async { tokio::join!(first, duplicate).1 };
    tokio::select! {
        biased;
        result = calls => result,
        () = time => unreachable!("time never ends"),
    }
}

fn held() -> idempotency_lambda::OperationBuilder {
    operation()
        .key("order_id")
        .local_cache(8)
        .on_timeout(OnTimeout::Hold)
}

#[tokio::test]
async fn under_hold_a_duplicate_that_follows_a_panicking_call_does_not_run_in_its_place() {
    let (harness, charge) = (Harness::default(), held());
    let charge = charge.on_in_progress(OnInProgress::Wait).build().unwrap();
    let (result, after) = beside_a_panic(&charge, &harness).await;
    assert_eq!(result, ErrorKind::Unresolved);
    assert!((30_000..33_000).contains(&after), "{after} ms");
    assert!(record(&harness).unwrap().owner.exists());
}

#[tokio::test]
async fn under_hold_a_duplicate_in_the_process_of_a_panicking_call_gets_in_progress_at_once() {
    let (harness, charge) = (Harness::default(), held().build().unwrap());
    let (result, after) = beside_a_panic(&charge, &harness).await;
    assert_eq!((result, after), (ErrorKind::AlreadyInProgress, 0));
    let payload = json!({ "order_id": 1 });
    let deadline = Deadline::At(harness.now());
    let again = charge.run(&payload, deadline, || async { Ok::<u32, BoxError>(2) });
    let error = with_backend(harness.backend.clone(), again)
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
}
