//! The requests: one for each operation, in this form.

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::{Condition, held_by, replaceable, takeover};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordedSteps, Status};
use idempotency_core::store::{
    Change, SendLog, Store, StoreErrorKind, StoreReply, StoreRequest, Write,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::{AttributeNames, DynamoDbStore};
use serde_json::{Value, json};

use super::script::{Reply, Wire};
use super::{assert_applied, claim, claimed, failure, id, store, with_client};

#[tokio::test]
async fn a_put_is_one_request_that_replaces_the_whole_item() {
    let wire = Wire::new([Reply::ok()]);
    assert_applied(&claimed(&wire).await);
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
    assert_applied(&store(&wire).update(&id(), &change, &condition).await);
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
    assert_applied(&store.delete(&id(), &Condition::NoRecord).await);
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

// On a table with a sort key, a read checks the keys before the first write.

fn composite(wire: &Wire) -> DynamoDbStore {
    with_client(wire.client())
        .composite_key("sk", "idempotency#charge")
        .build()
        .unwrap()
}

async fn put(store: &DynamoDbStore) -> StoreReply {
    store.put(&id(), &claim(), &Condition::NoRecord).await
}

fn actions(wire: &Wire) -> Vec<String> {
    wire.requests()
        .into_iter()
        .map(|(action, _)| action)
        .collect()
}

#[tokio::test]
async fn the_first_write_reads_the_keys_and_the_next_one_does_not() {
    let wire = Wire::new([Reply::ok(), Reply::ok(), Reply::ok()]);
    let store = composite(&wire);
    for _ in 0..2 {
        assert_applied(&put(&store).await);
    }
    assert_eq!(actions(&wire), ["GetItem", "PutItem", "PutItem"]);
}

#[tokio::test]
async fn a_warm_up_replaces_the_read_before_the_first_write() {
    let wire = Wire::new([Reply::ok(), Reply::ok()]);
    let store = composite(&wire);
    store.warm_up().await.unwrap();
    assert_applied(&put(&store).await);
    assert_eq!(actions(&wire), ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_table_with_other_keys_gets_no_write() {
    let other = || {
        let keys = "The provided key element does not match the schema";
        Reply::error("ValidationException", keys)
    };
    let wire = Wire::new([other(), other()]);
    let store = composite(&wire);
    for _ in 0..2 {
        let (maybe_applied, error) = failure(put(&store).await);
        assert!(!maybe_applied, "{error}");
        assert_eq!(error.kind(), StoreErrorKind::WrongSchema);
    }
    assert_eq!(actions(&wire), ["GetItem", "GetItem"]);
}

#[tokio::test]
async fn a_read_that_fails_for_another_reason_is_repeated_before_the_first_write() {
    let denied = Reply::error("AccessDeniedException", "not authorized");
    let mut replies = vec![denied];
    replies.extend(vec![Reply::Reset; 3]);
    replies.extend([Reply::ok(), Reply::ok()]);
    let wire = Wire::new(replies);
    let store = composite(&wire);
    for kind in [StoreErrorKind::AccessDenied, StoreErrorKind::Unreachable] {
        // After a lost read nothing is maybe applied: the write was not sent.
        let (maybe_applied, error) = failure(put(&store).await);
        assert!(!maybe_applied, "{error}");
        assert_eq!(error.kind(), kind);
    }
    assert_applied(&put(&store).await);
    let gets = vec!["GetItem"; 5];
    assert_eq!(actions(&wire), [gets, vec!["PutItem"]].concat());
}

#[tokio::test]
async fn the_read_of_the_keys_does_not_make_the_first_write_maybe_applied() {
    let wire = Wire::new([Reply::ok(), Reply::conflict(&json!({}))]);
    let StoreReply::ConditionFailed {
        maybe_applied: false,
        ..
    } = put(&composite(&wire)).await
    else {
        panic!("the condition of the only send did not fail")
    };
    assert_eq!(actions(&wire), ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_table_without_a_sort_key_needs_no_read() {
    let wire = Wire::new([Reply::ok()]);
    assert_applied(&put(&super::store(&wire)).await);
    assert_eq!(actions(&wire), ["PutItem"]);
}

// The requests of steps, and the forms in which their results are stored and read.

fn owner() -> OwnerToken {
    OwnerToken::from_bytes([7; 16])
}

async fn record(store: &impl Store, result: &str) -> StoreReply {
    let step = Write::Step {
        name: "reserve".to_owned(),
        result: Data::new(result),
    };
    let fence = held_by(&owner());
    store
        .send(StoreRequest::write(&id(), &step, &fence), &SendLog::new())
        .await
}

#[tokio::test]
async fn a_step_is_one_update_of_one_member_of_the_map() {
    let wire = Wire::new([Reply::ok()]);
    let written = record(&store(&wire), r#"{"seat":7}"#).await;
    assert_applied(&written);
    let expected = json!({
        "TableName": "payments",
        "Key": { "id": { "S": "charge#42" } },
        "UpdateExpression": "SET #a.#b = :a",
        "ConditionExpression": "#c = :b AND #d = :c",
        "ExpressionAttributeNames": { "#a": "steps", "#b": "reserve", "#c": "owner", "#d": "status" },
        "ExpressionAttributeValues": {
            ":a": { "S": "{\"seat\":7}" },
            ":b": { "S": "07070707070707070707070707070707" },
            ":c": { "S": "INPROGRESS" }
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("UpdateItem".to_owned(), expected)]);
}

#[tokio::test]
async fn a_claim_with_steps_contains_an_empty_map_and_replaces_no_steps() {
    let wire = Wire::new([Reply::ok()]);
    let claim = Record {
        status: Field::Value(Status::InProgress),
        steps: Field::Value(RecordedSteps::default()),
        ..Record::default()
    };
    let condition = replaceable(EpochMillis::new(1_700_000_000_999), OnTimeout::Rerun);
    store(&wire).put(&id(), &claim, &condition).await;
    let expected = json!({
        "TableName": "payments",
        "Item": { "id": { "S": "charge#42" }, "status": { "S": "INPROGRESS" }, "steps": { "M": {} } },
        "ConditionExpression": "attribute_not_exists(#a) OR (#b < :a AND (#c <> :b OR attribute_not_exists(#d) OR #d < :c)) \
            OR (#c = :b AND #d < :c AND attribute_not_exists(#e))",
        "ExpressionAttributeNames": {
            "#a": "id", "#b": "expiration", "#c": "status", "#d": "in_progress_expiration", "#e": "steps"
        },
        "ExpressionAttributeValues": {
            ":a": { "N": "1700000000" }, ":b": { "S": "INPROGRESS" }, ":c": { "N": "1700000000999" }
        },
        "ReturnValues": "ALL_OLD",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("PutItem".to_owned(), expected)]);
}

#[tokio::test]
async fn a_takeover_is_an_update_of_the_claim_that_was_read() {
    let wire = Wire::new([Reply::ok()]);
    let read = Record {
        owner: Field::Value(OwnerToken::from_bytes([1; 16])),
        in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_000_500)),
        ..Record::default()
    };
    let change = Change {
        set: Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_030_500)),
            owner: Field::Value(owner()),
            ..Record::default()
        },
        remove: vec![Attribute::Failure],
    };
    let condition = takeover(&read, Some("v"), OnTimeout::Rerun).unwrap();
    store(&wire).update(&id(), &change, &condition).await;
    let expected = json!({
        "TableName": "payments",
        "Key": { "id": { "S": "charge#42" } },
        "UpdateExpression": "SET #a = :a, #b = :b, #c = :c REMOVE #d",
        "ConditionExpression": "#c = :d AND #e = :e AND #b = :f AND #f = :g",
        "ExpressionAttributeNames": {
            "#a": "expiration", "#b": "in_progress_expiration", "#c": "owner", "#d": "failure", "#e": "status",
            "#f": "validation"
        },
        "ExpressionAttributeValues": {
            ":a": { "N": "1700003600" }, ":b": { "N": "1700000030500" },
            ":c": { "S": "07070707070707070707070707070707" }, ":d": { "S": "01010101010101010101010101010101" },
            ":e": { "S": "INPROGRESS" }, ":f": { "N": "1700000000500" }, ":g": { "S": "v" }
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD"
    });
    assert_eq!(wire.requests(), [("UpdateItem".to_owned(), expected)]);
}

/// Returns the value that a step writes, as DynamoDB JSON.
async fn written(compress_above: Option<usize>, result: &str) -> Value {
    let wire = Wire::new([Reply::ok()]);
    let store = with_client(wire.client()).compress_above(compress_above);
    record(&store.build().unwrap(), result).await;
    wire.requests()[0].1["ExpressionAttributeValues"][":a"].clone()
}

/// Returns the steps of an item with this attribute.
async fn read(steps: Value) -> Field<RecordedSteps> {
    let item = json!({ "Item": { "id": { "S": "charge#42" }, "steps": steps } });
    let wire = Wire::new([Reply::Response(200, item)]);
    match store(&wire).get(&id()).await {
        StoreReply::Found {
            record: Some(record),
            ..
        } => record.steps,
        other => panic!("no record was found: {other:?}"),
    }
}

fn one(result: &str) -> Field<RecordedSteps> {
    Field::Value(
        [("reserve".to_owned(), Data::new(result))]
            .into_iter()
            .collect(),
    )
}

#[tokio::test]
async fn a_long_result_is_compressed_and_reads_back() {
    let long = format!("\"{}\"", "seat 7, ".repeat(4_000));
    let value = written(Some(16 * 1024), &long).await;
    let compressed = value["B"].as_str().unwrap();
    assert!(compressed.len() < long.len() / 10);
    let found = read(json!({ "M": { "reserve": { "B": compressed } } })).await;
    assert_eq!(found, one(&long));
    assert_eq!(written(None, &long).await, json!({ "S": long }));
    let short = "7".repeat(16 * 1024);
    assert_eq!(
        written(Some(16 * 1024), &short).await,
        json!({ "S": short })
    );
}

#[tokio::test]
async fn results_are_read_as_texts_and_if_one_cannot_be_read_none_can() {
    let text = json!({ "S": "7" });
    assert_eq!(read(json!({ "M": { "reserve": text } })).await, one("7"));
    assert_eq!(
        read(json!({ "M": {} })).await,
        Field::Value(RecordedSteps::default())
    );
    for unreadable in [
        json!({ "N": "7" }),
        json!({ "B": "AAAA" }),
        json!({ "M": {} }),
    ] {
        let steps = json!({ "M": { "reserve": text, "charge": unreadable } });
        assert_eq!(read(steps).await, Field::Unreadable);
    }
    assert_eq!(read(json!({ "S": "reserve" })).await, Field::Unreadable);
}

#[tokio::test]
async fn a_result_that_no_record_can_hold_is_not_sent() {
    let wire = Wire::new([]);
    let store = with_client(wire.client())
        .compress_above(None)
        .build()
        .unwrap();
    let (maybe_applied, error) = failure(record(&store, &"7".repeat(410_000)).await);
    assert!(!maybe_applied, "{error}");
    assert_eq!(error.kind(), StoreErrorKind::TooLarge);
    let text = error.to_string();
    assert!(text.contains("return less from the step"), "{text}");
    assert_eq!(wire.requests(), []);
}
