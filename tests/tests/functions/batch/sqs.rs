//! Queues: messages and their keys, and a store that fails under a batch.

use std::convert::Infallible;
use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use futures_util::FutureExt as _;
use idempotency_core::store::{LedgerEntry, MemoryTransaction, MemoryWrites};
use idempotency_lambda::batch::{Batch, KeyFrom, Message, RawBody};
use idempotency_lambda::{BoxError, Call, ErrorKind, KeyRequired, OnStoreError, Steps};
use idempotency_testkit::events::{self, AwsBatch, AwsRecord};
use idempotency_testkit::store::StoreFault::{LoseReply, LoseRequest, Throttle, TooLarge};
use idempotency_testkit::store::StoreOperation::{Put, Read, Transact, Update};
use serde_json::json;

use super::shop::{Does, MINUTE, Order, Shop, Source, builder, named, order_of, queue};

/// Returns messages of a queue, each with its id.
fn messages<const N: usize>(orders: [(&str, AwsRecord); N]) -> AwsBatch {
    events::sqs("orders").records(orders.map(|(id, message)| message.id(id)))
}

#[tokio::test]
async fn an_identifier_that_is_repeated_is_returned_once() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.repeated");
    for order in ["a", "b"] {
        shop.set(order, Does::Fail);
    }
    let event = messages(["a", "b"].map(|id| ("m-1", AwsRecord::json(&order_of(id)))));
    assert_eq!(shop.queue(&operation, &event).await, ["m-1"]);
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn a_message_with_the_key_of_another_and_another_amount_is_returned() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.mismatch")
        .key("order_id")
        .validate("amount");
    let event = [("m-1", 1), ("m-2", 2), ("m-3", 1)].map(|(id, amount)| {
        let order = json!({ "order_id": "a", "amount": amount });
        (id, AwsRecord::json(&order))
    });
    let returned = shop
        .queue(&operation.build().unwrap(), &messages(event))
        .await;
    assert_eq!(
        (returned, shop.ran()),
        (vec!["m-2".into()], vec!["a".into()])
    );
}

