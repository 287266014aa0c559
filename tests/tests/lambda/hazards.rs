//! Fifteen hazards found in other libraries. Each test fails if its hazard is put back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::record::{Data, Field, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_lambda::{ErrorKind, Operation};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, keyed, operation, ours};
use serde_json::{Value, json};
use tokio::sync::oneshot;

fn charge() -> Operation {
    keyed(|of| of)
}

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

#[tokio::test]
async fn hazard_01_a_slow_owner_neither_overwrites_nor_deletes_the_record_of_the_call_that_took_over()
 {
    for slow_one_fails in [false, true] {
        let harness = Harness::default();
        let charge = charge();
        let (go_on, wait) = oneshot::channel();
        let slow = harness.call_with(&charge, order(), async |_| {
            wait.await?;
            if slow_one_fails {
                Err("declined".into())
            } else {
                Ok("slow".to_owned())
            }
        });
        let others = async {
            tokio::task::yield_now().await;
            harness.clock.advance(Duration::from_secs(31));
            let winner = harness
                .call_with(&charge, order(), async |_| Ok("winner".to_owned()))
                .await
                .unwrap();
            assert_eq!(winner.response(), "winner");
            go_on.send(()).unwrap();
        };
        let (slow, ()) = tokio::join!(slow, others);
        match slow {
            Ok(outcome) => assert_eq!(outcome.into_response(), "winner"),
            Err(error) => assert_eq!(error.to_string(), "declined"),
        }
        let record = harness.record(&charge, &json!(7));
        assert_eq!(record.data, Field::Value(Data::new("\"winner\"")));
    }
}

#[tokio::test]
async fn hazard_01_a_slow_owner_does_not_touch_the_claim_of_the_call_that_took_over() {
    for slow_one_fails in [false, true] {
        let harness = Harness::default();
        let charge = charge();
        let (go_on, wait) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let slow = async {
            let slow = harness.call_with(&charge, order(), async |_| {
                wait.await?;
                if slow_one_fails {
                    Err("declined".into())
                } else {
                    Ok("slow".to_owned())
                }
            });
            let slow = slow.await;
            ended.send(()).unwrap();
            slow
        };
        let next = async {
            tokio::task::yield_now().await;
            harness.clock.advance(Duration::from_secs(31));
            let next = harness.call_with(&charge, order(), async |_| {
                let claim = harness.record(&charge, &json!(7));
                go_on.send(()).unwrap();
                has_ended.await?;
                assert_eq!(harness.record(&charge, &json!(7)), claim);
                Ok("next".to_owned())
            });
            next.await
        };
        let (slow, next) = tokio::join!(slow, next);
        match slow.unwrap_err() {
            declined if slow_one_fails => assert_eq!(declined.to_string(), "declined"),
            error => assert_eq!(ours(&error).kind(), ErrorKind::LostOwnership),
        }
        assert_eq!(next.unwrap().into_response(), "next");
    }
}

