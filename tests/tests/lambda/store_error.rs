//! A store that fails before the handler: `on_store_error` and the circuit breaker, as the caller sees them.
//!
//! A store that accepts requests and never replies: how soon the caller gets an error. The clock advances by itself.

use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::record::{Field, OwnerToken, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{
    BoxError, Bypass, Circuit, Context, Error, ErrorKind, LambdaEvent, Lookup, OnError,
    OnInProgress, OnStoreError, OnTimeout, Operation, Outcome, OutcomeKind, idempotent,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, keyed, operation, ours};
use serde_json::{Value, json};

use super::event;

fn order() -> Value {
    json!({ "order_id": 7 })
}

fn unprotected() -> Operation {
    keyed(|of| of.on_store_error(OnStoreError::RunUnprotected))
}

fn with_breaker() -> Operation {
    keyed(|of| of.circuit_breaker(true))
}

/// Throttles the next `times` requests of this kind.
fn throttle(harness: &Harness, kind: StoreOperation, times: usize) {
    (1..=times).for_each(|nth| harness.inject(kind, nth, StoreFault::Throttle));
}

/// Opens the circuit: five claims are throttled.
async fn open_circuit(harness: &Harness, charge: &Operation) {
    throttle(harness, StoreOperation::Put, 5);
    for _ in 0..5 {
        harness.call(charge, order()).await.unwrap_err();
    }
    assert_eq!(harness.backend.circuit(), Circuit::Open);
}

fn is_unprotected<R>(outcome: &Outcome<R>) -> bool {
    *outcome.kind() == OutcomeKind::Bypassed(Bypass::StoreFailed)
}

#[tokio::test]
async fn a_throttled_claim_refuses_the_call_or_runs_it_unprotected_by_policy() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 2);
    let fails = keyed(|of| of);
    assert_eq!(
        harness.refused(&fails, order()).await,
        ErrorKind::StoreFailed
    );
    assert_eq!(harness.runs(), 0);

    let outcome = harness.call(&unprotected(), order()).await.unwrap();
    assert!(is_unprotected(&outcome));
    assert_eq!(harness.runs(), 1);
    // Two claims. Nothing is stored of the run.
    assert_eq!(harness.requests(), [2, 0, 0, 0]);
    assert!(harness.store.inner().is_empty());
}

#[tokio::test]
async fn a_retry_after_an_unprotected_run_runs_again() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 1);
    let charge = unprotected();
    harness.call(&charge, order()).await.unwrap();
    let again = harness.call(&charge, order()).await.unwrap();
    assert_eq!(again.into_response(), 2);
    let replay = harness.call(&charge, order()).await.unwrap();
    assert!(replay.is_replayed());
}

#[tokio::test]
async fn an_unprotected_handler_that_fails_or_panics_ends_as_it_would_without_this_framework() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 2);
    let charge = unprotected();
    let declined = async |_| Err::<u32, _>(BoxError::from("declined"));
    let error = harness.call_with(&charge, order(), declined).await;
    assert_eq!(error.unwrap_err().to_string(), "declined");
    let panics =
        async |_| -> Result<u32, BoxError> { std::panic::resume_unwind(Box::new("on purpose")) };
    let call = harness.call_with(&charge, order(), panics);
    let panic = idempotency_tests::unless_it_panics(call).await.unwrap_err();
    assert_eq!(*panic.downcast::<&str>().unwrap(), "on purpose");
}

#[tokio::test]
async fn a_hanging_store_costs_store_timeout_and_then_the_handler_runs() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for kind in [
        StoreOperation::Put,
        StoreOperation::Read,
        StoreOperation::Update,
    ] {
        harness.inject(kind, 1, StoreFault::Hang);
    }
    let outcome = harness.call(&unprotected(), order()).await.unwrap();
    assert!(is_unprotected(&outcome));
    // The claim: 3 s less 200 ms. After the run the completion has 3 s less 200 ms again.
    let took = harness.now().get() - START;
    assert_eq!(took, 2_800 + 2_800);
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
}

