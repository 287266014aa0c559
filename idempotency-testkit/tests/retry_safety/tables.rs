//! Effects in tables of the function's own.

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::TableSpec;
use idempotency_testkit::retry_safety::{
    FaultKind, RetrySafety, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use crate::{assert_found, order, protected};

pub(crate) fn accounts() -> TableSpec {
    TableSpec::new("accounts").without_ttl()
}

async fn open_account(world: World) {
    let put = world.dynamodb().put_item().table_name("accounts");
    let put = put
        .item("id", S("a-1".into()))
        .item("balance", N("500".into()));
    put.send().await.unwrap();
}

pub(crate) fn with_account(check: RetrySafety<Value>) -> RetrySafety<Value> {
    check.table(accounts()).prepare(open_account)
}

async fn add_to_balance(world: &World, amount: &Value) -> Result<(), BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update
        .key("id", S("a-1".into()))
        .update_expression("ADD balance :a");
    update
        .expression_attribute_values(":a", N(amount.to_string()))
        .send()
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_update_that_adds_is_done_twice_by_a_rerun() {
    let check = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.add", &event, async || {
            add_to_balance(&world, &event["amount"]).await?;
            Ok(json!({ "booked": true }))
        })
        .await
    });
    let report = with_account(check).run().await;
    assert_found(
        &report,
        "UpdateItem accounts",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectTwice,
    );
    let first = report.unsafe_rows()[0];
    assert_eq!(
        first.findings,
        ["`balance` of `a-1` in the table `accounts` is `700` instead of `600`"]
    );
}

#[tokio::test]
async fn an_item_that_every_run_puts_again_is_safe() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.put", &event, async || {
            let put = world.dynamodb().put_item().table_name("accounts");
            let put = put.item("id", S("booking o-1".into()));
            // A time and a text of the run: they differ between runs, and do no harm.
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
            let put = put.item("at", N(now.as_millis().to_string()));
            let put = put.item("by", S(world.context().request_id));
            put.item("amount", N(event["amount"].to_string()))
                .send()
                .await?;
            Ok(json!({ "booked": true }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    report.assert_safe();
}

#[tokio::test]
async fn an_item_with_a_random_id_is_written_twice_by_a_rerun() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.random", &event, async || {
            let id = format!("booking {}", NEXT.fetch_add(1, Ordering::Relaxed));
            let put = world.dynamodb().put_item().table_name("accounts");
            put.item("id", S(id)).send().await?;
            Ok(json!({ "booked": true }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    assert_found(
        &report,
        "PutItem accounts",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectTwice,
    );
    let first = report.unsafe_rows()[0];
    assert_eq!(
        first.findings,
        ["the table `accounts` has 2 items instead of 1"]
    );
}

#[tokio::test]
async fn a_balance_and_a_booking_in_one_transaction_with_a_condition_are_safe() {
    let check = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.transaction", &event, async || {
            book_in_one_transaction(&world, &event).await?;
            Ok(json!({ "booked": true }))
        })
        .await
    });
    with_account(check).run().await.assert_safe();
}

async fn book_in_one_transaction(world: &World, event: &Value) -> Result<(), BoxError> {
    use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
    let booking = Put::builder()
        .table_name("accounts")
        .item("id", S("booking o-1".into()))
        .condition_expression("attribute_not_exists(id)")
        .build()?;
    let balance = Update::builder()
        .table_name("accounts")
        .key("id", S("a-1".into()))
        .update_expression("ADD balance :a")
        .expression_attribute_values(":a", N(event["amount"].to_string()))
        .build()?;
    let client = world.dynamodb();
    let both = client
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().put(booking).build())
        .transact_items(TransactWriteItem::builder().update(balance).build());
    match both.send().await {
        Ok(_) => Ok(()),
        // Another run has booked.
        Err(error)
            if error
                .as_service_error()
                .is_some_and(|error| error.is_transaction_canceled_exception()) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn set_status(world: &World, status: &str) -> Result<(), BoxError> {
    let update = world.dynamodb().update_item().table_name("accounts");
    let update = update
        .key("id", S("o-1".into()))
        .update_expression("SET #s = :s");
    let update = update.expression_attribute_names("#s", "status");
    update
        .expression_attribute_values(":s", S(status.to_owned()))
        .send()
        .await?;
    Ok(())
}

async fn status(world: &World) -> Result<Option<String>, BoxError> {
    let get = world.dynamodb().get_item().table_name("accounts");
    let item = get
        .key("id", S("o-1".into()))
        .consistent_read(true)
        .send()
        .await?
        .item;
    let status = item.and_then(|item| item.get("status").cloned());
    Ok(status.and_then(|status: AttributeValue| status.as_s().ok().cloned()))
}

#[tokio::test]
async fn an_order_that_a_rerun_takes_for_another_ones_work_stays_pending() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.status", &event, async || {
            if status(&world).await?.is_none() {
                set_status(&world, "pending").await?;
                set_status(&world, "paid").await?;
            }
            Ok(json!({ "accepted": true }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    assert_found(
        &report,
        "UpdateItem accounts",
        FaultKind::CrashAfter,
        SafetyVerdict::EffectLost,
    );
    let first = report.unsafe_rows()[0];
    assert_eq!(
        first.findings,
        ["`status` of `o-1` in the table `accounts` is `pending` instead of `paid`"]
    );
}

#[tokio::test]
async fn an_order_whose_rerun_goes_on_is_safe() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.goes_on", &event, async || {
            if status(&world).await?.is_none() {
                set_status(&world, "pending").await?;
            }
            set_status(&world, "paid").await?;
            Ok(json!({ "accepted": true }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    report.assert_safe();
}

#[tokio::test]
async fn a_write_whose_error_is_ignored_is_lost() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.ignored", &event, async || {
            let _ = set_status(&world, "paid").await;
            Ok(json!({ "accepted": true }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    assert_found(
        &report,
        "UpdateItem accounts",
        FaultKind::Refused,
        SafetyVerdict::EffectLost,
    );
}

#[tokio::test]
async fn a_late_owner_that_overwrites_the_receipt_of_the_winner_is_found() {
    let report = retry_safety(order(), async |world: World, event: Value| {
        protected("tables.receipt", &event, async || {
            let receipt = format!("receipt {}", world.context().request_id);
            let put = world.dynamodb().put_item().table_name("accounts");
            let put = put.item("id", S("o-1".into()));
            put.item("receipt", S(receipt.clone())).send().await?;
            Ok(json!({ "receipt": receipt }))
        })
        .await
    })
    .table(accounts())
    .run()
    .await;
    assert_found(
        &report,
        "PutItem accounts",
        FaultKind::Takeover,
        SafetyVerdict::ResponsesDiffer,
    );
    // After a crash the rerun writes the receipt of its own response.
    let differ = report.with(SafetyVerdict::ResponsesDiffer);
    assert!(
        differ
            .iter()
            .all(|row| row.fault == Some(FaultKind::Takeover)),
        "{report}"
    );
    let finding = &report.unsafe_rows()[0].findings[0];
    assert!(finding.contains("but `receipt` of `o-1`"), "{finding}");
}
