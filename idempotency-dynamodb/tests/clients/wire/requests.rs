//! The requests on the wire: one for each operation, in the form of `requests.json`.

use idempotency_core::protocol::condition::{Condition, replaceable, takeover};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordedSteps, Status};
use idempotency_core::store::{Change, ScanRequest, Store as _, StoreReply, StoreScan as _, Write};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::DynamoDbStore;
use serde_json::{Value, json};

use super::{KIND, assert_applied, assert_sent, claim, claimed, failure, fence, id, store};
use idempotency_testkit::store::StoreExt;
use crate::said;
use crate::script::{Reply, Wire};

#[tokio::test]
async fn each_write_is_one_request_in_the_form_of_its_name() {
    let update = Change {
        set: Record {
            data: Field::Value(Data::new("1")),
            ..Record::default()
        },
        remove: vec![Attribute::Owner],
    };
    let with_steps = Record {
        status: Field::Value(Status::InProgress),
        steps: Field::Value(RecordedSteps::default()),
        ..Record::default()
    };
    let read = Record {
        owner: Field::Value(OwnerToken::from_bytes([1; 16])),
        in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_000_500)),
        ..Record::default()
    };
    let takes_over = Change {
        set: Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_030_500)),
            owner: Field::Value(OwnerToken::from_bytes([7; 16])),
            ..Record::default()
        },
        remove: vec![Attribute::Failure],
    };
    let takeover = takeover(&read, Some("v"), OnTimeout::Rerun).unwrap();
    let replaceable = replaceable(EpochMillis::new(1_700_000_000_999), OnTimeout::Rerun);
    let (put, none) = (Write::Put(claim()), Condition::NoRecord);
    let (first, update) = (put.clone(), Write::Update(update));
    let (with_steps, takes_over) = (Write::Put(with_steps), Write::Update(takes_over));
    let any = Condition::Exists(Attribute::Status);
    let as_read = "a takeover is an update of the claim that was read";
    let no_steps = "a claim with steps contains an empty map and replaces no steps";
    let seat = step(r#"{"seat":7}"#);
    for (name, write, condition) in [
        ("a put replaces the whole item", first, none),
        ("a claim asks for the item that it replaces", put, any),
        ("an update keeps the other attributes", update, fence()),
        ("a step is one member of the map", seat, fence()),
        (no_steps, with_steps, replaceable),
        (as_read, takes_over, takeover),
    ] {
        let wire = Wire::new([Reply::ok()]);
        assert_applied(&store(&wire).write(&id(), write, &condition).await);
        assert_sent(&wire, name);
    }
}

#[tokio::test]
async fn the_sort_key_of_a_composite_key_contains_the_id() {
    let wire = Wire::new([Reply::ok(), Reply::ok()]);
    let store = KIND.with_client(wire.client()).partition_key("pk");
    let store = store.composite_key("sk", "idempotency#charge");
    let store = store.build().unwrap();
    assert_applied(&store.write(&id(), Write::Delete, &Condition::NoRecord).await);
    assert_eq!(said(&store.get(&id()).await), "found no record");
    assert_sent(&wire, "the sort key of a composite key contains the id");
}

#[tokio::test]
async fn a_warm_up_is_one_cheap_read_of_a_key_that_no_record_has() {
    let wire = Wire::new([Reply::ok()]);
    store(&wire).warm_up(false).await.unwrap();
    let name = "a warm-up is one cheap read of a key that no record has";
    assert_sent(&wire, name);
}

// On a table with a sort key, a read checks the keys before the first write.

fn composite(wire: &Wire) -> DynamoDbStore {
    let store = KIND.with_client(wire.client());
    let store = store.composite_key("sk", "idempotency#charge");
    store.build().unwrap()
}

fn actions(wire: &Wire) -> Vec<String> {
    let requests = wire.requests().into_iter();
    requests.map(|(action, _)| action).collect()
}

