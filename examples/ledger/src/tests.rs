use std::sync::Arc;

use idempotency_lambda::{Context, LambdaEvent, MemoryStore, backend_over, with_backend};
use idempotency_testkit::events::{self, AwsBatch};
use serde_json::{Value, json};

use super::*;

/// Sends the event to the function. Returns the sequence numbers that the response names.
async fn failed(store: &Arc<MemoryStore>, event: Value) -> Vec<String> {
    let event = serde_json::from_value(event).unwrap();
    let call = post(LambdaEvent::new(event, Context::default()));
    let response = with_backend(backend_over(Arc::clone(store) as _), call).await;
    let failures = response.unwrap().batch_item_failures.into_iter();
    failures
        .filter_map(|failure| failure.item_identifier)
        .collect()
}

/// Returns a batch of entries, each with its id and amount.
fn batch(entries: &[(&str, i64)]) -> AwsBatch {
    let entries = entries.iter();
    let entry =
        |(entry_id, amount)| json!({ "entry_id": entry_id, "account": "acc-1", "amount": amount });
    entries.fold(events::kinesis("ledger"), |batch, next| {
        batch.json(&entry(*next))
    })
}

#[tokio::test]
async fn an_entry_that_was_sent_twice_has_one_record() {
    let store = Arc::new(MemoryStore::new());
    let event: Value = serde_json::from_str(include_str!("../../events/ledger.json")).unwrap();
    assert_eq!(event["Records"].as_array().unwrap().len(), 5);
    for _ in 0..2 {
        assert!(failed(&store, event.clone()).await.is_empty());
        assert_eq!(store.len(), 4);
    }
}

#[tokio::test]
async fn the_entries_behind_one_that_fails_are_not_posted() {
    let store = Arc::new(MemoryStore::new());
    let batch = batch(&[("e-1", 100), ("e-2", 0), ("e-3", 300)]);
    let failed = failed(&store, batch.to_value()).await;
    assert_eq!(failed, batch.ids()[1..2]);
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn the_id_of_an_entry_with_another_amount_is_an_error() {
    let store = Arc::new(MemoryStore::new());
    let batch = batch(&[("e-1", 100), ("e-1", 900)]);
    let failed = failed(&store, batch.to_value()).await;
    assert_eq!(failed, batch.ids()[1..]);
}

#[tokio::test]
async fn a_record_that_is_not_an_entry_is_named() {
    let store = Arc::new(MemoryStore::new());
    let batch = events::kinesis("ledger").json("not an entry");
    assert_eq!(failed(&store, batch.to_value()).await, batch.ids());
}
