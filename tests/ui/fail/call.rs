//! Functions that ask for their call in a wrong way.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

/// A phone call: a type of the program with the same name.
#[derive(Serialize, Deserialize)]
struct Call {
    number: String,
}

#[idempotent]
async fn by_reference(event: LambdaEvent<u8>, call: &idempotency_lambda::Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent]
async fn before_the_event(call: idempotency_lambda::Call, event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(payload = id)]
async fn twice(id: u8, one: idempotency_lambda::Call, two: idempotency_lambda::Call) -> Result<u8, BoxError> {
    Ok(id)
}

#[idempotent]
async fn under_cfg(event: LambdaEvent<u8>, #[cfg(test)] call: idempotency_lambda::Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent]
async fn of_another_type(event: LambdaEvent<u8>, call: Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(sqs)]
async fn of_another_type_beside_a_record(order: Vec<u8>, call: Call) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent]
async fn without_an_event(call: idempotency_lambda::Call) -> Result<u8, BoxError> {
    Ok(1)
}

fn main() {}
