//! Handlers of HTTP events: types that are no requests and no responses.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

#[idempotent(http, shared_by_all_callers)]
async fn another_event(_: LambdaEvent<SqsEvent>) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(ApiGatewayV2httpResponse::default())
}

#[idempotent(http, shared_by_all_callers)]
async fn no_event(_: ApiGatewayV2httpRequest) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(ApiGatewayV2httpResponse::default())
}

#[idempotent(http, shared_by_all_callers)]
async fn another_response(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<String, BoxError> {
    Ok(String::new())
}

fn main() {}
