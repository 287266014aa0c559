//! A payment function behind an API Gateway HTTP API: a retry of the same order is charged once and answered the same.

pub mod gateway;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use serde::{Deserialize, Serialize};

/// What a customer sends.
#[derive(Debug, Deserialize)]
pub struct Order {
    /// Who pays; a guest has no id.
    pub user_id: Option<String>,
    /// For what; a donation has no order.
    pub order_id: Option<String>,
    /// How much, in the currency's smallest unit.
    pub amount: u64,
    /// In which currency.
    pub currency: String,
    /// With which card; the gateway's test cards behave as their names say.
    #[serde(default)]
    pub card: gateway::Card,
}

/// What the customer is told.
#[derive(Debug, Serialize)]
struct Receipt {
    payment_id: String,
    amount: u64,
    currency: String,
}

/// Starts the function.
///
/// # Errors
/// If its settings are wrong; the text says which and what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::run(handler).await
}

/// Charges the order in the request's body.
///
/// The key is taken from the body's own text (`Raw`), and a retry with another amount is refused. A guest's donation has
/// neither user nor order, and so no key: it is charged as often as it is sent (`key_required = true` would refuse it).
///
/// # Errors
/// If the request is not an order, the gateway declines, or the call cannot be made idempotent.
#[idempotent(
    key = "powertools_json(body).[user_id, order_id]",
    validate = "powertools_json(body).[amount, currency]",
    expires_after = "24h"
)]
pub async fn handler(
    event: LambdaEvent<Raw<ApiGatewayV2httpRequest>>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let body = event
        .payload
        .body
        .as_deref()
        .ok_or("the request has no body")?;
    let order: Order = serde_json::from_str(body).map_err(|_| "the body is not an order")?;
    let payment_id = gateway::charge(&order, &event.context.request_id).await?;
    let receipt = Receipt {
        payment_id,
        amount: order.amount,
        currency: order.currency,
    };
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 201;
    response.body = Some(Body::Text(serde_json::to_string(&receipt)?));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_lambda::core::store::MemoryStore;
    use idempotency_lambda::{Error, ErrorKind, environment_with, with_environment};
    use std::sync::Arc;

    fn event(request_id: &str, amount: u64) -> LambdaEvent<Raw<ApiGatewayV2httpRequest>> {
        let body =
            format!(r#"{{"user_id":"u-1","order_id":"o-1","amount":{amount},"currency":"EUR"}}"#);
        let event = include_str!("../../events/payment.json");
        let mut event: serde_json::Value = serde_json::from_str(event).unwrap();
        event["body"] = body.into();
        let mut context = idempotency_lambda::Context::default();
        context.request_id = request_id.to_owned();
        LambdaEvent::new(Raw::from_json(event.to_string()).unwrap(), context)
    }

    #[tokio::test]
    async fn a_retry_is_given_the_first_receipt_and_another_amount_is_refused() {
        let environment = environment_with(Arc::new(MemoryStore::new()));
        with_environment(environment, async {
            let first = handler(event("r-1", 4_200)).await.unwrap();
            let again = handler(event("r-2", 4_200)).await.unwrap();
            assert_eq!(first, again);
            let error = handler(event("r-3", 9_900)).await.unwrap_err();
            let error = error.downcast_ref::<Error>().unwrap();
            assert_eq!(error.kind(), ErrorKind::PayloadMismatch);
        })
        .await;
    }
}
