//! Errors: what the caller, the record and duplicates get after a failure, whether the handler ran, and the cause.
//!
//! Functions that panic, under each policy, and calls that are dropped: the claim, retries, and duplicates in the same process.

use std::error::Error as _;
use std::panic::resume_unwind;
use std::time::Duration;

use idempotency_core::record::{Data, Field, OwnerToken, Record, Status};
use idempotency_core::store::{StoreError, StoreErrorKind};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{
    BoxError, Deadline, Error, ErrorKind, LambdaEvent, OnError, OnInProgress, OnTimeout, Operation,
    idempotent, with_backend,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, keyed, operation, ours, unless_it_panics};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{event, only_record};

fn charge() -> Operation {
    keyed(|of| of)
}

fn order() -> Value {
    json!({ "order_id": 7 })
}

/// Returns a harness whose pauses pass at once and whose store has these faults.
fn broken(faults: impl IntoIterator<Item = (StoreOperation, usize, StoreFault)>) -> Harness {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for (operation, nth, fault) in faults {
        harness.inject(operation, nth, fault);
    }
    harness
}

/// Returns the kind of the store's error that caused ours.
fn source(error: &BoxError) -> StoreErrorKind {
    let mut source = ours(error).source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<StoreError>() {
            return error.kind();
        }
        source = error.source();
    }
    panic!("no error of the store caused {error:?}");
}

#[tokio::test]
async fn the_error_names_the_first_failure_and_not_failures_of_the_clean_up() {
    let harness = broken([
        (StoreOperation::Put, 1, StoreFault::LoseRequest),
        (StoreOperation::Read, 1, StoreFault::Throttle),
        (StoreOperation::Delete, 1, StoreFault::Throttle),
    ]);
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert!(!ours(&error).handler_ran());
    assert_eq!(source(&error), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("(Unreachable)"), "{error}");
}

/// Makes a call that waits for a claim of another process that never ends.
async fn wait_beside_a_dead_process(harness: &Harness) -> BoxError {
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    let id = id(&charge, &json!(7));
    let claim = Record {
        expiration: Field::Value(EpochSeconds::new(START / 1_000 + 3_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(START + 3_600_000)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(OwnerToken::from_bytes([9; 16])),
        ..Record::default()
    };
    harness.store.inner().insert(id, claim);
    harness.call(&charge, order()).await.unwrap_err()
}

#[tokio::test]
async fn a_wait_whose_last_read_failed_reports_that_failure() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Read, 1, StoreFault::LoseReply);
    for nth in 2..=1_000 {
        harness.inject(StoreOperation::Read, nth, StoreFault::Throttle);
    }
    let error = wait_beside_a_dead_process(&harness).await;
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert_eq!(source(&error), StoreErrorKind::Throttled);
    // The call polled until shortly before its deadline.
    assert!(harness.store.count(StoreOperation::Read) > 10);
    let took = harness.now().get() - START;
    assert!((29_000..30_000).contains(&took), "{took} ms");
}

#[tokio::test]
async fn a_wait_whose_last_read_succeeded_does_not_report_an_earlier_failure() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Read, 2, StoreFault::Throttle);
    let error = wait_beside_a_dead_process(&harness).await;
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
    assert!(harness.store.count(StoreOperation::Read) > 10);
}

#[tokio::test]
async fn a_failure_of_the_claim_is_not_reported_as_one_of_the_completion() {
    let lost_claim = [(StoreOperation::Put, 1, StoreFault::LoseReply)];
    let throttled = (1..=4).map(|nth| (StoreOperation::Update, nth, StoreFault::Throttle));
    let harness = broken(lost_claim.into_iter().chain(throttled));
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    assert!(ours(&error).handler_ran());
    assert_eq!(source(&error), StoreErrorKind::Throttled);
}

#[tokio::test]
async fn a_late_owner_that_cannot_read_the_winners_response_gets_an_error_that_says_its_handler_ran()
 {
    let harness = Harness::default();
    let charge = charge();
    let error = harness
        .call_with(&charge, order(), async |_| {
            harness.clock.advance(Duration::from_secs(31));
            let winner = harness.call_with(&charge, order(), async |_| Ok("text".to_owned()));
            winner.await?;
            Ok(1)
        })
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseTypeChanged);
    assert!(ours(&error).handler_ran());
}

#[tokio::test]
async fn a_recorded_failure_names_the_type_of_the_error_and_not_its_text() {
    let harness = Harness::default();
    let charge = keyed(|of| of.on_error(OnError::Record));
    let failed = harness.call_with(&charge, order(), async |_| Err::<(), _>("s3cr3t".into()));
    failed.await.unwrap_err();
    let record = harness.record(&charge, &json!(7));
    let name = std::any::type_name::<BoxError>();
    assert_eq!(record.failure, Field::Value(name.to_owned()));
}

