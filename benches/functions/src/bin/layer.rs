//! The tower layer around a service of typed events.

use std::time::Duration;

use idempotency_lambda::{BoxError, IdempotencyLayer, KeyRequired, LambdaEvent, Operation};
use lambda_runtime::tower::ServiceBuilder;
use orders::{AsCharge, Order, Receipt};

async fn handler(event: LambdaEvent<Order>) -> Result<Receipt, BoxError> {
    Ok(orders::charge(event.payload.charge()?)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let charge = Operation::builder("charge")
        .key("[user_id, order_id]")
        .key_required(KeyRequired::All)
        .key_prefix("charge")
        .validate("amount")
        .expires_after(Duration::from_secs(3600))
        .build()?;
    idempotency_lambda::init().await?;
    let service = ServiceBuilder::new()
        .layer(IdempotencyLayer::new(charge))
        .service_fn(handler);
    lambda_runtime::run(service).await
}
