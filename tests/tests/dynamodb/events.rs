//! Events in records: what is stored of them, and in which tables.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{RecordId, StoredEvent};
use idempotency_core::store::StoreScan;
use idempotency_core::time::Clock;
use idempotency_lambda::{BoxError, Deadline, ErrorKind, Operation, with_backend};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_tests::{End, START, Table, operation, ours, store_on};
use serde_json::{Value, json};

use super::{operations, process, returning};

fn keeping(store_event: &str) -> Operation {
    operation()
        .key("order_id")
        .store_event(store_event)
        .build()
        .unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7, "card": "4242" })
}

async fn without_encryption_check() -> Result<Table, BoxError> {
    Table::start_with(|store| store.unencrypted_events(true)).await
}

async fn stored(table: &Table) -> Result<AttributeValue, BoxError> {
    let mut items = table.database.items("idempotency").await?;
    let event = items.pop().and_then(|mut item| item.remove("event"));
    event.ok_or_else(|| "no event is stored".into())
}

#[tokio::test]
async fn the_selected_part_of_an_event_is_stored_with_the_claim_and_kept_by_the_completion()
-> Result<(), BoxError> {
    let table = without_encryption_check().await?;
    let charge = keeping("{order_id: order_id}");
    let expected = AttributeValue::S(r#"{"selected":{"order_id": 7}}"#.to_owned());
    let handler = async || {
        assert_eq!(stored(&table).await?, expected);
        Ok(1)
    };
    let outcome = table.call(&charge, &order(), handler).await?;
    assert_eq!(outcome.into_response(), 1);
    assert_eq!(stored(&table).await?, expected);
    assert_eq!(operations(&table), "PutItem UpdateItem");
    let duplicate = returning(&table, &charge, &order(), 2).await;
    assert_eq!(duplicate, End::Replayed(1));
    Ok(())
}

#[tokio::test]
async fn an_event_is_compressed_where_that_makes_it_smaller_and_reads_back() -> Result<(), BoxError>
{
    let table = without_encryption_check().await?;
    let order = json!({ "order_id": 7, "text": "a word and a word ".repeat(1_000) });
    table.call(&keeping("all"), &order, async || Ok(1)).await?;
    let AttributeValue::B(bytes) = stored(&table).await? else {
        return Err("it is not compressed".into());
    };
    assert!(bytes.as_ref().len() < 1_000, "{}", bytes.as_ref().len());
    let store = store_on(&table.database).table("idempotency").build()?;
    let id = RecordId::new(&table.only_item().await?["id"]);
    let event = store.stored_event(&id).await?;
    let event = event.as_ref().map(StoredEvent::as_str);
    assert_eq!(event, Some(order.to_string().as_str()));
    let none = store.stored_event(&RecordId::new("none#1")).await?;
    assert!(none.is_none());
    Ok(())
}

#[tokio::test]
async fn a_response_that_needs_the_place_of_the_event_replaces_it() -> Result<(), BoxError> {
    let table = without_encryption_check().await?;
    for (order_id, length, is_kept) in [(1, 256 * 1024 - 2, true), (2, 256 * 1024 - 1, false)] {
        let order = json!({ "order_id": order_id });
        let response = "x".repeat(length);
        let charge = keeping("all");
        returning(&table, &charge, &order, response).await;
        let items = table.database.items("idempotency").await?;
        let with_event = items.iter().filter(|item| item.contains_key("event"));
        assert_eq!(with_event.count() == order_id, is_kept);
        let again = returning(&table, &charge, &order, String::new()).await;
        let is_replayed = matches!(again, End::Replayed(text) if text.len() == length);
        assert!(is_replayed);
    }
    Ok(())
}

#[tokio::test]
async fn a_completion_after_an_eviction_stores_the_event_again_if_there_is_room()
-> Result<(), BoxError> {
    let table = without_encryption_check().await?;
    for (order_id, length, is_kept) in [(1, 10, true), (2, 256 * 1024, false)] {
        let order = json!({ "order_id": order_id });
        let evicting = async || {
            for item in table.database.items("idempotency").await? {
                let id = item["id"].as_s().map_err(|_| "the id is no text")?;
                let key = [("id", id.clone())];
                table.database.delete("idempotency", key).await?;
            }
            Ok("x".repeat(length))
        };
        table.call(&keeping("all"), &order, evicting).await?;
        let items = table.database.items("idempotency").await?;
        let event = items.iter().find_map(|item| item.get("event"));
        let stored = AttributeValue::S(format!("{{\"all\":{order}}}"));
        assert_eq!(event, is_kept.then_some(&stored));
    }
    Ok(())
}

#[tokio::test]
async fn a_table_that_is_not_encrypted_gets_no_event_and_no_handler_runs() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = refused(&table).await?;
    let why = text.contains("is not encrypted with a key of KMS");
    let waives = text.contains("IDEMPOTENCY_STORE_EVENT_UNENCRYPTED");
    assert!(why && waives, "{text}");
    // Operations that keep no event do not ask.
    table.requests();
    let plain = operation().key("order_id").build()?;
    assert_eq!(returning(&table, &plain, &order(), 1).await, End::Ran(1));
    assert_eq!(operations(&table), "PutItem UpdateItem");
    Ok(())
}

/// Returns the text of the error of a call whose event is not stored, so that its handler does not run.
async fn refused(table: &Table) -> Result<String, BoxError> {
    let charge = keeping("all");
    let called = table.call(&charge, &order(), async || Ok(1)).await;
    let error = called.unwrap_err();
    let (error, text) = (ours(&error), error.to_string());
    assert_eq!(error.kind(), ErrorKind::StoreFailed);
    assert!(!error.handler_ran());
    assert!(!text.contains("4242"), "{text}");
    assert!(table.database.items("idempotency").await?.is_empty());
    Ok(text)
}

#[tokio::test]
async fn an_encrypted_table_is_asked_once() -> Result<(), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    let encrypted = TableSpec::new("encrypted").encrypted();
    database.create_table(encrypted).await?;
    let store = store_on(&database).table("encrypted").build()?;
    let (store, clock) = (Arc::new(store), ManualClock::at(START));
    let process = process(store, &clock, 1);
    let charge = keeping("all");
    for order_id in [1, 2] {
        let order = json!({ "order_id": order_id });
        let deadline = Deadline::At(clock.now().plus(Duration::from_secs(30)));
        let call = charge.run(&order, deadline, async || Ok::<u8, BoxError>(1));
        with_backend(process.clone(), call).await?;
    }
    let requests = database.requests();
    let described = requests.iter().filter(|it| it.operation == "DescribeTable");
    assert_eq!(described.count(), 1);
    assert_eq!(database.items("encrypted").await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_table_that_cannot_be_asked_gets_no_event() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let denied = Fault::on("DescribeTable").respond_with(400, "AccessDeniedException");
    table.database.inject(denied);
    let text = refused(&table).await?;
    assert!(text.contains("dynamodb:DescribeTable"), "{text}");
    Ok(())
}
