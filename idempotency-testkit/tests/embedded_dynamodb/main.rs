//! The embedded DynamoDB, used through the real SDK.
#![allow(clippy::unwrap_used)]

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use idempotency_testkit::dynamodb::{DatabaseError, EmbeddedDynamoDb, Fault, TableSpec};

/// Returns the item of a failed condition.
macro_rules! failed_with {
    ($result:expr, $error:ident) => {
        match $result.unwrap_err().into_service_error() {
            $error::ConditionalCheckFailedException(error) => error.item.unwrap(),
            other => panic!("{other}"),
        }
    };
}

mod faults;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

async fn orders() -> EmbeddedDynamoDb {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    db.create_table(TableSpec::new("orders")).await.unwrap();
    db
}

fn once(db: &EmbeddedDynamoDb) -> Client {
    let config = Builder::from(&db.sdk_config()).retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

fn claim(client: &Client, owner: &str) -> PutItemFluentBuilder {
    client
        .put_item()
        .table_name("orders")
        .item("id", text("o-1"))
        .item("owner", text(owner))
        .condition_expression("attribute_not_exists(id)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

async fn owner(db: &EmbeddedDynamoDb) -> Option<AttributeValue> {
    let item = db.item("orders", [("id", "o-1")]).await.unwrap();
    item.map(|item| item["owner"].clone())
}

fn attempts(db: &EmbeddedDynamoDb) -> Vec<(Option<u32>, Option<u16>)> {
    db.requests()
        .iter()
        .map(|request| (request.attempt, request.status))
        .collect()
}

#[tokio::test]
async fn a_failed_condition_returns_the_item() {
    let db = orders().await;
    claim(&db.client(), "first").send().await.unwrap();
    let old = ReturnValuesOnConditionCheckFailure::AllOld;
    let put = claim(&db.client(), "second").send().await;
    assert_eq!(failed_with!(put, PutItemError)["owner"], text("first"));

    let update = db
        .client()
        .update_item()
        .table_name("orders")
        .key("id", text("o-1"));
    let update = update
        .update_expression("SET answer = :a")
        .condition_expression("#o = :me")
        .expression_attribute_names("#o", "owner")
        .expression_attribute_values(":a", text("x"))
        .expression_attribute_values(":me", text("second"))
        .return_values_on_condition_check_failure(old.clone());
    assert_eq!(
        failed_with!(update.send().await, UpdateItemError)["owner"],
        text("first")
    );

    let delete = db
        .client()
        .delete_item()
        .table_name("orders")
        .key("id", text("o-1"));
    let delete = delete
        .condition_expression("#o = :me")
        .expression_attribute_names("#o", "owner")
        .expression_attribute_values(":me", text("second"))
        .return_values_on_condition_check_failure(old);
    assert_eq!(
        failed_with!(delete.send().await, DeleteItemError)["owner"],
        text("first")
    );
    assert_eq!(owner(&db).await, Some(text("first")));
}

#[tokio::test]
async fn of_many_concurrent_claims_one_is_applied() {
    let db = orders().await;
    let client = db.client();
    let claims: Vec<_> = (0..20)
        .map(|n| tokio::spawn(claim(&client, &n.to_string()).send()))
        .collect();
    let mut granted = 0;
    for claim in claims {
        granted += usize::from(claim.await.unwrap().is_ok());
    }
    assert_eq!(granted, 1);
}

#[tokio::test]
async fn an_update_that_makes_an_item_too_large_changes_nothing() {
    let db = orders().await;
    claim(&db.client(), "first").send().await.unwrap();
    let update = db
        .client()
        .update_item()
        .table_name("orders")
        .key("id", text("o-1"));
    let update = update
        .update_expression("SET answer = :a")
        .expression_attribute_values(":a", text(&"x".repeat(400 * 1024)));
    let error = update.send().await.unwrap_err();
    assert_eq!(error.code(), Some("ValidationException"));
    let item = db.item("orders", [("id", "o-1")]).await.unwrap().unwrap();
    assert!(!item.contains_key("answer"));
}

#[tokio::test]
async fn requests_have_operation_table_key_and_body_and_can_be_cleared() {
    let db = orders().await;
    claim(&db.client(), "me").send().await.unwrap();
    let requests = db.requests();
    let [request] = requests.as_slice() else {
        panic!("helpers were counted: {requests:?}");
    };
    assert_eq!(request.operation, "PutItem");
    assert_eq!(request.table.as_deref(), Some("orders"));
    assert_eq!(request.key("id"), Some("o-1"));
    assert_eq!(
        request.body["ConditionExpression"],
        "attribute_not_exists(id)"
    );
    assert!(!format!("{request:?}").contains("o-1"));
    db.clear_requests();
    assert!(db.requests().is_empty());
}

#[tokio::test]
async fn a_composite_key_needs_both_of_its_parts() {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("shared")
        .partition_key("pk")
        .with_sort_key("sk");
    db.create_table(table).await.unwrap();
    db.put("shared", [("pk", text("p")), ("sk", text("1"))])
        .await
        .unwrap();
    db.put("shared", [("pk", text("p")), ("sk", text("2"))])
        .await
        .unwrap();
    assert_eq!(db.items("shared").await.unwrap().len(), 2);
    db.delete("shared", [("pk", "p"), ("sk", "1")])
        .await
        .unwrap();
    assert!(
        db.item("shared", [("pk", "p"), ("sk", "1")])
            .await
            .unwrap()
            .is_none()
    );
    let error = db.item("shared", [("pk", "p")]).await.unwrap_err();
    assert!(
        matches!(
            error,
            DatabaseError::Refused {
                operation: "GetItem",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn one_database_serves_several_runtimes() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let db = runtime().block_on(orders());
    for n in 0..3 {
        runtime().block_on(async {
            db.put("orders", [("id", text(&n.to_string()))])
                .await
                .unwrap();
            db.client().list_tables().send().await.unwrap();
        });
    }
    assert_eq!(runtime().block_on(db.items("orders")).unwrap().len(), 3);
}

#[tokio::test]
async fn a_dropped_database_closes_its_port() {
    let db = orders().await;
    let address = db.endpoint().trim_start_matches("http://").to_owned();
    let held = db.inject(Fault::on("PutItem").hold());
    let sent = tokio::spawn(claim(&once(&db), "me").send());
    held.reached().await;
    drop(db);
    assert!(sent.await.unwrap().is_err());
    assert!(std::net::TcpStream::connect(address).is_err());
}
