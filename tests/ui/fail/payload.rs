//! Payloads that cannot be serialised.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order;

#[idempotent]
async fn handler(_event: LambdaEvent<Order>) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(payload = order)]
async fn function(order: &Order) -> Result<u8, BoxError> {
    let _ = order;
    Ok(1)
}

fn main() {}
