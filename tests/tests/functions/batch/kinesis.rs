//! Kinesis: the records of a shard keep their order, and the first that is not done is the checkpoint.
//!
//! DynamoDB streams: changes in the order of the shard, with typed images.

use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use aws_lambda_events::kinesis::KinesisEvent;
use idempotency_lambda::batch::{Batch, DataRecord, ItemChange, KeyFrom, RawBody, RecordOrder};
use idempotency_lambda::{BoxError, Error, ErrorKind, OnInProgress, with_backend};
use idempotency_testkit::events;
use serde_json::{Value, json};

use super::shop::{Does, Shop, builder, named, order};
use super::sqs::{Order as Body, Order as Item};

const MINUTE: Duration = Duration::from_secs(60);

impl Shop {
    async fn try_kinesis(
        &self,
        batch: &Batch,
        event: KinesisEvent,
        left: Duration,
    ) -> Result<Vec<String>, Error> {
        let event = self.event(event, left);
        let batch = batch
            .clone()
            .run(event, |order: Body| self.handle(order.order_id));
        let response = self.harness.within(batch).await?;
        Ok(named(&response))
    }

    async fn kinesis(&self, batch: &Batch, event: &events::AwsBatch) -> Vec<String> {
        self.try_kinesis(batch, event.parse().unwrap(), MINUTE)
            .await
            .unwrap()
    }
}

/// Returns an event with one record for each order. The partition key is the first letter of the order.
fn stream(orders: &[&str]) -> events::AwsBatch {
    let records = orders
        .iter()
        .map(|id| events::AwsRecord::json(&order(id)).group(&id[..1]));
    events::kinesis("ledger").records(records)
}

#[tokio::test]
async fn the_first_failure_is_the_checkpoint_and_nothing_after_it_runs() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.failure"));
    let event = stream(&["a1", "a2", "b1", "a3"]);
    shop.set("a2", Does::Fail);
    let numbers = event.ids();
    assert_eq!(shop.kinesis(&batch, &event).await, [numbers[1].as_str()]);
    assert_eq!(shop.ran(), ["a1", "a2"]);
    shop.set("a2", Does::Succeed);
    assert!(shop.kinesis(&batch, &event).await.is_empty());
    assert_eq!(shop.ran(), ["a2", "b1", "a3"]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_the_checkpoint() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.undecodable"));
    let event = stream(&["a1"])
        .records([events::AwsRecord::new([0xff, 0x00])])
        .json(&order("a2"));
    let numbers = event.ids();
    assert_eq!(shop.kinesis(&batch, &event).await, [numbers[1].as_str()]);
    assert_eq!(shop.ran(), ["a1"]);
}

#[tokio::test]
async fn records_of_other_partition_keys_run_beside_each_other_if_asked() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.partition_key"))
        .order(RecordOrder::PartitionKey)
        .concurrency(4);
    let orders = ["a1", "a2", "b1", "c1", "b2"];
    orders.iter().for_each(|order| shop.set(order, Does::Yield));
    assert!(shop.kinesis(&batch, &stream(&orders)).await.is_empty());
    assert_eq!(shop.most_at_once(), 3);
    let ran = shop.ran();
    let at = |order: &str| ran.iter().position(|ran| ran == order);
    assert!(at("a1") < at("a2") && at("b1") < at("b2"), "{ran:?}");
}

#[tokio::test]
async fn a_record_before_the_checkpoint_still_runs_and_one_after_it_is_replayed_later() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.checkpoint"))
        .order(RecordOrder::PartitionKey)
        .concurrency(3);
    // `b1` fails while `a1` runs. `a2` is before no failure, `a1` is.
    let event = stream(&["a1", "b1", "c1", "a2"]);
    shop.set("a1", Does::Yield);
    shop.set("b1", Does::Fail);
    shop.set("c1", Does::Yield);
    let numbers = event.ids();
    assert_eq!(shop.kinesis(&batch, &event).await, [numbers[1].as_str()]);
    assert_eq!(shop.ran(), ["a1", "b1", "c1"]);
    shop.set("b1", Does::Succeed);
    // Lambda delivers from the checkpoint on.
    let mut rest: KinesisEvent = event.parse().unwrap();
    rest.records.remove(0);
    assert!(
        shop.try_kinesis(&batch, rest, MINUTE)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(shop.ran(), ["b1", "a2"]);
}

