//! Standard queues: messages are independent.
//!
//! FIFO queues: the messages of one group keep their order.
//!
//! A store that fails under a batch: `on_store_error` and the circuit breaker.
//!
//! Records whose handlers stage writes: acknowledged only if the writes were applied.

use std::convert::Infallible;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_lambda::batch::{Batch, KeyFrom, Message, RawBody};
use idempotency_lambda::{
    BoxError, Call, Error, ErrorKind, OnStoreError, Operation, Steps, with_backend,
};
use idempotency_testkit::events;
use idempotency_testkit::store::StoreFault::{self, LoseReply, LoseRequest, Throttle};
use idempotency_testkit::store::StoreOperation::{self, Put, Read, Transact};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shop::{Does, Shop, builder, named, order, queue};

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) amount: f64,
}

impl Shop {
    /// Gives a batch to an operation, with a minute left.
    pub(crate) async fn sqs(&self, operation: &Operation, event: SqsEvent) -> Vec<String> {
        self.try_sqs(&Batch::new(operation), event, MINUTE)
            .await
            .map(|response| named(&response))
            .unwrap()
    }

    pub(crate) async fn try_sqs(
        &self,
        batch: &Batch,
        event: SqsEvent,
        left: Duration,
    ) -> Result<SqsBatchResponse, Error> {
        let event = self.event(event, left);
        let batch = batch
            .clone()
            .run(event, |order: Order| self.handle(order.order_id));
        self.harness.within(batch).await
    }
}

#[tokio::test]
async fn a_batch_without_failures_names_nothing_and_its_second_delivery_runs_nothing() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.plain");
    for ran in [vec!["a", "b", "c"], vec![]] {
        let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
        assert!(returned.is_empty());
        assert_eq!(shop.ran(), ran);
    }
}

#[tokio::test]
async fn only_the_message_that_fails_is_named_and_it_runs_again() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.failure");
    shop.set("b", Does::Fail);
    let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
    assert_eq!(
        (returned, shop.ran()),
        (
            vec!["m-b".to_owned()],
            vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]
        )
    );
    shop.set("b", Does::Succeed);
    assert!(
        shop.sqs(&operation, queue(&["a", "b", "c"]))
            .await
            .is_empty()
    );
    assert_eq!(shop.ran(), ["b"]);
}

#[tokio::test]
async fn a_panic_returns_its_own_message_and_frees_its_key() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.panic");
    shop.set("a", Does::Panic);
    assert_eq!(shop.sqs(&operation, queue(&["a", "b"])).await, ["m-a"]);
    shop.set("a", Does::Succeed);
    assert!(shop.sqs(&operation, queue(&["a"])).await.is_empty());
    assert_eq!(shop.ran(), ["a", "b", "a"]);
}

#[tokio::test]
async fn a_body_that_is_no_order_is_returned_and_the_others_run() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.undecodable");
    let event = events::sqs("orders")
        .records([events::AwsRecord::new("not json")])
        .json(&json!({ "order_id": 7 }))
        .json(&order("a"))
        .records([events::AwsRecord::new("")]);
    let ids = event.ids();
    let returned = shop.sqs(&operation, event.parse().unwrap()).await;
    assert_eq!(returned, [ids[0].as_str(), &ids[1], &ids[3]]);
    assert_eq!(shop.ran(), ["a"]);
}

#[tokio::test]
async fn ten_messages_run_at_a_time_by_default() {
    let orders: Vec<_> = (0..25).map(|number| number.to_string()).collect();
    let orders: Vec<_> = orders.iter().map(String::as_str).collect();
    for (concurrency, most) in [(None, 10), (Some(3), 3), (Some(0), 1), (Some(100), 25)] {
        let shop = Shop::new();
        orders.iter().for_each(|order| shop.set(order, Does::Yield));
        let mut batch = Batch::new(&shop.operation("batch.sqs.concurrency"));
        if let Some(concurrency) = concurrency {
            batch = batch.concurrency(concurrency);
        }
        let response = shop.try_sqs(&batch, queue(&orders), MINUTE).await.unwrap();
        assert!(named(&response).is_empty());
        assert_eq!((shop.ran().len(), shop.most_at_once()), (25, most));
    }
}

#[tokio::test]
async fn two_messages_with_one_key_run_once_and_end_alike() {
    for (does, returned) in [
        (Does::Yield, vec![]),
        (Does::Fail, vec!["m-1".to_owned(), "m-2".to_owned()]),
    ] {
        let shop = Shop::new();
        let operation = shop.operation("batch.sqs.duplicates");
        shop.set("a", does);
        let messages = ["m-1", "m-2"].map(|id| events::AwsRecord::json(&order("a")).id(id));
        let event = events::sqs("orders").records(messages).parse().unwrap();
        assert_eq!(shop.sqs(&operation, event).await, returned);
        assert_eq!(shop.ran(), ["a"]);
    }
}

