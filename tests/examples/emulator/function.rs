//! The function that the cases need beside the examples.

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

/// Serves events until the process is ended.
pub(crate) async fn serve() -> Result<(), BoxError> {
    idempotency_lambda::run(charge).await
}

#[derive(Serialize, Deserialize)]
struct Order {
    order_id: String,
    amount: u32,
    #[serde(default)]
    #[serde(rename = "do")]
    what: String,
}

#[idempotent(key = "order_id", validate = "amount")]
async fn charge(event: LambdaEvent<Order>) -> Result<String, BoxError> {
    match event.payload.what.as_str() {
        "hang" => std::future::pending().await,
        "panic" => panic!("the handler panics"),
        "exit" => std::process::exit(3),
        "fail" => Err("the card was declined".into()),
        // More than the 6 MB that Lambda takes as a response.
        "large" => Ok("x".repeat(7 * 1024 * 1024)),
        // Less than that, and more than an item holds.
        "long" => Ok("x".repeat(1024 * 1024)),
        _ => Ok(format!(
            "{} of {} in request {}",
            event.payload.amount, event.payload.order_id, event.context.request_id
        )),
    }
}
