//! Batches of queues and streams, and the events of a bus.

use aws_lambda_events::event::dynamodb::Event as DynamoDbEvent;
use aws_lambda_events::event::eventbridge::EventBridgeEvent;
use aws_lambda_events::event::kinesis::KinesisEvent;
use aws_lambda_events::event::sqs::SqsEvent;
use idempotency_testkit::events::{self, KinesisRecord, SqsMessage, StreamRecord};
use serde_json::{Value, json};

use crate::{lost, names};

#[test]
fn a_message_of_a_standard_queue_has_the_documented_fields() {
    let message = SqsMessage::text("Test message.").attribute("tenant", "blue");
    let event = events::sqs("orders")
        .message(message)
        .text("Test message.")
        .to_value();
    let record = &event["Records"][1];
    assert_eq!(
        names(record),
        [
            "attributes",
            "awsRegion",
            "body",
            "eventSource",
            "eventSourceARN",
            "md5OfBody",
            "messageAttributes",
            "messageId",
            "receiptHandle"
        ]
    );
    assert_eq!(
        names(&record["attributes"]),
        [
            "ApproximateFirstReceiveTimestamp",
            "ApproximateReceiveCount",
            "SenderId",
            "SentTimestamp"
        ]
    );
    assert_eq!(record["md5OfBody"], "e4e68fb7bd0e697a0ae8f1bb342846b3");
    assert_eq!(
        event["Records"][0]["messageAttributes"]["tenant"]["stringValue"],
        "blue"
    );
    assert!(event["Records"][0]["md5OfMessageAttributes"].is_string());
    assert_eq!(lost::<SqsEvent>(&event), [""; 0]);
}

#[test]
fn a_message_of_a_fifo_queue_has_group_deduplication_id_and_sequence_number() {
    let batch = events::sqs("orders.fifo")
        .json(&1)
        .message(SqsMessage::json(&2).group("u-1").deduplication_id("d-1"))
        .receive_count(3);
    let event = batch.to_value();
    let attributes = |index: usize, name: &str| event["Records"][index]["attributes"][name].clone();
    assert_eq!(attributes(0, "MessageGroupId"), "1");
    assert_eq!(attributes(1, "MessageGroupId"), "u-1");
    assert_eq!(attributes(1, "MessageDeduplicationId"), "d-1");
    assert_eq!(attributes(1, "SequenceNumber"), "18849496460467696129");
    assert_eq!(attributes(0, "ApproximateReceiveCount"), "3");
    assert_eq!(lost::<SqsEvent>(&event), [""; 0]);
}

#[test]
fn a_message_keeps_its_id_in_another_batch_and_a_second_copy_has_its_own() {
    let first = events::sqs("orders").text("a").text("b").text("a").ids();
    assert_eq!(events::sqs("orders").text("b").ids(), first[1..2]);
    assert_ne!(first[0], first[2]);
    assert_ne!(events::sqs("refunds").text("a").ids()[0], first[0]);
    assert_eq!(
        events::sqs("orders")
            .message(SqsMessage::text("a").id("m-1"))
            .ids(),
        ["m-1"]
    );
}

#[test]
fn records_of_a_stream_follow_each_other() {
    let batch = events::kinesis("ledger")
        .json(&json!({"entry": 1}))
        .record(KinesisRecord::bytes([255]).partition_key("account-7"))
        .shard(6);
    let event = batch.to_value();
    assert_eq!(
        names(&event["Records"][0]),
        [
            "awsRegion",
            "eventID",
            "eventName",
            "eventSource",
            "eventSourceARN",
            "eventVersion",
            "invokeIdentityArn",
            "kinesis"
        ]
    );
    let numbers = batch.sequence_numbers();
    assert!(
        numbers[0] < numbers[1] && numbers.iter().all(|number| number.len() == 56),
        "{numbers:?}"
    );
    assert_eq!(
        event["Records"][1]["eventID"],
        format!("shardId-000000000006:{}", numbers[1])
    );
    assert_eq!(
        batch.clone().starting_at(2).sequence_numbers()[0],
        numbers[1]
    );
    // The type reads milliseconds and writes seconds.
    let lost = lost::<KinesisEvent>(&event);
    assert!(
        lost.iter()
            .all(|path| path.ends_with("/approximateArrivalTimestamp")),
        "{lost:?}"
    );
    let typed: KinesisEvent = batch.parse().unwrap();
    let record = &typed.records[0].kinesis;
    assert_eq!(record.data.0, br#"{"entry":1}"#);
    assert_eq!(
        record.approximate_arrival_timestamp.0.timestamp_millis(),
        1_744_193_729_513
    );
}

#[test]
fn a_change_of_an_item_has_keys_and_images() {
    let keys = json!({"id": "o-1"});
    let batch = events::dynamodb_stream("orders")
        .insert(
            &keys,
            &json!({"id": "o-1", "tags": ["a", null, true], "at": {"n": 1.5}}),
        )
        .modify(&keys, &json!({"id": "o-1"}), &json!({"id": "o-1", "n": 2}))
        .record(StreamRecord::remove(&keys, &json!({"id": "o-1"})).by_time_to_live());
    let event = batch.to_value();
    assert_eq!(
        event["Records"][0]["dynamodb"]["NewImage"],
        json!({
            "id": {"S": "o-1"},
            "tags": {"L": [{"S": "a"}, {"NULL": true}, {"BOOL": true}]},
            "at": {"M": {"n": {"N": "1.5"}}},
        })
    );
    assert_eq!(event["Records"][0]["dynamodb"].get("OldImage"), None);
    assert_eq!(
        event["Records"][2]["userIdentity"]["principalId"],
        "dynamodb.amazonaws.com"
    );
    let numbers = batch.sequence_numbers();
    assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2]);
    assert_eq!(lost::<DynamoDbEvent>(&event), [""; 0]);
}

#[test]
fn an_event_of_a_bus_has_the_documented_fields() {
    let event = events::event_bridge("shop.orders", "OrderPaid")
        .detail(&json!({"order_id": "o-1"}))
        .resource("arn:aws:s3:::orders")
        .to_value();
    assert_eq!(
        names(&event),
        [
            "account",
            "detail",
            "detail-type",
            "id",
            "region",
            "resources",
            "source",
            "time",
            "version"
        ]
    );
    assert_eq!(lost::<EventBridgeEvent<Value>>(&event), [""; 0]);
    let again =
        events::event_bridge("shop.orders", "OrderPaid").detail(&json!({"order_id": "o-1"}));
    assert_eq!(again.to_value()["id"], event["id"]);
    assert_ne!(
        again.detail(&json!({"order_id": "o-2"})).to_value()["id"],
        event["id"]
    );
}

#[test]
fn any_field_can_be_set() {
    let event = events::sqs("orders")
        .text("a")
        .with("/Records/0/awsRegion", "us-east-1")
        .to_value();
    assert_eq!(event["Records"][0]["awsRegion"], "us-east-1");
    let text: String = events::event_bridge("a", "b")
        .with("/replay-name", "r")
        .into();
    assert!(text.contains(r#""replay-name":"r""#), "{text}");
}
