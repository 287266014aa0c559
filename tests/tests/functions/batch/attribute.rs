//! `#[idempotent(sqs, ..)]`, `kinesis` and `dynamodb_stream`: a function of one record becomes the handler of the event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lambda_events::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use idempotency_core::store::MemoryStore;
use idempotency_lambda::batch::{DataRecord, ItemChange, Message};
use idempotency_lambda::{BoxError, ErrorKind, LambdaEvent, idempotent};
use idempotency_testkit::events;
use idempotency_tests::ours;
use serde_json::json;

use super::shop::{Does, Order, Shop, Source, named, queue};

/// Adds up the amounts of its orders, and fails an order of the amount 0.
#[derive(Debug, Default)]
struct App {
    amount: AtomicU64,
}

impl App {
    async fn add(&self, amount: f64) -> Result<u64, BoxError> {
        if amount == 0.0 {
            return Err("no amount".into());
        }
        Ok(self.amount.fetch_add(amount as u64, Ordering::Relaxed) + 1)
    }

    #[idempotent(sqs, key = "order_id", key_prefix = "batch.attribute.method")]
    async fn handle(&self, order: Order) -> Result<u64, BoxError> {
        self.add(order.amount).await
    }
}

#[idempotent(
    sqs,
    key = "order_id",
    key_required = "all",
    key_prefix = "batch.attribute.sqs",
    validate = "amount"
)]
async fn with_state(app: &App, mut order: Order) -> Result<u64, BoxError> {
    order.amount += 0.0;
    let added = app.add(order.amount).await?;
    Ok(added)
}

#[idempotent(
    sqs,
    key = "order_id",
    key_prefix = "batch.attribute.owned",
    concurrency = 2
)]
async fn with_owned_state(app: Arc<App>, Order { amount, .. }: Order) -> Result<u64, BoxError> {
    app.add(amount).await
}

#[idempotent(
    sqs,
    key = "[messageId, body.order_id]",
    key_from = "record",
    key_prefix = "batch.attribute.message",
    log_errors = true,
    reserve = "2s"
)]
async fn whole_message(message: Message<Order>) -> Result<String, BoxError> {
    let queue = message.record.event_source_arn.as_deref();
    if message.id() != "m-a" || !queue.is_some_and(|queue| queue.ends_with(":orders")) {
        return Err("this is not the record".into());
    }
    Ok(message.body.order_id)
}

#[idempotent(
    kinesis,
    key_prefix = "batch.attribute.kinesis",
    order = "partition_key",
    concurrency = 4
)]
async fn post(shop: &Shop, data: DataRecord<Order>) -> Result<String, BoxError> {
    if !data
        .body
        .order_id
        .starts_with(&data.record.kinesis.partition_key)
    {
        return Err("this is not the record".into());
    }
    shop.handle(data.body.order_id).await
}

#[idempotent(dynamodb_stream, key_prefix = "batch.attribute.stream")]
async fn changed(shop: &Shop, change: ItemChange<Order>) -> Result<String, BoxError> {
    let item = change.new.or(change.old).ok_or("no image")?;
    shop.handle(item.order_id).await
}

#[idempotent(sqs, key_prefix = "batch.attribute.store", store = store.clone())]
async fn with_store(store: Arc<MemoryStore>, order: Order) -> Result<String, BoxError> {
    Ok(order.order_id)
}

#[tokio::test]
async fn a_function_of_one_message_is_the_handler_of_the_event() {
    let (shop, app) = (Shop::new(), App::default());
    let event = || shop.parsed(&queue(&["a", "b", "c"]));
    for _ in 0..2 {
        let handler = with_state(&app, event());
        let response = shop.harness.within(handler).await.unwrap();
        assert!(named(&response).is_empty());
    }
    assert_eq!(app.amount.load(Ordering::Relaxed), 3, "each order once");
    let failing = events::sqs("orders").records([
        events::AwsRecord::json(&json!({ "order_id": "d", "amount": 0 })).id("m-d"),
        events::AwsRecord::json(&json!({ "order_id": "a", "amount": 7 })).id("m-a"),
        events::AwsRecord::new("no order").id("m-x"),
    ]);
    let handler = with_state(&app, shop.parsed(&failing));
    let response = shop.harness.within(handler).await.unwrap();
    assert_eq!(named(&response), ["m-d", "m-a", "m-x"]);
}

