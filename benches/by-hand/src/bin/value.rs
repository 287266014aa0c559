//! The hand-written function for an untyped event (`Value`), on a current-thread runtime.

use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let table = &by_hand::Table::from_env().await?;
    lambda_runtime::run(service_fn(
        async move |event: LambdaEvent<serde_json::Value>| by_hand::handle(table, event).await,
    ))
    .await
}
