//! An error type that this framework's errors cannot be converted into.

use idempotency_lambda::{LambdaEvent, idempotent};

#[derive(Debug)]
struct Declined;

#[idempotent]
async fn handler(_event: LambdaEvent<u8>) -> Result<u8, Declined> {
    Err(Declined)
}

fn main() {}
