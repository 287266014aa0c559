//! A hook with another signature.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

fn mark(response: u8) -> u8 {
    response
}

#[idempotent(on_replay = mark)]
async fn hook(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

fn main() {}