#[tokio::test]
async fn hazard_01_a_record_completed_by_another_language_is_neither_overwritten_nor_deleted() {
    for fails in [false, true] {
        let harness = Harness::default();
        let charge = charge();
        let outcome = harness
            .call_with(&charge, order(), async |_| {
                // The other language's update does not check the owner and leaves ours in place.
                let mut record = harness.record(&charge, &json!(7));
                record.status = Field::Value(Status::Completed);
                record.data = Field::Value(Data::new("\"theirs\""));
                let id = id(&charge, &json!(7));
                harness.store.inner().insert(id, record);
                if fails {
                    Err("declined".into())
                } else {
                    Ok("ours".to_owned())
                }
            })
            .await;
        match outcome {
            Ok(outcome) => assert_eq!(outcome.into_response(), "theirs"),
            Err(error) => assert_eq!(error.to_string(), "declined"),
        }
        let record = harness.record(&charge, &json!(7));
        assert_eq!(record.data, Field::Value(Data::new("\"theirs\"")));
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
        let outcome = harness.call(&charge(), order()).await.unwrap();
        assert_eq!(
            (outcome.into_response(), harness.runs()),
            (1, 1),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn hazard_02_a_claim_without_a_reply_is_released_because_it_may_have_been_applied() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Put, 1, StoreFault::HangAfter);
    let error = harness.call(&charge(), order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert!(!ours(&error).handler_ran());
    let retried = harness.call(&charge(), order()).await.unwrap();
    assert_eq!(retried.into_response(), 1, "no claim is left behind");
}

#[tokio::test]
async fn hazard_03_nested_and_parallel_operations_keep_their_own_configuration() {
    let harness = Harness::default();
    let outer = operation()
        .key("outer")
        .key_prefix("outer")
        .build()
        .unwrap();
    let inner = operation()
        .key("inner")
        .key_prefix("inner")
        .validate("amount")
        .build()
        .unwrap();
    let payload = json!({ "outer": 1, "inner": 2, "amount": 3 });
    let outcome = harness
        .call_with(&outer, payload.clone(), async |_| {
            let inner = harness.call(&inner, payload.clone());
            Ok(inner.await?.into_response())
        })
        .await
        .unwrap();
    assert_eq!(outcome.into_response(), 2);
    assert_eq!(harness.record(&outer, &json!(1)).validation, Field::Absent);
    assert!(harness.record(&inner, &json!(2)).validation.exists());
}

#[tokio::test]
async fn hazard_04_a_wrong_expression_or_hash_name_never_fails_once_and_then_passes() {
    for _ in 0..2 {
        let error = operation().key("order_id.").build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!("md6".parse::<idempotency_lambda::HashAlgorithm>().is_err());
    }
    let harness = Harness::default();
    let fails_on_this_payload = "powertools_json(order_id)";
    for charge in [
        operation().key(fails_on_this_payload),
        operation().key("order_id").validate(fails_on_this_payload),
    ] {
        let charge = charge.build().unwrap();
        for _ in 0..2 {
            assert_eq!(
                harness.refused(&charge, order()).await,
                ErrorKind::ExpressionFailed
            );
        }
    }
    assert_eq!(harness.runs(), 0);
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
        let harness = Harness::default();
        let charge = charge();
        for replayed in [false, true] {
            let outcome = harness
                .call_with(&charge, order(), async |_| Ok(response.clone()))
                .await
                .unwrap();
            assert_eq!(
                (outcome.is_replayed(), outcome.into_response()),
                (replayed, response.clone())
            );
        }
    }
}

/// A response that can be read but not written.
#[derive(Debug, serde::Deserialize)]
struct Unwritable;

impl serde::Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a NaN in the key of a map"))
    }
}

#[tokio::test]
async fn hazard_06_a_response_too_large_or_not_serialisable_never_runs_again() {
    let harness = Harness::default();
    let charge = charge();
    harness.inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    let own = harness.call(&charge, order()).await.unwrap();
    assert_eq!(own.into_response(), 1);
    // Long after the deadline, but within the window.
    harness.clock.advance(Duration::from_secs(60));
    assert_eq!(
        harness.refused(&charge, order()).await,
        ErrorKind::ResponseUnavailable
    );

    let other = json!({ "order_id": 8 });
    let error = harness
        .call_with(&charge, other.clone(), async |_| Ok(Unwritable))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseNotSerializable);
    assert!(ours(&error).handler_ran());
    harness.clock.advance(Duration::from_secs(60));
    let error = harness
        .call_with(&charge, other, async |_| Ok(Unwritable))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
    assert_eq!(harness.runs(), 2);
}