#[tokio::test]
async fn an_identifier_that_is_repeated_is_returned_once() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.repeated");
    for order in ["a", "b"] {
        shop.set(order, Does::Fail);
    }
    let messages = ["a", "b"].map(|id| events::AwsRecord::json(&order(id)).id("m-1"));
    let event = events::sqs("orders").records(messages).parse().unwrap();
    assert_eq!(shop.sqs(&operation, event).await, ["m-1"]);
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn a_message_with_the_key_of_another_and_another_amount_is_returned() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.mismatch")
        .key("order_id")
        .validate("amount")
        .build()
        .unwrap();
    let message =
        |amount, id| events::AwsRecord::json(&json!({ "order_id": "a", "amount": amount })).id(id);
    let event =
        events::sqs("orders").records([message(1, "m-1"), message(2, "m-2"), message(1, "m-3")]);
    let returned = shop.sqs(&operation, event.parse().unwrap()).await;
    assert_eq!(returned, ["m-2"]);
    assert_eq!(shop.ran(), ["a"]);
}

#[tokio::test]
async fn a_message_in_progress_elsewhere_is_returned() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.elsewhere");
    shop.harness
        .inject(StoreOperation::Update, 1, StoreFault::Hang);
    // The first process is killed between its handler and its completion.
    let first = shop.sqs(&operation, queue(&["a"]));
    let mut first = Box::pin(first);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let event = shop.event(queue(&["a", "b"]), MINUTE);
    let second = Batch::new(&operation).run(event, |order: Order| shop.handle(order.order_id));
    let response = with_backend(shop.harness.another_process(), second)
        .await
        .unwrap();
    assert_eq!(named(&response), ["m-a"]);
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn messages_that_would_not_end_before_the_deadline_are_returned() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.sqs.deadline")).concurrency(1);
    for order in ["a", "b", "c", "d"] {
        shop.set(order, Does::Take(Duration::from_secs(10)));
    }
    // 1 s is kept: `a` and `b` end at 10 s and 20 s, and `c` would end at 30 s.
    let left = Duration::from_secs(30);
    let response = shop
        .try_sqs(&batch, queue(&["a", "b", "c", "d"]), left)
        .await
        .unwrap();
    assert_eq!(named(&response), ["m-c", "m-d"]);
    assert_eq!(shop.ran(), ["a", "b"]);
    let response = shop
        .try_sqs(&batch, queue(&["c", "d"]), left)
        .await
        .unwrap();
    assert!(named(&response).is_empty());
    assert_eq!(shop.ran(), ["c", "d"]);
}

#[tokio::test]
async fn a_message_without_an_id_fails_the_whole_batch_before_a_handler_runs() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.sqs.nameless"));
    for id in [json!(""), json!(null)] {
        let mut event = serde_json::to_value(queue(&["a", "b"])).unwrap();
        event["Records"][1]["messageId"] = id;
        let event = serde_json::from_value(event).unwrap();
        let error = shop.try_sqs(&batch, event, MINUTE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPayload);
        let text = error.to_string();
        assert!(text.contains("record 2 of 2 has no `messageId`"), "{text}");
        assert!(text.contains("come from a source of `sqs`"), "{text}");
        assert!(text.contains("the handler did not run"), "{text}");
    }
    assert!(shop.ran().is_empty());
}

#[tokio::test]
async fn without_a_key_expression_the_key_is_the_message_id() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.own_id").build().unwrap();
    let event = queue(&["a"]);
    assert!(shop.sqs(&operation, event).await.is_empty());
    shop.harness.record(&operation, &json!("m-a"));
    // The same body in another message is another operation.
    let event = events::sqs("orders").json(&order("a")).parse().unwrap();
    assert!(shop.sqs(&operation, event).await.is_empty());
    assert_eq!(shop.ran(), ["a", "a"]);
}