#[tokio::test]
async fn shards_in_one_event_have_a_checkpoint_each() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.shards"));
    let one = stream(&["a1", "a2"]);
    let other = stream(&["b1", "b2", "b3"]).shard(1).starting_at(10);
    let mut event: KinesisEvent = one.parse().unwrap();
    event
        .records
        .extend(other.parse::<KinesisEvent>().unwrap().records);
    shop.set("a1", Does::Fail);
    shop.set("b2", Does::Fail);
    let returned = shop.try_kinesis(&batch, event, MINUTE).await.unwrap();
    let expected = [&one.ids()[0], &other.ids()[1]];
    assert_eq!(returned.iter().collect::<Vec<_>>(), expected);
    assert_eq!(shop.ran(), ["a1", "b1", "b2"]);
}

#[tokio::test]
async fn the_first_record_without_time_is_the_checkpoint() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.deadline"));
    let event = stream(&["a1", "a2", "a3"]);
    shop.set("a1", Does::Take(Duration::from_secs(20)));
    let returned = shop
        .try_kinesis(&batch, event.parse().unwrap(), Duration::from_secs(30))
        .await
        .unwrap();
    assert_eq!(returned, [event.ids()[1].as_str()]);
    assert_eq!(shop.ran(), ["a1"]);
}

#[tokio::test]
async fn a_record_without_a_sequence_number_fails_the_whole_batch_before_a_handler_runs() {
    let shop = Shop::new();
    let batch = Batch::new(&shop.operation("batch.kinesis.nameless"));
    let mut event: KinesisEvent = stream(&["a1", "a2"]).parse().unwrap();
    event.records[1].kinesis.sequence_number.clear();
    let error = shop.try_kinesis(&batch, event, MINUTE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPayload);
    let text = error.to_string();
    assert!(
        text.contains("record 2 of 2 has no `kinesis.sequenceNumber`"),
        "{text}"
    );
    assert!(shop.ran().is_empty());
}

#[tokio::test]
async fn without_a_key_expression_the_key_is_the_stream_with_shard_and_sequence_number() {
    let shop = Shop::new();
    let operation = builder("batch.kinesis.own_id").build().unwrap();
    let batch = Batch::new(&operation);
    let event = stream(&["a1"]);
    assert!(shop.kinesis(&batch, &event).await.is_empty());
    let record = event.to_value()["Records"][0].clone();
    shop.harness.record(
        &operation,
        &json!([record["eventSourceARN"], record["eventID"]]),
    );
    // The same position of another stream is another record.
    let other = events::kinesis("other").json(&order("a1"));
    assert!(shop.kinesis(&batch, &other).await.is_empty());
    assert_eq!(shop.ran(), ["a1", "a1"]);
}

