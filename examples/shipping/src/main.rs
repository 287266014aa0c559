//! The shipping function, as Lambda starts it.

use idempotency_lambda::BoxError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    shipping::start().await
}