#[tokio::test]
async fn a_request_that_hangs_can_be_observed_on_an_auto_advancing_clock_and_then_times_out() {
    for (fault, is_stored) in [(StoreFault::Hang, false), (StoreFault::HangAfter, true)] {
        // Many times: `select!` polls its branches in any order.
        for _ in 0..32 {
            let harness = broken([(StoreOperation::Put, 1, fault)]);
            let (charge, order) = (charge(), order());
            tokio::select! {
                ended = harness.call(&charge, order) => panic!("it did not hang: {ended:?}"),
                () = harness.store.hung() => {}
            }
            assert_eq!(!harness.store.inner().is_empty(), is_stored);
        }
    }
    let harness = broken([(StoreOperation::Put, 1, StoreFault::Hang)]);
    let before = harness.now();
    let outcome = harness.call(&charge(), order()).await;
    // The claim is sent again, unless no time is left for it.
    assert!(harness.requests()[0] > 1 || outcome.is_err(), "{outcome:?}");
    assert!(
        harness.now() > before,
        "the time limit of the request has passed"
    );
}

#[tokio::test]
async fn a_claim_that_times_out_between_two_sends_was_not_applied_and_the_error_names_their_failure()
 {
    let harness = broken([(StoreOperation::Put, 1, StoreFault::Backoff)]);
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert!(!ours(&error).handler_ran());
    assert_eq!(source(&error), StoreErrorKind::Throttled);
    let text = error.to_string();
    assert!(
        text.contains("(Throttled)") && !text.contains("VPC"),
        "{text}"
    );
    // It cannot be applied later, so nothing is read and nothing is released.
    assert_eq!(harness.requests(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_claim_that_times_out_during_a_send_may_have_been_applied() {
    let harness = broken([(StoreOperation::Put, 1, StoreFault::Hang)]);
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert_eq!(source(&error), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("VPC"), "{error}");
    assert_eq!(harness.store.count(StoreOperation::Update), 1);
}

#[tokio::test]
async fn a_completion_that_times_out_between_two_sends_names_their_failure() {
    let harness = broken([(StoreOperation::Update, 1, StoreFault::Backoff)]);
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    assert!(ours(&error).handler_ran());
    assert_eq!(source(&error), StoreErrorKind::Throttled);
    assert_eq!(harness.runs(), 1);
}

#[idempotent(key = "order_id")]
async fn charge_event(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["amount"] }))
}

#[idempotent(key = "order_id", key_required = true)]
async fn strict(event: LambdaEvent<Value>) -> Result<(), BoxError> {
    let _ = event;
    Ok(())
}

