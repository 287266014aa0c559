//! The scenes: a shop receives many of its events more than once. `scenes.txt` has what the demo prints of each event.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::events::{self, AwsRecord};
use serde_json::json;

use crate::stage::{LONG_DEADLINE, ProcessPair, Stage};

/// Plays all scenes and prints a summary. The functions' metrics are written to a file, if one is named.
///
/// # Errors
///
/// Returns the first difference between what an event did and what `scenes.txt` says, or the reason why a scene could not be played.
pub(crate) async fn run(metrics: Option<&str>) -> Result<()> {
    let began = Instant::now();
    let mut stage = Stage::build().await?;
    let stage = &mut stage;
    let payment = &stage.processes("payment", "charging the card").await?;
    let orders = &stage.processes("orders", "reserving stock").await?;
    let shipping = &stage.processes("shipping", "booking a parcel").await?;
    let ledger = &stage.processes("ledger", "posting the entry").await?;
    let http = &stage.processes("http-api", "refunding the payment").await?;

    a_payment_and_its_duplicates(stage, payment).await?;
    an_event_without_a_key(stage, shipping).await?;
    two_at_once(stage, payment).await?;
    a_handler_that_fails(stage, payment).await?;
    a_process_that_is_killed(stage, payment).await?;
    requests_with_an_idempotency_key(stage, http).await?;
    a_batch_and_its_redelivery(stage, orders).await?;
    a_record_that_fails(stage, ledger).await?;
    an_event_delivered_again(stage, shipping).await?;
    a_server_that_is_killed(stage)?;
    stage.end(metrics, &format!("{:.1}", began.elapsed().as_secs_f32()))
}

/// Returns a request of a user who pays for an order.
fn payment(user: &str, order_id: &str, amount: u32, card: &str) -> String {
    let order = json!({ "order_id": order_id, "amount": amount, "currency": "EUR", "card": card });
    let request = events::api_gateway_v2("POST", "/payments").json(&order);
    let request = request.claim("iss", "https://id.example.com/");
    request.claim("sub", user).to_string()
}

/// Returns a request of a user who wants money back.
fn refund(user: &str, key: Option<&str>, amount: u32) -> String {
    let refund = json!({ "payment_id": "pay-1001", "amount": amount });
    let request = events::api_gateway_v2("POST", "/refunds").json(&refund);
    let request = request.claim("iss", "https://id.example.com/");
    let request = request.claim("sub", user);
    match key {
        Some(key) => request.header("Idempotency-Key", format!("\"{key}\"")),
        None => request,
    }
    .to_string()
}

/// Returns an event of EventBridge for a paid order.
fn paid(order_id: &str) -> String {
    let order = json!({ "order_id": order_id, "user_id": "u-1" });
    events::event_bridge("shop.orders", "OrderPaid", &order).to_string()
}

async fn a_payment_and_its_duplicates(
    stage: &mut Stage,
    [here, elsewhere]: &ProcessPair,
) -> Result<()> {
    let order = payment("u-1", "o-1001", 4_200, "good");
    stage.send(here, &order).await?;
    stage.send(here, &order).await?;
    stage.send(elsewhere, &order).await?;
    let changed = payment("u-1", "o-1001", 9_900, "good");
    stage.send(here, &changed).await?;
    let theirs = payment("u-2", "o-1001", 4_200, "good");
    stage.send(here, &theirs).await
}

async fn an_event_without_a_key(stage: &mut Stage, [here, _]: &ProcessPair) -> Result<()> {
    stage.send(here, &paid("")).await
}

async fn two_at_once(stage: &mut Stage, [here, elsewhere]: &ProcessPair) -> Result<()> {
    let order = payment("u-1", "o-1002", 4_200, "slow");
    // On a busy machine the first event could end before the second one arrives. So its completion is held until the second one has its
    // response.
    let completion = stage.db.inject(Fault::on("UpdateItem").hold());
    let mut first = stage.start(here, &order, LONG_DEADLINE);
    stage.wait_until_begun(here, &mut first).await?;
    let second = stage.start(elsewhere, &order, LONG_DEADLINE);
    let second_outcome = second.pending.await;
    completion.release().await;
    let first_outcome = first.pending.await;
    // The calls are in the order of their claims: the first one is that of the first event.
    let calls = stage.calls();
    let (of_first, of_second) = calls.split_at(1);
    stage.show(here, first.number, first_outcome, of_first)?;
    stage.show(elsewhere, second.number, second_outcome, of_second)?;
    stage.send(elsewhere, &order).await
}

