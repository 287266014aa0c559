//! Wrong names of settings: misspelt, written twice, without a value, without quotes.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

#[idempotent(expire_after = "1h")]
async fn misspelt(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(colour = "red")]
async fn unknown(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(table = "orders")]
async fn of_the_environment(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "a", lease = "1m", key = "b")]
async fn twice(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key)]
async fn alone(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key("order_id"))]
async fn called(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent("order_id")]
async fn nameless(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = body.user_id)]
async fn a_path_without_quotes(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = body.[user_id, order_id], local_cache = 3)]
async fn an_expression_without_quotes(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "a" lease = "1m", local_cache = 3)]
async fn a_missing_comma(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

#[idempotent(ttl = "1h", name = "orders", timeout = "30s")]
async fn words_of_other_libraries(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

// One build shows all mistakes.
#[idempotent(kye = "id", hash = "md6", lease = 30)]
async fn several(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
    Ok(event.payload)
}

fn main() {}
