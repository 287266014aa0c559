//! Errors: what the caller, the record and duplicates get after a failure, whether the handler ran, and the cause.

use std::error::Error as _;
use std::time::Duration;

use idempotency_core::owner::OwnerToken;
use idempotency_core::record::{Data, Field, Record, Status};
use idempotency_core::store::{StoreError, StoreErrorKind};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{
    BoxError, Error, ErrorKind, LambdaEvent, OnError, OnInProgress, Operation, idempotent,
    with_backend,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, operation, ours};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{event, only_record};

fn charge() -> Operation {
    operation().key("order_id").build().unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7 })
}

/// Returns a harness whose pauses pass at once and whose store has these faults.
fn broken(faults: impl IntoIterator<Item = (StoreOperation, usize, StoreFault)>) -> Harness {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for (operation, nth, fault) in faults {
        harness.store.inject(operation, nth, fault);
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
    let charge = operation()
        .key("order_id")
        .on_in_progress(OnInProgress::Wait)
        .build()
        .unwrap();
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
    harness
        .store
        .inject(StoreOperation::Read, 1, StoreFault::LoseReply);
    for nth in 2..=1_000 {
        harness
            .store
            .inject(StoreOperation::Read, nth, StoreFault::Throttle);
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
    harness
        .store
        .inject(StoreOperation::Read, 2, StoreFault::Throttle);
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
    let charge = operation()
        .key("order_id")
        .on_error(OnError::Record)
        .build()
        .unwrap();
    let failed = harness.call_with(&charge, order(), async |_| Err::<(), _>("s3cr3t".into()));
    failed.await.unwrap_err();
    let record = harness.record(&charge, &json!(7));
    let name = std::any::type_name::<BoxError>();
    assert_eq!(record.failure, Field::Value(name.to_owned()));
}

#[tokio::test]
async fn a_response_on_which_store_when_fails_is_stored_because_the_effect_has_happened() {
    let harness = Harness::default();
    let charge = operation()
        .key("order_id")
        .store_when("powertools_json(paid)")
        .build()
        .unwrap();
    for is_duplicate in [false, true] {
        let outcome = harness
            .call_with(&charge, order(), async |_| Ok(json!({ "paid": 1 })))
            .await
            .unwrap();
        assert_eq!(outcome.is_replayed(), is_duplicate);
    }
}

/// A response that panics when it is serialized.
#[derive(Debug, Deserialize)]
struct PanicsWhenWritten;

impl serde::Serialize for PanicsWhenWritten {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("in the response")
    }
}

#[tokio::test]
async fn after_a_response_that_panics_when_it_is_serialized_the_handler_never_runs_again() {
    let harness = Harness::default();
    let charge = charge();
    let call = || harness.call_with(&charge, order(), async |_| Ok(PanicsWhenWritten));
    let error = call().await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseNotSerializable);
    harness.clock.advance(Duration::from_secs(60));
    let error = call().await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
    assert_eq!(harness.runs(), 1);
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
        let error = with_backend(harness.backend.clone(), strict(event(payload)))
            .await
            .unwrap_err();
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
async fn a_clock_before_1970_is_refused() {
    let harness = Harness::default();
    harness.clock.set(-1);
    let error = with_backend(
        harness.backend.clone(),
        charge_event(event(json!({ "order_id": 1 }))),
    )
    .await
    .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::Environment);
    assert!(error.to_string().contains("1970"), "{error}");
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
        let call = || {
            with_backend(
                harness.backend.clone(),
                charge_event(event(json!({ "order_id": 1 }))),
            )
        };
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
    let call = || with_backend(harness.backend.clone(), typed(1));
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
    let within = |call| with_backend(harness.backend.clone(), call);
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
    let error = with_backend(harness.backend.clone(), with_anyhow(1))
        .await
        .unwrap_err();
    let error = error.context("while paying");
    assert_eq!(
        idempotency_lambda::diagnostic(error).error_type,
        "IdempotencyEnvironment"
    );
}
