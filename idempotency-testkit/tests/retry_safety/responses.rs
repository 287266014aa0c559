//! Responses that depend on the run.

use std::sync::atomic::{AtomicU64, Ordering};

use idempotency_lambda::Deadline;
use idempotency_testkit::retry_safety::{
    FaultKind, RetrySafety, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use crate::bank::{Bank, charges};
use crate::{assert_found, assert_without_fault, operation, order, protected};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no other run has.
fn random() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn with_random_receipt() -> RetrySafety<Value> {
    retry_safety(order(), async |world: World, event: Value| {
        protected("responses.random", &event, async || {
            world.fake::<Bank>().charge(Some("order")).await;
            Ok(json!({ "paid": true, "receipt": random() }))
        })
        .await
    })
    .effect("charges", charges)
}

#[tokio::test]
async fn a_response_with_an_id_of_the_run_differs_from_the_one_of_the_run_that_charged() {
    let report = with_random_receipt().run().await;
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::ResponsesDiffer,
    );
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::Takeover,
        SafetyVerdict::ResponsesDiffer,
    );
}

#[tokio::test]
async fn a_difference_that_does_no_harm_can_be_ignored() {
    with_random_receipt()
        .ignore("/receipt")
        .run()
        .await
        .assert_safe();
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_made_again_for_each_delivery() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        let operation = operation("responses.not_stored")
            .store_when("status == `done`")
            .build()?;
        let outcome = operation.run(&event, Deadline::Inherited, async || {
            let charge = world.fake::<Bank>().charge_now(None);
            Ok::<_, idempotency_lambda::BoxError>(json!({ "status": "accepted", "charge": charge }))
        });
        Ok::<_, idempotency_lambda::BoxError>(outcome.await?.into_response())
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
}

#[tokio::test]
async fn responses_that_differ_for_two_callers_are_found_without_a_fault() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        let mut response: Value = protected("responses.after", &event, async || {
            Ok(json!({ "charge": world.fake::<Bank>().charge_now(Some("order")) }))
        })
        .await?;
        response["request"] = json!(world.context().request_id);
        Ok::<_, idempotency_lambda::BoxError>(response)
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::ResponsesDiffer);
    let row = &report.with(SafetyVerdict::ResponsesDiffer)[0];
    assert_eq!(
        row.findings,
        ["the responses of deliveries 1 and 2 differ at `/request`"]
    );
}

#[tokio::test]
async fn a_response_with_the_time_in_seconds_differs() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("responses.seconds", &event, async || {
            world.fake::<Bank>().charge(Some("order")).await;
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
            Ok(json!({ "paid_at": now.as_secs() }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert!(
        !report.with(SafetyVerdict::ResponsesDiffer).is_empty(),
        "{report}"
    );
}
