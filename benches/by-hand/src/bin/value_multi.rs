//! The hand-written function for a `Value` event, on a multi-thread runtime. It takes several events at a time if Lambda sends them.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let table = Arc::new(by_hand::Table::from_env().await?);
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<serde_json::Value>| {
        let table = Arc::clone(&table);
        async move { by_hand::handle(&table, event).await }
    }))
    .await
}
