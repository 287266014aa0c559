//! A crash at every step. For each request of each path the process dies just before or just after the request is applied.
//! Then the call is retried before and after the lease has expired. On the embedded DynamoDB, through the AWS SDK.
//!
//! The rows are published in `docs/evidence/reliability.md`; the test compares them.
//!
//! Updates that count once and versioned writes, staged in the transaction of a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};
use idempotency_core::future::BoxFuture;
use idempotency_core::store::{StoreReply, Write};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::dynamodb::once::{self, Once, OnceRefusal};
use idempotency_lambda::dynamodb::versioned::{self, Version, VersionedError, VersionedRefusal};
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, Error, ErrorKind, Lookup, OnError,
    OnInProgress, OnStoreError, OnTimeout, Operation, Outcome, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{FaultyStore, StoreExt, StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, operation, ours, store_on};
use serde_json::json;

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
    /// A response is stored and cached.
    Cached,
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
const STEPS: &[(Path, &str, StoreOperation, usize)] = &[
    (Path::Fresh, "claim", StoreOperation::Put, 1),
    (Path::Fresh, "completion", StoreOperation::Update, 1),
    (Path::Failure, "claim", StoreOperation::Put, 1),
    (Path::Failure, "release", StoreOperation::Delete, 1),
    (Path::Panic, "release", StoreOperation::Update, 1),
    (Path::Duplicate, "claim", StoreOperation::Put, 1),
    (Path::Waiting, "claim", StoreOperation::Put, 1),
    (Path::Waiting, "read", StoreOperation::Read, 1),
    (Path::ReadFirst, "first read", StoreOperation::Read, 1),
    (Path::ReadFirst, "claim", StoreOperation::Put, 1),
    (
        Path::ReadFirstDuplicate,
        "first read",
        StoreOperation::Read,
        1,
    ),
    (Path::Fenced, "completion", StoreOperation::Update, 2),
    (Path::Unprotected, "completion", StoreOperation::Update, 1),
    (
        Path::UnprotectedWithoutClaim,
        "completion",
        StoreOperation::Update,
        1,
    ),
    (
        Path::UnprotectedWithoutClaim,
        "put of the response",
        StoreOperation::Put,
        2,
    ),
];

/// A clock that stands still, except that short pauses pass at once. Requests take real time, so their time limits must not
/// pass.
pub(crate) struct QuickPauses(pub(crate) ManualClock);

impl Clock for QuickPauses {
    fn now(&self) -> EpochMillis {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_secs(1) {
            return self.0.sleep(duration);
        }
        self.0.advance(duration);
        Box::pin(std::future::ready(()))
    }
}

struct Harness {
    clock: ManualClock,
    store: Arc<FaultyStore<DynamoDbStore>>,
    runs: AtomicUsize,
    processes: AtomicUsize,
}

impl Harness {
    fn new(database: &EmbeddedDynamoDb, table: &str) -> Self {
        let store = store_on(database).table(table).build().unwrap();
        Self {
            clock: ManualClock::at(START),
            store: Arc::new(FaultyStore::new(store)),
            runs: AtomicUsize::new(0),
            processes: AtomicUsize::new(0),
        }
    }

    /// Returns the backend of a new process, which remembers nothing.
    fn process(&self) -> Backend {
        let seed = self.processes.fetch_add(1, Ordering::Relaxed);
        let random = SeededRandom::new(seed as u64);
        Backend::new(
            self.store.clone(),
            Arc::new(QuickPauses(self.clock.clone())),
            Arc::new(random),
        )
    }

    async fn call<F>(&self, charge: &Operation, handler: F) -> Result<Outcome<usize>, BoxError>
    where
        F: AsyncFnOnce(usize) -> Result<usize, BoxError>,
    {
        let deadline = Deadline::At(self.clock.now().plus(Duration::from_secs(30)));
        let call = charge.run(&json!({ "order_id": 1 }), deadline, || async {
            handler(self.runs.fetch_add(1, Ordering::Relaxed) + 1).await
        });
        with_backend(self.process(), call).await
    }

    /// Retries the call. Returns what the caller gets.
    async fn retry(&self, charge: &Operation) -> String {
        match self.call(charge, async |run| Ok(run)).await {
            Ok(outcome) if outcome.is_replayed() => {
                format!("the response of run {}", outcome.response())
            }
            Ok(outcome) => format!("runs: run {}", outcome.response()),
            Err(error) => match ours(&error).kind() {
                ErrorKind::AlreadyInProgress => "in progress".to_owned(),
                other => other.name().to_owned(),
            },
        }
    }

    /// Plays a call on its path. The future never ends if the process dies.
    async fn play(&self, path: Path, charge: &Operation) {
        match path {
            Path::Fresh
            | Path::Duplicate
            | Path::Cached
            | Path::Waiting
            | Path::ReadFirst
            | Path::ReadFirstDuplicate
            | Path::Unprotected
            | Path::UnprotectedWithoutClaim => {
                let _ = self.call(charge, async |run| Ok(run)).await;
            }
            Path::Failure => drop(self.call(charge, async |_| Err("declined".into())).await),
            Path::Panic => {
                let panics = self.call(charge, async |_| {
                    // A key with a mark is free a millisecond after its claim.
                    self.clock.advance(Duration::from_millis(1));
                    panic!("in the handler")
                });
                drop(panics.await);
            }
            Path::Fenced => {
                let slow = self.call(charge, async |run| {
                    self.clock.advance(Duration::from_secs(31));
                    self.call(charge, async |run| Ok(run)).await?;
                    Ok(run)
                });
                let _ = slow.await;
            }
        }
    }
}

