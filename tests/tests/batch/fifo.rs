//! FIFO queues: the messages of one group keep their order.

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::batch::{Batch, KeyFrom};
use idempotency_testkit::events;
use serde_json::json;

use crate::shop::{Does, Shop, builder, named, order};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns an event of a FIFO queue. Each text is a group and an order: `a1` is the order `a1` of the group `a`.
fn fifo(orders: &[&str]) -> SqsEvent {
    let messages = orders.iter().map(|id| {
        let message = events::AwsRecord::json(&order(id)).id(format!("m-{id}"));
        message.group(&id[..1])
    });
    events::sqs("orders.fifo")
        .records(messages)
        .parse()
        .unwrap()
}

#[tokio::test]
async fn after_a_failure_only_its_own_group_is_returned() {
    let shop = Shop::new();
    let operation = shop.operation("batch.fifo.failure");
    shop.set("a2", Does::Fail);
    let returned = shop
        .sqs(&operation, fifo(&["a1", "a2", "b1", "a3", "b2", "a4"]))
        .await;
    assert_eq!(returned, ["m-a2", "m-a3", "m-a4"]);
    assert_eq!(shop.ran(), ["a1", "a2", "b1", "b2"]);
    shop.set("a2", Does::Succeed);
    assert!(
        shop.sqs(&operation, fifo(&["a2", "a3", "a4"]))
            .await
            .is_empty()
    );
    assert_eq!(shop.ran(), ["a2", "a3", "a4"]);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_stops_its_group_alone() {
    let shop = Shop::new();
    let operation = shop.operation("batch.fifo.undecodable");
    let poison = events::AwsRecord::text("no order")
        .id("m-poison")
        .group("a");
    let message = |id: &str| {
        events::AwsRecord::json(&order(id))
            .id(format!("m-{id}"))
            .group(&id[..1])
    };
    let event = events::sqs("orders.fifo").records([poison, message("a1"), message("b1")]);
    let returned = shop.sqs(&operation, event.parse().unwrap()).await;
    assert_eq!(returned, ["m-poison", "m-a1"]);
    assert_eq!(shop.ran(), ["b1"]);
}

#[tokio::test]
async fn one_message_runs_at_a_time_by_default() {
    for (concurrency, most) in [(None, 1), (Some(8), 3)] {
        let shop = Shop::new();
        let orders = ["a1", "a2", "b1", "b2", "c1", "c2"];
        orders.iter().for_each(|order| shop.set(order, Does::Yield));
        let mut batch = Batch::new(&shop.operation("batch.fifo.concurrency"));
        if let Some(concurrency) = concurrency {
            batch = batch.concurrency(concurrency);
        }
        let response = shop.try_sqs(&batch, fifo(&orders), MINUTE).await.unwrap();
        assert!(named(&response).is_empty());
        let ran = shop.ran();
        assert_eq!((ran.len(), shop.most_at_once()), (6, most));
        for group in ["a", "b", "c"] {
            let at = |order: String| ran.iter().position(|ran| *ran == order);
            assert!(at(format!("{group}1")) < at(format!("{group}2")), "{ran:?}");
        }
    }
}

#[tokio::test]
async fn a_duplicate_in_another_group_waits_and_keeps_the_order_of_its_group() {
    let shop = Shop::new();
    let operation = shop.operation("batch.fifo.duplicate");
    shop.set("x", Does::Yield);
    let message = |id: &str, group: &str, order_id: &str| {
        events::AwsRecord::json(&order(order_id))
            .id(id)
            .group(group)
    };
    let event = events::sqs("orders.fifo").records([
        message("m-1", "a", "x"),
        message("m-2", "b", "x"),
        message("m-3", "b", "y"),
    ]);
    let batch = Batch::new(&operation).concurrency(3);
    let response = shop
        .try_sqs(&batch, event.parse().unwrap(), MINUTE)
        .await
        .unwrap();
    assert!(named(&response).is_empty());
    assert_eq!(shop.ran(), ["x", "y"]);
}

#[tokio::test]
async fn a_fair_queue_has_groups_and_no_order() {
    let shop = Shop::new();
    let operation = shop.operation("batch.fifo.fair");
    shop.set("a1", Does::Fail);
    let mut event = serde_json::to_value(fifo(&["a1", "a2"])).unwrap();
    for record in event["Records"].as_array_mut().unwrap() {
        record["eventSourceARN"] = json!("arn:aws:sqs:eu-central-1:123456789012:fair");
    }
    let event = serde_json::from_value(event).unwrap();
    assert_eq!(shop.sqs(&operation, event).await, ["m-a1"]);
    assert_eq!(shop.ran(), ["a1", "a2"]);
}

#[tokio::test]
async fn the_deadline_returns_the_rest_of_every_group() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.fifo.deadline"));
    for order in ["a1", "b1", "a2", "b2"] {
        shop.set(order, Does::Take(Duration::from_secs(10)));
    }
    let event = fifo(&["a1", "b1", "a2", "b2"]);
    let response = shop
        .try_sqs(&batch, event, Duration::from_secs(25))
        .await
        .unwrap();
    assert_eq!(named(&response), ["m-a2", "m-b2"]);
    assert_eq!(shop.ran(), ["a1", "b1"]);
}

/// A producer that did not get SQS's reply sends its message again. Within 5 minutes SQS drops it. Later it is a new message
/// with a new id.
#[tokio::test]
async fn a_message_that_its_producer_sends_again_later_runs_again_unless_the_key_says_otherwise() {
    let sent = |id: &str| {
        let message = events::AwsRecord::json(&order("a")).id(id).group("g");
        let event = events::sqs("orders.fifo").record(message.deduplication_id("d-1"));
        event.parse::<SqsEvent>().unwrap()
    };
    for (name, key, runs) in [
        ("batch.fifo.own_id", None, 2),
        (
            "batch.fifo.deduplication_id",
            Some("attributes.MessageDeduplicationId"),
            1,
        ),
    ] {
        let shop = Shop::new();
        let mut operation = builder(name);
        if let Some(key) = key {
            operation = operation.key(key);
        }
        let batch = Batch::new(&operation.build().unwrap()).key_from(KeyFrom::Record);
        for id in ["m-1", "m-2"] {
            let response = shop.try_sqs(&batch, sent(id), MINUTE).await.unwrap();
            assert!(named(&response).is_empty());
        }
        assert_eq!(shop.ran().len(), runs, "{name}");
    }
}
