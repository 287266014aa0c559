//! The real process of the function, under the local Lambda.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};

#[tokio::test]
async fn an_event_that_is_delivered_twice_gets_one_response() -> Result<(), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new("idempotency")).await?;
    database.inject(Fault::on("PutItem").drop_reply()); // applied, but the reply never arrives: the SDK sends it again
    let function = FunctionSpec::new("orders", Command::new(env!("CARGO_BIN_EXE_orders")))
        .env("IDEMPOTENCY_TABLE", "idempotency")
        .envs(database.environment());
    let lambda = LocalLambda::start(function).await?;
    let event = include_str!("../../events/orders.json");
    let first = lambda.invoke(event).await?;
    assert_eq!(lambda.invoke(event).await?.payload, first.payload);
    let log = lambda.processes().into_iter().flat_map(|it| it.log());
    let runs = log.filter(|line| line.text.contains("reserving stock"));
    assert_eq!(runs.count(), 2); // one for each order of the event
    Ok(())
}
