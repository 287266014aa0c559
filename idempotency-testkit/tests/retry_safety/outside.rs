//! Effects beside the protected function: before the claim, or after the response is known.

use idempotency_lambda::Deadline;
use idempotency_testkit::retry_safety::{FaultKind, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use crate::bank::{Bank, Outbox, charges, mails};
use crate::{assert_found, assert_without_fault, operation, order, protected};

#[tokio::test]
async fn an_effect_before_the_claim_happens_for_each_delivery() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        world.fake::<Bank>().charge_now(None);
        protected("outside.before", &event, async || {
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
    assert_found(
        &report,
        "PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectTwice,
    );
    assert_found(
        &report,
        "PutItem idempotency",
        FaultKind::Duplicate,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn an_effect_after_the_response_happens_for_each_replay() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        let response: Value = protected("outside.after", &event, async || {
            Ok(json!({ "paid": true }))
        })
        .await?;
        world.fake::<Outbox>().send();
        Ok::<_, idempotency_lambda::BoxError>(response)
    })
    .effect("mails", mails)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
}

#[tokio::test]
async fn an_effect_after_the_response_that_a_replay_leaves_out_can_be_lost() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        let operation = operation("outside.executed").build()?;
        let outcome = operation
            .run(&event, Deadline::Inherited, async || {
                Ok::<_, idempotency_lambda::BoxError>(json!({ "paid": true }))
            })
            .await?;
        if !outcome.is_replayed() {
            world.fake::<Outbox>().send();
        }
        Ok::<_, idempotency_lambda::BoxError>(outcome.into_response())
    })
    .effect("mails", mails)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::Ok);
    assert_found(
        &report,
        "UpdateItem idempotency",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectLost,
    );
}

#[tokio::test]
async fn a_function_that_claims_nothing_is_called_unprotected() {
    let report = retry_safety(order(), async |world: World, _: Value| {
        world.fake::<Bank>().charge(None).await;
        Ok::<_, idempotency_lambda::BoxError>(json!({ "paid": true }))
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
    let text = report.to_string();
    assert!(
        text.contains("made no request to the table `idempotency`"),
        "{text}"
    );
}
