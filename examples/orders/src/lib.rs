//! Orders from SQS: each order is an operation, and only failed messages are delivered again.

mod warehouse;

pub use warehouse::Warehouse;

use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, KeyRequired, LambdaEvent, Operation};
use serde::{Deserialize, Serialize};

/// The body of a message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The order.
    pub order_id: String,
    /// The customer.
    pub user_id: String,
    /// The lines of the order.
    pub items: Vec<Item>,
}

/// A line of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Item {
    /// The article.
    pub sku: String,
    /// The number of pieces.
    pub quantity: u32,
}

/// The response for a reserved order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// The order.
    pub order_id: String,
    /// The number of reserved pieces.
    pub reserved: u32,
}

/// What all events share: the operation, and the client of the warehouse.
#[derive(Debug)]
pub struct App {
    reserve: Operation,
    warehouse: Arc<Warehouse>,
}

impl App {
    /// Returns the function's state, over this warehouse.
    ///
    /// # Errors
    ///
    /// If a setting is invalid. The text names it and says what to write.
    pub fn new(warehouse: Arc<Warehouse>) -> Result<Self, BoxError> {
        let reserve = Operation::builder("orders.reserve")
            .key_prefix("orders.reserve")
            .key("order_id")
            .key_required(KeyRequired::All)
            .validate("items")
            .build()?;
        Ok(Self { reserve, warehouse })
    }

    /// Reserves stock for each order of the batch.
    ///
    /// # Errors
    ///
    /// If the batch cannot be handled at all. A message that fails is named in the response, and SQS delivers it again.
    pub async fn handler(
        &self,
        event: LambdaEvent<SqsEvent>,
    ) -> Result<SqsBatchResponse, BoxError> {
        let reserve = |order| self.warehouse.reserve(order);
        Ok(Batch::new(&self.reserve).run(event, reserve).await?)
    }
}

/// Starts the function.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch("IdempotencyExamples")?;
    let app = &App::new(Arc::default())?;
    idempotency_lambda::run(move |event| app.handler(event)).await
}

#[cfg(test)]
mod tests {
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
}
