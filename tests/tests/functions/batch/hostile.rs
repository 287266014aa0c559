//! Records and types that could stop a whole batch, or make two records one.

use std::time::Duration;

use aws_lambda_events::dynamodb::{Event as DynamoDbEvent, EventRecord};
use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use idempotency_lambda::batch::{Batch, Body, ItemChange, KeyFrom, Message, Undecodable};
use idempotency_lambda::{BoxError, ErrorKind, Raw};
use idempotency_testkit::events::{self, AwsRecord};
use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::shop::{Does, MINUTE, Shop, Source, builder, named, order_of};

/// A body whose own code panics on some texts.
struct Fragile(String);

impl Body for Fragile {
    fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        assert!(!text.contains("not read"), "the reader panics");
        Ok(Self(text))
    }
}

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(!self.0.contains("not written"), "the writer panics");
        serializer.serialize_str(&self.0)
    }
}

#[tokio::test]
async fn a_body_that_makes_the_code_of_its_type_panic_is_returned_alone() {
    let shop = Shop::new();
    let operation = builder("batch.hostile.fragile").key("@").build().unwrap();
    let event = ["a", "not read", "not written", "b"].map(|text| AwsRecord::new(text).id(text));
    let event = shop.parsed::<SqsEvent>(&events::sqs("orders").records(event));
    let batch = Batch::new(&operation).run(event, |Fragile(text)| shop.handle(text));
    let response = shop.harness.within(batch).await;
    assert_eq!(named(&response.unwrap()), ["not read", "not written"]);
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn a_function_that_takes_a_record_of_the_event_as_a_body_is_refused_and_no_record_is_acknowledged()
 {
    use SqsMessage as Renamed;

    let shop = Shop::new();
    let operation = builder("batch.hostile.event_type").build().unwrap();
    let event = || {
        let record = AwsRecord::json(&json!({ "order_id": "o-1" }));
        shop.parsed::<SqsEvent>(&events::sqs("orders").records([record]))
    };
    macro_rules! refuses {
        ($($argument:ty)+) => {$(
            let batch = Batch::new(&operation);
            let batch = batch.run(event(), async |_: $argument| Ok::<(), BoxError>(()));
            let error = shop.harness.within(batch).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let error = error.to_string();
            assert!(error.contains("takes a `SqsMessage`, which is"), "{error}");
        )+};
    }
    refuses!(Renamed Option<Renamed> Raw<Renamed> Message<Renamed>);
    // The body of a message can be a change of a table, as EventBridge Pipes send it.
    let batch = Batch::new(&operation);
    let batch = batch.run(event(), async |_: EventRecord| Ok::<(), BoxError>(()));
    assert_eq!(named(&shop.harness.within(batch).await.unwrap()).len(), 1);
}

#[tokio::test]
async fn a_record_that_waited_for_its_key_does_not_start_after_the_checkpoint() {
    let shop = Shop::new();
    let operation = builder("batch.hostile.checkpoint").key("order_id");
    let operation = operation.validate("amount").build().unwrap();
    // Both have the key `k`. The second waits for the first, and the first fails.
    let records = [("a", 1), ("b", 2)].map(|(group, amount)| {
        AwsRecord::json(&json!({ "order_id": "k", "amount": amount })).group(group)
    });
    let event = events::kinesis("ledger").records(records);
    shop.set("k", Does::Fail);
    let batch = Batch::new(&operation).concurrency(2);
    let returned = shop.deliver(Source::PartitionKey, &batch, &event, MINUTE);
    assert_eq!(returned.await.unwrap(), event.ids()[..1]);
    assert_eq!(shop.ran(), ["k"]);
}

/// Returns a stream's event with one change for each key, with or without its image. They are as DynamoDB writes them.
fn changes_of(keys: &[Value], has_images: bool) -> DynamoDbEvent {
    let records = keys.iter().enumerate().map(|(at, key)| {
        let mut change = json!({ "Keys": key, "SequenceNumber": at.to_string(), "SizeBytes": 1,
            "StreamViewType": "NEW_IMAGE", "ApproximateCreationDateTime": 1_700_000_000 });
        if has_images {
            change["NewImage"] = key.clone();
        }
        json!({
            "eventID": at.to_string(), "eventName": "INSERT", "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/t/stream/s",
            "awsRegion": "eu-west-1", "dynamodb": change,
        })
    });
    serde_json::from_value(json!({ "Records": records.collect::<Vec<_>>() })).unwrap()
}

#[tokio::test]
async fn items_whose_keys_differ_in_binary_or_in_the_last_of_many_digits_are_not_one() {
    let keys = [
        ("B", "AAE="),
        ("B", "AAI="),
        ("N", "123456789012345678901234567890"),
        ("N", "123456789012345678901234567891"),
        ("N", "1700000000.1234567891"),
        ("N", "1700000000.1234567892"),
    ];
    let keys = keys.map(|(of_type, value)| json!({ "pk": { of_type: value } }));
    for (key, key_from, has_images) in [
        ("pk", KeyFrom::Body, false),
        ("pk", KeyFrom::Body, true),
        ("dynamodb.Keys.pk", KeyFrom::Record, false),
    ] {
        let name = format!("{key}, images: {has_images}");
        let shop = Shop::new();
        let operation = builder("batch.hostile.keys").key(key).key_required(true);
        let operation = operation.build().unwrap();
        for ran in [6, 0] {
            let event = shop.event(changes_of(&keys, has_images), MINUTE);
            let batch = Batch::new(&operation).key_from(key_from);
            let batch = batch.run(event, |change: ItemChange<IgnoredAny>| {
                shop.handle(change.record.event_id)
            });
            let response = shop.harness.within(batch).await;
            assert!(named(&response.unwrap()).is_empty(), "{name}");
            assert_eq!(shop.ran().len(), ran, "{name}");
        }
    }
}

#[tokio::test]
async fn a_batch_of_the_largest_size_runs_each_record_once() {
    let shop = Shop::new();
    let operation = shop.operation("batch.hostile.large");
    let messages = (0..10_000).map(|n| {
        let order = order_of(&format!("o-{}", n / 2));
        AwsRecord::json(&order).id(format!("m-{n}"))
    });
    let event = events::sqs("orders").records(messages);
    assert!(shop.queue(&operation, &event).await.is_empty());
    assert_eq!(shop.ran().len(), 5_000);
}

/// One key with an amount for each message: the sender of a queue chooses both.
#[tokio::test]
async fn a_hot_key_with_ten_thousand_amounts_ends_at_the_deadline_and_what_is_done_is_acknowledged()
{
    let shop = Shop::new();
    let operation = builder("batch.hostile.hot")
        .key("order_id")
        .validate("amount")
        .build()
        .unwrap();
    shop.set("hot", Does::TakeAndFail(Duration::from_secs(5)));
    let message = |order: &str, amount: usize| {
        AwsRecord::json(&json!({ "order_id": order, "amount": amount })).id(format!("m-{amount}"))
    };
    let hot = (1..10_000).map(|amount| message("hot", amount));
    let event = events::sqs("orders")
        .records([message("first", 0)])
        .records(hot);
    // A fourth call of the hot key would end at the deadline.
    let batch = Batch::new(&operation);
    let left = Duration::from_secs(20);
    let returned = shop
        .deliver(Source::Standard, &batch, &event, left)
        .await
        .unwrap();
    assert_eq!(shop.ran(), ["first", "hot", "hot", "hot"]);
    assert_eq!((returned.len(), returned[0].as_str()), (9_999, "m-1"));
}

#[tokio::test]
async fn a_response_without_failures_is_an_empty_list_for_every_source() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.hostile.empty"));
    macro_rules! response {
        ($event:ty, $record:ty) => {{
            let event = shop.event(<$event>::default(), MINUTE);
            let response = batch
                .clone()
                .run(event, |_: $record| shop.handle(String::new()));
            serde_json::to_string(&response.await.unwrap()).unwrap()
        }};
    }
    let texts = [
        response!(SqsEvent, String),
        response!(KinesisEvent, String),
        response!(DynamoDbEvent, ItemChange<Value>),
    ];
    assert_eq!(texts, [r#"{"batchItemFailures":[]}"#; 3]);
}
