//! Wrong values of settings.

use idempotency_lambda::{BoxError, Call, LambdaEvent, idempotent};

#[idempotent(
    key_prefix = shop,
    key_required = "yes",
    hash = "crc32",
    expires_after = "500ms",
    lease = 900,
    local_cache = "many",
    on_in_progress = "queue",
    on_timeout = hold,
    on_error = "retry",
    on_replay = "mark",
    store = "dynamodb",
    payload = "event"
)]
async fn all(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key_prefix = "", expires_after = "soon", lease = "0s", local_cache = -1, payload = ())]
async fn others(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key_prefix = "orders#tenant=a")]
async fn of_a_tenant(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(lookup = "read")]
async fn looked_up(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(lookup = read-first)]
async fn looked_up_without_quotes(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(read_first = true)]
async fn looked_up_by_another_name(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(on_store_error = "ignore", circuit_breaker = "on")]
async fn a_store_that_fails(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(on_timeout = "hold", on_store_error = "run-unprotected")]
async fn unprotected_under_hold(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(steps = "always")]
async fn other_steps(event: LambdaEvent<u8>, call: Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(steps = true)]
async fn steps_without_a_policy(event: LambdaEvent<u8>, call: Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(steps = "keep")]
async fn steps_without_a_call(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(step = "keep")]
async fn steps_under_another_name(event: LambdaEvent<u8>, call: Call) -> Result<u8, BoxError> {
    Ok(event.payload)
}

fn main() {}
