//! Fifteen hazards found in other libraries. Each test fails if its hazard is put back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::record::{Data, Field, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::ErrorKind::{
    AlreadyInProgress, Configuration, ExpressionFailed, LostOwnership, NoTimeLeft, PayloadMismatch,
    ResponseNotSerializable, ResponseUnavailable, StoreFailed,
};
use idempotency_lambda::{BoxError, Bypass, Context, Deadline, HashAlgorithm, Operation};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::End::{AfterRun, Bypassed, Failed, NotStored, Ran, Refused, Replayed};
use idempotency_tests::{End, Harness, START, end, id, keyed, operation};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{Unwritable, charge, let_others_run, order, order_of};

/// Returns the end of a run that succeeds or fails.
fn ends(fails: bool) -> Result<usize, BoxError> {
    match fails {
        true => Err("declined".into()),
        false => Ok(1),
    }
}

fn declined() -> End<usize> {
    Failed("declined".to_owned())
}

fn data(text: &str) -> Field<Data> {
    Field::Value(Data::new(text))
}

fn millis(at: i64) -> Field<EpochMillis> {
    Field::Value(EpochMillis::new(at))
}

#[tokio::test]
async fn hazard_01_a_slow_owner_neither_overwrites_nor_deletes_the_record_of_the_call_that_took_over()
 {
    for (fails, expected) in [(false, Replayed(2)), (true, declined())] {
        let (harness, charge) = (Harness::default(), charge());
        let slow = harness.end_with(&charge, order(), async |_| {
            harness.pass(31_000);
            assert_eq!(harness.end(&charge, order()).await, Ran(2));
            ends(fails)
        });
        assert_eq!(slow.await, expected);
        assert_eq!(harness.record(&charge, &json!(7)).data, data("2"));
    }
}

#[tokio::test]
async fn hazard_01_a_slow_owner_does_not_touch_the_claim_of_the_call_that_took_over() {
    for (fails, expected) in [(false, AfterRun(LostOwnership)), (true, declined())] {
        let (harness, charge) = (Harness::default(), charge());
        let (go_on, wait) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let slow = async {
            let slow = harness.end_with(&charge, order(), async |_| {
                wait.await?;
                ends(fails)
            });
            let slow = slow.await;
            ended.send(()).unwrap();
            slow
        };
        let next = async {
            let_others_run(1).await;
            harness.pass(31_000);
            let next = harness.end_with(&charge, order(), async |run| {
                let claim = harness.record(&charge, &json!(7));
                go_on.send(()).unwrap();
                has_ended.await?;
                assert_eq!(harness.record(&charge, &json!(7)), claim);
                Ok(run)
            });
            next.await
        };
        assert_eq!(tokio::join!(slow, next), (expected, Ran(2)));
    }
}

#[tokio::test]
async fn hazard_01_a_record_completed_by_another_language_is_neither_overwritten_nor_deleted() {
    for (fails, expected) in [(false, Replayed(9)), (true, declined())] {
        let (harness, charge) = (Harness::default(), charge());
        let outcome = harness.end_with(&charge, order(), async |_| {
            // The other language's update does not check the owner and leaves ours in place.
            let mut record = harness.record(&charge, &json!(7));
            record.status = Field::Value(Status::Completed);
            record.data = data("9");
            harness.insert(&charge, &json!(7), record);
            ends(fails)
        });
        assert_eq!(outcome.await, expected);
        assert_eq!(harness.record(&charge, &json!(7)).data, data("9"));
    }
}

#[tokio::test]
async fn hazard_02_a_call_whose_claims_reply_was_lost_does_not_get_in_progress() {
    for fault in [
        StoreFault::Resend,
        StoreFault::LoseReply,
        StoreFault::LoseRequest,
    ] {
        let harness = Harness::default();
        harness.inject(StoreOperation::Put, 1, fault);
        assert_eq!(harness.end(&charge(), order()).await, Ran(1), "{fault:?}");
    }
}

