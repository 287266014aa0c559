//! Events in records: what is stored of them, and in which tables.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{RecordId, StoredEvent};
use idempotency_core::time::Clock;
use idempotency_lambda::{Backend, BoxError, Deadline, ErrorKind, Operation, with_backend};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, Table, operation, ours, store_on};
use serde_json::{Value, json};

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

async fn unchecked() -> Result<Table, BoxError> {
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
    let table = unchecked().await?;
    let charge = keeping("{order_id: order_id}");
    let expected = AttributeValue::S(r#"{"selected":{"order_id": 7}}"#.to_owned());
    let outcome = table
        .call(&charge, &order(), async || {
            assert_eq!(stored(&table).await?, expected);
            Ok(1)
        })
        .await?;
    assert_eq!(outcome.into_response(), 1);
    assert_eq!(stored(&table).await?, expected);
    let requests = table.requests();
    let operations: Vec<_> = requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(operations, ["PutItem", "UpdateItem"]);
    assert!(
        table
            .call(&charge, &order(), async || Ok(2))
            .await?
            .is_replayed()
    );
    Ok(())
}

#[tokio::test]
async fn an_event_is_compressed_where_that_makes_it_smaller_and_reads_back() -> Result<(), BoxError>
{
    let table = unchecked().await?;
    let order = json!({ "order_id": 7, "text": "a word and a word ".repeat(1_000) });
    table.call(&keeping("all"), &order, async || Ok(1)).await?;
    let AttributeValue::B(bytes) = stored(&table).await? else {
        return Err("it is not compressed".into());
    };
    assert!(bytes.as_ref().len() < 1_000, "{}", bytes.as_ref().len());
    let store = store_on(&table.database).table("idempotency").build()?;
    let id = RecordId::new(&table.only_item().await?["id"]);
    let event = store.stored_event(&id).await?;
    assert_eq!(
        event.as_ref().map(StoredEvent::as_str),
        Some(order.to_string().as_str())
    );
    assert!(
        store
            .stored_event(&RecordId::new("none#1"))
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test]
async fn a_response_that_needs_the_place_of_the_event_replaces_it() -> Result<(), BoxError> {
    let table = unchecked().await?;
    for (order_id, length, is_kept) in [(1, 256 * 1024 - 2, true), (2, 256 * 1024 - 1, false)] {
        let order = json!({ "order_id": order_id });
        let response = "x".repeat(length);
        let charge = keeping("all");
        table
            .call(&charge, &order, async || Ok(response.clone()))
            .await?;
        let items = table.database.items("idempotency").await?;
        let with_event = items.iter().filter(|item| item.contains_key("event"));
        assert_eq!(with_event.count() == order_id, is_kept);
        let again = table.call(&charge, &order, async || Ok(String::new()));
        assert_eq!(again.await?.into_response().len(), length);
    }
    Ok(())
}

#[tokio::test]
async fn a_completion_after_an_eviction_stores_the_event_again_if_there_is_room()
-> Result<(), BoxError> {
    let table = unchecked().await?;
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
    let refused = table
        .call(&keeping("all"), &order(), async || Ok(1))
        .await
        .unwrap_err();
    let error = ours(&refused);
    assert_eq!(error.kind(), ErrorKind::StoreFailed);
    assert!(!error.handler_ran());
    let text = error.to_string();
    assert!(
        text.contains("is not encrypted with a key of KMS"),
        "{text}"
    );
    assert!(
        text.contains("IDEMPOTENCY_STORE_EVENT_UNENCRYPTED"),
        "{text}"
    );
    assert!(!text.contains("4242"), "{text}");
    assert!(table.database.items("idempotency").await?.is_empty());
    // Operations that keep no event do not ask.
    table.requests();
    let plain = operation().key("order_id").build()?;
    table.call(&plain, &order(), async || Ok(1)).await?;
    assert!(
        !table
            .requests()
            .iter()
            .any(|(name, _)| name == "DescribeTable")
    );
    Ok(())
}

#[tokio::test]
async fn an_encrypted_table_is_asked_once() -> Result<(), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database
        .create_table(TableSpec::new("encrypted").encrypted())
        .await?;
    let store = store_on(&database).table("encrypted").build()?;
    let clock = ManualClock::at(START);
    let process = Backend::new(
        Arc::new(store),
        Arc::new(clock.clone()),
        Arc::new(SeededRandom::new(1)),
    );
    let charge = keeping("all");
    for order_id in [1, 2] {
        let order = json!({ "order_id": order_id });
        let deadline = Deadline::At(clock.now().plus(Duration::from_secs(30)));
        let call = charge.run(&order, deadline, async || Ok::<u8, BoxError>(1));
        with_backend(process.clone(), call).await?;
    }
    let requests = database.requests();
    let described = requests
        .iter()
        .filter(|request| request.operation == "DescribeTable");
    assert_eq!(described.count(), 1);
    assert_eq!(database.items("encrypted").await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_table_that_cannot_be_asked_gets_no_event() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let denied = Fault::on("DescribeTable").respond_with(400, "AccessDeniedException");
    table.database.inject(denied);
    let refused = table
        .call(&keeping("all"), &order(), async || Ok(1))
        .await
        .unwrap_err();
    let text = ours(&refused).to_string();
    assert!(text.contains("dynamodb:DescribeTable"), "{text}");
    assert!(table.database.items("idempotency").await?.is_empty());
    Ok(())
}
