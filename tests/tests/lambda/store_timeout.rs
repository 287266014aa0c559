//! A store that accepts requests and never replies: how soon the caller gets an error. The clock advances by itself.

use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::owner::OwnerToken;
use idempotency_core::record::{Field, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{
    BoxError, Context, Error, ErrorKind, LambdaEvent, Lookup, OnError, OnInProgress, Operation,
    idempotent, with_backend,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, operation, ours};
use serde_json::{Value, json};

/// Returns a harness on which every request of these kinds hangs.
fn hanging(kinds: &[StoreOperation]) -> Harness {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for kind in kinds {
        for nth in 1..=20 {
            harness.store.inject(*kind, nth, StoreFault::Hang);
        }
    }
    harness
}

const EVERY_KIND: &[StoreOperation] = &[
    StoreOperation::Put,
    StoreOperation::Update,
    StoreOperation::Delete,
    StoreOperation::Read,
];

/// Makes a call with this many milliseconds left. Returns its result and its duration in milliseconds.
async fn call_with_left(
    harness: &Harness,
    charge: &Operation,
    milliseconds: u64,
) -> (Result<u32, BoxError>, i64) {
    let deadline = harness.deadline_in(Duration::from_millis(milliseconds));
    let payload = json!({ "order_id": 7 });
    let call = charge.run(&payload, deadline, || async { Ok::<_, BoxError>(42) });
    let outcome = with_backend(harness.backend.clone(), call).await;
    let took = harness.now().get() - START;
    (outcome.map(|outcome| outcome.into_response()), took)
}

fn charge() -> Operation {
    operation().key("order_id").build().unwrap()
}

#[tokio::test]
async fn with_ten_seconds_left_a_hanging_store_is_reported_within_three() {
    let harness = hanging(EVERY_KIND);
    let (result, took) = call_with_left(&harness, &charge(), 10_000).await;
    let error = result.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert!(!ours(&error).handler_ran());
    assert_eq!(took, 3_000);
    // The claim, and a release because the claim may have been applied.
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
    let text = error.to_string();
    assert!(text.contains("gave no response"), "{text}");
    assert!(text.contains("store_timeout"), "{text}");
}

#[tokio::test]
async fn however_little_time_is_left_a_hanging_store_is_reported_before_the_deadline() {
    for (left, expected) in [
        (30_000, 3_000),
        (6_000, 3_000),
        (3_000, 1_500),
        (1_000, 500),
        (400, 300),
        (100, 75),
    ] {
        let harness = hanging(EVERY_KIND);
        let (result, took) = call_with_left(&harness, &charge(), left).await;
        assert_eq!(ours(&result.unwrap_err()).kind(), ErrorKind::StoreFailed);
        assert_eq!(took, expected, "with {left} ms left");
    }
}

#[tokio::test]
async fn a_call_that_reads_first_reports_a_hanging_store_as_soon() {
    for (left, expected) in [
        (30_000, 3_000),
        (6_000, 3_000),
        (3_000, 1_500),
        (1_200, 600),
        (1_000, 550),
        (400, 325),
        (300, 244),
    ] {
        let harness = hanging(EVERY_KIND);
        let builder = operation().key("order_id").lookup(Lookup::ReadFirst);
        let charge = builder.build().unwrap();
        let (result, took) = call_with_left(&harness, &charge, left).await;
        let error = result.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
        assert_eq!(took, expected, "with {left} ms left");
        assert!(took * 6 <= left as i64 * 5, "with {left} ms left");
        // The read, the claim, and a release because the claim may have been applied.
        assert_eq!(harness.requests(), [1, 1, 0, 1]);
    }
}

#[tokio::test]
async fn the_builder_and_the_variable_limit_the_time_of_the_claim() {
    let variable = ("IDEMPOTENCY_STORE_TIMEOUT".to_owned(), "700ms".to_owned());
    let of_variable = operation()
        .key("order_id")
        .variables(Variables::from_iter([variable]));
    let of_builder = operation()
        .key("order_id")
        .store_timeout(Duration::from_millis(700));
    for builder in [of_variable, of_builder] {
        let harness = hanging(EVERY_KIND);
        let (result, took) = call_with_left(&harness, &builder.build().unwrap(), 10_000).await;
        assert_eq!(ours(&result.unwrap_err()).kind(), ErrorKind::StoreFailed);
        assert_eq!(took, 700);
    }
}

#[idempotent(key = "order_id", store_timeout = "600ms")]
async fn charge_soon(_event: LambdaEvent<Value>) -> Result<u32, Error> {
    Ok(42)
}

#[tokio::test]
async fn the_attribute_limits_the_time_of_the_claim() {
    let harness = hanging(EVERY_KIND);
    let mut context = Context::default();
    context.deadline = u64::try_from(START + 10_000).unwrap();
    let event = LambdaEvent::new(json!({ "order_id": 7 }), context);
    let call = with_backend(harness.backend.clone(), charge_soon(event));
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::StoreFailed);
    assert_eq!(harness.now().get() - START, 600);
}

