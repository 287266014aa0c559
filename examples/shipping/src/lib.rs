//! Parcels for paid orders, from EventBridge: it delivers at least once, and a duplicate waits for the first answer.

use aws_lambda_events::eventbridge::EventBridgeEvent;
use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use serde::{Deserialize, Serialize};

/// The detail of an event.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderPaid {
    /// Which order was paid.
    pub order_id: String,
    /// By whom.
    pub user_id: String,
}

/// A booked parcel.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Parcel {
    /// For which order.
    pub order_id: String,
    /// The carrier's number, a new one for each booking.
    pub tracking: String,
}

/// Starts the function.
///
/// # Errors
/// If its settings are wrong; the text says which and what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::run(handler).await
}

/// Books a parcel.
///
/// # Errors
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
            LambdaEvent::new(Raw::from_json(text).unwrap(), context)
        };
        with_backend(backend_over(Arc::new(MemoryStore::new())), async {
            let first = handler(event("r-1")).await.unwrap();
            assert_eq!(handler(event("r-2")).await.unwrap(), first);
        })
        .await;
    }
}
