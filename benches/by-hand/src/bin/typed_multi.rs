//! The hand-written function on a multi-thread runtime, which takes several events at a time where Lambda sends them.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let table = Arc::new(by_hand::Table::from_env().await?);
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<orders::Order>| {
        let table = Arc::clone(&table);
        async move { by_hand::handle(&table, event).await }
    }))
    .await
}
