//! Streams: shards and their records in Kinesis, and the typed images of a DynamoDB stream.

use std::sync::Mutex;
use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use aws_lambda_events::kinesis::KinesisEvent;
use futures_util::FutureExt as _;
use idempotency_lambda::batch::{Batch, ItemChange, KeyFrom, RawBody, RecordOrder};
use idempotency_lambda::{BoxError, OnInProgress, with_backend};
use idempotency_testkit::events::{self, AwsBatch, AwsRecord};
use serde_json::{Value, json};

use super::shop::{Does, MINUTE, Order, Shop, Source, builder, named};

/// Returns an event with one record for each order. The partition key is the first letter of the order.
fn stream(orders: &[&str]) -> AwsBatch {
    let records = orders
        .iter()
        .map(|id| (id[..1].to_owned(), Ok((*id).to_owned())));
    Source::Shard.event(&records.collect::<Vec<_>>())
}

#[tokio::test]
async fn shards_in_one_event_have_a_checkpoint_each() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.shards"));
    let one = stream(&["a1", "a2"]);
    let other = stream(&["b1", "b2", "b3"]).shard(1).starting_at(10);
    let mut event = shop.parsed::<KinesisEvent>(&one);
    let more = shop.parsed::<KinesisEvent>(&other).payload.records;
    event.payload.records.extend(more);
    shop.set("a1", Does::Fail);
    shop.set("b2", Does::Fail);
    let batch = batch.run(event, |order: Order| shop.handle(order.order_id));
    let response = shop.harness.within(batch).await;
    assert_eq!(
        named(&response.unwrap()),
        [&*one.ids()[0], &*other.ids()[1]]
    );
    assert_eq!(shop.ran(), ["a1", "b1", "b2"]);
}

#[tokio::test]
async fn a_record_without_an_event_id_is_returned_if_the_id_is_its_key() {
    let event = stream(&["a1"]);
    let without_id = event.clone().with("/Records/0/eventID", Value::Null);
    for (operation, returned) in [
        (builder("batch.kinesis.no_event_id"), event.ids()),
        (builder("batch.kinesis.body").key("order_id"), vec![]),
    ] {
        let (shop, batch) = (Shop::new(), Batch::new(&operation.build().unwrap()));
        let delivered = shop.deliver(Source::Shard, &batch, &without_id, MINUTE);
        assert_eq!(delivered.await.unwrap(), returned);
        assert_eq!(shop.ran().is_empty(), !returned.is_empty());
    }
}

