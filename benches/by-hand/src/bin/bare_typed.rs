//! The same work on a typed event without idempotency: what the runtime itself and the reading of the event cost.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use orders::{AsCharge, Order, Receipt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handler)).await
}

async fn handler(event: LambdaEvent<Order>) -> Result<Receipt, Error> {
    Ok(orders::charge(event.payload.charge()?)?)
}