#[tokio::test]
async fn hazard_02_a_claim_without_a_reply_is_released_because_it_may_have_been_applied() {
    let harness = Harness::advancing();
    harness.inject(StoreOperation::Put, 1, StoreFault::HangAfter);
    let call = async || harness.end(&charge(), order()).await;
    assert_eq!(call().await, Refused(StoreFailed));
    assert_eq!(harness.elapsed(), 2_800);
    assert_eq!(call().await, Ran(1), "no claim is left behind");
}

#[tokio::test]
async fn hazard_03_nested_and_parallel_operations_keep_their_own_configuration() {
    let harness = Harness::default();
    let outer = keyed(|of| of.key("outer").key_prefix("outer"));
    let inner = keyed(|of| of.key("inner").key_prefix("inner").validate("amount"));
    let payload = json!({ "outer": 1, "inner": 2, "amount": 3 });
    let call = harness.end_with(&outer, payload.clone(), async |_| {
        assert_eq!(harness.end(&inner, payload.clone()).await, Ran(2));
        Ok(1)
    });
    assert_eq!(call.await, Ran(1));
    assert_eq!(harness.record(&outer, &json!(1)).validation, Field::Absent);
    assert!(harness.record(&inner, &json!(2)).validation.exists());
}

#[tokio::test]
async fn hazard_04_a_wrong_expression_or_hash_name_never_fails_once_and_then_passes() {
    let harness = Harness::default();
    let fails_on_this_payload = "powertools_json(order_id)";
    let by_key = keyed(|of| of.key(fails_on_this_payload));
    let by_validation = keyed(|of| of.validate(fails_on_this_payload));
    for _ in 0..2 {
        let error = operation().key("order_id.").build().unwrap_err();
        assert_eq!(error.kind(), Configuration);
        assert!("md6".parse::<HashAlgorithm>().is_err());
        for charge in [&by_key, &by_validation] {
            let end = harness.end(charge, order()).await;
            assert_eq!(end, Refused(ExpressionFailed));
        }
    }
}

#[tokio::test]
async fn hazard_05_falsy_responses_replay_as_themselves() {
    for response in [
        json!(0),
        json!(false),
        json!(""),
        json!([]),
        json!({}),
        json!(null),
    ] {
        let (harness, charge) = (Harness::default(), charge());
        let call = || harness.end_with(&charge, order(), async |_| Ok(response.clone()));
        assert_eq!(call().await, Ran(response.clone()));
        assert_eq!(call().await, Replayed(response.clone()));
    }
}

/// A response that panics when it is serialized.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct PanicsWhenWritten;

impl serde::Serialize for PanicsWhenWritten {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("in the response")
    }
}

#[tokio::test]
async fn hazard_06_a_response_too_large_or_not_serialisable_never_runs_again() {
    let (harness, charge) = (Harness::default(), charge());
    let payload = |order_id: u32| json!({ "order_id": order_id });
    harness.inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    assert_eq!(harness.end(&charge, payload(1)).await, NotStored(1));
    let unwritable = || harness.end_with(&charge, payload(2), async |_| Ok(Unwritable));
    assert_eq!(unwritable().await, AfterRun(ResponseNotSerializable));
    let panics = || harness.end_with(&charge, payload(3), async |_| Ok(PanicsWhenWritten));
    assert_eq!(panics().await, AfterRun(ResponseNotSerializable));
    let unreadable = harness.end_with(&charge, payload(4), async |_| Ok(f64::NAN));
    assert!(matches!(unreadable.await, NotStored(nan) if nan.is_nan()));
    // Long after the deadline, but within the window.
    harness.pass(60_000);
    for order_id in 1..=4 {
        let again = harness.end(&charge, payload(order_id)).await;
        assert_eq!(again, Refused(ResponseUnavailable), "{order_id}");
    }
}

