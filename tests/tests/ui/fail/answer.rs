//! An answer that cannot be read back.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::Serialize;

#[derive(Serialize)]
struct Receipt;

#[idempotent]
async fn handler(_event: LambdaEvent<u8>) -> Result<Receipt, BoxError> {
    Ok(Receipt)
}

fn main() {}
