//! Standard queues: messages are independent.

use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use idempotency_lambda::batch::{Batch, KeyFrom, Message, RawBody};
use idempotency_lambda::{BoxError, Error, ErrorKind, Operation, Steps, with_backend};
use idempotency_testkit::events;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::shop::{Does, Shop, builder, named, order, queue};

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
        with_backend(self.harness.backend.clone(), batch).await
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
        .text("not json")
        .json(&json!({ "order_id": 7 }))
        .json(&order("a"))
        .text("");
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
    let event = events::sqs("orders")
        .record(message(1, "m-1"))
        .record(message(2, "m-2"))
        .record(message(1, "m-3"));
    let returned = shop.sqs(&operation, event.parse().unwrap()).await;
    assert_eq!(returned, ["m-2"]);
    assert_eq!(shop.ran(), ["a"]);
}

#[tokio::test]
async fn a_message_in_progress_elsewhere_is_returned() {
    let shop = Shop::new();
    let operation = shop.operation("batch.sqs.elsewhere");
    shop.harness
        .store
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
        .deduplication_id("d-1")
        .attribute("kind", "new");
    let event: SqsEvent = events::sqs("orders.fifo").record(message).parse().unwrap();
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
        let message = events::AwsRecord::text(body).id(id);
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
    let response = with_backend(shop.harness.backend.clone(), batch).await;
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
    with_backend(shop.harness.backend.clone(), whole)
        .await
        .unwrap();
    assert_eq!(seen.lock().unwrap()[0].0, "m-a");
    assert!(seen.lock().unwrap()[0].1.ends_with(":orders"));
    let other = builder("batch.sqs.raw").build().unwrap();
    let raw = Batch::new(&other).run(event(), async |message: Message<RawBody>| {
        Ok::<_, BoxError>(message.body.as_bytes().len())
    });
    let response = with_backend(shop.harness.backend.clone(), raw)
        .await
        .unwrap();
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
            .store
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
        .store
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
            .store
            .inject(StoreOperation::Put, number, StoreFault::Throttle);
    }
    assert_eq!(shop.sqs(&operation, queue(&["a"])).await, ["m-a"]);
    assert!(shop.ran().is_empty());
}
