//! A crash at every step. For each request of each path the process dies just before or just after the request is applied.
//! Then the call is retried before and after the lease has expired. On the embedded DynamoDB.
//!
//! The rows are in `crashes.md`; the test compares them.
//!
//! Updates that count once and versioned writes, staged in the transaction of a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use idempotency_core::store::{StoreReply, Write};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::dynamodb::once::{self, Once, OnceRefusal};
use idempotency_lambda::dynamodb::versioned::{
    Version, Versioned, VersionedError, VersionedRefusal,
};
use idempotency_lambda::{
    BoxError, Call, Error, ErrorKind, Lookup, OnError, OnInProgress, OnStoreError, OnTimeout,
    Operation, Outcome,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{StoreExt, StoreFault, StoreOperation};
use idempotency_tests::{NotedRequest, START, operation, ours, unless_it_panics};
use serde_json::json;

use super::{DEATHS, Processes, assert_published, kill, said};

/// The path of the call that dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    /// The first call of its key. Its handler returns.
    Fresh,
    /// The first call of its key. Its handler fails.
    Failure,
    /// The first call of its key. Its handler panics.
    Panic,
    /// A response is stored.
    Duplicate,
    /// It waits for another call that runs.
    Waiting,
    /// The first call of its key, under `read-first`.
    ReadFirst,
    /// A response is stored. Under `read-first`.
    ReadFirstDuplicate,
    /// It overran its lease, and another call took over and completed.
    Fenced,
    /// It runs unprotected: the reply to its claim was lost, and the read after it failed. The claim was applied.
    Unprotected,
    /// The same, but its claim was not applied.
    UnprotectedWithoutClaim,
}

/// The steps at which it dies: the path, the name of the request, its kind and its number.
const STEPS: &[(Path, &str, StoreOperation, usize)] = {
    use Path::*;
    use StoreOperation::{Delete, Put, Read, Update};
    &[
        (Fresh, "claim", Put, 1),
        (Fresh, "completion", Update, 1),
        (Failure, "claim", Put, 1),
        (Failure, "release", Delete, 1),
        (Panic, "release", Update, 1),
        (Duplicate, "claim", Put, 1),
        (Waiting, "claim", Put, 1),
        (Waiting, "read", Read, 1),
        (ReadFirst, "first read", Read, 1),
        (ReadFirst, "claim", Put, 1),
        (ReadFirstDuplicate, "first read", Read, 1),
        (Fenced, "completion", Update, 2),
        (Unprotected, "completion", Update, 1),
        (UnprotectedWithoutClaim, "completion", Update, 1),
        (UnprotectedWithoutClaim, "put of the response", Put, 2),
    ]
};

struct Harness {
    processes: Processes,
    runs: AtomicUsize,
}

impl Harness {
    async fn new(database: &EmbeddedDynamoDb, table: &str) -> Self {
        Self {
            processes: Processes::on(database, table).await,
            runs: AtomicUsize::new(0),
        }
    }

    async fn call<F>(&self, charge: &Operation, handler: F) -> Result<Outcome<usize>, BoxError>
    where
        F: AsyncFnOnce(usize) -> Result<usize, BoxError>,
    {
        let run = async |_: Call| handler(self.runs.fetch_add(1, Ordering::Relaxed) + 1).await;
        let payload = json!({ "order_id": 1 });
        self.processes.call(charge, &payload, run).await
    }

    async fn run(&self, charge: &Operation) -> Result<Outcome<usize>, BoxError> {
        self.call(charge, async |run| Ok(run)).await
    }

    /// Runs a call whose next request of this kind hangs: the process dies there.
    async fn kill(&self, charge: &Operation, kind: StoreOperation, fault: StoreFault) {
        self.processes.store.inject(kind, 1, fault);
        kill(&self.processes.store, self.run(charge), "the request").await;
    }

    /// Retries the call. Returns what the caller gets.
    async fn retry(&self, charge: &Operation) -> String {
        let retry = self.run(charge).await;
        said(retry.map(|outcome| (*outcome.response(), outcome.is_replayed())))
    }

