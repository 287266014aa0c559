//! A store that fails before the handler: `on_store_error` and the circuit breaker, as the caller sees them.
//!
//! A store that accepts requests and never replies: how soon the caller gets an error. The clock advances by itself.

use std::time::Duration;

use idempotency_core::time::EpochMillis;
use idempotency_lambda::ErrorKind::{AlreadyInProgress, CompletionUnknown, StoreFailed};
use idempotency_lambda::{
    BoxError, Bypass, Circuit, Error, ErrorKind, LambdaEvent, Lookup, OnError, OnInProgress,
    OnStoreError, OnTimeout, Operation, OperationBuilder, idempotent,
};
use idempotency_testkit::store::StoreFault::{
    Hang, LoseReply, LoseRequest, OmitItem, Throttle, TooLarge,
};
use idempotency_testkit::store::StoreOperation::{self, Delete, Put, Read, Update};
use idempotency_tests::End::{AfterRun, Bypassed, Failed, NotStored, Ran, Refused, Replayed};
use idempotency_tests::{End, Harness, START, claim_of_another, keyed, operation, ours};
use serde_json::{Value, json};

use crate::{charge, event, let_others_run, order, variable};

fn unprotected() -> Operation {
    keyed(|of| of.on_store_error(OnStoreError::RunUnprotected))
}

/// Returns the end of an unprotected run with this number.
fn ran_unprotected(run: usize) -> End<usize> {
    Bypassed(Bypass::StoreFailed, run)
}

fn with_breaker() -> Operation {
    keyed(|of| of.circuit_breaker(true))
}

/// Opens the circuit: five claims are throttled.
async fn open_circuit(harness: &Harness, charge: &Operation) {
    harness.fail(Put, 5, Throttle);
    for _ in 0..5 {
        let other = json!({ "order_id": 8 });
        harness.call(charge, other).await.unwrap_err();
    }
    assert_eq!(harness.backend.circuit(), Circuit::Open);
}

#[tokio::test]
async fn a_throttled_claim_refuses_the_call_or_runs_it_unprotected_by_policy() {
    let harness = Harness::default();
    harness.fail(Put, 2, Throttle);
    assert_eq!(harness.end(&charge(), order()).await, Refused(StoreFailed));
    let unprotected = unprotected();
    let call = async || harness.end(&unprotected, order()).await;
    assert_eq!(call().await, ran_unprotected(1));
    // Two claims. Nothing is stored of the run, so a retry runs again.
    assert_eq!(harness.requests(), [2, 0, 0, 0]);
    assert!(harness.store.inner().is_empty());
    assert_eq!(call().await, Ran(2));
    assert_eq!(call().await, Replayed(2));
}

#[tokio::test]
async fn an_unprotected_handler_that_fails_ends_as_it_would_without_this_framework() {
    let (harness, charge) = (Harness::default(), unprotected());
    harness.fail(Put, 1, Throttle);
    let declined = async |_| Err::<u32, _>(BoxError::from("declined"));
    let end = harness.end_with(&charge, order(), declined).await;
    assert_eq!(end, Failed("declined".to_owned()));
}

#[tokio::test]
async fn a_hanging_store_costs_store_timeout_and_then_the_handler_runs() {
    let harness = hanging(&[Put, Read, Update]);
    let end = harness.end(&unprotected(), order()).await;
    assert_eq!(end, ran_unprotected(1));
    // The claim: 3 s less 200 ms. After the run the completion has 3 s less 200 ms again.
    assert_eq!(harness.elapsed(), 2_800 + 2_800);
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
}

/// Returns a harness on which it is not known whether the next claim was applied: it was, or it was lost.
fn with_an_unknown_claim(is_applied: bool) -> Harness {
    let harness = Harness::advancing();
    harness.fail(Put, 1, if is_applied { LoseReply } else { LoseRequest });
    harness.fail(Read, 1, Throttle);
    harness
}