/// Plays a death before or after a request is applied (`fault`). Returns the row.
async fn row(database: &EmbeddedDynamoDb, step: usize, fault: StoreFault) -> String {
    let (path, name, operation_kind, nth) = STEPS[step];
    let table = format!("step-{step}-{fault:?}");
    database.create_table(TableSpec::new(&table)).await.unwrap();
    let harness = Harness::new(database, &table);
    let reject = || operation().key("order_id");
    let charge = reject().build().unwrap();
    let own = match path {
        Path::Waiting => reject().on_in_progress(OnInProgress::Wait).build().unwrap(),
        Path::ReadFirst | Path::ReadFirstDuplicate => {
            reject().lookup(Lookup::ReadFirst).build().unwrap()
        }
        Path::Unprotected | Path::UnprotectedWithoutClaim => {
            let policy = OnStoreError::RunUnprotected;
            reject().on_store_error(policy).build().unwrap()
        }
        _ => reject().build().unwrap(),
    };
    if matches!(path, Path::Duplicate | Path::ReadFirstDuplicate) {
        harness.call(&charge, async |run| Ok(run)).await.unwrap();
    }
    if path == Path::Waiting {
        // Another process claims and dies.
        harness
            .store
            .inject(StoreOperation::Put, 1, StoreFault::HangAfter);
        tokio::select! {
            _ = harness.call(&charge, async |run| Ok(run)) => unreachable!("it hangs"),
            () = harness.store.hung() => {}
        }
    }
    let lost = match path {
        Path::Unprotected => Some(StoreFault::LoseReply),
        Path::UnprotectedWithoutClaim => Some(StoreFault::LoseRequest),
        _ => None,
    };
    if let Some(lost) = lost {
        let read_fails = (StoreOperation::Read, StoreFault::Throttle);
        for (kind, fault) in [(StoreOperation::Put, lost), read_fails] {
            harness.store.inject(kind, 1, fault);
        }
    }
    harness.store.inject(operation_kind, nth, fault);
    tokio::select! {
        () = harness.play(path, &own) => panic!("{path:?}, {name}: the call ended"),
        () = harness.store.hung() => {}
    }
    let early = harness.retry(&charge).await;
    harness.clock.advance(Duration::from_secs(61));
    let late = harness.retry(&charge).await;
    let when = if fault == StoreFault::Hang {
        "before"
    } else {
        "after"
    };
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
        for fault in [StoreFault::Hang, StoreFault::HangAfter] {
            rows.push(row(&database, step, fault).await);
        }
    }
    let published = include_str!("../../../docs/evidence/reliability.md");
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| !published.contains(row.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/evidence/reliability.md does not say:\n{}",
        rows.join("\n")
    );
}

#[tokio::test]
async fn a_cached_duplicate_makes_no_request() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database
        .create_table(TableSpec::new("cached"))
        .await
        .unwrap();
    let harness = Harness::new(&database, "cached");
    let charge = operation().key("order_id").local_cache(8).build().unwrap();
    let process = harness.process();
    let call = || {
        let deadline = Deadline::At(harness.clock.now().plus(Duration::from_secs(30)));
        let run = charge.run(&json!({ "order_id": 1 }), deadline, || async {
            Ok::<_, BoxError>(1)
        });
        with_backend(process.clone(), run)
    };
    call().await.unwrap();
    let before = harness.store.calls().len();
    harness.play(Path::Cached, &charge).await;
    let asked_by_another_process = harness.store.calls().len() - before;
    call().await.unwrap();
    assert_eq!(
        harness.store.calls().len() - before,
        asked_by_another_process
    );
}

#[tokio::test]
async fn under_hold_a_panic_makes_no_request_and_keeps_its_claim() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("held")).await.unwrap();
    for on_error in [OnError::Release, OnError::Record] {
        let harness = Arc::new(Harness::new(&database, "held"));
        let charge = operation()
            .key_prefix(format!("{on_error:?}"))
            .key("order_id")
            .on_timeout(OnTimeout::Hold)
            .on_error(on_error)
            .build()
            .unwrap();
        let charge = Arc::new(charge);
        let call = {
            let (harness, charge) = (Arc::clone(&harness), Arc::clone(&charge));
            async move {
                let panics = harness.call(&charge, async |_| panic!("in the handler"));
                drop(panics.await);
            }
        };
        assert!(tokio::spawn(call).await.unwrap_err().is_panic());
        assert_eq!(harness.store.calls().len(), 1, "the claim is all there is");
        assert_eq!(harness.retry(&charge).await, "in progress");
        harness.clock.advance(Duration::from_secs(61));
        assert_eq!(harness.retry(&charge).await, "IdempotencyUnresolved");
        assert_eq!(harness.runs.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_write_of_a_dead_process_changes_nothing_when_it_arrives_late() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("late")).await.unwrap();
    let harness = Harness::new(&database, "late");
    let charge = operation().key("order_id").build().unwrap();
    harness
        .store
        .inject(StoreOperation::Update, 1, StoreFault::Hang);
    tokio::select! {
        _ = harness.call(&charge, async |run| Ok(run)) => unreachable!("it hangs"),
        () = harness.store.hung() => {}
    }
    let completion = harness.store.calls().pop().unwrap();
    harness.clock.advance(Duration::from_secs(31));
    assert_eq!(harness.retry(&charge).await, "runs: run 2");
    // The completion of the dead process arrives.
    let parts = (completion.id, completion.write, completion.condition);
    let (Some(id), Some(Write::Update(change)), Some(condition)) = parts else {
        panic!("the last call was the completion");
    };
    let arrived = harness.store.inner().update(&id, &change, &condition).await;
    assert!(matches!(arrived, StoreReply::ConditionFailed { .. }));
    assert_eq!(harness.retry(&charge).await, "the response of run 2");
}

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
