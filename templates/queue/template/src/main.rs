//! Reserves stock for the orders of a queue. Each order is reserved once, and only the messages that failed are delivered again.

use std::collections::HashMap;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

use idempotency_lambda::{BoxError, Call, Token, idempotent};
// In the check of `retry_safety` each lock is a point where faults happen.
#[cfg(test)]
use idempotency_testkit::retry_safety::Mutex;
use serde::{Deserialize, Serialize};

/// The body of a message.
#[derive(Debug, Deserialize, Serialize)]
struct Order {
    /// The producer's own id. An order that is sent twice has two `messageId`s.
    order_id: String,
    quantity: u32,
}

/// What is stored for an order.
#[derive(Debug, Deserialize, Serialize)]
struct Reservation {
    reserved: u32,
}

/// Reserves the stock of one order. The attribute makes it the handler of the SQS event. `expires_after` is longer than a message can
/// live: 14 days in both queues of `template.yaml` together, then 4 days after it was moved back.
#[idempotent(
    sqs,
    key_prefix = "{{ project_name }}",
    key = "order_id",
    validate = "quantity",
    expires_after = "19d"
)]
async fn handler(warehouse: &Warehouse, order: Order, call: Call) -> Result<Reservation, BoxError> {
    let token = call.token("reserve");
    let reserved = warehouse.reserve(order.quantity, &token).await?;
    Ok(Reservation { reserved })
}

/// A simulated warehouse: put a client of yours in its place. It knows a reservation by its token, which is the same in every run for
/// an order: a run that is repeated after a crash gets the first reservation.
#[derive(Debug, Default)]
struct Warehouse(Mutex<HashMap<String, u32>>);

impl Warehouse {
    async fn reserve(&self, quantity: u32, token: &Token) -> Result<u32, BoxError> {
        if quantity == 0 {
            return Err("the order is empty".into());
        }
        let mut reserved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(*reserved.entry(token.to_string()).or_insert(quantity))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let warehouse = &Warehouse::default();
    idempotency_lambda::run(move |event| handler(warehouse, event)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aws_lambda_events::sqs::SqsEvent;
    use idempotency_lambda::{Context, LambdaEvent, MemoryStore, backend_over, with_backend};
    use idempotency_testkit::events::{self, AwsRecord};
    use idempotency_testkit::retry_safety::{World, retry_safety};
    use serde_json::json;

    use super::*;

    /// Returns how many pieces are reserved for all orders together.
    fn pieces(warehouse: &Warehouse) -> u32 {
        warehouse.0.lock().unwrap().values().sum()
    }

    #[tokio::test]
    async fn only_the_messages_that_failed_are_delivered_again() {
        let batch = events::sqs("orders").records([
            AwsRecord::json(&json!({ "order_id": "o-1", "quantity": 2 })),
            AwsRecord::json(&json!({ "order_id": "o-2", "quantity": 0 })),
            AwsRecord::new("not an order"),
        ]);
        let warehouse = Warehouse::default();
        let backend = backend_over(Arc::new(MemoryStore::new()));
        let event = LambdaEvent::new(batch.parse().unwrap(), Context::default());
        let response = with_backend(backend, handler(&warehouse, event)).await;
        let failures = response.unwrap().batch_item_failures.into_iter();
        let failed: Vec<String> = failures.map(|failure| failure.item_identifier).collect();
        assert_eq!(failed, batch.ids()[1..]);
        assert_eq!(pieces(&warehouse), 2);
    }

    #[tokio::test]
    async fn each_order_is_reserved_once_wherever_the_batch_fails() {
        let event: SqsEvent = serde_json::from_str(include_str!("../events/orders.json")).unwrap();
        let event = LambdaEvent::new(event, Context::default());
        let report = retry_safety(event, async |world: World, event| {
            handler(&world.fake::<Warehouse>(), event).await
        })
        .effect("pieces", async |world| pieces(&world.fake::<Warehouse>()))
        .run()
        .await;
        report.assert_safe();
    }
}
