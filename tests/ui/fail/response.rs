//! Responses that cannot be read back.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::Serialize;

#[derive(Serialize)]
struct Receipt;

#[idempotent]
async fn handler(_event: LambdaEvent<u8>) -> Result<Receipt, BoxError> {
    Ok(Receipt)
}

#[idempotent]
async fn borrows(_event: LambdaEvent<u8>) -> Result<&'static str, BoxError> {
    Ok("paid")
}

mod http {
    pub struct StatusCode;
    pub struct Json<T>(pub T);
}

#[idempotent]
async fn of_another_crate(
    _event: LambdaEvent<u8>,
) -> Result<(http::StatusCode, http::Json<u8>), BoxError> {
    Ok((http::StatusCode, http::Json(1)))
}

fn main() {}
