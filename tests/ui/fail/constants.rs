//! Constants of another type than the setting's.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

const WINDOW: u64 = 3_600;

#[idempotent(expires_after = WINDOW)]
async fn handler(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

fn main() {}
