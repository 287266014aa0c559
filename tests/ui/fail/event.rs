//! A parameter that is not an event.

use idempotency_lambda::{BoxError, idempotent};
use serde::Serialize;

#[derive(Serialize)]
struct Order;

#[idempotent]
async fn handler(_order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

fn main() {}