#[tokio::test]
async fn bad_payloads_are_refused_before_the_handler_runs() {
    let harness = Harness::default();
    let kind = async |payload: Value| {
        let error = harness.within(strict(event(payload))).await.unwrap_err();
        let error = ours(&error);
        assert!(!error.handler_ran());
        error.kind()
    };
    for payload in [
        json!(null),
        json!("text"),
        json!({}),
        json!([]),
        json!({ "order_id": null }),
    ] {
        assert_eq!(kind(payload).await, ErrorKind::KeyMissing);
    }
    let mut deep = json!(1);
    for _ in 0..500 {
        deep = json!([deep]);
    }
    assert_eq!(kind(deep).await, ErrorKind::InvalidPayload);
    assert_eq!(harness.requests(), [0; 4]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_reported_with_its_key_and_the_handler_does_not_run() {
    let data = |text: &str| Field::Value(Data::new(text));
    let cases = [
        (
            Status::Other("DONE".to_owned()),
            data("1"),
            "its status is unknown",
        ),
        (Status::Completed, data("{"), "its data is not JSON"),
        (
            Status::Completed,
            Field::Unreadable,
            "its data is of an unknown type",
        ),
    ];
    for (status, data, what) in cases {
        let harness = Harness::default();
        let call = || harness.within(charge_event(event(json!({ "order_id": 1 }))));
        call().await.unwrap();
        let (id, mut record) = only_record(&harness);
        record.status = Field::Value(status);
        record.data = data;
        harness.store.inner().insert(id.clone(), record);
        let error = call().await.unwrap_err();
        let error = ours(&error);
        assert_eq!(error.kind(), ErrorKind::CorruptRecord);
        let text = error.to_string();
        assert!(text.contains(what) && text.contains(id.as_str()), "{text}");
    }
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    amount: f64,
}

#[idempotent(payload = order, key_prefix = "typed")]
async fn typed(order: u32) -> Result<Receipt, BoxError> {
    Ok(Receipt {
        amount: f64::from(order),
    })
}

#[tokio::test]
async fn a_response_whose_type_changed_within_the_window_is_reported_without_its_text() {
    let harness = Harness::default();
    let call = || harness.within(typed(1));
    call().await.unwrap();
    let (id, mut record) = only_record(&harness);
    record.data = Field::Value(Data::new(r#"{"amount":"s3cr3t"}"#));
    harness.store.inner().insert(id, record);
    let error = call().await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("does not fit the response type"), "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");
}

#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("declined")]
    Declined,
    #[error(transparent)]
    Idempotency(#[from] Error),
}

#[idempotent(payload = order, key_prefix = "enum")]
async fn with_enum(order: u32) -> Result<u32, PaymentError> {
    if order == 0 {
        Err(PaymentError::Declined)
    } else {
        Ok(order)
    }
}

#[idempotent(payload = order, key_prefix = "anyhow")]
async fn with_anyhow(order: u32) -> anyhow::Result<u32> {
    Ok(order)
}

#[tokio::test]
async fn every_kind_of_error_type_keeps_the_handlers_error_and_ours() {
    let harness = Harness::default();
    let within = |call| harness.within(call);
    assert!(matches!(
        within(with_enum(0)).await,
        Err(PaymentError::Declined)
    ));
    harness.clock.set(-1);
    let error = within(with_enum(1)).await.unwrap_err();
    assert!(
        matches!(&error, PaymentError::Idempotency(error) if error.kind() == ErrorKind::Environment)
    );
    assert_eq!(
        idempotency_lambda::diagnostic(error).error_type,
        "IdempotencyEnvironment"
    );
    let error = harness.within(with_anyhow(1)).await.unwrap_err();
    let error = error.context("while paying");
    assert_eq!(
        idempotency_lambda::diagnostic(error).error_type,
        "IdempotencyEnvironment"
    );
}

fn paid_order() -> LambdaEvent<Value> {
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
    harness.store.inner().record(&harness.puts()[0].0)
}

/// Returns the message of a call's panic.
async fn panic_of(call: impl Future<Output = Result<Value, BoxError>> + Send + 'static) -> String {
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    panic.downcast_ref::<&str>().unwrap().to_string()
}

#[tokio::test]
async fn a_panic_releases_the_claim_and_propagates() {
    let harness = Harness::default();
    let call = harness.within(charge_card(event(
        json!({ "order_id": 1, "card": "panics" }),
    )));
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the gateway"));
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_its_claim_until_the_lease_ends() {
    let harness = Harness::default();
    let stuck = harness.within(charge_card(event(
        json!({ "order_id": 1, "card": "stuck" }),
    )));
    tokio::select! {
        biased;
        _ = stuck => unreachable!("it never returns"),
        () = std::future::ready(()) => {}
    }
    let again = || harness.within(charge_card(event(json!({ "order_id": 1, "amount": 5 }))));
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
    assert_eq!(harness.within(charge_card(retry)).await.unwrap()["paid"], 5);
}

#[tokio::test]
async fn under_hold_a_panic_propagates_and_its_key_waits_for_an_operator() {
    let harness = Harness::default();
    let backend = || harness.backend.clone();
    let panic = panic_of(with_backend(backend(), charge_once(paid_order()))).await;
    assert_eq!(panic, "after the charge");
    let claim = record(&harness).unwrap();
    assert_eq!(claim.status, Field::Value(Status::InProgress));

    let result = async || {
        let call = with_backend(backend(), charge_once(paid_order()));
        ours(&call.await.unwrap_err()).kind()
    };
    assert_eq!(result().await, ErrorKind::AlreadyInProgress);
    harness.clock.advance(Duration::from_secs(30));
    assert_eq!(result().await, ErrorKind::AlreadyInProgress);
    harness.clock.advance(Duration::from_millis(1));
    // This delivery has a later deadline.
    let later = || {
        let mut later = paid_order();
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
    let call = charge_once_and_record(paid_order());
    panic_of(harness.within(call)).await;
    let claim = record(&harness).unwrap();
    assert_eq!(claim.failure, Field::Absent);
    assert!(claim.owner.exists());
    assert_eq!(harness.requests(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn under_rerun_a_panic_leaves_a_mark() {
    let harness = Harness::default();
    let call = charge_and_record(paid_order());
    let panic = panic_of(harness.within(call)).await;
    assert_eq!(panic, "in the gateway");
    let record = record(&harness).unwrap();
    let mark = Field::Value("unreported: panic".to_owned());
    assert_eq!(record.failure, mark);
}

#[tokio::test]
async fn under_hold_a_returned_error_frees_the_key() {
    let harness = Harness::default();
    for _ in 0..2 {
        let call = harness.within(declined_once(paid_order()));
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
    let error = harness.within(again).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
}