#[tokio::test]
async fn records_of_one_key_each_run_if_the_response_of_the_one_before_is_not_stored() {
    for (store_when, all_run, of_failing) in [
        ("`false`", true, "b b"),
        ("@ != 'a'", true, "b"),
        ("`true`", false, "b"),
    ] {
        for source in Source::ALL {
            let shop = Shop::new();
            let operation = builder("batch.sqs.unstored").key("order_id");
            let operation = operation.store_when(store_when).build().unwrap();
            let batch = Batch::new(&operation).concurrency(4);
            let deliver = |records| shop.deliver_text(source, &batch, records, MINUTE);
            let ran = if all_run { "a a a" } else { "a" };
            let delivered = deliver("1:a 2:a 1:a").await;
            assert_eq!(
                delivered,
                (String::new(), ran.into()),
                "{store_when}, {source:?}"
            );
            if source == Source::Standard {
                // A lock says nothing of the next record. Otherwise it is a duplicate of the one that failed.
                let delivered = deliver("1:b! 2:b!").await;
                assert_eq!(
                    delivered,
                    ("1:b 2:b".into(), of_failing.into()),
                    "{store_when}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_batch_that_cannot_validate_fails_before_a_handler_runs() {
    let shop = Shop::new();
    let validates = builder("batch.sqs.validate").validate("amount");
    // The whole record is validated, and one that is moved back from a dead-letter queue has another id.
    let steps = builder("batch.sqs.steps").key("messageId");
    let steps = steps.steps(Steps::Keep);
    for (operation, key_from, text) in [
        (validates, KeyFrom::Body, "`validate` needs a `key`"),
        (steps, KeyFrom::Record, "need `validate`, with a part"),
    ] {
        let operation = operation.build().unwrap();
        let batch = Batch::new(&operation).key_from(key_from);
        let event = queue(&["a"]);
        let delivered = shop.deliver(Source::Standard, &batch, &event, MINUTE);
        let error = delivered.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(shop.ran().is_empty());
}

#[tokio::test]
async fn a_batch_validates_a_body_with_steps_and_a_whole_record_without_them() {
    let steps = builder("batch.sqs.steps_of_body").key("order_id");
    let whole = builder("batch.sqs.whole_record").key("messageId");
    for (operation, key_from) in [
        (steps.steps(Steps::Keep), KeyFrom::Body),
        (whole.validate("@"), KeyFrom::Record),
    ] {
        let shop = Shop::new();
        let batch = Batch::new(&operation.build().unwrap()).key_from(key_from);
        let event = queue(&["a"]);
        let delivered = shop.deliver(Source::Standard, &batch, &event, MINUTE);
        assert!(delivered.await.unwrap().is_empty(), "{key_from:?}");
        assert_eq!(shop.ran(), ["a"]);
    }
}

#[tokio::test]
async fn a_key_over_the_record_sees_the_messages_attributes_and_the_parsed_body() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.record")
        .key("[attributes.MessageDeduplicationId, body.order_id, messageAttributes.kind.stringValue]")
        .key_required(KeyRequired::All)
        .build()
        .unwrap();
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let message = AwsRecord::json(&order_of("a"))
        .with("/attributes/MessageDeduplicationId", "d-1")
        .attribute("kind", "new");
    let event = events::sqs("orders.fifo").records([message]);
    let returned = shop.deliver(Source::Fifo, &batch, &event, MINUTE).await;
    assert!(returned.unwrap().is_empty());
    shop.harness.record(&operation, &json!(["d-1", "a", "new"]));
}

#[tokio::test]
async fn a_key_over_the_record_needs_no_json_in_the_body() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.csv")
        .key("messageAttributes.file.stringValue")
        .validate("body")
        .build()
        .unwrap();
    let lines = [("m-1", "o-1,100"), ("m-2", "o-1,100"), ("m-3", "o-1,999")];
    let event = messages(
        lines.map(|(id, body)| (id, AwsRecord::new(body).attribute("file", "orders.csv"))),
    );
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let batch = batch.run(shop.parsed::<SqsEvent>(&event), |body: RawBody| {
        shop.handle(body.as_str().unwrap_or_default().to_owned())
    });
    let response = shop.harness.within(batch).await;
    // The third has another body under the same key.
    assert_eq!(named(&response.unwrap()), ["m-3"]);
    assert_eq!(shop.ran(), ["o-1,100"]);
}

#[tokio::test]
async fn a_handler_can_take_the_bytes_of_the_body() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.raw").build().unwrap();
    let event = shop.parsed::<SqsEvent>(&queue(&["a"]));
    let raw = Batch::new(&operation).run(event, async |message: Message<RawBody>| {
        Ok::<_, BoxError>(message.body.as_bytes().len())
    });
    assert!(named(&shop.harness.within(raw).await.unwrap()).is_empty());
    let length = order_of("a").to_string().len().to_string();
    let record = shop.harness.record(&operation, &json!("m-a"));
    let data = record.data.value().map(|data| data.as_str());
    assert_eq!(data, Some(&*length));
}

#[tokio::test]
async fn a_batch_whose_future_is_dropped_runs_the_rest_at_its_next_delivery() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.sqs.dropped")).concurrency(1);
    let deliver = |records| shop.deliver_text(Source::Standard, &batch, records, MINUTE);
    assert!(deliver("a b~ c").now_or_never().is_none());
    assert_eq!(shop.ran(), ["a", "b"]);
    // The claim of `b` lasts until its lease ends.
    assert_eq!(deliver("a b c").await, ("b".into(), "c".into()));
    shop.harness
        .clock
        .advance(MINUTE + Duration::from_millis(1));
    assert_eq!(deliver("a b c").await, ("".into(), "b".into()));
}

#[tokio::test]
async fn a_fair_queue_has_groups_and_no_order() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.fair");
    shop.set("a1", Does::Fail);
    let event = ["a1", "a2"].map(|id| (id, AwsRecord::json(&order_of(id)).group("a")));
    assert_eq!(shop.queue(&operation, &messages(event)).await, ["a1"]);
    assert_eq!(shop.ran(), ["a1", "a2"]);
}