#[tokio::test]
async fn the_response_is_stored_if_the_claim_was_applied_although_its_reply_was_lost() {
    let harness = Harness::default();
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    let charge = unprotected();
    let outcome = harness.call(&charge, order()).await.unwrap();
    assert!(is_unprotected(&outcome));
    let duplicate = harness.call_elsewhere(&charge, order()).await.unwrap();
    assert!(duplicate.is_replayed());
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn a_duplicate_is_refused_while_the_claim_of_an_unprotected_run_is_there() {
    let harness = Harness::default();
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    let charge = unprotected();
    let outcome = harness.call_with(&charge, order(), async |run| {
        assert_eq!(
            harness.refused_elsewhere(&charge, order()).await,
            ErrorKind::AlreadyInProgress
        );
        Ok(run)
    });
    assert_eq!(outcome.await.unwrap().into_response(), 1);
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn the_response_of_an_unprotected_run_yields_to_a_stored_one() {
    let harness = Harness::default();
    // The claim is lost and never applied.
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseRequest);
    throttle(&harness, StoreOperation::Read, 1);
    let charge = unprotected();
    let outcome = harness.call_with(&charge, order(), async |run| {
        let other = harness.call_elsewhere(&charge, order()).await.unwrap();
        assert!(!other.is_replayed());
        Ok(run)
    });
    let outcome = outcome.await.unwrap();
    assert!(outcome.is_replayed());
    assert_eq!(outcome.into_response(), 2);
}

#[tokio::test]
async fn the_response_of_an_unprotected_run_is_returned_although_it_cannot_be_stored() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    throttle(&harness, StoreOperation::Update, 4);
    let outcome = harness.call(&unprotected(), order()).await.unwrap();
    assert!(is_unprotected(&outcome));
    // The claim is there until its lease ends.
    let duplicate = harness.call_elsewhere(&unprotected(), order()).await;
    assert_eq!(
        ours(&duplicate.unwrap_err()).kind(),
        ErrorKind::AlreadyInProgress
    );
    harness.clock.advance(Duration::from_secs(31));
    let rerun = harness.call_elsewhere(&unprotected(), order()).await;
    assert_eq!(rerun.unwrap().into_response(), 2);
}

#[tokio::test]
async fn a_call_that_met_another_one_does_not_run_unprotected() {
    let harness = Harness::default();
    let waits = keyed(|of| {
        of.on_store_error(OnStoreError::RunUnprotected)
            .on_in_progress(OnInProgress::Wait)
    });
    let outcome = harness.call_with(&waits, order(), async |run| {
        harness.inject(StoreOperation::Put, 1, StoreFault::OmitItem);
        throttle(&harness, StoreOperation::Read, 1);
        assert_eq!(
            harness.refused_elsewhere(&waits, order()).await,
            ErrorKind::StoreFailed
        );
        Ok(run)
    });
    outcome.await.unwrap();
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn duplicates_in_one_process_do_not_run_beside_an_unprotected_run() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 9);
    let charge = unprotected();
    let first = harness.call_with(&charge, order(), async |run| {
        tokio::task::yield_now().await;
        Ok(run)
    });
    let (first, second) = tokio::join!(first, harness.call(&charge, order()));
    assert!(!first.unwrap().is_replayed());
    assert_eq!(
        ours(&second.unwrap_err()).kind(),
        ErrorKind::AlreadyInProgress
    );
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn a_mistake_that_an_operator_must_correct_is_followed_by_no_run() {
    let harness = Harness::default();
    harness.inject(StoreOperation::Put, 1, StoreFault::TooLarge);
    assert_eq!(
        harness.refused(&unprotected(), order()).await,
        ErrorKind::StoreFailed
    );
    assert_eq!(harness.runs(), 0);
}