async fn a_handler_that_fails(stage: &mut Stage, [here, _]: &ProcessPair) -> Result<()> {
    let order = payment("u-1", "o-1003", 4_200, "declined_once");
    stage.send(here, &order).await?;
    stage.send(here, &order).await
}

async fn a_process_that_is_killed(
    stage: &mut Stage,
    [here, elsewhere]: &ProcessPair,
) -> Result<()> {
    // Long enough for the retry on a busy machine, and short enough to wait for.
    let deadline = Duration::from_secs(3);
    let stuck = payment("u-1", "o-1004", 4_200, "stuck");
    let mut stuck = stage.start(here, &stuck, deadline);
    stage.wait_until_begun(here, &mut stuck).await?;
    here.handle.kill().await;
    let outcome = stuck.pending.await;
    let calls = stage.calls();
    stage.show(here, stuck.number, outcome, &calls)?;
    // The card is not validated, so the retry may have another one.
    let order = payment("u-1", "o-1004", 4_200, "good");
    stage.send(elsewhere, &order).await?;

    let claim = calls.first();
    let lease_ends = claim.and_then(|claim| claim.lease_ends);
    let lease_ends = lease_ends.context("the claim has no lease end")?;
    // A lease has expired one millisecond after its end.
    let expired = Duration::from_millis(lease_ends + 1);
    let left = expired.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH)?);
    stage.print_text(&format!("{:.1}", left.as_secs_f32()))?;
    tokio::time::sleep(left).await;
    stage.send(elsewhere, &order).await?;
    stage.send(elsewhere, &order).await
}

async fn requests_with_an_idempotency_key(
    stage: &mut Stage,
    [here, elsewhere]: &ProcessPair,
) -> Result<()> {
    let key = Some("8e03978e-40d5-43dd-bc93-6894a57f9324");
    let first = refund("u-1", key, 1_500);
    stage.send(here, &first).await?;
    stage.send(elsewhere, &first).await?;
    stage.send(here, &refund("u-1", key, 9_900)).await?;
    stage.send(here, &refund("u-2", key, 1_500)).await?;
    stage.send(here, &refund("u-1", None, 1_500)).await
}

async fn a_batch_and_its_redelivery(
    stage: &mut Stage,
    [here, elsewhere]: &ProcessPair,
) -> Result<()> {
    let order = |order_id: &str, sku: &str| {
        let items = json!([{ "sku": sku, "quantity": 2 }]);
        json!({ "order_id": order_id, "user_id": "u-1", "items": items })
    };
    let batch = events::sqs("orders")
        .json(&order("o-1001", "tea-250"))
        .json(&order("o-1002", "cup-white"))
        .json(&order("o-1001", "tea-250"));
    stage.send_batch(here, &batch.to_string()).await?;
    let again = batch.with("/Records/0/attributes/ApproximateReceiveCount", "2");
    stage.send_batch(elsewhere, &again.to_string()).await
}

async fn a_record_that_fails(stage: &mut Stage, [here, _]: &ProcessPair) -> Result<()> {
    let record = |entry_id: &str, account: &str| {
        let entry = json!({ "entry_id": entry_id, "account": account, "amount": 5_000 });
        AwsRecord::json(&entry).group(account)
    };
    let locked = || record("e-3", ledger::book::LOCKED_ONCE);
    let batch = events::kinesis("ledger")
        .records([record("e-1", "acc-1"), record("e-2", "acc-2")])
        .records([record("e-1", "acc-1"), locked(), record("e-4", "acc-1")]);
    stage.send_batch(here, &batch.to_string()).await?;
    // `e-3` is the fourth record of the first batch.
    let rest = events::kinesis("ledger").starting_at(4);
    let rest = rest.records([locked(), record("e-4", "acc-1")]);
    stage.send_batch(here, &rest.to_string()).await
}

async fn an_event_delivered_again(
    stage: &mut Stage,
    [here, elsewhere]: &ProcessPair,
) -> Result<()> {
    let event = paid("o-1001");
    stage.send(here, &event).await?;
    stage.send(here, &event).await?;
    stage.send(elsewhere, &event).await
}

fn a_server_that_is_killed(stage: &mut Stage) -> Result<()> {
    // On a thread of its own: a runtime cannot start another one.
    let played = std::thread::spawn(crate::server::play).join();
    let played = played.map_err(|_| anyhow::anyhow!("a server panicked"))?;
    for seen in played? {
        stage.show_request(&seen)?;
    }
    Ok(())
}
