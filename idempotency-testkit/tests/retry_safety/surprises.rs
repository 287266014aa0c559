//! Functions that look safe.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use idempotency_lambda::{BoxError, Deadline, OnStoreError, Run};
use idempotency_testkit::dynamodb::TableSpec;
use idempotency_testkit::retry_safety::{FaultKind, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use crate::bank::{Bank, Outbox, charges, mails};
use crate::tables::with_account;
use crate::{assert_found, operation, order, policies, protected};

#[tokio::test]
async fn a_charge_that_runs_unprotected_while_the_store_fails_is_repeated() {
    let unprotected = || {
        let operation = operation("surprises.unprotected");
        operation.on_store_error(OnStoreError::RunUnprotected)
    };
    let report = policies::check(unprotected).run().await;
    assert_found(
        &report,
        "PutItem idempotency",
        FaultKind::Outage,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn a_balance_that_is_read_and_put_back_is_changed_twice() {
    let check = retry_safety(order(), async |world: World, event: Value| {
        protected("surprises.rmw", &event, async || {
            let client = world.dynamodb();
            let read = client
                .get_item()
                .table_name("accounts")
                .key("id", S("a-1".into()));
            let item = read.send().await?.item.ok_or("no account")?;
            let balance: i64 = item["balance"].as_n().map_err(|_| "no number")?.parse()?;
            let put = client
                .put_item()
                .table_name("accounts")
                .item("id", S("a-1".into()));
            put.item("balance", N((balance - 100).to_string()))
                .send()
                .await?;
            Ok(json!({ "booked": true }))
        })
        .await
    });
    let report = with_account(check).run().await;
    assert_found(
        &report,
        "PutItem accounts",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn a_first_run_that_alone_charges_can_lose_the_charge() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        let operation = operation("surprises.first").build()?;
        let outcome = operation.run_with_call(&event, Deadline::Inherited, async |call| {
            if call.run() == Run::First {
                world.fake::<Bank>().charge(None).await;
            }
            Ok::<_, BoxError>(json!({ "paid": true }))
        });
        Ok::<_, BoxError>(outcome.await?.into_response())
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "await 1 after PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectLost,
    );
}

/// The orders that this process knows.
static KNOWN: Mutex<Option<HashSet<String>>> = Mutex::new(None);

#[tokio::test]
async fn what_a_static_knows_protects_nothing() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("surprises.static", &event, async || {
            let is_new = {
                let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
                let orders = known.get_or_insert_default();
                orders.insert(event["order_id"].to_string())
            };
            if is_new {
                world.fake::<Bank>().charge(None).await;
            }
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "PutItem idempotency",
        FaultKind::CrashBefore,
        SafetyVerdict::EffectLost,
    );
}

#[tokio::test]
async fn of_two_effects_at_once_the_failure_of_one_repeats_the_other() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("surprises.join", &event, async || {
            let bank = world.fake::<Bank>();
            let charge = async {
                bank.charge(None).await;
                Ok::<_, BoxError>(())
            };
            let note = async {
                let put = world.dynamodb().put_item().table_name("notes");
                put.item("id", S("o-1".into())).send().await?;
                Ok::<_, BoxError>(())
            };
            tokio::try_join!(charge, note)?;
            Ok(json!({ "paid": true }))
        })
        .await
    })
    .table(TableSpec::new("notes").without_ttl())
    .effect("charges", charges)
    .run()
    .await;
    assert_found(
        &report,
        "PutItem notes",
        FaultKind::Refused,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn an_effect_under_a_timeout_is_repeated() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("surprises.timeout", &event, async || {
            let bank = world.fake::<Bank>();
            // The bank takes 40 ms.
            let charge = tokio::time::timeout(Duration::from_millis(30), bank.charge(None));
            if charge.await.is_err() {
                bank.charge(None).await;
            }
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
        FaultKind::Takeover,
        SafetyVerdict::EffectTwice,
    );
}

#[tokio::test]
async fn a_mail_after_a_condition_that_failed_is_lost() {
    // The order is marked first, with a condition. The rerun sees the mark, and sends no mail.
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("surprises.mark", &event, async || {
            let put = world
                .dynamodb()
                .put_item()
                .table_name("orders")
                .item("id", S("o-1".into()));
            let marked = put
                .condition_expression("attribute_not_exists(id)")
                .send()
                .await;
            match marked {
                Ok(_) => world.fake::<Outbox>().send(),
                Err(error)
                    if error
                        .as_service_error()
                        .is_some_and(|error| error.is_conditional_check_failed_exception()) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(json!({ "done": true }))
        })
        .await
    })
    .table(TableSpec::new("orders").without_ttl())
    .effect("mails", mails)
    .run()
    .await;
    assert_found(
        &report,
        "PutItem orders",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectLost,
    );
}