#[tokio::test]
async fn the_variable_is_the_setting_of_operations_without_one() {
    let variables = |policy: &str| {
        let variable = ("IDEMPOTENCY_ON_STORE_ERROR".to_owned(), policy.to_owned());
        Variables::from_iter([variable])
    };
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 2);
    let builder = || operation().key("order_id");
    let of_variable = builder().variables(variables("run-unprotected")).build();
    assert!(harness.call(&of_variable.unwrap(), order()).await.is_ok());
    let overridden = builder()
        .variables(variables("run-unprotected"))
        .on_store_error(OnStoreError::Fail);
    let error = harness.call(&overridden.build().unwrap(), order()).await;
    assert_eq!(ours(&error.unwrap_err()).kind(), ErrorKind::StoreFailed);

    let held = builder()
        .variables(variables("run-unprotected"))
        .on_timeout(OnTimeout::Hold);
    let error = held.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("contradicts"), "{error}");
}

#[idempotent(
    key = "order_id",
    key_prefix = "store-error.notify",
    on_store_error = "run-unprotected"
)]
async fn notify(event: LambdaEvent<Value>) -> Result<u64, Error> {
    Ok(event.payload["order_id"].as_u64().unwrap_or(0))
}

#[tokio::test]
async fn the_attribute_runs_the_handler_too() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 1);
    let call = harness.within(notify(event(order())));
    assert_eq!(call.await.unwrap(), 7);
    assert!(harness.store.inner().is_empty());
}

#[tokio::test]
async fn an_open_circuit_refuses_calls_without_a_request_until_a_probe_succeeds() {
    let harness = Harness::default();
    let charge = with_breaker();
    open_circuit(&harness, &charge).await;
    let error = harness.call(&charge, order()).await.unwrap_err();
    let error = ours(&error);
    assert_eq!(error.kind(), ErrorKind::StoreFailed);
    assert!(!error.handler_ran() && error.kind().is_retryable());
    let text = error.to_string();
    assert!(text.contains("the circuit breaker is open until"), "{text}");
    let until = EpochMillis::new(START + 1_000);
    assert_eq!(error.circuit_open_until(), Some(until));
    assert_eq!(harness.requests(), [5, 0, 0, 0]);

    harness.clock.advance(Duration::from_millis(1_001));
    let outcome = harness.call(&charge, order()).await.unwrap();
    assert_eq!(outcome.into_response(), 1);
    assert_eq!(harness.backend.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn the_circuit_is_shared_by_the_operations_of_a_process_that_use_it() {
    let harness = Harness::default();
    let ships = keyed(|of| of.key_prefix("local.shop.ship").circuit_breaker(true));
    let plain = keyed(|of| of);
    open_circuit(&harness, &with_breaker()).await;
    assert_eq!(
        harness.refused(&ships, order()).await,
        ErrorKind::StoreFailed
    );
    // An operation without the setting asks the store, and another process has a circuit of its own.
    assert!(harness.call(&plain, order()).await.is_ok());
    assert_eq!(harness.backend.circuit(), Circuit::Open);
    assert!(harness.call_elsewhere(&ships, order()).await.is_ok());
}

#[tokio::test]
async fn an_open_circuit_spares_the_deadline_when_the_store_hangs() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for kind in [
        StoreOperation::Put,
        StoreOperation::Read,
        StoreOperation::Update,
    ] {
        (1..=20).for_each(|nth| harness.inject(kind, nth, StoreFault::Hang));
    }
    let charge = with_breaker();
    for _ in 0..5 {
        harness.call(&charge, order()).await.unwrap_err();
    }
    assert_eq!(harness.backend.circuit(), Circuit::Open);
    let before = harness.now();
    harness.call(&charge, order()).await.unwrap_err();
    assert_eq!(before.until(harness.now()), Duration::ZERO);
}

#[tokio::test]
async fn completions_are_sent_while_the_circuit_is_open() {
    let harness = Harness::default();
    let charge = with_breaker();
    let outcome = harness.call_with(&charge, json!({ "order_id": 1 }), async |run| {
        open_circuit(&harness, &charge).await;
        Ok(run)
    });
    let outcome = outcome.await.unwrap();
    assert!(matches!(
        outcome.kind(),
        OutcomeKind::Executed { stored: true, .. }
    ));
}

#[tokio::test]
async fn an_open_circuit_runs_a_call_of_that_policy_unprotected() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 5);
    let charge = keyed(|of| {
        of.circuit_breaker(true)
            .on_store_error(OnStoreError::RunUnprotected)
    });
    for _ in 0..6 {
        let outcome = harness.call(&charge, order()).await.unwrap();
        assert!(is_unprotected(&outcome));
    }
    assert_eq!(harness.requests(), [5, 0, 0, 0]);
    assert_eq!(harness.runs(), 6);
}