#[tokio::test]
async fn a_batch_that_cannot_validate_fails_before_a_handler_runs() {
    let shop = Shop::new();
    let validates = builder("batch.sqs.validate").validate("amount");
    let steps = builder("batch.sqs.steps").key("messageId");
    for (operation, key_from, text) in [
        (validates, KeyFrom::Body, "`validate` needs a `key`"),
        // The whole record is validated, and it has the number of its deliveries.
        (
            steps.steps(Steps::Keep),
            KeyFrom::Record,
            "need `validate`, with a part",
        ),
    ] {
        let operation = operation.build().unwrap();
        let batch = Batch::new(&operation).key_from(key_from);
        let error = shop.try_sqs(&batch, queue(&["a"]), MINUTE).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(shop.ran().is_empty());
}

#[tokio::test]
async fn a_batch_and_a_plain_call_with_one_key_have_one_record() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.one_record");
    assert!(shop.sqs(&operation, queue(&["a"])).await.is_empty());
    let outcome = shop
        .harness
        .call_with(&operation, order("a"), async |_| Ok("again".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        (outcome.is_replayed(), outcome.response().as_str()),
        (true, "a")
    );
}

#[tokio::test]
async fn a_key_over_the_record_sees_the_messages_attributes_and_the_parsed_body() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.record")
        .key("[attributes.MessageDeduplicationId, body.order_id, messageAttributes.kind.stringValue]")
        .key_required(idempotency_lambda::KeyRequired::All)
        .build()
        .unwrap();
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let message = events::AwsRecord::json(&order("a"))
        .id("m-1")
        .group("g")
        .with("/attributes/MessageDeduplicationId", "d-1")
        .attribute("kind", "new");
    let event: SqsEvent = events::sqs("orders.fifo")
        .records([message])
        .parse()
        .unwrap();
    let response = shop.try_sqs(&batch, event, MINUTE).await.unwrap();
    assert!(named(&response).is_empty());
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
    let lines = |body, id| {
        let message = events::AwsRecord::new(body).id(id);
        message.attribute("file", "orders.csv")
    };
    let messages = [
        lines("o-1,100", "m-1"),
        lines("o-1,100", "m-2"),
        lines("o-1,999", "m-3"),
    ];
    let event: SqsEvent = events::sqs("orders").records(messages).parse().unwrap();
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let event = shop.event(event, MINUTE);
    let batch = batch.run(event, |body: RawBody| {
        shop.handle(body.as_str().unwrap_or_default().to_owned())
    });
    let response = shop.harness.within(batch).await;
    // The third has another body under the same key.
    assert_eq!(named(&response.unwrap()), ["m-3"]);
    assert_eq!(shop.ran(), ["o-1,100"]);
}

#[tokio::test]
async fn a_handler_can_take_the_whole_message_or_the_bytes_of_the_body() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.whole").build().unwrap();
    let event = || shop.event(queue(&["a"]), MINUTE);
    let seen = std::sync::Mutex::new(Vec::new());
    let whole = Batch::new(&operation).run(event(), async |message: Message<Order>| {
        let queue = message.record.event_source_arn.clone().unwrap_or_default();
        seen.lock().unwrap().push((message.id().to_owned(), queue));
        Ok::<_, BoxError>(message.body.amount)
    });
    shop.harness.within(whole).await.unwrap();
    assert_eq!(seen.lock().unwrap()[0].0, "m-a");
    assert!(seen.lock().unwrap()[0].1.ends_with(":orders"));
    let other = builder("batch.sqs.raw").build().unwrap();
    let raw = Batch::new(&other).run(event(), async |message: Message<RawBody>| {
        Ok::<_, BoxError>(message.body.as_bytes().len())
    });
    let response = shop.harness.within(raw).await.unwrap();
    assert!(named(&response).is_empty());
    let length = serde_json::to_string(&order("a"))
        .unwrap()
        .len()
        .to_string();
    let record = shop.harness.record(&other, &json!("m-a"));
    assert_eq!(
        record.data.value().map(|data| data.as_str()),
        Some(length.as_str())
    );
}

#[tokio::test]
async fn a_batch_whose_future_is_dropped_runs_the_rest_at_its_next_delivery() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.dropped");
    let batch = Batch::new(&operation).concurrency(1);
    shop.set("b", Does::Yield);
    let mut first = Box::pin(shop.try_sqs(&batch, queue(&["a", "b", "c"]), MINUTE));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    drop(first);
    assert_eq!(shop.ran(), ["a", "b"]);
    // The claim of `b` lasts until its lease ends.
    let response = shop
        .try_sqs(&batch, queue(&["a", "b", "c"]), MINUTE)
        .await
        .unwrap();
    assert_eq!(
        (named(&response), shop.ran()),
        (vec!["m-b".to_owned()], vec!["c".to_owned()])
    );
    shop.harness
        .clock
        .advance(MINUTE + Duration::from_millis(1));
    let response = shop
        .try_sqs(&batch, queue(&["a", "b", "c"]), MINUTE)
        .await
        .unwrap();
    assert_eq!(
        (named(&response), shop.ran()),
        (vec![], vec!["b".to_owned()])
    );
}

#[tokio::test]
async fn a_completion_that_is_not_confirmed_acknowledges_the_message_whose_handler_succeeded() {
    let shop = Shop::with_passing_time();
    let operation = shop.operation("batch.sqs.unconfirmed");
    for number in 1..=1_000 {
        shop.harness
            .inject(StoreOperation::Update, number, StoreFault::Throttle);
    }
    assert!(shop.sqs(&operation, queue(&["a"])).await.is_empty());
    assert_eq!(shop.ran(), ["a"]);
}