    /// Plays a call on its path. The future never ends if the process dies.
    async fn play(&self, path: Path, charge: &Operation) {
        match path {
            Path::Failure => drop(self.call(charge, async |_| Err("declined".into())).await),
            Path::Panic => {
                let panics = self.call(charge, async |_| {
                    // A key with a mark is free a millisecond after its claim.
                    self.processes.clock.advance(Duration::from_millis(1));
                    panic!("in the handler")
                });
                drop(panics.await);
            }
            Path::Fenced => {
                let slow = self.call(charge, async |run| {
                    self.processes.pass(31);
                    self.run(charge).await?;
                    Ok(run)
                });
                let _ = slow.await;
            }
            _ => drop(self.run(charge).await),
        }
    }
}

/// Plays a death before or after a request is applied. Returns the row.
async fn row(
    database: &EmbeddedDynamoDb,
    step: usize,
    (when, fault): (&str, StoreFault),
) -> String {
    let (path, name, operation_kind, nth) = STEPS[step];
    let table = format!("step-{step}-{when}");
    let harness = Harness::new(database, &table).await;
    let store = &harness.processes.store;
    let builder = || operation().key("order_id");
    let charge = builder().build().unwrap();
    let own = match path {
        Path::Waiting => builder().on_in_progress(OnInProgress::Wait),
        Path::ReadFirst | Path::ReadFirstDuplicate => builder().lookup(Lookup::ReadFirst),
        Path::Unprotected | Path::UnprotectedWithoutClaim => {
            builder().on_store_error(OnStoreError::RunUnprotected)
        }
        _ => builder(),
    };
    let own = own.build().unwrap();
    if matches!(path, Path::Duplicate | Path::ReadFirstDuplicate) {
        harness.run(&charge).await.unwrap();
    }
    if path == Path::Waiting {
        // Another process claims and dies.
        let claim = StoreOperation::Put;
        harness.kill(&charge, claim, StoreFault::HangAfter).await;
    }
    let lost = match path {
        Path::Unprotected => Some(StoreFault::LoseReply),
        Path::UnprotectedWithoutClaim => Some(StoreFault::LoseRequest),
        _ => None,
    };
    if let Some(lost) = lost {
        store.inject(StoreOperation::Put, 1, lost);
        store.inject(StoreOperation::Read, 1, StoreFault::Throttle);
    }
    store.inject(operation_kind, nth, fault);
    let place = format!("{path:?}, {name}");
    kill(store, harness.play(path, &own), &place).await;
    let early = harness.retry(&charge).await;
    harness.processes.pass(61);
    let late = harness.retry(&charge).await;
    let runs = harness.runs.load(Ordering::Relaxed);
    let path = match path {
        Path::ReadFirst => "read-first".to_owned(),
        Path::ReadFirstDuplicate => "read-first, duplicate".to_owned(),
        Path::Unprotected => "unprotected, claim applied".to_owned(),
        Path::UnprotectedWithoutClaim => "unprotected, claim lost".to_owned(),
        _ => format!("{path:?}").to_lowercase(),
    };
    format!("| {path} | {when} the {name} | {early} | {late} | {runs} |")
}

#[tokio::test]
async fn a_crash_at_every_step_has_the_documented_result() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let mut rows = Vec::new();
    for step in 0..STEPS.len() {
        for death in DEATHS {
            rows.push(row(&database, step, death).await);
        }
    }
    assert_published(&rows);
}