#[tokio::test]
async fn hazard_07_expiry_is_counted_in_seconds_since_the_epoch_and_not_in_local_time() {
    // The last half hour before daylight saving ends in Europe: 2024-10-27T00:30:00Z, shown as 02:30, then 02:30 again.
    let before_the_change = 1_729_989_000_000;
    let harness = Harness::with_clock(ManualClock::at(before_the_change));
    let charge = keyed(|of| of.expires_after(Duration::from_secs(3_600)));
    harness.call(&charge, order()).await.unwrap();
    let record = harness.record(&charge, &json!(7));
    assert_eq!(
        record.expiration,
        Field::Value(EpochSeconds::new(before_the_change / 1_000 + 3_600))
    );
    harness.clock.advance(Duration::from_secs(3_600));
    assert!(harness.call(&charge, order()).await.unwrap().is_replayed());
    harness.clock.advance(Duration::from_secs(1));
    assert!(!harness.call(&charge, order()).await.unwrap().is_replayed());
    // The lease is in milliseconds, and is 30 s long.
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(EpochMillis::new(before_the_change + 30_000))
    );
}

#[tokio::test]
async fn hazard_08_a_window_shorter_than_the_run_does_not_free_a_live_claim() {
    let harness = Harness::default();
    let charge = keyed(|of| of.expires_after(Duration::from_secs(1)));
    harness
        .call_with(&charge, order(), async |_| {
            harness.clock.advance(Duration::from_secs(10));
            assert_eq!(
                harness.refused_elsewhere(&charge, order()).await,
                ErrorKind::AlreadyInProgress
            );
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(harness.runs(), 1);
}

#[tokio::test]
async fn hazard_09_the_cache_validates_keeps_only_responses_and_ends_with_the_window() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount").local_cache(8));
    harness
        .call_with(&charge, order(), async |_| {
            // A run in progress is not in the cache.
            assert_eq!(
                harness.refused(&charge, order()).await,
                ErrorKind::AlreadyInProgress
            );
            Ok(1)
        })
        .await
        .unwrap();
    let puts = harness.store.count(StoreOperation::Put);
    assert!(harness.call(&charge, order()).await.unwrap().is_replayed());
    let changed = json!({ "order_id": 7, "amount": 43 });
    assert_eq!(
        harness.refused(&charge, changed).await,
        ErrorKind::PayloadMismatch
    );
    assert_eq!(
        harness.store.count(StoreOperation::Put),
        puts,
        "both came from the cache"
    );
    harness.clock.advance(Duration::from_secs(3_601));
    assert!(!harness.call(&charge, order()).await.unwrap().is_replayed());
}

#[tokio::test]
async fn hazard_10_without_a_deadline_a_claim_has_a_lease_and_an_expired_deadline_still_counts() {
    use idempotency_lambda::{BoxError, Deadline};
    let harness = Harness::default();
    let charge = charge();
    // No context: the configured lease protects the claim.
    let first = order();
    let call = charge.run(&first, Deadline::Inherited, || async {
        let duplicate = harness.call_elsewhere(&charge, order()).await.unwrap_err();
        Ok::<_, BoxError>(ours(&duplicate).kind() == ErrorKind::AlreadyInProgress)
    });
    let outcome = harness.within(call).await.unwrap();
    assert!(outcome.into_response());
    let record = harness.record(&charge, &json!(7));
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(EpochMillis::new(START + 15 * 60 * 1_000))
    );
    // No time left: nothing is claimed and nothing runs.
    let expired = Deadline::At(EpochMillis::new(START - 1));
    let error = harness
        .within(charge.run(&json!({ "order_id": 8 }), expired, || async {
            Ok::<_, BoxError>(())
        }))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::NoTimeLeft);
    assert_eq!(harness.store.inner().record(&id(&charge, &json!(8))), None);
}

#[tokio::test]
async fn hazard_10_a_call_of_an_operation_takes_its_lease_from_its_context_or_its_caller() {
    use idempotency_lambda::{BoxError, Context, Deadline};
    let harness = Harness::default();
    let charge = charge();
    let (outer, inner) = (order(), json!({ "order_id": 8 }));
    let mut context = Context::default();
    context.deadline = START as u64 + 20_000;
    let call = charge.run(&outer, &context, || async {
        charge
            .run(&inner, Deadline::Inherited, || async {
                Ok::<_, BoxError>(())
            })
            .await
            .map(drop)
    });
    harness.within(call).await.unwrap();
    for order_id in [7, 8] {
        let lease = harness.record(&charge, &json!(order_id));
        assert_eq!(
            lease.in_progress_expiration,
            Field::Value(EpochMillis::new(START + 20_000))
        );
    }
}

