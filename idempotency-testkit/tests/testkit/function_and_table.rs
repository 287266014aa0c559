//! The real process of a function and an embedded table.
use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::lambda::LocalLambda;
use lambda_runtime::{Error, LambdaEvent};
use serde_json::Value;

use crate::local_lambda::function;

/// Puts an order into the table. Like a deployed function, it finds the table only by its environment variables.
pub(crate) async fn handler(event: LambdaEvent<Value>) -> Result<(), Error> {
    // Not the client of `aws-config`, whose TLS provider takes longer to compile than the SDK.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    let config = config.load().await;
    let id = event.payload["id"].as_str().unwrap_or_default();
    let put = aws_sdk_dynamodb::Client::new(&config).put_item();
    let put = put
        .table_name("orders")
        .item("id", AttributeValue::S(id.into()));
    put.send().await?;
    Ok(())
}

async fn start() -> (EmbeddedDynamoDb, LocalLambda) {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    db.create_table(TableSpec::new("orders")).await.unwrap();
    let function = function("puts an order").envs(db.environment());
    let lambda = LocalLambda::start(function).await.unwrap();
    (db, lambda)
}

#[tokio::test]
async fn a_process_finds_the_table_by_its_environment_variables() {
    let (db, lambda) = start().await;
    lambda.invoke(r#"{"id":"o-1"}"#).await.unwrap();
    assert!(db.item("orders", [("id", "o-1")]).await.unwrap().is_some());
}

#[tokio::test]
async fn the_write_of_a_killed_process_can_arrive_after_its_end() {
    let (db, lambda) = start().await;
    let held = db.inject(Fault::on("PutItem").hold());
    let process = lambda.start_process().await.unwrap();
    let pending = process.invoke(r#"{"id":"o-1"}"#).start();
    held.reached().await;
    process.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    assert!(db.items("orders").await.unwrap().is_empty());
    held.release().await;
    assert_eq!(db.items("orders").await.unwrap().len(), 1);
}