#[tokio::test]
async fn a_key_over_the_record_sees_the_partition_key_and_the_data_as_json_text_or_base64() {
    let shop = Shop::new();
    let key = "[kinesis.partitionKey, kinesis.data.order_id || kinesis.data]";
    let operation = builder("batch.kinesis.record").key(key).build().unwrap();
    let bodies = [&br#"{"order_id":"a1"}"#[..], b"o-1,100", &[0xff, 0]];
    let records = bodies.map(|body| AwsRecord::new(body).group("a"));
    let event = shop.parsed::<KinesisEvent>(&events::kinesis("lines").records(records));
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let batch = batch.run(event, |body: RawBody| {
        shop.handle(body.as_bytes().len().to_string())
    });
    let response = shop.harness.within(batch).await;
    assert!(named(&response.unwrap()).is_empty());
    assert_eq!(shop.ran(), ["17", "7", "2"]);
    for data in ["a1", "o-1,100", "/wA="] {
        shop.harness.record(&operation, &json!(["a", data]));
    }
}

/// A run of `a1` is killed 10 s after its start, and 50 s before its lease ends. Lambda delivers the rest of the shard again at once.
#[tokio::test]
async fn a_record_whose_key_a_killed_run_has_waits_until_a_run_is_possible() {
    const SECOND: Duration = Duration::from_secs(1);
    let half = SECOND / 2;
    for (name, left, returned, runs_after) in [
        ("waits", MINUTE, 0, Some(50)),
        // The wait ends with the time of this invocation. The next one need not wait.
        ("short", SECOND * 30, 1, None),
        // The reserve is 1 s: the handler would start without it.
        ("late", SECOND * 50 + half, 1, None),
        ("rejects", MINUTE, 1, None),
    ] {
        let shop = Shop::with_passing_time();
        let mut operation = builder("batch.kinesis.killed").key("order_id");
        if name == "rejects" {
            operation = operation.on_in_progress(OnInProgress::Reject);
        }
        let batch = Batch::new(&operation.build().unwrap());
        let event = stream(&["a1", "a2"]);
        shop.set("a1", Does::Yield);
        let killed = shop.deliver(Source::Shard, &batch, &event, MINUTE);
        assert!(killed.now_or_never().is_none());
        assert_eq!(shop.ran(), ["a1"]);
        shop.harness.clock.advance(SECOND * 10);
        let before = shop.harness.now();
        let event = shop.event(event.parse::<KinesisEvent>().unwrap(), left);
        let starts = Mutex::new(Vec::new());
        let second = batch.run(event, async |order: Order| {
            starts
                .lock()
                .unwrap()
                .push((order.order_id, before.until(shop.harness.now())));
            Ok::<_, BoxError>(())
        });
        let response = with_backend(shop.harness.another_process(), second).await;
        assert_eq!(named(&response.unwrap()).len(), returned, "{name}");
        let starts = starts.into_inner().unwrap();
        let orders: Vec<_> = starts.iter().map(|(order, _)| order.as_str()).collect();
        match runs_after {
            None => assert_eq!(orders, [""; 0], "{name}"),
            Some(seconds) => {
                assert_eq!(orders, ["a1", "a2"], "{name}");
                let waited = starts[0].1;
                let (after, before) = (SECOND * seconds, SECOND * (seconds + 2));
                assert!(waited > after && waited < before, "{waited:?}");
            }
        }
    }
}

impl Shop {
    /// Gives changes to a batch, and returns the handler's calls: `a:-1` is inserted with 1, `a:1-2` modified, and `a:2-` removed.
    async fn changes(&self, batch: Batch, event: &AwsBatch) -> String {
        let batch = batch.run(self.parsed::<Event>(event), |change: ItemChange<Order>| {
            let amount = |image: &Option<Order>| {
                let amount = image.as_ref().map(|item| item.amount.to_string());
                amount.unwrap_or_default()
            };
            let item = change.new.as_ref().or(change.old.as_ref());
            let id = item.map_or("?", |item| item.order_id.as_str());
            let (old, new) = (amount(&change.old), amount(&change.new));
            self.handle(format!("{id}:{old}-{new}"))
        });
        let response = self.harness.within(batch).await;
        assert!(named(&response.unwrap()).is_empty());
        self.ran().join(" ")
    }
}

fn changes() -> AwsBatch {
    let key = |id: &str| json!({ "order_id": id });
    let item = |id: &str, amount: u32| json!({ "order_id": id, "amount": amount });
    events::dynamodb_stream("orders")
        .change(&key("a"), None, Some(&item("a", 1)))
        .change(&key("a"), Some(&item("a", 1)), Some(&item("a", 2)))
        .change(&key("b"), None, Some(&item("b", 1)))
        .change(&key("a"), Some(&item("a", 2)), None)
}

#[tokio::test]
async fn changes_of_one_item_keep_their_order_and_others_run_beside_them() {
    let shop = Shop::new();
    let batch = Batch::new(&builder("batch.stream.order").build().unwrap())
        .order(RecordOrder::PartitionKey)
        .concurrency(4);
    for change in ["a:-1", "a:1-2", "b:-1", "a:2-"] {
        shop.set(change, Does::Yield);
    }
    let ran = shop.changes(batch, &changes()).await;
    assert_eq!(ran.replace(" b:-1", ""), "a:-1 a:1-2 a:2-");
    assert_eq!(shop.most_at_once(), 2);
}

#[tokio::test]
async fn a_key_sees_the_images_as_plain_json() {
    let images =
        "[eventName, dynamodb.Keys.order_id, dynamodb.OldImage.amount, dynamodb.NewImage.amount]";
    let keys = events::dynamodb_stream("orders").change(&json!({ "order_id": "a" }), None, None);
    let (body, record) = (KeyFrom::Body, KeyFrom::Record);
    let (new, all) = ("a:-1 a:1-2 b:-1", "a:-1 a:1-2 b:-1 a:2-");
    // The new image, or the one before a removal, which is a duplicate here. It has the number of the table, and not the float of
    // the type.
    let (both, of_both) = ("[order_id, amount]", json!(["a", 2]));
    let of_images = json!(["MODIFY", "a", 1, 2]);
    for (key, key_from, event, ran, id) in [
        (both, body, changes(), new, of_both),
        ("order_id", body, keys, "?:-", json!("a")),
        (images, record, changes(), all, of_images),
    ] {
        let shop = Shop::new();
        let operation = builder("batch.stream").key(key).key_required(true);
        let operation = operation.build().unwrap();
        let batch = Batch::new(&operation).key_from(key_from);
        assert_eq!(shop.changes(batch, &event).await, ran, "{key}");
        shop.harness.record(&operation, &id);
    }
}
