//! Effects inside the protected function.

use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
use idempotency_testkit::retry_safety::{FaultKind, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use crate::bank::{Bank, Outbox, charges, mails};
use crate::{assert_found, order, protected, unsafe_cases};

#[tokio::test]
async fn a_charge_without_a_token_is_found_at_each_point_after_it() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("effects.plain", &event, async || {
            world.fake::<Bank>().charge(None).await;
            Ok(json!({ "charged": event["amount"] }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectTwice,
    );
    assert_found(
        &report,
        "await 2 after PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectTwice,
    );
    assert_found(
        &report,
        "await 1 after PutItem idempotency",
        FaultKind::Takeover,
        SafetyVerdict::EffectTwice,
    );
    // Before the charge a crash does no harm, and after the completion neither.
    let cases = unsafe_cases(&report);
    assert!(
        cases
            .iter()
            .all(|(_, _, verdict)| *verdict == SafetyVerdict::EffectTwice),
        "{report}"
    );
    let is = |point: &str, fault| {
        cases
            .iter()
            .any(|case| case.0 == point && case.1 == Some(fault))
    };
    assert!(
        !is("await 1 after PutItem idempotency", FaultKind::CrashBefore),
        "{report}"
    );
    assert!(
        !is("PutItem idempotency", FaultKind::CrashAfter),
        "{report}"
    );
    assert!(
        !is("UpdateItem idempotency", FaultKind::CrashAfter),
        "{report}"
    );
}

#[tokio::test]
async fn a_charge_with_a_token_that_each_run_has_is_safe() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("effects.token", &event, async || {
            let token = format!("charge {}", event["order_id"]);
            let number = world.fake::<Bank>().charge(Some(&token)).await;
            Ok(json!({ "charge": number }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    report.assert_safe();
    assert!(report.rows().len() > 20, "{report}");
}

#[idempotent(payload = event.payload, key = "order_id", key_prefix = "effects.annotated")]
async fn annotated(event: LambdaEvent<Value>, world: World) -> Result<Value, BoxError> {
    world.fake::<Bank>().charge_now(None);
    Ok(json!({ "charged": event.payload["amount"] }))
}

#[tokio::test]
async fn an_annotated_handler_is_checked_as_it_is() {
    let event = LambdaEvent::new(order(), Context::default());
    let report = retry_safety(event, async |world: World, event| {
        annotated(event, world).await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn of_two_effects_the_one_that_a_rerun_repeats_is_named() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("effects.two", &event, async || {
            world.fake::<Bank>().charge(Some("order")).await;
            world.fake::<Outbox>().send();
            Ok(json!({ "charged": event["amount"] }))
        })
        .await
    })
    .effect("charges", charges)
    .effect("mails", mails)
    .run()
    .await;
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectTwice,
    );
    assert_eq!(
        report.unsafe_rows()[0].findings,
        ["`mails` is 2 instead of 1"]
    );
}

/// Says that the mail is sent before it sends it.
#[derive(Default)]
struct Marker(std::sync::atomic::AtomicBool);

#[tokio::test]
async fn an_effect_that_is_marked_as_done_before_it_is_done_is_lost() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("effects.marker", &event, async || {
            let marker = world.fake::<Marker>();
            if !marker.0.swap(true, std::sync::atomic::Ordering::AcqRel) {
                tokio::task::yield_now().await;
                world.fake::<Outbox>().send();
            }
            Ok(json!({ "mailed": true }))
        })
        .await
    })
    .effect("mails", mails)
    .run()
    .await;
    assert_found(
        &report,
        "await 1 after PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectLost,
    );
}

#[tokio::test]
async fn an_error_after_the_effect_makes_the_retry_repeat_it() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected::<Value, _>("effects.error", &event, async || {
            world.fake::<Bank>().charge_now(None);
            Err("the receipt could not be written".into())
        })
        .await
    })
    .effect("charges", charges)
    .fails()
    .run()
    .await;
    crate::assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
}
