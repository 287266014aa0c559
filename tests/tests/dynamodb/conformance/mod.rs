//! The conformance suite on every store that we have, and on broken stores, which must fail it.

mod broken;
mod foreign;
mod limited;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{
    LedgerEntry, MemoryStore, MemoryTransaction, MemoryWrites, OpenTransaction, Staged, Store,
    StoreReply, StoreScan, Write,
};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{
    ForeignRecord, Report, StoreFactory, assert_conformance, check, sharing, staged,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{StoreExt, StoreFault, StoreOperation};
use idempotency_tests::{NotingStore, START, TableFactory};

use broken::{BrokenStore, Mistake};

/// The memory store, with replies that can be lost.
struct InMemory(Arc<NotingStore<MemoryStore>>);

impl StoreFactory for InMemory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.0.clone();
        Box::pin(async move { Ok(store) })
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        let records = self.0.inner();
        records.insert(id.clone(), foreign.reads_as.clone());
        Some(Box::pin(async { Ok(()) }))
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        let store: Arc<dyn StoreScan> = self.0.clone();
        Some(Box::pin(async move { Ok(store) }))
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        self.0.inject(operation, 1, StoreFault::LoseReply);
        true
    }

    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let entry = LedgerEntry::add(name, -1).at_least(-i64::from(limit));
        Some(staged(MemoryWrites::from([entry])))
    }

    fn open_taking_one<'a>(
        &'a self,
        name: &'a str,
    ) -> Option<BoxFuture<'a, Result<OpenTransaction, BoxError>>> {
        Some(Box::pin(open_taking_one(&*self.0, name)))
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        let taken = -self.0.inner().balance(name);
        Box::pin(async move { Ok(u32::try_from(taken)?) })
    }
}

/// Begins a transaction of the store in memory, and takes one from an account.
async fn open_taking_one(store: &dyn Store, name: &str) -> Result<OpenTransaction, BoxError> {
    let mut open = store.begin(None).await?;
    let transaction = open.downcast_mut::<Box<MemoryTransaction>>();
    transaction.ok_or("another form")?.add(name, -1);
    Ok(open)
}

fn clock() -> ManualClock {
    ManualClock::at(START)
}

/// Returns a database with the table `records`, with or without a sort key, and the factory of stores on it.
async fn table(has_sort_key: bool) -> Result<(Arc<EmbeddedDynamoDb>, TableFactory), BoxError> {
    let database = Arc::new(EmbeddedDynamoDb::start().await?);
    // Very short pauses between sends.
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let config = aws_sdk_dynamodb::config::Builder::from(&database.sdk_config());
    let client = Client::from_conf(config.retry_config(retries).build());
    let (mut spec, mut factory) = (
        TableSpec::new("records"),
        TableFactory::new(client, "records"),
    );
    if has_sort_key {
        spec = spec.with_sort_key("sk");
        factory = factory.composite("sk", "idempotency#one");
    }
    database.create_table(spec).await?;
    let factory = factory.losing_replies(&database);
    Ok((database, factory))
}

