//! Functions that cannot be protected.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::Serialize;

#[idempotent]
fn not_async(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent]
async fn no_response(_event: LambdaEvent<u8>) {}

#[idempotent]
async fn no_result(event: LambdaEvent<u8>) -> Option<u8> {
    Some(event.payload)
}

#[idempotent]
async fn hidden_response(event: LambdaEvent<u8>) -> Result<impl Serialize, BoxError> {
    Ok::<_, BoxError>(event.payload)
}

#[idempotent]
async fn no_parameter() -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent]
async fn two_parameters(customer: &str, id: u64) -> Result<u64, BoxError> {
    Ok(id + customer.len() as u64)
}

#[idempotent(payload = value)]
async fn generic<T: Serialize>(value: T) -> Result<u8, BoxError> {
    drop(value);
    Ok(1)
}

#[idempotent(payload = value)]
async fn hidden_generic(value: impl Serialize) -> Result<u8, BoxError> {
    drop(value);
    Ok(1)
}

#[idempotent]
#[idempotent]
async fn annotated_twice(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent]
struct Shop;

impl Shop {
    #[idempotent(key_prefix = "shop.method")]
    async fn method(&self) -> Result<u8, BoxError> {
        Ok(1)
    }

    #[idempotent(payload = id)]
    async fn without_prefix(&self, id: u8) -> Result<u8, BoxError> {
        Ok(id)
    }
}

trait Ships {
    #[idempotent(payload = id, key_prefix = "ships")]
    async fn ship(&self, id: u8) -> Result<u8, BoxError>;
}

fn main() {}
