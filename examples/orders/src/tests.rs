use std::sync::Arc;

use idempotency_lambda::{Context, MemoryStore, backend_over, with_backend};
use idempotency_testkit::retry_safety::{World, retry_safety};
use serde_json::{Value, json};

use super::*;

/// Sends the event to the function and returns the ids of the messages to repeat.
async fn failed(app: &App, event: Value) -> Vec<String> {
    let event = serde_json::from_value(event).unwrap();
    let response = app.handler(LambdaEvent::new(event, Context::default()));
    let failures = response.await.unwrap().batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}

#[tokio::test]
async fn only_failed_messages_are_reported() {
    let event = json!({ "Records": [
        { "messageId": "m-1", "body": r#"{"order_id":"o-1","user_id":"u","items":[{"sku":"tea","quantity":2}]}"# },
        { "messageId": "m-2", "body": r#"{"order_id":"o-2","user_id":"u","items":[]}"# },
        { "messageId": "m-3", "body": "not an order" },
    ]});
    let app = App::new(Arc::default()).unwrap();
    let backend = backend_over(Arc::new(MemoryStore::new()));
    let failed = with_backend(backend, failed(&app, event)).await;
    assert_eq!(failed, ["m-2", "m-3"]);
}

#[tokio::test]
async fn an_order_that_was_sent_twice_and_delivered_twice_is_reserved_once() {
    let event: Value = serde_json::from_str(include_str!("../../events/orders.json")).unwrap();
    let app = App::new(Arc::default()).unwrap();
    with_backend(backend_over(Arc::new(MemoryStore::new())), async {
        for _ in 0..2 {
            assert!(failed(&app, event.clone()).await.is_empty());
        }
    })
    .await;
    assert_eq!(app.warehouse.requested(), 2 + 4);
}

#[tokio::test]
async fn the_batch_is_safe_to_retry_wherever_it_fails() {
    let event = serde_json::from_str(include_str!("../../events/orders.json")).unwrap();
    let event = LambdaEvent::new(event, Context::default());
    let report = retry_safety(event, async |world: World, event| {
        App::new(world.fake::<Warehouse>())?.handler(event).await
    })
    .effect("reserved", async |world| {
        world.fake::<Warehouse>().reserved()
    })
    .run()
    .await;
    report.assert_safe();
}
