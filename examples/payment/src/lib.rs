//! A payment function behind an API Gateway HTTP API with a JWT authorizer. A retry of the same order by the same user charges
//! once and gets the same response.

pub mod gateway;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use gateway::NotCharged;
use idempotency_lambda::{BoxError, Call, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};
use serde_json::json;

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
/// authenticated, and a user never gets the receipt of another user. A request without a user or an order is refused, and so is
/// a retry with another amount. Only a receipt is stored: after a declined card the customer can try another one.
///
/// If a process is killed between the charge and the stored response, the next run sends the charge again. Both runs send the same
/// token, so the provider returns the first payment.
///
/// # Errors
///
/// If the provider cannot be reached, or if the response cannot be written. API Gateway then responds with the status 500. A retry sends
/// the charge again under the same token, so the provider charges once.
#[idempotent(
    http,
    key_prefix = "payment",
    caller = "requestContext.authorizer.jwt.claims.[iss, sub]",
    key = "powertools_json(body).order_id",
    validate = "powertools_json(body).[amount, currency]",
    store_when = "statusCode == `201`",
    expires_after = "24h"
)]
pub async fn handler(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
    call: Call,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let body = event.payload.body.as_deref().unwrap_or_default();
    let order: Order = match serde_json::from_str(body) {
        Ok(order) => order,
        Err(error) => return response(400, &json!({ "error": error.to_string() })),
    };
    let request_id = &event.context.request_id;
    let payment_id = match gateway::charge(&order, request_id, &call.token("charge")).await {
        Ok(payment_id) => payment_id,
        Err(NotCharged::Declined) => {
            return response(402, &json!({ "error": "the card was declined" }));
        }
        Err(NotCharged::Failed(error)) => return Err(error),
    };
    let receipt = Receipt {
        payment_id,
        amount: order.amount,
        currency: order.currency,
    };
    response(201, &receipt)
}

fn response(status: i64, body: &impl Serialize) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = status;
    response
        .headers
        .insert("content-type", "application/json".parse()?);
    response.body = Some(Body::Text(serde_json::to_string(body)?));
    Ok(response)
}

#[cfg(test)]
mod tests;