/// A producer that did not get SQS's reply sends its message again. Within 5 minutes SQS drops it. Later it is a new message
/// with a new id.
#[tokio::test]
async fn a_message_that_its_producer_sends_again_later_runs_again_unless_the_key_says_otherwise() {
    let sent = |id: &str| {
        let message = AwsRecord::json(&order_of("a")).id(id);
        let message = message.with("/attributes/MessageDeduplicationId", "d-1");
        events::sqs("orders.fifo").records([message])
    };
    for (key, runs) in [(None, 2), (Some("attributes.MessageDeduplicationId"), 1)] {
        let shop = Shop::new();
        let mut operation = builder("batch.fifo");
        if let Some(key) = key {
            operation = operation.key(key);
        }
        let batch = Batch::new(&operation.build().unwrap()).key_from(KeyFrom::Record);
        for id in ["m-1", "m-2"] {
            let returned = shop.deliver(Source::Fifo, &batch, &sent(id), MINUTE).await;
            assert!(returned.unwrap().is_empty());
        }
        assert_eq!(shop.ran().len(), runs, "{key:?}");
    }
}

/// Ten orders.
const ORDERS: &str = "a b c d e f g h i j";

#[tokio::test]
async fn a_batch_on_a_failing_store_returns_what_did_not_run_and_acknowledges_what_did() {
    // The settings, the requests that fail, the orders; those that are returned and run, and those that run when they are delivered again.
    let (both, puts, few) = ("unprotected circuit", (Put, 10, Throttle), "a b c");
    for (settings, (request, times, fault), orders, returned, ran, again) in [
        ("", (Put, 100, Throttle), "a", "a", "", ""),
        // A completion that is not confirmed, and a response that is not stored.
        ("", (Update, ALL, Throttle), "a", "", "a", ""),
        ("", (Update, 1, TooLarge), "a", "", "a", ""),
        // Of the first two nothing is stored.
        ("unprotected", (Put, 2, Throttle), few, "", few, "a b"),
        ("circuit", puts, ORDERS, ORDERS, "", ""),
        (both, puts, ORDERS, "", ORDERS, ORDERS),
    ] {
        let name = format!("{settings}, {request:?} {fault:?}");
        let shop = match times {
            100.. => Shop::with_passing_time(),
            _ => Shop::new(),
        };
        shop.harness.fail(request, times, fault);
        let has_circuit = settings.contains("circuit");
        let operation = builder("batch.store").key("order_id");
        let mut operation = operation.circuit_breaker(has_circuit);
        if settings.contains("unprotected") {
            operation = operation.on_store_error(OnStoreError::RunUnprotected);
        }
        let batch = Batch::new(&operation.build().unwrap());
        let deliver = || shop.deliver_text(Source::Standard, &batch, orders, MINUTE);
        assert_eq!(deliver().await, (returned.into(), ran.into()), "{name}");
        if has_circuit {
            // The circuit is open.
            assert_eq!(shop.harness.requests(), [5, 0, 0, 0], "{name}");
        }
        let (_, ran) = deliver().await;
        assert_eq!(ran, again, "{name}, again");
    }
}

#[tokio::test]
async fn by_default_a_message_without_a_key_is_returned() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.no_key").key("user_id").build().unwrap();
    assert_eq!(shop.queue(&operation, &queue(&["a"])).await, ["m-a"]);
    assert!(shop.ran().is_empty());
}

/// More requests than a call sends.
const ALL: usize = 1_000;

