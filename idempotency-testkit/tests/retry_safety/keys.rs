//! Keys: too narrow, too wide, or of the wrong thing.

use idempotency_lambda::{
    BoxError, Context, Deadline, KeyRequired, LambdaEvent, Operation, Variables,
};
use idempotency_testkit::retry_safety::{RetrySafety, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use crate::assert_without_fault;
use crate::bank::{Bank, charges};

/// Checks a function that charges under a token of user and order, with this operation.
fn check(
    operation: fn() -> Result<Operation, idempotency_lambda::Error>,
    event: Value,
) -> RetrySafety<Value> {
    retry_safety(event, async move |world: World, event: Value| {
        let operation = operation()?;
        let outcome = operation.run(&event, Deadline::Inherited, async || {
            let token = format!(
                "{} {} {}",
                event["user_id"], event["order_id"], event["amount"]
            );
            let charge = world.fake::<Bank>().charge_now(Some(&token));
            Ok::<_, BoxError>(json!({ "charge": charge }))
        });
        Ok::<_, BoxError>(outcome.await?.into_response())
    })
    .effect("charges", charges)
}

fn order_of(user: &str, amount: u64) -> Value {
    json!({ "user_id": user, "order_id": "o-1", "amount": amount })
}

fn builder(name: &str) -> idempotency_lambda::OperationBuilder {
    Operation::builder(name)
        .variables(Variables::default())
        .key_prefix(name)
}

#[tokio::test]
async fn a_key_without_the_user_gives_the_response_of_one_user_to_another() {
    let narrow = || builder("keys.narrow").key("order_id").build();
    let report = check(narrow, order_of("u-1", 100))
        .another(order_of("u-2", 100))
        .run()
        .await;
    assert_without_fault(&report, "another event", SafetyVerdict::EffectLost);
}

#[tokio::test]
async fn a_key_with_the_user_and_a_checked_amount_is_safe() {
    let whole = || {
        let operation = builder("keys.whole").key("[user_id, order_id]");
        operation
            .key_required(KeyRequired::All)
            .validate("amount")
            .build()
    };
    let report = check(whole, order_of("u-1", 100))
        .another(order_of("u-2", 100))
        .changed(order_of("u-1", 999))
        .run()
        .await;
    report.assert_safe();
    assert_without_fault(&report, "another event", SafetyVerdict::Ok);
    assert_without_fault(&report, "changed event", SafetyVerdict::Ok);
}

#[tokio::test]
async fn events_that_lack_a_part_of_their_key_are_one_operation() {
    let partial = || {
        builder("keys.partial")
            .key("[customer_id, order_id]")
            .build()
    };
    let report = check(partial, order_of("u-1", 100))
        .another(order_of("u-2", 100))
        .run()
        .await;
    assert_without_fault(&report, "another event", SafetyVerdict::EffectLost);
}

#[tokio::test]
async fn another_amount_under_the_same_key_is_lost_without_validation() {
    let unchecked = || builder("keys.unchecked").key("[user_id, order_id]").build();
    let report = check(unchecked, order_of("u-1", 100))
        .changed(order_of("u-1", 999))
        .run()
        .await;
    assert_without_fault(&report, "changed event", SafetyVerdict::EffectLost);
}

#[tokio::test]
async fn a_key_with_the_amount_takes_another_amount_for_another_operation() {
    let wide = || {
        builder("keys.wide")
            .key("[user_id, order_id, amount]")
            .build()
    };
    let report = check(wide, order_of("u-1", 100))
        .changed(order_of("u-1", 999))
        .run()
        .await;
    assert_without_fault(&report, "changed event", SafetyVerdict::EffectTwice);
}

#[tokio::test]
async fn a_key_that_changes_with_each_delivery_protects_nothing() {
    let event = LambdaEvent::new(
        json!({ "order_id": "o-1", "sent_at": 0 }),
        Context::default(),
    );
    let report = retry_safety(event, async |world: World, event: LambdaEvent<Value>| {
        let operation = builder("keys.sent_at").key("[order_id, sent_at]").build()?;
        let outcome = operation.run(&event.payload, Deadline::Inherited, async || {
            Ok::<_, BoxError>(json!({ "charge": world.fake::<Bank>().charge_now(None) }))
        });
        Ok::<_, BoxError>(outcome.await?.into_response())
    })
    .effect("charges", charges)
    .delivered_as(|mut event, delivery| {
        event.payload["sent_at"] = delivery.into();
        event
    })
    .run()
    .await;
    assert_without_fault(&report, "delivered again", SafetyVerdict::EffectTwice);
}

#[tokio::test]
async fn an_event_without_a_key_runs_unprotected() {
    let report = check(
        || builder("keys.none").key("order_number").build(),
        order_of("u-1", 100),
    );
    // Its charge has a token, so that the response alone could differ, and it does not. Nothing is claimed.
    let report = report.run().await;
    assert!(report.is_safe(), "{report}");
    assert!(
        report.to_string().contains("nothing protects it"),
        "{report}"
    );
}
