//! DynamoDB streams: changes in the order of the shard, with typed images.

use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use idempotency_lambda::batch::{Batch, ItemChange, KeyFrom, RecordOrder};
use idempotency_lambda::{Error, ErrorKind, with_backend};
use idempotency_testkit::events;
use serde_json::{Value, json};

use crate::shop::{Does, Shop, builder, named};
use crate::sqs::Order as Item;

const MINUTE: Duration = Duration::from_secs(60);

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
        let response = with_backend(self.harness.backend.clone(), batch).await?;
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
        .insert(&key("a"), &item("a", 1))
        .modify(&key("a"), &item("a", 1), &item("a", 2))
        .insert(&key("b"), &item("b", 1))
        .remove(&key("a"), &item("a", 2))
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
        .insert(&key("a"), &item("a", 1))
        .insert(&key("b"), &json!({ "order_id": "b", "amount": "many" }));
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
