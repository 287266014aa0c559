//! Errors: what the caller, the record and duplicates get after a failure, whether the handler ran, and the cause.

use std::error::Error as _;
use std::time::Duration;

use idempotency_core::owner::OwnerToken;
use idempotency_core::record::{Field, Record, Status};
use idempotency_core::store::{StoreError, StoreErrorKind};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{BoxError, ErrorKind, OnError, OnInProgress, Operation};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, operation, ours};
use serde_json::{Value, json};

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
#[derive(Debug, serde::Deserialize)]
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
    assert_eq!(harness.store.count(StoreOperation::Delete), 1);
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