#[tokio::test]
async fn hazard_07_expiry_is_counted_in_seconds_since_the_epoch_and_not_in_local_time() {
    // The last half hour before daylight saving ends in Europe: 2024-10-27T00:30:00Z, shown as 02:30, then 02:30 again.
    let before_the_change = 1_729_989_000_000;
    let harness = Harness::with_clock(ManualClock::at(before_the_change));
    let charge = keyed(|of| of.expires_after(Duration::from_secs(3_600)));
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    let record = harness.record(&charge, &json!(7));
    let end = EpochSeconds::new(before_the_change / 1_000 + 3_600);
    assert_eq!(record.expiration, Field::Value(end));
    // The lease is in milliseconds, and is 30 s long.
    let lease = millis(before_the_change + 30_000);
    assert_eq!(record.in_progress_expiration, lease);
    harness.pass(3_600_000);
    assert_eq!(harness.end(&charge, order()).await, Replayed(1));
    harness.pass(1_000);
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
}

#[tokio::test]
async fn hazard_08_a_window_shorter_than_the_run_does_not_free_a_live_claim() {
    let harness = Harness::default();
    let charge = keyed(|of| of.expires_after(Duration::from_secs(1)));
    let call = harness.end_with(&charge, order(), async |run| {
        harness.pass(10_000);
        let duplicate = harness.end_elsewhere(&charge, order()).await;
        assert_eq!(duplicate, Refused(AlreadyInProgress));
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
}

#[tokio::test]
async fn hazard_09_the_cache_validates_keeps_only_responses_and_ends_with_the_window() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount").local_cache(8));
    let call = harness.end_with(&charge, order(), async |run| {
        // A run in progress is not in the cache.
        let duplicate = harness.end(&charge, order()).await;
        assert_eq!(duplicate, Refused(AlreadyInProgress));
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
    assert_eq!(harness.end(&charge, order()).await, Replayed(1));
    let changed = harness.end(&charge, order_of(43)).await;
    assert_eq!(changed, Refused(PayloadMismatch));
    assert_eq!(harness.requests(), [1, 1, 0, 0], "both came from the cache");
    harness.pass(3_601_000);
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
}

#[tokio::test]
async fn hazard_10_without_a_deadline_a_claim_has_a_lease_and_an_expired_deadline_still_counts() {
    let (harness, charge) = (Harness::default(), charge());
    // No context: the configured lease protects the claim.
    let first = order();
    let call = charge.run(&first, Deadline::Inherited, || async {
        let duplicate = harness.end_elsewhere(&charge, order()).await;
        assert_eq!(duplicate, Refused(AlreadyInProgress));
        Ok::<_, BoxError>(1)
    });
    assert_eq!(end(harness.within(call).await), Ran(1));
    let record = harness.record(&charge, &json!(7));
    let lease = millis(START + 15 * 60 * 1_000);
    assert_eq!(record.in_progress_expiration, lease);
    // No time left: nothing is claimed and nothing runs.
    let expired = Deadline::At(EpochMillis::new(START - 1));
    let other = json!({ "order_id": 8 });
    let call = charge.run(&other, expired, || async { Ok::<_, BoxError>(1) });
    assert_eq!(end(harness.within(call).await), Refused(NoTimeLeft));
    assert_eq!(harness.store.inner().record(&id(&charge, &json!(8))), None);
}

#[tokio::test]
async fn hazard_10_a_call_of_an_operation_takes_its_lease_from_its_context_or_its_caller() {
    let (harness, charge) = (Harness::default(), charge());
    let (outer, inner) = (order(), json!({ "order_id": 8 }));
    let mut context = Context::default();
    context.deadline = START as u64 + 20_000;
    let call = charge.run(&outer, &context, || async {
        let inner = charge.run(&inner, Deadline::Inherited, || async {
            Ok::<_, BoxError>(())
        });
        inner.await.map(drop)
    });
    harness.within(call).await.unwrap();
    for order_id in [7, 8] {
        let record = harness.record(&charge, &json!(order_id));
        assert_eq!(record.in_progress_expiration, millis(START + 20_000));
    }
}

/// An order whose number can be changed through a shared reference.
#[derive(serde::Serialize)]
struct Order {
    order_id: AtomicU32,
}

#[tokio::test]
async fn hazard_11_a_handler_that_changes_its_input_stores_its_response_under_the_original_key() {
    let (harness, charge) = (Harness::default(), charge());
    let order_id = AtomicU32::new(7);
    let order = Order { order_id };
    let call = charge.run(&order, Deadline::Inherited, || async {
        order.order_id.store(9, Ordering::Relaxed);
        Ok::<_, BoxError>(1)
    });
    // A change between the call and its first poll must not count either.
    order.order_id.store(8, Ordering::Relaxed);
    assert_eq!(end(harness.within(call).await), Ran(1));
    assert_eq!(order.order_id.load(Ordering::Relaxed), 9);
    let record = harness.record(&charge, &json!(7));
    assert_eq!(record.status, Field::Value(Status::Completed));
    assert_eq!(harness.store.inner().len(), 1);
}

#[tokio::test]
async fn hazard_12_a_rejected_duplicate_does_not_delete_the_claim_of_the_running_call() {
    let (harness, charge) = (Harness::default(), charge());
    let call = harness.end_with(&charge, order(), async |run| {
        let before = harness.record(&charge, &json!(7));
        let duplicate = harness.end_elsewhere(&charge, order()).await;
        assert_eq!(duplicate, Refused(AlreadyInProgress));
        assert_eq!(harness.record(&charge, &json!(7)), before);
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
    // The other process asked the store.
    assert_eq!(harness.requests(), [2, 1, 0, 0]);
}

#[tokio::test]
async fn hazard_12_a_refused_payload_changes_nothing_in_a_completed_record() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount"));
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    let before = harness.record(&charge, &json!(7));
    let changed = harness.end(&charge, order_of(43)).await;
    assert_eq!(changed, Refused(PayloadMismatch));
    assert_eq!(harness.record(&charge, &json!(7)), before);
}

#[tokio::test]
async fn hazard_13_a_null_is_not_a_key_and_the_order_of_members_does_not_matter() {
    let harness = Harness::default();
    let charge = keyed(|of| of.key("[user_id, order_id]").key_required(false));
    for run in 1..=2 {
        // Two calls without a key must not share a record.
        let end = harness.end(&charge, json!({ "amount": 1 })).await;
        assert_eq!(end, Bypassed(Bypass::NoKey, run));
    }
    assert_eq!(harness.requests(), [0; 4]);
    let whole = operation().build().unwrap();
    let identity = |text| id(&whole, &serde_json::from_str::<Value>(text).unwrap());
    let other = identity(r#"{"b": 2, "a": 1}"#);
    assert_eq!(identity(r#"{"a": 1, "b": 2}"#), other);
}

#[tokio::test]
async fn hazard_14_a_changed_payload_is_refused_while_the_first_call_still_runs() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount"));
    let call = harness.end_with(&charge, order(), async |run| {
        let changed = harness.end(&charge, order_of(43)).await;
        assert_eq!(changed, Refused(PayloadMismatch));
        Ok(run)
    });
    assert_eq!(call.await, Ran(1));
    // One request was enough to find the mismatch.
    assert_eq!(harness.requests(), [2, 1, 0, 0]);
}

#[tokio::test]
async fn hazard_15_two_operations_with_an_equal_key_have_a_record_and_a_response_each() {
    let harness = Harness::default();
    // The path of the operation is in the default prefix.
    let [charge, refund] = ["bank::charge", "bank::refund"].map(|path| {
        let operation = Operation::builder(path).variables(Variables::default());
        operation.key("order_id").local_cache(8).build().unwrap()
    });
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    assert_eq!(harness.end(&refund, order()).await, Ran(2));
    assert_eq!(harness.end(&charge, order()).await, Replayed(1));
    assert_eq!(harness.end(&refund, order()).await, Replayed(2));
    assert_eq!(harness.store.inner().len(), 2);
}