#[tokio::test]
async fn the_response_is_stored_if_the_claim_was_applied_although_its_reply_was_lost() {
    let (harness, charge) = (with_an_unknown_claim(true), unprotected());
    let call = harness.end_with(&charge, order(), async |run| {
        let duplicate = harness.end_elsewhere(&charge, order()).await;
        assert_eq!(duplicate, Refused(AlreadyInProgress));
        Ok(run)
    });
    assert_eq!(call.await, ran_unprotected(1));
    assert_eq!(harness.end_elsewhere(&charge, order()).await, Replayed(1));
}

#[tokio::test]
async fn the_response_of_an_unprotected_run_yields_to_a_stored_one() {
    let (harness, charge) = (with_an_unknown_claim(false), unprotected());
    let call = harness.end_with(&charge, order(), async |run| {
        assert_eq!(harness.end_elsewhere(&charge, order()).await, Ran(2));
        Ok(run)
    });
    assert_eq!(call.await, Replayed(2));
}

#[tokio::test]
async fn the_response_of_an_unprotected_run_is_returned_although_it_cannot_be_stored() {
    let (harness, charge) = (with_an_unknown_claim(true), unprotected());
    harness.fail(Update, 4, Throttle);
    let call = harness.end(&charge, order());
    assert_eq!(call.await, ran_unprotected(1));
    // The claim is there until its lease ends.
    let duplicate = async || harness.end_elsewhere(&charge, order()).await;
    assert_eq!(duplicate().await, Refused(AlreadyInProgress));
    harness.pass(31_000);
    assert_eq!(duplicate().await, Ran(2));
}

