//! Handlers of HTTP events: the caller, the settings and the types.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

type Response = ApiGatewayV2httpResponse;

#[idempotent(http)]
async fn without_a_caller(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, caller = "a.b", shared_by_all_callers)]
async fn with_both(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, caller = "a.[b")]
async fn a_wrong_caller(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(caller = "a.b")]
async fn without_the_word(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, payload = event.payload)]
async fn with_a_payload(event: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, on_replay = |response, _| response)]
async fn with_a_hook(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, key = "a", key_header = "b")]
async fn with_two_keys(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, key_header = "a b")]
async fn a_wrong_header(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers)]
async fn without_an_event() -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, caller = "requestContext.authorizer.iam.userArn")]
async fn a_shared_caller(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, validate = "a", fingerprint_also = "b")]
async fn two_fingerprints(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, stored_headers = "x-a x-b", on_unstorable = "keep")]
async fn wrong_lists(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

#[idempotent(http, shared_by_all_callers, add_headers = "cors")]
async fn a_quoted_hook(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<Response, BoxError> {
    Ok(Response::default())
}

fn main() {}
