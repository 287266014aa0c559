//! Functions of one record.

use idempotency_lambda::batch::ItemChange;
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order;

#[derive(Deserialize)]
struct ReadOnly;

struct App;

#[idempotent(sqs)]
async fn no_record() -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs)]
async fn of_an_event(event: LambdaEvent<Order>) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(kinesis)]
async fn by_reference(order: &Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs, payload = order, on_replay = replayed, context = app)]
async fn settings_of_others(app: &App, order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs, validate = "amount", order = "partition_key", concurrency = 0, reserve = 5)]
async fn wrong_settings(order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(kinesis, key_from = "record", order = "shard")]
async fn wrong_choices(order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(concurrency = 4)]
async fn no_batch(event: LambdaEvent<Order>) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs, kinesis)]
async fn two_sources(order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs)]
async fn not_written_as_json(order: ReadOnly) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(dynamodb_stream)]
async fn no_change(order: Order) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs)]
async fn a_change(change: ItemChange<Order>) -> Result<u8, BoxError> {
    Ok(1)
}

#[idempotent(sqs)]
async fn not_a_result(order: Order) -> u8 {
    1
}

#[idempotent(sqs)]
async fn not_stored(order: Order) -> Result<App, BoxError> {
    Ok(App)
}

#[idempotent(sqs)]
async fn wrong_error(order: Order) -> Result<u8, App> {
    Ok(1)
}

#[idempotent(sqs)]
async fn wrong_body(order: Order) -> Result<u8, BoxError> {
    order
}

fn main() {}