#[tokio::test]
async fn a_record_without_an_event_id_is_returned_if_the_id_is_its_key() {
    let shop = Shop::new();
    let mut event: KinesisEvent = stream(&["a1"]).parse().unwrap();
    event.records[0].event_id = None;
    let named_by_id = Batch::new(&builder("batch.kinesis.no_event_id").build().unwrap());
    let returned = shop
        .try_kinesis(&named_by_id, event.clone(), MINUTE)
        .await
        .unwrap();
    assert_eq!(returned, stream(&["a1"]).ids());
    assert!(shop.ran().is_empty());
    let named_by_body = Batch::new(&shop.operation("batch.kinesis.no_event_id.body"));
    assert!(
        shop.try_kinesis(&named_by_body, event, MINUTE)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_key_over_the_record_sees_the_partition_key_and_the_data_as_json() {
    let shop = Shop::new();
    let operation = builder("batch.kinesis.record")
        .key("[kinesis.partitionKey, kinesis.data.order_id]")
        .build()
        .unwrap();
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    assert!(shop.kinesis(&batch, &stream(&["a1"])).await.is_empty());
    shop.harness.record(&operation, &json!(["a", "a1"]));
}

#[tokio::test]
async fn a_key_over_the_record_sees_data_that_is_not_json_as_text_or_base64() {
    let shop = Shop::new();
    let operation = builder("batch.kinesis.bytes")
        .key("[kinesis.partitionKey, kinesis.data]")
        .build()
        .unwrap();
    let datum = |bytes: &[u8]| events::AwsRecord::new(bytes).group("a");
    let event = events::kinesis("lines").records([datum(b"o-1,100"), datum(&[0xff, 0])]);
    let event = shop.event(event.parse::<KinesisEvent>().unwrap(), MINUTE);
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    let batch = batch.run(event, |body: RawBody| {
        shop.handle(body.as_bytes().len().to_string())
    });
    let response = shop.harness.within(batch).await;
    assert!(named(&response.unwrap()).is_empty());
    assert_eq!(shop.ran(), ["7", "2"]);
    for data in ["o-1,100", "/wA="] {
        shop.harness.record(&operation, &json!(["a", data]));
    }
}

#[tokio::test]
async fn a_handler_can_take_the_whole_record() {
    let shop = Shop::new();
    let operation = shop.operation("batch.kinesis.whole");
    let event = shop.event(stream(&["a1"]).parse::<KinesisEvent>().unwrap(), MINUTE);
    let batch = Batch::new(&operation).run(event, async |data: DataRecord<Body>| {
        Ok::<_, BoxError>(data.record.kinesis.partition_key)
    });
    let response = shop.harness.within(batch).await.unwrap();
    assert!(named(&response).is_empty());
    let record = shop.harness.record(&operation, &json!("a1"));
    assert_eq!(record.data.value().map(|data| data.as_str()), Some("\"a\""));
}

/// A run of `a1` is killed 10 s after its start, and 50 s before its lease ends. Lambda delivers the rest of the shard again at once.
#[tokio::test]
async fn a_record_whose_key_a_killed_run_has_waits_until_a_run_is_possible() {
    const SECOND: Duration = Duration::from_secs(1);
    for (name, on_in_progress, left, returned, runs_after) in [
        ("batch.kinesis.killed", None, MINUTE, 0, Some(50)),
        // The wait ends with the time of this invocation. The next one need not wait.
        ("batch.kinesis.killed.short", None, SECOND * 30, 1, None),
        // The reserve is 1 s: the handler would start without it.
        (
            "batch.kinesis.killed.late",
            None,
            SECOND * 50 + SECOND / 2,
            1,
            None,
        ),
        (
            "batch.kinesis.killed.reject",
            Some(OnInProgress::Reject),
            MINUTE,
            1,
            None,
        ),
    ] {
        let shop = Shop::with_passing_time();
        let mut operation = builder(name).key("order_id");
        if let Some(policy) = on_in_progress {
            operation = operation.on_in_progress(policy);
        }
        let batch = Batch::new(&operation.build().unwrap());
        let event = stream(&["a1", "a2"]);
        shop.set("a1", Does::Yield);
        let mut killed = Box::pin(shop.kinesis(&batch, &event));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(killed.as_mut().poll(&mut context).is_pending());
        drop(killed);
        assert_eq!(shop.ran(), ["a1"]);
        shop.harness.clock.advance(SECOND * 10);
        let before = shop.harness.now();
        let event = shop.event(event.parse::<KinesisEvent>().unwrap(), left);
        let starts = std::sync::Mutex::new(Vec::new());
        let second = batch.run(event, async |order: Body| {
            starts
                .lock()
                .unwrap()
                .push((order.order_id, before.until(shop.harness.now())));
            Ok::<_, BoxError>(())
        });
        let response = with_backend(shop.harness.another_process(), second).await;
        assert_eq!(named(&response.unwrap()).len(), returned, "{name}");
        let starts = starts.into_inner().unwrap();
        match runs_after {
            None => assert_eq!(starts, [], "{name}"),
            Some(seconds) => {
                let orders: Vec<_> = starts.iter().map(|(order, _)| order.as_str()).collect();
                assert_eq!(orders, ["a1", "a2"], "{name}");
                let waited = starts[0].1;
                assert!(
                    waited > SECOND * seconds && waited < SECOND * (seconds + 2),
                    "{waited:?}"
                );
            }
        }
    }
}

fn item(id: &str, amount: u32) -> Value {
    json!({ "order_id": id, "amount": amount })
}

fn key(id: &str) -> Value {
    json!({ "order_id": id })
}

impl Shop {
    /// The handler notes what changed: `a:-1` is inserted with 1, `a:1-2` modified, and `a:2-` removed.
    async fn try_changes(&self, batch: &Batch, event: Event) -> Result<Vec<String>, Error> {
        let event = self.event(event, MINUTE);
        let batch = batch.clone().run(event, |change: ItemChange<Item>| {
            let amount = |image: &Option<Item>| {
                image
                    .as_ref()
                    .map_or(String::new(), |item| item.amount.to_string())
            };
            let item = change.new.as_ref().or(change.old.as_ref());
            let id = item.map_or("?", |item| item.order_id.as_str());
            let (old, new) = (amount(&change.old), amount(&change.new));
            self.handle(format!("{id}:{old}-{new}"))
        });
        let response = self.harness.within(batch).await?;
        Ok(named(&response))
    }

    async fn changes(&self, batch: &Batch, event: &events::AwsBatch) -> Vec<String> {
        self.try_changes(batch, event.parse().unwrap())
            .await
            .unwrap()
    }
}

fn changes() -> events::AwsBatch {
    events::dynamodb_stream("orders")
        .change(&key("a"), None, Some(&item("a", 1)))
        .change(&key("a"), Some(&item("a", 1)), Some(&item("a", 2)))
        .change(&key("b"), None, Some(&item("b", 1)))
        .change(&key("a"), Some(&item("a", 2)), None)
}

#[tokio::test]
async fn each_change_is_a_call_of_its_own_and_a_second_delivery_runs_nothing() {
    let shop = Shop::new();
    let operation = builder("batch.stream.changes").build().unwrap();
    let batch = Batch::new(&operation);
    for ran in [vec!["a:-1", "a:1-2", "b:-1", "a:2-"], vec![]] {
        assert!(shop.changes(&batch, &changes()).await.is_empty());
        assert_eq!(shop.ran(), ran);
    }
    let id = changes().to_value()["Records"][0]["eventID"].clone();
    shop.harness.record(&operation, &id);
}

#[tokio::test]
async fn the_first_failure_is_the_checkpoint() {
    let shop = Shop::new();
    let batch = Batch::new(&builder("batch.stream.failure").build().unwrap());
    shop.set("a:1-2", Does::Fail);
    let numbers = changes().ids();
    assert_eq!(
        shop.changes(&batch, &changes()).await,
        [numbers[1].as_str()]
    );
    assert_eq!(shop.ran(), ["a:-1", "a:1-2"]);
}

#[tokio::test]
async fn an_image_that_does_not_fit_its_type_is_the_checkpoint() {
    let shop = Shop::new();
    let batch = Batch::new(&builder("batch.stream.undecodable").build().unwrap());
    let event = events::dynamodb_stream("orders")
        .change(&key("a"), None, Some(&item("a", 1)))
        .change(
            &key("b"),
            None,
            Some(&json!({ "order_id": "b", "amount": "many" })),
        );
    assert_eq!(
        shop.changes(&batch, &event).await,
        [event.ids()[1].as_str()]
    );
    assert_eq!(shop.ran(), ["a:-1"]);
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
    assert!(shop.changes(&batch, &changes()).await.is_empty());
    assert_eq!(shop.most_at_once(), 2);
    let mut ran = shop.ran();
    ran.retain(|change| change.starts_with('a'));
    assert_eq!(ran, ["a:-1", "a:1-2", "a:2-"]);
}

#[tokio::test]
async fn a_key_sees_the_new_image_or_the_one_before_a_removal_or_the_key() {
    let shop = Shop::new();
    let operation = builder("batch.stream.image")
        .key("[order_id, amount]")
        .build()
        .unwrap();
    let batch = Batch::new(&operation);
    assert!(shop.changes(&batch, &changes()).await.is_empty());
    // The removal has the image of the change before: with this key it is a duplicate.
    assert_eq!(shop.ran(), ["a:-1", "a:1-2", "b:-1"]);
    // The image has the number of the table, and not the float of the type.
    shop.harness.record(&operation, &json!(["a", 2]));
    let mut keys_only: Event = changes().parse().unwrap();
    keys_only.records.truncate(1);
    keys_only.records[0].change.new_image = Default::default();
    let operation = builder("batch.stream.keys_only")
        .key("order_id")
        .build()
        .unwrap();
    let returned = shop
        .try_changes(&Batch::new(&operation), keys_only)
        .await
        .unwrap();
    assert!(returned.is_empty());
    assert_eq!(shop.ran(), ["?:-"]);
    shop.harness.record(&operation, &json!("a"));
}

#[tokio::test]
async fn a_key_over_the_record_sees_both_images_as_plain_json() {
    let shop = Shop::new();
    let operation = builder("batch.stream.record")
        .key("[eventName, dynamodb.Keys.order_id, dynamodb.OldImage.amount, dynamodb.NewImage.amount]")
        .key_required(true)
        .build()
        .unwrap();
    let batch = Batch::new(&operation).key_from(KeyFrom::Record);
    assert!(shop.changes(&batch, &changes()).await.is_empty());
    shop.harness
        .record(&operation, &json!(["MODIFY", "a", 1, 2]));
}

#[tokio::test]
async fn a_change_without_a_sequence_number_fails_the_whole_batch_before_a_handler_runs() {
    let shop = Shop::new();
    let batch = Batch::new(&builder("batch.stream.nameless").build().unwrap());
    for number in [None, Some(String::new())] {
        let mut event: Event = changes().parse().unwrap();
        event.records[3].change.sequence_number = number;
        let error = shop.try_changes(&batch, event).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPayload);
        let text = error.to_string();
        assert!(
            text.contains("record 4 of 4 has no `dynamodb.SequenceNumber`"),
            "{text}"
        );
    }
    assert!(shop.ran().is_empty());
}
