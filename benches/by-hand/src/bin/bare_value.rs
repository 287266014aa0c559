//! The same work on an untyped event (`Value`) without idempotency: what the runtime itself and the reading of the event cost.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use orders::{AsCharge, Receipt};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handler)).await
}

async fn handler(event: LambdaEvent<Value>) -> Result<Receipt, Error> {
    Ok(orders::charge(event.payload.charge()?)?)
}