#[tokio::test]
async fn a_message_whose_earlier_response_is_not_stored_is_acknowledged() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.unavailable");
    shop.harness
        .inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    for ran in [vec!["a"], vec![]] {
        assert!(shop.sqs(&operation, queue(&["a"])).await.is_empty());
        assert_eq!(shop.ran(), ran);
    }
    let record = shop.harness.record(&operation, &json!("a"));
    assert!(record.data.value().is_none());
}

#[tokio::test]
async fn by_default_a_message_without_a_key_is_returned() {
    let shop = Shop::new();
    let operation = builder("batch.sqs.no_key").key("user_id").build().unwrap();
    assert_eq!(shop.sqs(&operation, queue(&["a"])).await, ["m-a"]);
    assert!(shop.ran().is_empty());
}

#[tokio::test]
async fn a_throttled_store_returns_the_message_that_did_not_run() {
    let shop = Shop::with_passing_time();
    let operation = shop.operation("batch.sqs.throttled");
    for number in 1..=100 {
        shop.harness
            .inject(StoreOperation::Put, number, StoreFault::Throttle);
    }
    assert_eq!(shop.sqs(&operation, queue(&["a"])).await, ["m-a"]);
    assert!(shop.ran().is_empty());
}

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
    let poison = events::AwsRecord::new("no order").id("m-poison").group("a");
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
        let event = events::sqs("orders.fifo")
            .records([message.with("/attributes/MessageDeduplicationId", "d-1")]);
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

const ORDERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Returns the messages of these orders, as a response names them.
fn messages(orders: &[&str]) -> Vec<String> {
    orders.iter().map(|order| format!("m-{order}")).collect()
}

/// Throttles the next claims.
fn throttle(shop: &Shop, claims: usize) {
    for nth in 1..=claims {
        let store = &shop.harness.store;
        store.inject(StoreOperation::Put, nth, StoreFault::Throttle);
    }
}

#[tokio::test]
async fn a_message_whose_claim_failed_runs_unprotected_and_is_acknowledged() {
    let shop = Shop::new();
    let operation = builder("batch.unprotected").key("order_id");
    let operation = operation.on_store_error(OnStoreError::RunUnprotected);
    let operation = operation.build().unwrap();
    throttle(&shop, 2);
    let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
    assert!(returned.is_empty());
    assert_eq!(shop.ran(), ["a", "b", "c"]);
    // Of the first two nothing is stored: they run again when they are delivered again.
    let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
    assert!(returned.is_empty());
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn a_batch_on_a_failing_store_asks_it_five_times_and_returns_every_message() {
    let shop = Shop::new();
    let operation = builder("batch.circuit").key("order_id");
    let operation = operation.circuit_breaker(true).build().unwrap();
    throttle(&shop, ORDERS.len());
    let returned = shop.sqs(&operation, queue(&ORDERS)).await;
    assert_eq!(returned, messages(&ORDERS));
    assert!(shop.ran().is_empty());
    assert_eq!(shop.harness.requests(), [5, 0, 0, 0]);
}

#[tokio::test]
async fn a_batch_with_both_settings_asks_the_store_five_times_and_runs_every_message() {
    let shop = Shop::new();
    let operation = builder("batch.both").key("order_id").circuit_breaker(true);
    let operation = operation.on_store_error(OnStoreError::RunUnprotected);
    let operation = operation.build().unwrap();
    throttle(&shop, ORDERS.len());
    assert!(shop.sqs(&operation, queue(&ORDERS)).await.is_empty());
    assert_eq!(shop.ran(), ORDERS);
    assert_eq!(shop.harness.requests(), [5, 0, 0, 0]);
}

/// More requests than a call sends.
const ALL: usize = 1_000;

#[tokio::test]
async fn a_record_is_acknowledged_only_if_its_staged_writes_are_known_to_be_applied() {
    // The claim of the call, its key, and the requests that fail. If the store failed, `stage` is an error.
    let claims = [
        ("confirmed", "order_id", vec![]),
        ("none, no key", "other_id", vec![]),
        ("none", "order_id", vec![(Put, Throttle)]),
        (
            "unknown",
            "order_id",
            vec![(Put, LoseReply), (Read, Throttle)],
        ),
    ];
    // The end of the transaction, the order, and how that many sends fail; if it is applied, and if the record is acknowledged.
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
        (
            "dropped, by policy",
            "unstored",
            (0, Throttle),
            false,
            false,
        ),
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
            for nth in 1..=ALL {
                for (request, fault) in &failing {
                    store.inject(*request, nth, *fault);
                }
            }
            (1..=sends).for_each(|nth| store.inject(Transact, nth, fault));
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
            let event = shop.event(queue(&[order]), MINUTE);
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