/// Asserts that the suite skipped `count` cases, because the store has no limit on a record's size (`Store::limits`).
fn assert_skipped(report: &Report, count: usize) {
    let skipped = report.skipped().map(|(_, reason)| reason);
    // DynamoDB has no transactions that stay open.
    let skipped: Vec<_> = skipped
        .filter(|reason| !reason.ends_with("begins no transactions"))
        .collect();
    let reason = "the store has no limit on a record's size (`Store::limits`)";
    assert_eq!(skipped, vec![reason; count], "{report}");
    // Past the capture of the test harness, because the report is also useful if every case passes.
    let _ = writeln!(std::io::stderr(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_in_memory_conforms() {
    let store = Arc::new(NotingStore::new(MemoryStore::new()));
    let report = assert_conformance(InMemory(store.clone()), &clock()).await;
    assert!(store.inner().is_empty(), "the suite deletes what it wrote");
    assert_skipped(&report, 4);
}

#[tokio::test]
async fn a_store_whose_eventual_reads_are_stale_conforms() {
    for writes in [1, 3] {
        let store = Arc::new(NotingStore::new(MemoryStore::new()));
        store.lag(writes);
        assert_conformance(InMemory(store), &clock()).await;
    }
}

#[tokio::test]
async fn a_store_whose_failed_conditions_return_no_record_conforms() {
    let store = BrokenStore::new(Mistake::ReturnsNoRecord);
    let _ = assert_conformance(broken::Factory(Arc::new(store)), &clock()).await;
}

#[tokio::test]
async fn a_store_and_one_thread_are_enough() {
    let store = Arc::new(MemoryStore::new());
    assert_conformance(sharing(store), &clock()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_on_the_embedded_database() -> Result<(), BoxError> {
    let (database, factory) = table(false).await?;
    assert_skipped(&assert_conformance(factory, &clock()).await, 0);
    assert!(database.items("records").await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_with_a_composite_key() -> Result<(), BoxError> {
    let (_database, factory) = table(true).await?;
    assert_skipped(&assert_conformance(factory, &clock()).await, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_with_large_responses() -> Result<(), BoxError> {
    let (database, factory) = table(false).await?;
    let report = assert_conformance(factory.with_large_responses(), &clock()).await;
    assert_skipped(&report, 4);
    let left = database.items("records").await?;
    let are_pieces = left.iter().all(|item| item.contains_key("data_piece"));
    assert!(are_pieces, "only the pieces stay, until they expire");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_responses_conform_with_a_composite_key() -> Result<(), BoxError> {
    let (database, factory) = table(true).await?;
    assert_conformance(factory.with_large_responses(), &clock()).await;
    let left = database.items("records").await?;
    let partition = AttributeValue::S("idempotency#one".to_owned());
    assert!(!left.is_empty() && left.iter().all(|item| item["id"] == partition));
    Ok(())
}

#[tokio::test]
async fn two_partitions_of_one_table_share_no_records() -> Result<(), BoxError> {
    let (database, one) = table(true).await?;
    let two = TableFactory::new(database.client(), "records").composite("sk", "idempotency#two");
    let (one, two) = (one.store().await?, two.store().await?);
    let (id, record) = (RecordId::new("charge#1"), Record::default());
    for store in [&one, &two] {
        let put = store
            .write(&id, Write::Put(record.clone()), &Condition::NoRecord)
            .await;
        assert!(matches!(put, StoreReply::Applied { .. }), "{put:?}");
    }
    let deleted = one
        .write(&id, Write::Delete, &Condition::All(Vec::new()))
        .await;
    assert!(matches!(deleted, StoreReply::Applied { .. }));
    for (store, is_there) in [(one, false), (two, true)] {
        let StoreReply::Found { record, .. } = store.get(&id).await else {
            panic!("the read failed")
        };
        assert_eq!(record.is_some(), is_there);
    }
    Ok(())
}

/// The mistakes of `caught.json`, each with cases of the suite that fail for a store that makes it.
#[tokio::test]
async fn a_store_that_is_broken_on_purpose_is_caught_by_each_case_of_its_mistake() {
    let caught = include_str!("caught.json");
    let caught: BTreeMap<Mistake, Vec<String>> = serde_json::from_str(caught).unwrap();
    assert_eq!(caught.len(), 33);
    // One thread, so that concurrent calls interleave at each `yield_now`, under any load of the machine.
    for (mistake, cases) in caught {
        let store = Arc::new(BrokenStore::new(mistake));
        let report = check(broken::Factory(store), &clock()).await;
        for case in cases {
            let fails = report.failures().any(|(name, _)| name == case);
            assert!(fails, "{mistake:?} is not caught by {case}\n{report}");
        }
    }
}
