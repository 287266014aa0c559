//! Starts the refunds API in Lambda.

use idempotency_lambda::BoxError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    http_api::start().await
}
