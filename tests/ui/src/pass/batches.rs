//! Functions of one record: the attribute leaves no warning behind, and the future of the handler is `Send`.
#![warn(missing_docs, clippy::all, clippy::pedantic)]
#![allow(clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

use std::sync::Arc;

use idempotency_lambda::batch::{DataRecord, ItemChange, KeyFrom, Message, RawBody};
use idempotency_lambda::{BoxError, Context, LambdaEvent, Raw, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    amount: String,
}

#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("closed")]
    Closed,
    #[error(transparent)]
    Idempotency(#[from] idempotency_lambda::Error),
}

#[derive(Debug)]
struct App {
    open: bool,
}

const AT_ONCE: usize = 4;

#[idempotent(sqs)]
async fn body(order: Order) -> Result<u64, BoxError> {
    if order.id == 0 {
        return Ok(0);
    }
    let amount: u64 = order.amount.parse()?;
    Ok(amount)
}

#[idempotent(sqs, key = "id", validate = "amount", key_required = "all", concurrency = AT_ONCE, reserve = "1500ms")]
async fn destructured(Order { id, .. }: Order) -> Result<u64, ShopError> {
    if id == 0 {
        return Err(ShopError::Closed);
    }
    Ok(id)
}

#[idempotent(key = "body.id", key_from = KeyFrom::Record, sqs)]
async fn message(mut message: Message<Order>) -> anyhow::Result<String> {
    message.body.amount.push('0');
    Ok(message.body.amount)
}

#[idempotent(sqs)]
async fn bytes(body: RawBody) -> Result<usize, BoxError> {
    Ok(body.as_bytes().len())
}

#[idempotent(kinesis, key = "id", order = "partition_key", concurrency = 8)]
async fn text(app: &App, data: DataRecord<Raw<Order>>) -> Result<u64, ShopError> {
    if app.open {
        Ok(data.body.id)
    } else {
        Err(ShopError::Closed)
    }
}

#[idempotent(dynamodb_stream)]
async fn change(app: Arc<App>, _: ItemChange<Order>) -> Result<bool, BoxError> {
    Ok(app.open)
}

/// Another attribute sees the function of one record, also if it is written below.
#[idempotent(sqs)]
#[tracing::instrument(skip_all, fields(order = %order.id))]
#[must_use = "a future"]
async fn traced(app: &App, order: Order) -> Result<bool, BoxError> {
    Ok(app.open && order.id > 0)
}

impl App {
    #[idempotent(sqs, key_prefix = "app.method")]
    async fn method(&self, order: Order) -> Result<bool, BoxError> {
        Ok(self.open && order.id > 0)
    }
}

/// A body that always panics.
#[idempotent(sqs)]
async fn never(order: Order) -> Result<u64, BoxError> {
    panic!("order {}", order.id)
}

fn event<T: Default>() -> LambdaEvent<T> {
    LambdaEvent::new(T::default(), Context::default())
}

fn sends<T: Send>(_: T) {}

/// Calls what is above.
pub fn main() {
    let app = App { open: true };
    sends(body(event()));
    sends(destructured(event()));
    sends(message(event()));
    sends(bytes(event()));
    sends(text(&app, event()));
    sends(traced(&app, event()));
    sends(app.method(event()));
    sends(change(Arc::new(App { open: false }), event()));
    sends(never(event()));
}
