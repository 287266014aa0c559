//! The attribute on a typed event, in a program that has the lean client.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use orders::{AsCharge, Order, Receipt};

#[idempotent(
    key = "[user_id, order_id]",
    key_required = "all",
    key_prefix = "charge",
    validate = "amount",
    expires_after = "1h"
)]
async fn handler(event: LambdaEvent<Order>) -> Result<Receipt, BoxError> {
    Ok(orders::charge(event.payload.charge()?)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    idempotency_lambda::run(handler).await
}