#[tokio::test]
async fn a_response_in_the_local_cache_is_replayed_while_the_circuit_is_open() {
    let harness = Harness::default();
    let charge = keyed(|of| of.local_cache(8).circuit_breaker(true));
    harness.call(&charge, order()).await.unwrap();
    throttle(&harness, StoreOperation::Put, 5);
    for _ in 0..5 {
        let other = json!({ "order_id": 8 });
        harness.call(&charge, other).await.unwrap_err();
    }
    assert_eq!(harness.backend.circuit(), Circuit::Open);
    assert!(harness.call(&charge, order()).await.unwrap().is_replayed());
}

#[tokio::test]
async fn a_probe_that_is_dropped_gives_way_to_another_one() {
    let harness = Harness::default();
    let charge = with_breaker();
    open_circuit(&harness, &charge).await;
    harness.clock.advance(Duration::from_millis(1_001));
    harness.inject(StoreOperation::Put, 1, StoreFault::Hang);
    let hung = harness.store.hung();
    tokio::select! {
        biased;
        _ = harness.call(&charge, order()) => unreachable!("the claim hangs"),
        () = hung => {}
    }
    assert_eq!(harness.backend.circuit(), Circuit::HalfOpen);
    harness.call(&charge, order()).await.unwrap_err();
    harness.clock.advance(Duration::from_millis(3_001));
    assert!(harness.call(&charge, order()).await.is_ok());
}

/// Returns a harness on which every request of these kinds hangs.
fn hanging(kinds: &[StoreOperation]) -> Harness {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for kind in kinds {
        for nth in 1..=20 {
            harness.inject(*kind, nth, StoreFault::Hang);
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
    let outcome = harness.within(call).await;
    let took = harness.now().get() - START;
    (outcome.map(|outcome| outcome.into_response()), took)
}

fn charge() -> Operation {
    keyed(|of| of)
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
        let charge = keyed(|of| of.lookup(Lookup::ReadFirst));
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
    let call = harness.within(charge_soon(event));
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
        let charge = keyed(|of| of.on_error(on_error));
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let payload = json!({ "order_id": 7 });
        let call = charge.run(&payload, deadline, || async {
            Err::<u32, BoxError>("declined".into())
        });
        let result = harness.within(call).await;
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
    harness.inject(StoreOperation::Put, 1, StoreFault::HangAfter);
    let (result, took) = call_with_left(&harness, &charge(), 10_000).await;
    assert_eq!(ours(&result.unwrap_err()).kind(), ErrorKind::StoreFailed);
    assert_eq!(took, 2_800);
    let (result, _) = call_with_left(&harness, &charge(), 10_000).await;
    assert_eq!(result.unwrap(), 42);
}

#[tokio::test]
async fn a_hanging_read_of_a_wait_takes_no_more_than_its_share_and_the_wait_continues() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    let claim = Record {
        expiration: Field::Value(EpochSeconds::new(START / 1_000 + 3_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(START + 9_000)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(OwnerToken::from_bytes([9; 16])),
        ..Record::default()
    };
    harness.store.inner().insert(id(&charge, &json!(7)), claim);
    for nth in 1..=3 {
        harness.inject(StoreOperation::Read, nth, StoreFault::Hang);
    }
    // Three reads hang for 2.8 s each. Then the other's lease has expired, and this call runs.
    let (result, took) = call_with_left(&harness, &charge, 30_000).await;
    assert_eq!(result.unwrap(), 42);
    assert!((9_000..10_500).contains(&took), "{took} ms");
}