#[tokio::test]
async fn a_warm_up_replaces_the_read_before_the_first_write() {
    let wire = Wire::new([Reply::ok(), Reply::ok()]);
    let store = composite(&wire);
    store.warm_up(false).await.unwrap();
    assert_applied(&claimed(&store).await);
    assert_eq!(actions(&wire), ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn keys_are_read_before_the_first_write_until_a_read_succeeds() {
    let [reset, ok] = [Reply::Reset, Reply::ok()];
    let keys = "The provided key element does not match the schema";
    let other = Reply::error("ValidationException", keys);
    let denied = Reply::error("AccessDeniedException", "not authorized");
    let mut fails = vec![denied, reset.clone(), reset.clone(), reset];
    fails.extend([ok.clone(), ok.clone()]);
    let lost = &["AccessDenied", "Unreachable", "applied"];
    let conflict = Reply::conflict(&json!({}));
    for (name, replies, outcomes, gets, puts) in [
        ("found", vec![ok.clone(); 3], &["applied"; 2][..], 1, 2),
        (
            "of another table",
            vec![other; 2],
            &["WrongSchema"; 2],
            2,
            0,
        ),
        // After a lost read nothing is maybe applied: the write was not sent.
        ("not read", fails, lost, 5, 1),
        (
            "refused",
            vec![ok, conflict],
            &["refused by no record"],
            1,
            1,
        ),
    ] {
        let wire = Wire::new(replies);
        let store = composite(&wire);
        for outcome in outcomes {
            assert_eq!(said(&claimed(&store).await), *outcome, "{name}");
        }
        let expected = [vec!["GetItem"; gets], vec!["PutItem"; puts]].concat();
        assert_eq!(actions(&wire), expected, "{name}");
    }
}

// The forms in which the results of steps are stored and read.

fn step(result: &str) -> Write {
    Write::Step {
        name: "reserve".to_owned(),
        result: Data::new(result),
    }
}

/// Returns the value that a step writes, as DynamoDB JSON.
async fn written(compress_above: Option<usize>, result: &str) -> Value {
    let wire = Wire::new([Reply::ok()]);
    let store = KIND.with_client(wire.client());
    let store = store.compress_above(compress_above).build().unwrap();
    store.write(&id(), step(result), &fence()).await;
    wire.requests()[0].1["ExpressionAttributeValues"][":a"].clone()
}

#[tokio::test]
async fn a_long_result_is_compressed_and_reads_back() {
    let long = format!("\"{}\"", "seat 7, ".repeat(4_000));
    let value = written(Some(16 * 1024), &long).await;
    let compressed = value["B"].as_str().unwrap();
    assert!(compressed.len() < long.len() / 10);
    let item =
        json!({ "id": { "S": "charge#42" }, "steps": { "M": { "reserve": { "B": compressed } } } });
    let wire = Wire::new([Reply::new(200, json!({ "Item": item }))]);
    let StoreReply::Found { record, .. } = store(&wire).get(&id()).await else {
        panic!("the read failed")
    };
    let steps = [("reserve".to_owned(), Data::new(long.as_str()))];
    let steps = Field::Value(steps.into_iter().collect());
    assert_eq!(record.unwrap().steps, steps);
    assert_eq!(written(None, &long).await, json!({ "S": long }));
    let short = "7".repeat(16 * 1024);
    let value = written(Some(16 * 1024), &short).await;
    assert_eq!(value, json!({ "S": short }));
}

#[tokio::test]
async fn a_result_that_no_record_can_hold_is_not_sent() {
    let wire = Wire::new([]);
    let store = KIND.with_client(wire.client()).compress_above(None);
    let store = store.build().unwrap();
    let written = store
        .write(&id(), step(&"7".repeat(410_000)), &fence())
        .await;
    assert_eq!(said(&written), "TooLarge");
    let text = failure(written).1.to_string();
    assert!(text.contains("return less from the step"), "{text}");
    assert_eq!(wire.requests(), []);
}

#[tokio::test]
async fn a_listing_sends_the_values_of_its_filter_and_none_without_one() {
    let (wire, condition) = (Wire::default(), Condition::Exists(Attribute::Data));
    let store = store(&wire);
    for (prefix, has_values) in [("", false), ("shop", true)] {
        let request = ScanRequest {
            prefix,
            filter: Some(&condition),
            ..ScanRequest::default()
        };
        store.scan(request).await.unwrap();
        let sent = wire.take();
        let values = &sent[0].body["ExpressionAttributeValues"];
        assert_eq!(!values.is_null(), has_values, "{values}");
    }
}
