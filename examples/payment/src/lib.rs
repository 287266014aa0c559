//! A payment function behind an API Gateway HTTP API with a JWT authorizer. A retry of the same order by the same user charges
//! once and gets the same response.

pub mod gateway;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use serde::{Deserialize, Serialize};

/// The body of a request.
#[derive(Debug, Deserialize)]
pub struct Order {
    /// The order to pay.
    pub order_id: String,
    /// The amount, in the smallest unit of the currency.
    pub amount: u64,
    /// The currency.
    pub currency: String,
    /// The test card. Its name says how it behaves.
    #[serde(default)]
    pub card: gateway::Card,
}

/// The body of a response.
#[derive(Debug, Serialize)]
struct Receipt {
    payment_id: String,
    amount: u64,
    currency: String,
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

/// Charges the order in the request's body.
///
/// A replay returns before the handler can check the user. Therefore the key contains the user that API Gateway has
/// authenticated, and a user never gets the receipt of another user. `Raw` computes the key from the original text of the
/// event. A request without a user or an order is rejected, and so is a retry with another amount.
///
/// # Errors
///
/// If the request has no user or is not an order, if the gateway declines the card, or if the call cannot be made idempotent.
#[idempotent(
    key_prefix = "payment",
    key = "[requestContext.authorizer.jwt.claims.sub, powertools_json(body).order_id]",
    key_required = "all",
    validate = "powertools_json(body).[amount, currency]",
    expires_after = "24h"
)]
pub async fn handler(
    event: LambdaEvent<Raw<ApiGatewayV2httpRequest>>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let user = user(&event.payload).ok_or("the request has no authenticated user")?;
    let body = event
        .payload
        .body
        .as_deref()
        .ok_or("the request has no body")?;
    let order: Order = serde_json::from_str(body).map_err(|_| "the body is not an order")?;
    let payment_id = gateway::charge(user, &order, &event.context.request_id).await?;
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

/// Returns the user that the JWT authorizer has authenticated.
fn user(request: &ApiGatewayV2httpRequest) -> Option<&str> {
    let authorizer = request.request_context.authorizer.as_ref()?;
    let claims = &authorizer.jwt.as_ref()?.claims;
    claims.get("sub").map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotency_lambda::MemoryStore;
    use idempotency_lambda::{Error, ErrorKind, backend_over, with_backend};
    use std::sync::Arc;

    /// Returns a request of `user` for order `o-1`; `None` is a request without an authorizer.
    fn event(
        request_id: &str,
        user: Option<&str>,
        amount: u64,
    ) -> LambdaEvent<Raw<ApiGatewayV2httpRequest>> {
        let event = include_str!("../../events/payment.json");
        let mut event: serde_json::Value = serde_json::from_str(event).unwrap();
        event["body"] =
            format!(r#"{{"order_id":"o-1","amount":{amount},"currency":"EUR"}}"#).into();
        match user {
            Some(user) => {
                event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = user.into();
            }
            None => event["requestContext"]["authorizer"] = serde_json::Value::Null,
        }
        let mut context = idempotency_lambda::Context::default();
        context.request_id = request_id.to_owned();
        LambdaEvent::new(Raw::from_json(event.to_string()).unwrap(), context)
    }

    fn kind(error: &BoxError) -> ErrorKind {
        error.downcast_ref::<Error>().unwrap().kind()
    }

    #[tokio::test]
    async fn a_retry_gets_the_first_receipt_and_another_amount_is_rejected() {
        let backend = backend_over(Arc::new(MemoryStore::new()));
        with_backend(backend, async {
            let first = handler(event("r-1", Some("u-1"), 4_200)).await.unwrap();
            let again = handler(event("r-2", Some("u-1"), 4_200)).await.unwrap();
            assert_eq!(first, again);
            let error = handler(event("r-3", Some("u-1"), 9_900)).await.unwrap_err();
            assert_eq!(kind(&error), ErrorKind::PayloadMismatch);
        })
        .await;
    }

    #[tokio::test]
    async fn a_user_who_sends_the_order_of_another_user_does_not_get_that_users_receipt() {
        let backend = backend_over(Arc::new(MemoryStore::new()));
        with_backend(backend, async {
            let of_first = handler(event("r-1", Some("u-1"), 4_200)).await.unwrap();
            let of_second = handler(event("r-2", Some("u-2"), 4_200)).await.unwrap();
            assert_ne!(of_first.body, of_second.body);
            // Another amount is not rejected either: the two users have different keys.
            let other_amount = handler(event("r-3", Some("u-3"), 9_900)).await;
            assert!(other_amount.is_ok());
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_without_an_authenticated_user_or_an_order_is_rejected_before_the_handler() {
        let backend = backend_over(Arc::new(MemoryStore::new()));
        with_backend(backend, async {
            let error = handler(event("r-1", None, 4_200)).await.unwrap_err();
            assert_eq!(kind(&error), ErrorKind::KeyMissing);
            let mut donation = event("r-2", Some("u-1"), 4_200).payload.text().to_owned();
            donation = donation.replace(r#"\"order_id\":\"o-1\","#, "");
            let donation = Raw::from_json(donation).unwrap();
            let error = handler(LambdaEvent::new(donation, Default::default()))
                .await
                .unwrap_err();
            assert_eq!(kind(&error), ErrorKind::KeyMissing);
        })
        .await;
    }
}
