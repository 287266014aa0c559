//! Orders from SQS: each message is an operation, and only failed messages are delivered again.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent};
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
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

/// Starts the function.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::run(handler).await
}

/// Reserves stock for each order of the batch.
///
/// # Errors
///
/// None. A message that fails is reported by its id, and SQS delivers it again.
pub async fn handler(event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, BoxError> {
    let mut response = SqsBatchResponse::default();
    for message in event.payload.records {
        if let Err(error) = process(message.body.as_deref().unwrap_or_default()).await {
            tracing::warn!(message_id = message.message_id, "{error}");
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = message.message_id.unwrap_or_default();
            response.batch_item_failures.push(failure);
        }
    }
    Ok(response)
}

async fn process(body: &str) -> Result<Reservation, BoxError> {
    let order: Order = serde_json::from_str(body).map_err(|_| "the message is not an order")?;
    reserve(&order).await
}

/// The response for a reserved order.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Reservation {
    /// The order.
    pub order_id: String,
    /// The number of reserved pieces.
    pub reserved: u32,
}

/// Reserves stock for one order. The handler calls it, so its lease ends with the deadline of the invocation.
///
/// # Errors
///
/// If the order is empty, or the call cannot be made idempotent.
#[idempotent(
    key_prefix = "orders.reserve",
    payload = order,
    key = "order_id",
    key_required = "all",
    validate = "items"
)]
pub async fn reserve(order: &Order) -> Result<Reservation, BoxError> {
    if order.items.is_empty() {
        return Err("the order is empty".into());
    }
    tracing::info!(order_id = order.order_id, "reserving stock");
    Ok(Reservation {
        order_id: order.order_id.clone(),
        reserved: order.items.iter().map(|item| item.quantity).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_lambda::MemoryStore;
    use idempotency_lambda::{backend_over, with_backend};
    use std::sync::Arc;

    #[tokio::test]
    async fn only_failed_messages_are_reported() {
        let event = serde_json::json!({ "Records": [
            { "messageId": "m-1", "body": r#"{"order_id":"o-1","user_id":"u","items":[{"sku":"tea","quantity":2}]}"# },
            { "messageId": "m-2", "body": r#"{"order_id":"o-2","user_id":"u","items":[]}"# },
            { "messageId": "m-3", "body": "not an order" },
        ]});
        let event = LambdaEvent::new(serde_json::from_value(event).unwrap(), Default::default());
        let backend = backend_over(Arc::new(MemoryStore::new()));
        let response = with_backend(backend, handler(event)).await.unwrap();
        let failed: Vec<_> = response
            .batch_item_failures
            .iter()
            .map(|failure| failure.item_identifier.as_str())
            .collect();
        assert_eq!(failed, ["m-2", "m-3"]);
    }
}
