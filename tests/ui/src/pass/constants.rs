//! Functions beside constants whose names are those of ordinary variables: a `let` of such a name in generated code would be a pattern.
#![warn(missing_docs, clippy::all)]
#![allow(clippy::missing_errors_doc, dead_code, non_upper_case_globals)]
#![forbid(unsafe_code)]

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_lambda::{BoxError, Call, Context, LambdaEvent, idempotent};

const batch: u8 = 0;
const call: u8 = 1;
const codec: u8 = 2;
const convert: u8 = 3;
const error: u8 = 4;
const event: u8 = 5;
const found: u8 = 6;
const operation: u8 = 7;
const outcome: u8 = 8;
const prepared: u8 = 9;
const private: u8 = 10;
const reader: u8 = 11;
const result: u8 = 12;
const store: u8 = 13;
const supplied: u8 = 14;

#[idempotent(payload = payload, key_prefix = "constants.value")]
async fn value(payload: u8, _: &Context, _: Call) -> Result<u8, BoxError> {
    Ok(payload)
}

#[idempotent]
async fn of_an_event(LambdaEvent { payload, .. }: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(payload)
}

#[idempotent(sqs)]
async fn of_a_batch(record: u8, _: Call) -> Result<u8, BoxError> {
    Ok(record)
}

#[idempotent(http, shared_by_all_callers)]
async fn of_http(
    _: LambdaEvent<ApiGatewayV2httpRequest>,
    _: Call,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(ApiGatewayV2httpResponse::default())
}

/// Calls what is above.
pub fn main() {
    let context = Context::default();
    drop(value(1, &context));
    drop(of_an_event(LambdaEvent::new(1, context.clone())));
    drop(of_a_batch(LambdaEvent::new(
        Default::default(),
        context.clone(),
    )));
    drop(of_http(LambdaEvent::new(Default::default(), context)));
}