/// An order whose number can be changed through a shared reference.
#[derive(serde::Serialize)]
struct Order {
    order_id: AtomicU32,
}

#[tokio::test]
async fn hazard_11_a_handler_that_changes_its_input_stores_its_response_under_the_original_key() {
    use idempotency_lambda::{BoxError, Deadline};
    let harness = Harness::default();
    let charge = charge();
    let order = Order {
        order_id: AtomicU32::new(7),
    };
    let call = charge.run(&order, Deadline::Inherited, || async {
        order.order_id.store(9, Ordering::Relaxed);
        Ok::<_, BoxError>(1)
    });
    // A change between the call and its first poll must not count either.
    order.order_id.store(8, Ordering::Relaxed);
    let outcome = harness.within(call).await;
    assert!(!outcome.unwrap().is_replayed());
    assert_eq!(order.order_id.load(Ordering::Relaxed), 9);
    assert_eq!(
        harness.record(&charge, &json!(7)).status,
        Field::Value(Status::Completed)
    );
    assert_eq!(harness.store.inner().len(), 1);
}

#[tokio::test]
async fn hazard_12_a_rejected_duplicate_does_not_delete_the_claim_of_the_running_call() {
    let harness = Harness::default();
    let charge = charge();
    harness
        .call_with(&charge, order(), async |_| {
            let before = harness.record(&charge, &json!(7));
            harness.call_elsewhere(&charge, order()).await.unwrap_err();
            assert_eq!(harness.record(&charge, &json!(7)), before);
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(harness.store.count(StoreOperation::Delete), 0);
}

#[tokio::test]
async fn hazard_13_a_null_is_not_a_key_and_the_order_of_members_does_not_matter() {
    let harness = Harness::default();
    let optional = operation().key_required(false);
    let charge = optional.key("[user_id, order_id]").build().unwrap();
    for _ in 0..2 {
        let outcome = harness.call(&charge, json!({ "amount": 1 })).await.unwrap();
        assert!(
            !outcome.is_replayed(),
            "two calls without a key must not share a record"
        );
    }
    assert_eq!(harness.requests(), [0; 4]);
    let whole = operation().build().unwrap();
    let identity = |text| id(&whole, &serde_json::from_str(text).unwrap());
    assert_eq!(
        identity(r#"{"a": 1, "b": 2}"#),
        identity(r#"{"b": 2, "a": 1}"#)
    );
}

#[tokio::test]
async fn hazard_14_a_changed_payload_is_refused_while_the_first_call_still_runs() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount"));
    let changed = json!({ "order_id": 7, "amount": 43 });
    harness
        .call_with(&charge, order(), async |_| {
            assert_eq!(
                harness.refused(&charge, changed.clone()).await,
                ErrorKind::PayloadMismatch
            );
            Ok(())
        })
        .await
        .unwrap();
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
    for is_duplicate in [false, true] {
        for (operation, response) in [(&charge, "charged"), (&refund, "refunded")] {
            let answer = async |_| Ok(response.to_owned());
            let outcome = harness.call_with(operation, order(), answer).await.unwrap();
            assert_eq!(outcome.is_replayed(), is_duplicate);
            assert_eq!(outcome.into_response(), response);
        }
    }
    assert_eq!(harness.store.inner().len(), 2);
}

#[tokio::test]
async fn hazard_12_a_refused_payload_changes_nothing_in_a_completed_record() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount"));
    harness.call(&charge, order()).await.unwrap();
    let before = harness.record(&charge, &json!(7));
    let changed = json!({ "order_id": 7, "amount": 43 });
    let refused = harness.refused(&charge, changed).await;
    assert_eq!(refused, ErrorKind::PayloadMismatch);
    assert_eq!(harness.record(&charge, &json!(7)), before);
}
