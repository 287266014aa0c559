//! Updates that count once and versioned writes, staged in the transaction of a handler.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::dynamodb::once::{self, Once, OnceRefusal};
use idempotency_lambda::dynamodb::versioned::{self, Version, VersionedError, VersionedRefusal};
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, Error, ErrorKind, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, operation, ours};
use serde_json::json;

async fn database() -> EmbeddedDynamoDb {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for table in ["idempotency", "items"] {
        database.create_table(TableSpec::new(table)).await.unwrap();
    }
    database
}

/// Makes a call with this key whose handler stages one write.
async fn stage(
    database: &EmbeddedDynamoDb,
    key: u32,
    item: TransactWriteItem,
) -> Result<u32, BoxError> {
    let store = DynamoDbStore::from_sdk_config(&database.sdk_config(), "idempotency")?;
    let backend = Backend::new(
        Arc::new(store),
        Arc::new(ManualClock::at(START)),
        Arc::new(SeededRandom::new(u64::from(key))),
    );
    let charge = operation().key("order_id").build()?;
    let deadline = Deadline::At(EpochMillis::new(START + 30_000));
    let call = charge.run(
        &json!({ "order_id": key }),
        deadline,
        |call: Call| async move {
            call.transaction().write(item)?;
            Ok::<_, BoxError>(key)
        },
    );
    Ok(with_backend(backend, call).await?.into_response())
}

fn rejected(error: &BoxError) -> &Error {
    let error = ours(error);
    assert_eq!(error.kind(), ErrorKind::TransactionRejected, "{error}");
    error
}

#[tokio::test]
async fn a_staged_update_that_counts_once_is_rejected_with_its_typed_reason() {
    let database = database().await;
    let (client, clock) = (database.client(), ManualClock::at(START));
    let once = Once::new(once::plan(0.1, Duration::from_secs(3_600))).unwrap();
    let once = once.clock(Arc::new(clock.clone()));
    let update = |event: &str| {
        once.update("items", [("id", AttributeValue::S("c".into()))], event)
            .expression("ADD units :n")
            .value(":n", AttributeValue::N("5".into()))
    };
    // The item was busy, and then idle for so long that its slots are used again.
    for event in 0..5 {
        let counted = update(&format!("old-{event}")).send(&client).await.unwrap();
        assert!(counted.is_applied());
    }
    clock.advance(Duration::from_secs(9 * 733));
    let count = update("evt-1").prepare(&client).await.unwrap();
    assert_eq!(stage(&database, 1, count.transact_item()).await.unwrap(), 1);
    // The same call again: its response is replayed, and nothing is sent.
    assert_eq!(stage(&database, 1, count.transact_item()).await.unwrap(), 1);
    // Another call with the same event.
    let error = stage(&database, 2, count.transact_item())
        .await
        .unwrap_err();
    let write = rejected(&error).rejection().unwrap().write(0).unwrap();
    let refusal = count.rejected(write);
    assert!(
        matches!(refusal, Some(OnceRefusal::AlreadyApplied(_))),
        "{refusal:?}"
    );
    let items = database.items("items").await.unwrap();
    assert_eq!(items[0]["units"], AttributeValue::N("30".into()));
}

#[tokio::test]
async fn a_staged_versioned_write_is_rejected_with_the_conflict() {
    let database = database().await;
    let id = || [("id", AttributeValue::S("o".into()))];
    let create = versioned::create("items", id()).prepare().unwrap();
    stage(&database, 1, create.transact_item()).await.unwrap();
    let read = Version::of(&database.items("items").await.unwrap()[0]).unwrap();
    let set = |value: bool| {
        let update = versioned::update("items", id(), &read).expression("SET shipped = :s");
        let update = update.value(":s", AttributeValue::Bool(value));
        update.prepare().unwrap()
    };
    stage(&database, 2, set(true).transact_item())
        .await
        .unwrap();
    let late = set(false);
    let error = stage(&database, 3, late.transact_item()).await.unwrap_err();
    let write = rejected(&error).rejection().unwrap().write(0).unwrap();
    let Some(VersionedRefusal::Error(VersionedError::Conflict(conflict))) = late.rejected(write)
    else {
        panic!("a conflict");
    };
    assert_eq!(
        conflict.version().map(Version::number),
        Some(read.number() + 1)
    );
    assert!(!conflict.maybe_applied());
    let items = database.items("items").await.unwrap();
    assert_eq!(items[0]["shipped"], AttributeValue::Bool(true));
}
