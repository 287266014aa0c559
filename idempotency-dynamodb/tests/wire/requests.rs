//! The requests: one for each operation, in this form.

use idempotency_core::example::StoreExt;
use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, Record, Status};
use idempotency_core::store::{Change, Store, StoreReply};
use idempotency_dynamodb::AttributeNames;
use serde_json::json;

use super::script::{Reply, Wire};
use super::{claim, claimed, id, store, with_client};

#[tokio::test]
async fn a_put_is_one_request_that_replaces_the_whole_item() {
    let wire = Wire::new([Reply::ok()]);
    assert!(matches!(claimed(&wire).await, StoreReply::Applied { .. }));
    let expected = json!({
        "TableName": "payments",
        "Item": {
            "id": { "S": "charge#42" },
            "expiration": { "N": "1700003600" },
            "status": { "S": "INPROGRESS" }
        },
        "ConditionExpression": "attribute_not_exists(#a)",
        "ExpressionAttributeNames": { "#a": "id" },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("PutItem".to_owned(), expected)]);
}

#[tokio::test]
async fn a_claim_asks_for_the_item_that_it_replaces() {
    let wire = Wire::new([Reply::ok()]);
    let condition = Condition::Exists(Attribute::Status);
    store(&wire).put(&id(), &claim(), &condition).await;
    let expected = json!({
        "TableName": "payments",
        "Item": {
            "id": { "S": "charge#42" },
            "expiration": { "N": "1700003600" },
            "status": { "S": "INPROGRESS" }
        },
        "ConditionExpression": "attribute_exists(#a)",
        "ExpressionAttributeNames": { "#a": "status" },
        "ReturnValues": "ALL_OLD",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("PutItem".to_owned(), expected)]);
}

#[tokio::test]
async fn an_update_is_one_request_that_keeps_the_other_attributes() {
    let wire = Wire::new([Reply::ok()]);
    let change = Change {
        set: Record {
            data: Field::Value(Data::new("1")),
            ..Record::default()
        },
        remove: vec![Attribute::Owner],
    };
    let condition = held_by(&OwnerToken::from_bytes([7; 16]));
    assert!(matches!(
        store(&wire).update(&id(), &change, &condition).await,
        StoreReply::Applied { .. }
    ));
    let expected = json!({
        "TableName": "payments",
        "Key": { "id": { "S": "charge#42" } },
        "UpdateExpression": "SET #a = :a REMOVE #b",
        "ConditionExpression": "#b = :b AND #c = :c",
        "ExpressionAttributeNames": { "#a": "data", "#b": "owner", "#c": "status" },
        "ExpressionAttributeValues": {
            ":a": { "S": "1" },
            ":b": { "S": "07070707070707070707070707070707" },
            ":c": { "S": "INPROGRESS" }
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("UpdateItem".to_owned(), expected)]);
}

#[tokio::test]
async fn the_sort_key_of_a_composite_key_contains_the_id() {
    let wire = Wire::new([Reply::ok(), Reply::ok()]);
    let mut names = AttributeNames::default();
    names.key = "pk".to_owned();
    let store = with_client(wire.client())
        .names(names)
        .composite_key("sk", "idempotency#charge")
        .build()
        .unwrap();
    assert!(matches!(
        store.delete(&id(), &Condition::NoRecord).await,
        StoreReply::Applied { .. }
    ));
    assert!(matches!(
        store.get(&id()).await,
        StoreReply::Found { record: None, .. }
    ));
    let key = json!({ "pk": { "S": "idempotency#charge" }, "sk": { "S": "charge#42" } });
    let delete = json!({
        "TableName": "payments",
        "Key": key,
        "ConditionExpression": "attribute_not_exists(#a)",
        "ExpressionAttributeNames": { "#a": "pk" },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    let get = json!({ "TableName": "payments", "Key": key, "ConsistentRead": true });
    assert_eq!(
        wire.requests(),
        [
            ("DeleteItem".to_owned(), delete),
            ("GetItem".to_owned(), get)
        ]
    );
}

#[tokio::test]
async fn a_read_returns_the_record() {
    let item = json!({ "Item": { "id": { "S": "charge#42" }, "status": { "S": "COMPLETED" }, "data": { "N": "7" } } });
    let wire = Wire::new([Reply::Response(200, item)]);
    let StoreReply::Found {
        record: Some(record),
        ..
    } = store(&wire).get(&id()).await
    else {
        panic!("no record was found")
    };
    assert_eq!(record.status, Field::Value(Status::Completed));
    assert_eq!(record.data, Field::Value(Data::new("7")));
}

#[tokio::test]
async fn a_warm_up_is_one_cheap_read_of_a_key_that_no_record_has() {
    let wire = Wire::new([Reply::ok()]);
    store(&wire).warm_up().await.unwrap();
    let get = json!({ "TableName": "payments", "Key": { "id": { "S": "#warm-up" } }, "ConsistentRead": false });
    assert_eq!(wire.requests(), [("GetItem".to_owned(), get)]);
}