#[tokio::test]
async fn methods_and_owned_state_share_the_state_between_the_records() {
    let (shop, app) = (Shop::new(), Arc::new(App::default()));
    let event = || shop.parsed(&queue(&["a", "b"]));
    let both = async {
        let method = app.handle(event()).await?;
        let owned = with_owned_state(app.clone(), event()).await?;
        Ok::<_, BoxError>((method, owned))
    };
    let (method, owned) = shop.harness.within(both).await.unwrap();
    assert!(named(&method).is_empty() && named(&owned).is_empty());
    assert_eq!(app.amount.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_function_can_take_the_whole_message() {
    let shop = Shop::new();
    let handler = whole_message(shop.parsed(&queue(&["a"])));
    let response = shop.harness.within(handler).await.unwrap();
    assert!(named(&response).is_empty());
    assert_eq!(shop.harness.store.inner().len(), 1);
}

#[tokio::test]
async fn a_function_of_one_record_of_a_stream_is_the_handler_of_the_event() {
    let shop = Shop::new();
    shop.set("b1", Does::Fail);
    let records = ["a1", "b1", "a2"].map(|id| (id[..1].to_owned(), Ok(id.to_owned())));
    let event = Source::PartitionKey.event(&records);
    let handler = post(&shop, shop.parsed::<KinesisEvent>(&event));
    let response = shop.harness.within(handler).await.unwrap();
    assert_eq!(named(&response), [event.ids()[1].as_str()]);
    let event = Source::Changes.event(&[("c".to_owned(), Ok("c".to_owned()))]);
    let handler = changed(&shop, shop.parsed::<DynamoDbEvent>(&event));
    let response = shop.harness.within(handler).await.unwrap();
    assert!(named(&response).is_empty());
    assert_eq!(shop.ran().last().map(String::as_str), Some("c"));
}

#[tokio::test]
async fn a_store_of_its_own_keeps_the_records() {
    let (shop, store) = (Shop::new(), Arc::new(MemoryStore::new()));
    // The operation has a store of its own, and so the clock of the system.
    let event = LambdaEvent::new(queue(&["a"]).parse().unwrap(), Default::default());
    let response = with_store(store.clone(), event).await.unwrap();
    assert!(named(&response).is_empty());
    assert_eq!((store.len(), shop.harness.store.inner().len()), (1, 0));
}

#[tokio::test]
async fn a_batch_that_cannot_be_handled_is_an_error_of_the_function() {
    let shop = Shop::new();
    let event = queue(&["a"]).with("/Records/0/messageId", "");
    let handler = whole_message(shop.parsed(&event));
    let error = shop.harness.within(handler).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::InvalidPayload);
}

/// The future of the handler is `Send`, as `run_concurrent` demands.
#[test]
fn the_handlers_future_is_send() {
    fn sends<T: Send>(_: T) {}
    fn served<F>(_: impl Fn(LambdaEvent<SqsEvent>) -> F + Clone + Send + 'static)
    where
        F: Future<Output = Result<SqsBatchResponse, BoxError>> + Send,
    {
    }
    let app: &'static App = Box::leak(Box::default());
    sends(with_state(
        app,
        LambdaEvent::new(SqsEvent::default(), Default::default()),
    ));
    served(move |event| with_state(app, event));
    served(whole_message);
    let shared = Arc::new(App::default());
    served(move |event| with_owned_state(shared.clone(), event));
}