#[tokio::test]
async fn under_hold_a_panic_ends_its_lease_and_keeps_its_claim() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for on_error in [OnError::Release, OnError::Record] {
        let harness = Harness::new(&database, &format!("{on_error:?}")).await;
        let charge = operation().key("order_id").on_timeout(OnTimeout::Hold);
        let charge = charge.on_error(on_error).build().unwrap();
        let call = harness.call(&charge, async |_| panic!("in the handler"));
        assert!(unless_it_panics(call).await.is_err());
        let noted = harness.processes.store.noted();
        assert_eq!(noted.len(), 2, "the claim, and the end of its lease");
        assert_eq!(harness.retry(&charge).await, "IdempotencyUnresolved");
        harness.processes.pass(61);
        assert_eq!(harness.retry(&charge).await, "IdempotencyUnresolved");
        assert_eq!(harness.runs.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_write_of_a_dead_process_changes_nothing_when_it_arrives_late() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let harness = Harness::new(&database, "late").await;
    let charge = operation().key("order_id").build().unwrap();
    let completion = StoreOperation::Update;
    harness.kill(&charge, completion, StoreFault::Hang).await;
    let store = &harness.processes.store;
    let completion = store.noted().pop().unwrap();
    harness.processes.pass(31);
    assert_eq!(harness.retry(&charge).await, "runs: run 2");
    // The completion of the dead process arrives.
    let NotedRequest::Write(id, write @ Write::Update(_), condition) = completion else {
        panic!("the last call was the completion");
    };
    let arrived = store.inner().write(&id, write, &condition).await;
    assert!(matches!(arrived, StoreReply::ConditionFailed { .. }));
    assert_eq!(harness.retry(&charge).await, "the response of run 2");
}

/// Returns a database with the table `items`, and processes over a table of records.
async fn with_items() -> (EmbeddedDynamoDb, Processes) {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let items = TableSpec::new("items");
    database.create_table(items).await.unwrap();
    let processes = Processes::on(&database, "idempotency").await;
    (database, processes)
}

/// Makes a call with this key whose handler stages one write.
async fn stage(
    processes: &Processes,
    key: u32,
    item: TransactWriteItem,
) -> Result<Outcome<u32>, BoxError> {
    let charge = operation().key("order_id").build()?;
    let handler = async |call: Call| {
        call.transaction().write(item)?;
        Ok(key)
    };
    let payload = json!({ "order_id": key });
    processes.call(&charge, &payload, handler).await
}

fn rejected(error: &BoxError) -> &Error {
    let error = ours(error);
    assert_eq!(error.kind(), ErrorKind::TransactionRejected, "{error}");
    error
}

#[tokio::test]
async fn a_staged_update_that_counts_once_is_rejected_with_its_typed_reason() {
    let (database, processes) = with_items().await;
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
    // The same call again: its response is replayed, and nothing is sent.
    for is_replayed in [false, true] {
        let staged = stage(&processes, 1, count.transact_item()).await;
        assert_eq!(staged.unwrap().is_replayed(), is_replayed);
    }
    // Another call with the same event.
    let error = stage(&processes, 2, count.transact_item()).await;
    let error = error.unwrap_err();
    let write = rejected(&error).rejection().unwrap().write(0).unwrap();
    let refusal = count.rejected(write);
    let applied = matches!(refusal, Some(OnceRefusal::AlreadyApplied(_)));
    assert!(applied, "{refusal:?}");
    let items = database.items("items").await.unwrap();
    assert_eq!(items[0]["units"], AttributeValue::N("30".into()));
}

#[tokio::test]
async fn a_staged_versioned_write_is_rejected_with_the_conflict() {
    let (database, processes) = with_items().await;
    let id = || [("id", AttributeValue::S("o".into()))];
    let items = Versioned::by("version");
    let create = items.create("items", id()).prepare().unwrap();
    stage(&processes, 1, create.transact_item()).await.unwrap();
    let read = items
        .version(&database.items("items").await.unwrap()[0])
        .unwrap();
    let set = |value: bool| {
        let update = items
            .update("items", id(), &read)
            .expression("SET shipped = :s");
        let update = update.value(":s", AttributeValue::Bool(value));
        update.prepare().unwrap()
    };
    let shipped = set(true).transact_item();
    stage(&processes, 2, shipped).await.unwrap();
    let late = set(false);
    let error = stage(&processes, 3, late.transact_item())
        .await
        .unwrap_err();
    let write = rejected(&error).rejection().unwrap().write(0).unwrap();
    let Some(VersionedRefusal::Error(VersionedError::Conflict(conflict))) = late.rejected(write)
    else {
        panic!("a conflict");
    };
    let current = conflict.version().map(Version::number);
    assert_eq!(current, Some(read.number() + 1));
    assert!(!conflict.maybe_applied());
    let items = database.items("items").await.unwrap();
    assert_eq!(items[0]["shipped"], AttributeValue::Bool(true));
}
