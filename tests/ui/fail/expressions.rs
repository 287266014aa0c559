//! Wrong JMESPath expressions. A caret shows the place.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

#[idempotent(key = "body.[user_id, order_id")]
async fn unclosed(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "lenght(body)")]
async fn no_such_function(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(validate = "items[::0]")]
async fn no_step(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(store_when = "status = 'ok'")]
async fn one_equals_sign(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(store_event = "{id: order_id")]
async fn not_closed(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(store_event = "")]
async fn nothing_kept(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "")]
async fn empty(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

fn main() {}