#[tokio::test]
async fn a_record_is_acknowledged_only_if_its_staged_writes_are_known_to_be_applied() {
    // The claim of the call, its key, and the requests that fail. If the store failed, `stage` is an error.
    let lost = vec![(Put, LoseReply), (Read, Throttle)];
    let claims = [
        ("confirmed", "order_id", vec![]),
        ("none, no key", "other_id", vec![]),
        ("none", "order_id", vec![(Put, Throttle)]),
        ("unknown", "order_id", lost),
    ];
    // The end of the transaction; the order; how many sends fail, and how; if it is applied; if the record is acknowledged.
    // `rejected` stages a write whose condition fails, `fails` returns an error after it, `unstored` is not stored by policy, and
    // the claim of `evicted` is gone.
    let ends = [
        ("applied", "a", (0, Throttle), true, true),
        ("found, after a lost reply", "a", (1, LoseReply), true, true),
        ("applied, not known", "a", (ALL, LoseReply), true, false),
        ("lost, not known", "a", (ALL, LoseRequest), false, false),
        ("not applied", "a", (ALL, Throttle), false, false),
        ("rejected", "rejected", (0, Throttle), false, false),
        ("dropped, failed", "fails", (0, Throttle), false, false),
        ("dropped, unstored", "unstored", (0, Throttle), false, false),
        ("fenced", "evicted", (0, Throttle), false, false),
    ];
    for (at, (claim, key, failing)) in claims.into_iter().enumerate() {
        for (end, order, (sends, fault), applied, acknowledged) in ends {
            if order == "evicted" && claim != "confirmed" {
                // There is no record to evict.
                continue;
            }
            let shop = Shop::with_passing_time();
            let store = &shop.harness.store;
            for (request, fault) in &failing {
                shop.harness.fail(*request, ALL, *fault);
            }
            shop.harness.fail(Transact, sends, fault);
            let operation = builder(&format!("batch.staged.{at}")).key(key);
            let operation = operation.key_required(false).store_when("@ != 'unstored'");
            let operation = operation.on_store_error(OnStoreError::RunUnprotected);
            let operation = operation.build().unwrap();
            let handler = async |order: Order, call: Call| {
                let order = order.order_id;
                call.stage(|writes: &mut MemoryWrites| {
                    let least = if order == "rejected" { 100 } else { 0 };
                    writes.push(LedgerEntry::add("shop", 1).at_least(least));
                    Ok::<_, Infallible>(())
                })?;
                match order.as_str() {
                    "fails" => return Err(BoxError::from("declined")),
                    "evicted" => {
                        let id = idempotency_tests::id(&operation, &order.as_str().into());
                        store.inner().evict(&id);
                    }
                    _ => {}
                }
                Ok(order)
            };
            let event = shop.parsed::<SqsEvent>(&queue(&[order]));
            let batch = Batch::new(&operation).run(event, handler);
            let response = shop.harness.within(batch).await;
            let stages = failing.is_empty();
            let is_acknowledged = named(&response.unwrap()).is_empty();
            let is_applied = store.inner().balance("shop") == 1;
            assert_eq!(
                (is_applied, is_acknowledged),
                (applied && stages, acknowledged && stages),
                "claim {claim}, transaction {end}"
            );
        }
    }
}

#[tokio::test]
async fn each_message_has_a_transaction_of_its_own() {
    let shop = Shop::new();
    let store = shop.harness.store.inner();
    let operation = builder("batch.sqs.open").key("order_id").build().unwrap();
    let handler = async |order: Order, call: Call| {
        let order = order.order_id;
        let mut open = call.open_transaction::<Box<MemoryTransaction>>().await?;
        open.add(&order, 1);
        match order.as_str() {
            "dropped" => drop(open),
            "late" => {
                store.set_balance("late", 0);
                open.commit_with_response();
            }
            _ => open.commit_with_response(),
        }
        if order == "fails" {
            return Err(BoxError::from("declined"));
        }
        Ok(order)
    };
    for _delivery in 0..2 {
        let event = shop.parsed::<SqsEvent>(&queue(&["a", "dropped", "late", "fails", "b"]));
        let batch = Batch::new(&operation).run(event, handler);
        let response = shop.harness.within(batch).await;
        assert_eq!(named(&response.unwrap()).len(), 3);
        let applied = ["a", "dropped", "late", "fails", "b"].map(|order| store.balance(order));
        assert_eq!(applied, [1, 0, 0, 0, 1]);
    }
}
