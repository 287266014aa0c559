//! The behaviour of DynamoDB that a protocol of conditional writes depends on, checked on the embedded DynamoDB.
#![allow(clippy::unwrap_used)]

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

async fn orders() -> EmbeddedDynamoDb {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    db.create_table(TableSpec::new("orders")).await.unwrap();
    db
}

#[tokio::test]
async fn only_not_equal_holds_for_a_missing_attribute() {
    let db = orders().await;
    db.put("orders", [("id", text("o-1"))]).await.unwrap();
    for (operator, holds) in [
        ("<>", true),
        ("=", false),
        ("<", false),
        (">", false),
        (">=", false),
    ] {
        let put = db
            .client()
            .put_item()
            .table_name("orders")
            .item("id", text("o-1"));
        let put = put
            .condition_expression(format!("nickname {operator} :v"))
            .expression_attribute_values(":v", text("x"));
        assert_eq!(put.send().await.is_ok(), holds, "nickname {operator} :v");
    }
}

#[tokio::test]
async fn a_comparison_of_two_types_never_holds() {
    let db = orders().await;
    let item = [("id", text("o-1")), ("expiration", text("1"))];
    db.put("orders", item).await.unwrap();
    for operator in ["=", "<", ">"] {
        let put = db.client().put_item().table_name("orders");
        let put = put
            .item("id", text("o-1"))
            .condition_expression(format!("expiration {operator} :v"))
            .expression_attribute_values(":v", AttributeValue::N("1".to_owned()));
        let error = put.send().await.unwrap_err();
        let code = error.code().unwrap_or_default().to_owned();
        assert_eq!(code, "ConditionalCheckFailedException", "{operator}");
    }
}

#[tokio::test]
async fn expressions_that_dynamodb_rejects_are_rejected() {
    let db = orders().await;
    let put = || {
        let put = db.client().put_item().table_name("orders");
        put.item("id", text("o-1"))
            .expression_attribute_values(":v", text("x"))
    };
    for put in [
        put().condition_expression("status = :v"),
        put().condition_expression("attribute_not_exists(id)"),
        put().condition_expression("id = :v AND id = :w"),
        put()
            .condition_expression("id = :v")
            .expression_attribute_names("#unused", "x"),
    ] {
        let error = put.clone().send().await.unwrap_err();
        let code = error.code().unwrap_or_default();
        assert_eq!(
            code,
            "ValidationException",
            "{:?}",
            put.get_condition_expression()
        );
    }
}

#[tokio::test]
async fn consumed_capacity_depends_on_the_size_of_the_item() {
    let db = orders().await;
    for (size, units) in [(10, 1.0), (1025, 2.0), (5000, 5.0)] {
        let put = db.client().put_item().table_name("orders");
        let put = put
            .item("id", text("o-1"))
            .item("data", text(&"x".repeat(size)))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let capacity = put.send().await.unwrap().consumed_capacity.unwrap();
        assert_eq!(capacity.capacity_units(), Some(units), "{size}");
    }
}

#[tokio::test]
async fn an_item_has_at_most_400_kb_attribute_names_included() {
    let db = orders().await;
    let names_and_key = "id".len() + "o-1".len() + "data".len();
    for (size, fits) in [
        (400 * 1024 - names_and_key, true),
        (400 * 1024 - names_and_key + 1, false),
    ] {
        let put = db
            .client()
            .put_item()
            .table_name("orders")
            .item("id", text("o-1"));
        let put = put.item("data", text(&"x".repeat(size))).send().await;
        assert_eq!(put.is_ok(), fits, "{size}");
        if let Err(error) = put {
            assert_eq!(error.code(), Some("ValidationException"));
        }
    }
}

#[tokio::test]
async fn the_ttl_attribute_is_set_and_expired_items_stay() {
    let db = orders().await;
    let ttl = db
        .client()
        .describe_time_to_live()
        .table_name("orders")
        .send()
        .await
        .unwrap();
    let ttl = ttl.time_to_live_description.unwrap();
    assert_eq!(ttl.attribute_name(), Some("expiration"));
    let expired = [
        ("id", text("o-1")),
        ("expiration", AttributeValue::N("1".to_owned())),
    ];
    db.put("orders", expired).await.unwrap();
    assert_eq!(db.items("orders").await.unwrap().len(), 1);
}
