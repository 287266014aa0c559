//! Policies: what a duplicate and a rerun do.

use idempotency_lambda::{BoxError, Deadline, OnInProgress, OnTimeout, OperationBuilder};
use idempotency_testkit::retry_safety::{
    FaultKind, RetrySafety, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use crate::bank::{Bank, charges};
use crate::{assert_found, operation, order};

/// Checks a function that charges with this operation, without a token.
pub(crate) fn check(operation: fn() -> OperationBuilder) -> RetrySafety<Value> {
    retry_safety(order(), async move |world: World, event: Value| {
        let operation = operation().build()?;
        let outcome = operation.run(&event, Deadline::Inherited, async || {
            world.fake::<Bank>().charge(None).await;
            Ok::<_, BoxError>(json!({ "paid": true }))
        });
        Ok::<_, BoxError>(outcome.await?.into_response())
    })
    .effect("charges", charges)
}

#[tokio::test]
async fn under_hold_a_charge_without_a_token_never_happens_twice_and_waits_for_an_operator() {
    let report = check(|| operation("policies.hold").on_timeout(OnTimeout::Hold))
        .run()
        .await;
    report.assert_safe();
    let held = report.with(SafetyVerdict::Held);
    assert!(!held.is_empty(), "{report}");
    assert!(
        held.iter()
            .any(|row| row.fault == Some(FaultKind::CrashBefore)),
        "{report}"
    );
}

#[tokio::test]
async fn a_duplicate_waits_for_a_process_that_stands_still_and_does_not_run() {
    let wait = || operation("policies.wait").on_in_progress(OnInProgress::Wait);
    let report = check(wait).run().await;
    let duplicates = report
        .rows()
        .iter()
        .filter(|row| row.fault == Some(FaultKind::Duplicate));
    let duplicates: Vec<_> = duplicates.collect();
    assert!(duplicates.len() > 2, "{report}");
    assert!(
        duplicates
            .iter()
            .all(|row| row.verdict == SafetyVerdict::Ok),
        "{report}"
    );
}

#[tokio::test]
async fn a_function_that_refuses_its_own_reruns_is_stuck() {
    #[derive(Default)]
    struct Started(std::sync::atomic::AtomicBool);
    let report = retry_safety(order(), async |world: World, event: Value| {
        crate::protected("policies.stuck", &event, async || {
            let started = world.fake::<Started>();
            if started.0.swap(true, std::sync::atomic::Ordering::AcqRel) {
                return Err("the order is being processed".into());
            }
            world.fake::<Bank>().charge(Some("order")).await;
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "await 1 after PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::Stuck,
    );
}
