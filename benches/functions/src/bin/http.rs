//! The attribute on an HTTP event of API Gateway.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use orders::{AsCharge, Order};

#[idempotent(
    http,
    key_prefix = "charge",
    caller = "requestContext.authorizer.jwt.claims.sub",
    expires_after = "1h"
)]
async fn handler(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let order: Order = serde_json::from_str(event.payload.body.as_deref().unwrap_or_default())?;
    let receipt = orders::charge(order.charge()?)?;
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    response
        .headers
        .insert("content-type", "application/json".parse()?);
    response.body = Some(Body::Text(serde_json::to_string(&receipt)?));
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    idempotency_lambda::run(handler).await
}