#[tokio::test]
async fn no_call_runs_unprotected_beside_another_or_after_a_mistake_that_an_operator_must_correct()
{
    // A call of another process.
    let harness = Harness::default();
    let waits = keyed(|of| {
        of.on_store_error(OnStoreError::RunUnprotected)
            .on_in_progress(OnInProgress::Wait)
    });
    let call = harness.end_with(&waits, order(), async |run| {
        harness.fail(Put, 1, OmitItem);
        harness.fail(Read, 1, Throttle);
        let duplicate = harness.end_elsewhere(&waits, order()).await;
        assert_eq!(duplicate, Refused(StoreFailed));
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
    // An unprotected call of the same process.
    let (harness, charge) = (Harness::default(), unprotected());
    harness.fail(Put, 9, Throttle);
    let first = harness.end_with(&charge, order(), async |run| {
        let_others_run(1).await;
        Ok(run)
    });
    let (first, second) = tokio::join!(first, harness.end(&charge, order()));
    assert_eq!(first, ran_unprotected(1));
    assert_eq!(second, Refused(AlreadyInProgress));

    let harness = Harness::default();
    harness.fail(Put, 1, TooLarge);
    assert_eq!(harness.end(&charge, order()).await, Refused(StoreFailed));
}

#[tokio::test]
async fn the_variable_is_the_setting_of_operations_without_one() {
    let run_unprotected = || variable("IDEMPOTENCY_ON_STORE_ERROR", "run-unprotected");
    let of_variable = keyed(|of| of.variables(run_unprotected()));
    let overridden = keyed(|of| {
        of.variables(run_unprotected())
            .on_store_error(OnStoreError::Fail)
    });
    let harness = Harness::default();
    harness.fail(Put, 2, Throttle);
    let end = harness.end(&of_variable, order()).await;
    assert_eq!(end, ran_unprotected(1));
    let end = harness.end(&overridden, order()).await;
    assert_eq!(end, Refused(StoreFailed));

    let held = operation()
        .variables(run_unprotected())
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
    harness.fail(Put, 1, Throttle);
    let call = harness.within(notify(event(order())));
    assert_eq!(call.await.unwrap(), 7);
    assert!(harness.store.inner().is_empty());
}

#[tokio::test]
async fn an_open_circuit_refuses_calls_without_a_request_until_a_probe_succeeds() {
    let (harness, charge) = (Harness::default(), with_breaker());
    // A completion is sent while the circuit is open.
    let call = harness.end_with(&charge, json!({ "order_id": 1 }), async |run| {
        open_circuit(&harness, &charge).await;
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
    let error = harness.call(&charge, order()).await.unwrap_err();
    let error = ours(&error);
    assert_eq!(error.kind(), StoreFailed);
    assert!(!error.handler_ran() && error.kind().is_retryable());
    let text = error.to_string();
    assert!(text.contains("the circuit breaker is open until"), "{text}");
    let until = EpochMillis::new(START + 1_000);
    assert_eq!(error.circuit_open_until(), Some(until));
    assert_eq!(harness.requests(), [6, 1, 0, 0]);

    harness.pass(1_001);
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
    assert_eq!(harness.backend.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn the_circuit_is_shared_by_the_operations_of_a_process_that_use_it() {
    let harness = Harness::default();
    let ships = keyed(|of| of.key_prefix("local.shop.ship").circuit_breaker(true));
    open_circuit(&harness, &with_breaker()).await;
    assert_eq!(harness.end(&ships, order()).await, Refused(StoreFailed));
    // An operation without the setting asks the store, and another process has a circuit of its own.
    assert_eq!(harness.end(&charge(), order()).await, Ran(1));
    assert_eq!(harness.backend.circuit(), Circuit::Open);
    assert_eq!(harness.end_elsewhere(&ships, order()).await, Ran(2));
}

#[tokio::test]
async fn an_open_circuit_spares_the_deadline_when_the_store_hangs() {
    let (harness, charge) = (hanging(EVERY_KIND), with_breaker());
    for _ in 0..5 {
        harness.call(&charge, order()).await.unwrap_err();
    }
    assert_eq!(harness.backend.circuit(), Circuit::Open);
    let before = harness.elapsed();
    assert_eq!(harness.end(&charge, order()).await, Refused(StoreFailed));
    assert_eq!(harness.elapsed(), before);
}

#[tokio::test]
async fn beside_an_open_circuit_a_response_is_replayed_from_the_cache() {
    let harness = Harness::default();
    let charge = keyed(|of| of.local_cache(8).circuit_breaker(true));
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    open_circuit(&harness, &charge).await;
    assert_eq!(harness.end(&charge, order()).await, Replayed(1));
}

#[tokio::test]
async fn a_probe_that_is_dropped_gives_way_to_another_one() {
    let (harness, charge) = (Harness::default(), with_breaker());
    open_circuit(&harness, &charge).await;
    harness.pass(1_001);
    harness.fail(Put, 1, Hang);
    let hung = harness.store.hung();
    tokio::select! {
        biased;
        _ = harness.call(&charge, order()) => unreachable!("the claim hangs"),
        () = hung => {}
    }
    assert_eq!(harness.backend.circuit(), Circuit::HalfOpen);
    assert_eq!(harness.end(&charge, order()).await, Refused(StoreFailed));
    harness.pass(3_001);
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
}

/// Returns a harness on which every request of these kinds hangs.
fn hanging(kinds: &[StoreOperation]) -> Harness {
    let harness = Harness::advancing();
    for kind in kinds {
        harness.fail(*kind, 20, Hang);
    }
    harness
}

const EVERY_KIND: &[StoreOperation] = &[Put, Update, Delete, Read];

/// Makes a call with this many milliseconds left.
async fn call_with_left(
    harness: &Harness,
    settings: impl FnOnce(OperationBuilder) -> OperationBuilder,
    left: u64,
) -> End<usize> {
    let deadline = harness.deadline_in(Duration::from_millis(left));
    let (process, charge) = (harness.backend.clone(), keyed(settings));
    let call = harness.call_in(process, deadline, &charge, order(), async |run| Ok(run));
    idempotency_tests::end(call.await)
}

#[tokio::test]
async fn a_hanging_store_is_reported_within_three_seconds_and_before_the_deadline() {
    // The time left = the time until the error, in milliseconds.
    let claim_first = "30000=3000 10000=3000 6000=3000 3000=1500 1000=500 400=300 100=75";
    let read_first = "30000=3000 6000=3000 3000=1500 1200=600 1000=550 400=325 300=244";
    for (lookup, rows) in [
        (Lookup::ClaimFirst, claim_first),
        (Lookup::ReadFirst, read_first),
    ] {
        let reads = usize::from(lookup == Lookup::ReadFirst);
        for row in rows.split(' ') {
            let (left, expected) = row.split_once('=').unwrap();
            let (left, expected): (u64, i64) = (left.parse().unwrap(), expected.parse().unwrap());
            let harness = hanging(EVERY_KIND);
            let end = call_with_left(&harness, |of| of.lookup(lookup), left).await;
            let row = format!("{lookup:?} with {left} ms left");
            assert_eq!(end, Refused(StoreFailed), "{row}");
            assert_eq!(harness.elapsed(), expected, "{row}");
            assert!(expected * 6 <= left as i64 * 5, "{row}");
            // The read, the claim, and a release because the claim may have been applied.
            assert_eq!(harness.requests(), [1, 1, 0, reads], "{row}");
        }
    }
    let error = hanging(EVERY_KIND).call(&charge(), order()).await;
    let text = error.unwrap_err().to_string();
    for part in ["gave no response", "store_timeout"] {
        assert!(text.contains(part), "{text}");
    }
}

#[idempotent(key = "order_id", store_timeout = "700ms")]
async fn charge_soon(_event: LambdaEvent<Value>) -> Result<u32, Error> {
    Ok(42)
}

#[tokio::test]
async fn the_builder_the_variable_and_the_attribute_limit_the_time_of_the_claim() {
    let of_variable = variable("IDEMPOTENCY_STORE_TIMEOUT", "700ms");
    let limit = Duration::from_millis(700);
    let builders = [
        keyed(|of| of.variables(of_variable)),
        keyed(|of| of.store_timeout(limit)),
    ];
    for charge in builders {
        let harness = hanging(EVERY_KIND);
        assert_eq!(harness.end(&charge, order()).await, Refused(StoreFailed));
        assert_eq!(harness.elapsed(), 700);
    }
    let harness = hanging(EVERY_KIND);
    let call = harness.within(charge_soon(event(order())));
    assert_eq!(call.await.unwrap_err().kind(), StoreFailed);
    assert_eq!(harness.elapsed(), 700);
}

#[tokio::test]
async fn after_the_handler_a_request_that_decides_the_callers_result_may_take_until_the_deadline() {
    let harness = hanging(&[Update]);
    let end = call_with_left(&harness, |of| of, 10_000).await;
    assert_eq!(
        (end, harness.elapsed()),
        (AfterRun(CompletionUnknown), 9_800)
    );
    // A response that is not stored waits for its release because it yields to a stored one.
    let harness = hanging(&[Update]);
    let end = call_with_left(&harness, |of| of.store_when("`false`"), 10_000).await;
    assert_eq!((end, harness.elapsed()), (NotStored(1), 9_800));
}

#[tokio::test]
async fn a_handlers_error_waits_for_a_hanging_release_no_longer_than_the_setting() {
    for (on_error, kind) in [(OnError::Release, Delete), (OnError::Record, Update)] {
        let harness = hanging(&[kind]);
        let charge = keyed(|of| of.on_error(on_error));
        let declined = async |_| Err::<u32, BoxError>("declined".into());
        let end = harness.end_with(&charge, order(), declined).await;
        assert_eq!(end, Failed("declined".to_owned()));
        assert_eq!(harness.elapsed(), 3_000);
        assert_eq!(harness.store.count(kind), 1);
    }
}

#[tokio::test]
async fn a_hanging_read_of_a_wait_takes_no_more_than_its_share_and_the_wait_continues() {
    let harness = Harness::advancing();
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    harness.insert(&charge, &json!(7), claim_of_another(9_000));
    harness.fail(Read, 3, Hang);
    // Three reads hang for 2.8 s each. Then the other's lease has expired, and this call runs.
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    let took = harness.elapsed();
    assert!((9_000..10_500).contains(&took), "{took} ms");
}
