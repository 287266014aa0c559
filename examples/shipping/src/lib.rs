//! Parcels for paid orders, from EventBridge. It delivers an event at least once; a concurrent duplicate waits for the first response.

use aws_lambda_events::eventbridge::EventBridgeEvent;
use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use serde::{Deserialize, Serialize};

/// The detail of an event.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderPaid {
    /// The paid order.
    pub order_id: String,
    /// The customer.
    pub user_id: String,
}

/// A booked parcel.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Parcel {
    /// The order.
    pub order_id: String,
    /// The tracking number of the carrier, a new one for each booking.
    pub tracking: String,
}

/// Starts the function.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch("IdempotencyExamples")?;
    idempotency_lambda::run(handler).await
}

/// Books a parcel.
///
/// # Errors
///
/// If the call cannot be made idempotent.
#[idempotent(
    key_prefix = "shipping",
    key = "detail.order_id",
    key_required = "all",
    on_in_progress = "wait",
    local_cache = 100
)]
pub async fn handler(
    event: LambdaEvent<Raw<EventBridgeEvent<OrderPaid>>>,
) -> Result<Parcel, BoxError> {
    let order = &event.payload.detail;
    tracing::info!(order_id = order.order_id, "booking a parcel");
    Ok(Parcel {
        order_id: order.order_id.clone(),
        tracking: format!("parcel-{}", event.context.request_id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_lambda::MemoryStore;
    use idempotency_lambda::{Context, backend_over, with_backend};
    use std::sync::Arc;

    #[tokio::test]
    async fn an_event_delivered_twice_books_one_parcel() {
        let text = include_str!("../../events/shipping.json");
        let event = |request_id: &str| {
            let mut context = Context::default();
            context.request_id = request_id.to_owned();
            LambdaEvent::new(serde_json::from_str(text).unwrap(), context)
        };
        with_backend(backend_over(Arc::new(MemoryStore::new())), async {
            let first = handler(event("r-1")).await.unwrap();
            assert_eq!(handler(event("r-2")).await.unwrap(), first);
        })
        .await;
    }
}