#[tokio::test]
async fn a_completion_may_take_until_the_deadline() {
    let harness = hanging(&[StoreOperation::Update]);
    let (result, took) = call_with_left(&harness, &charge(), 10_000).await;
    let error = result.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    assert_eq!(took, 9_800);
}

#[tokio::test]
async fn a_handlers_error_waits_for_a_hanging_release_no_longer_than_the_setting() {
    for (on_error, kind) in [
        (OnError::Release, StoreOperation::Delete),
        (OnError::Record, StoreOperation::Update),
    ] {
        let harness = hanging(&[kind]);
        let builder = operation().key("order_id").on_error(on_error);
        let charge = builder.build().unwrap();
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let payload = json!({ "order_id": 7 });
        let call = charge.run(&payload, deadline, || async {
            Err::<u32, BoxError>("declined".into())
        });
        let result = with_backend(harness.backend.clone(), call).await;
        assert_eq!(result.unwrap_err().to_string(), "declined");
        assert_eq!(harness.now().get() - START, 3_000);
        assert_eq!(harness.store.count(kind), 1);
    }
}

#[tokio::test]
async fn a_response_that_is_not_stored_waits_for_a_hanging_release_because_it_yields_to_a_stored_one()
 {
    let harness = hanging(&[StoreOperation::Delete]);
    let builder = operation().key("order_id").store_when("`false`");
    let (result, took) = call_with_left(&harness, &builder.build().unwrap(), 10_000).await;
    assert_eq!(result.unwrap(), 42);
    assert_eq!(took, 9_800);
}

#[tokio::test]
async fn a_claim_that_was_applied_without_a_reply_is_released_so_that_a_retry_runs() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness
        .store
        .inject(StoreOperation::Put, 1, StoreFault::HangAfter);
    let (result, took) = call_with_left(&harness, &charge(), 10_000).await;
    assert_eq!(ours(&result.unwrap_err()).kind(), ErrorKind::StoreFailed);
    assert_eq!(took, 2_800);
    let (result, _) = call_with_left(&harness, &charge(), 10_000).await;
    assert_eq!(result.unwrap(), 42);
}

#[tokio::test]
async fn a_hanging_read_of_a_wait_takes_no_more_than_its_share_and_the_wait_continues() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    let charge = operation()
        .key("order_id")
        .on_in_progress(OnInProgress::Wait)
        .build()
        .unwrap();
    let claim = Record {
        expiration: Field::Value(EpochSeconds::new(START / 1_000 + 3_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(START + 9_000)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(OwnerToken::from_bytes([9; 16])),
        ..Record::default()
    };
    harness.store.inner().insert(id(&charge, &json!(7)), claim);
    for nth in 1..=3 {
        harness
            .store
            .inject(StoreOperation::Read, nth, StoreFault::Hang);
    }
    // Three reads hang for 2.8 s each. Then the other's lease has expired, and this call runs.
    let (result, took) = call_with_left(&harness, &charge, 30_000).await;
    assert_eq!(result.unwrap(), 42);
    assert!((9_000..10_500).contains(&took), "{took} ms");
}
