//! A crash at every step: for each store call of each path the process dies just before or just after the call is
//! applied, then the call is retried before and after the lease's end. On the embedded DynamoDB, through the real SDK.
//!
//! The rows are published in `docs/evidence/reliability.md`, and held against it here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::WriteOutcome;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    Backend, BoxError, Deadline, DynamoDbStore, ErrorKind, OnError, OnInProgress, OnTimeout,
    Operation, Outcome, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, operation, ours};
use serde_json::json;

/// What the call that dies is on its way to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Path {
    /// Nobody came before it, and its handler answers.
    Fresh,
    /// Nobody came before it, and its handler fails.
    Failure,
    /// Nobody came before it, and its handler panics.
    Panic,
    /// A response is stored.
    Duplicate,
    /// A response is stored and cached.
    Cached,
    /// Another call is running, and it waits for it.
    Waiting,
    /// Its lease was overrun, and another call took over and completed.
    Fenced,
}

/// Where it dies: path, the call's own name, the nth request of a kind.
const STEPS: &[(Path, &str, StoreOperation, usize)] = &[
    (Path::Fresh, "claim", StoreOperation::Put, 1),
    (Path::Fresh, "completion", StoreOperation::Update, 1),
    (Path::Failure, "claim", StoreOperation::Put, 1),
    (Path::Failure, "release", StoreOperation::Delete, 1),
    (Path::Panic, "release", StoreOperation::Delete, 1),
    (Path::Duplicate, "claim", StoreOperation::Put, 1),
    (Path::Waiting, "claim", StoreOperation::Put, 1),
    (Path::Waiting, "read", StoreOperation::Read, 1),
    (Path::Fenced, "completion", StoreOperation::Update, 2),
];

/// A clock that stands still, except that pauses pass at once: requests take real time, and their limits must not.
struct QuickPauses(ManualClock);

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

struct Stage {
    clock: ManualClock,
    store: Arc<FaultyStore<DynamoDbStore>>,
    runs: AtomicUsize,
    processes: AtomicUsize,
}

impl Stage {
    fn new(database: &EmbeddedDynamoDb, table: &str) -> Self {
        let store = DynamoDbStore::builder()
            .sdk_config(&database.sdk_config())
            .table(table)
            .build()
            .unwrap();
        Self {
            clock: ManualClock::at(START),
            store: Arc::new(FaultyStore::new(store)),
            runs: AtomicUsize::new(0),
            processes: AtomicUsize::new(0),
        }
    }

    /// A process of its own: nothing is remembered from the others.
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

    /// What the next caller gets.
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

    /// Plays a call on its path; it never ends if the process dies on the way.
    async fn play(&self, path: Path, charge: &Operation) {
        match path {
            Path::Fresh | Path::Duplicate | Path::Cached | Path::Waiting => {
                let _ = self.call(charge, async |run| Ok(run)).await;
            }
            Path::Failure => drop(self.call(charge, async |_| Err("declined".into())).await),
            Path::Panic => drop(self.call(charge, async |_| panic!("in the handler")).await),
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

/// The rows for one step: what follows a death before, and what follows one after it was applied.
async fn row(database: &EmbeddedDynamoDb, step: usize, fault: StoreFault) -> String {
    let (path, name, operation_kind, nth) = STEPS[step];
    let table = format!("step-{step}-{fault:?}");
    database.create_table(TableSpec::new(&table)).await.unwrap();
    let stage = Stage::new(database, &table);
    let reject = || operation().key("order_id");
    let charge = reject().build().unwrap();
    let own = match path {
        Path::Waiting => reject().on_in_progress(OnInProgress::Wait).build().unwrap(),
        _ => reject().build().unwrap(),
    };
    if path == Path::Duplicate {
        stage.call(&charge, async |run| Ok(run)).await.unwrap();
    }
    if path == Path::Waiting {
        // Another process claimed and died.
        stage
            .store
            .inject(StoreOperation::Put, 1, StoreFault::HangAfter);
        tokio::select! {
            _ = stage.call(&charge, async |run| Ok(run)) => unreachable!("it hangs"),
            () = stage.store.hung() => {}
        }
    }
    stage.store.inject(operation_kind, nth, fault);
    tokio::select! {
        () = stage.play(path, &own) => panic!("{path:?}, {name}: it came through"),
        () = stage.store.hung() => {}
    }
    let early = stage.retry(&charge).await;
    stage.clock.advance(Duration::from_secs(61));
    let late = stage.retry(&charge).await;
    let when = if fault == StoreFault::Hang {
        "before"
    } else {
        "after"
    };
    let runs = stage.runs.load(Ordering::Relaxed);
    let path = format!("{path:?}").to_lowercase();
    format!("| {path} | {when} the {name} | {early} | {late} | {runs} |")
}

#[tokio::test]
async fn a_crash_at_every_step_leaves_what_the_published_matrix_says() {
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
async fn a_cached_duplicate_has_no_step_to_die_at() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database
        .create_table(TableSpec::new("cached"))
        .await
        .unwrap();
    let stage = Stage::new(&database, "cached");
    let charge = operation().key("order_id").local_cache(8).build().unwrap();
    let process = stage.process();
    let call = || {
        let deadline = Deadline::At(stage.clock.now().plus(Duration::from_secs(30)));
        let run = charge.run(&json!({ "order_id": 1 }), deadline, || async {
            Ok::<_, BoxError>(1)
        });
        with_backend(process.clone(), run)
    };
    call().await.unwrap();
    let before = stage.store.calls().len();
    stage.play(Path::Cached, &charge).await;
    let asked_by_another_process = stage.store.calls().len() - before;
    call().await.unwrap();
    assert_eq!(stage.store.calls().len() - before, asked_by_another_process);
}

#[tokio::test]
async fn under_hold_a_panic_has_no_step_to_die_at_and_keeps_its_claim() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("held")).await.unwrap();
    for on_error in [OnError::Release, OnError::Record] {
        let stage = Arc::new(Stage::new(&database, "held"));
        let charge = operation()
            .key_prefix(format!("{on_error:?}"))
            .key("order_id")
            .on_timeout(OnTimeout::Hold)
            .on_error(on_error)
            .build()
            .unwrap();
        let charge = Arc::new(charge);
        let call = {
            let (stage, charge) = (Arc::clone(&stage), Arc::clone(&charge));
            async move {
                let panics = stage.call(&charge, async |_| panic!("in the handler"));
                drop(panics.await);
            }
        };
        assert!(tokio::spawn(call).await.unwrap_err().is_panic());
        assert_eq!(stage.store.calls().len(), 1, "the claim is all there is");
        assert_eq!(stage.retry(&charge).await, "in progress");
        stage.clock.advance(Duration::from_secs(61));
        assert_eq!(stage.retry(&charge).await, "IdempotencyUnresolved");
        assert_eq!(stage.runs.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_write_held_on_the_wire_by_a_dead_process_harms_nobody_when_it_arrives() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("late")).await.unwrap();
    let stage = Stage::new(&database, "late");
    let charge = operation().key("order_id").build().unwrap();
    stage
        .store
        .inject(StoreOperation::Update, 1, StoreFault::Hang);
    tokio::select! {
        _ = stage.call(&charge, async |run| Ok(run)) => unreachable!("it hangs"),
        () = stage.store.hung() => {}
    }
    let completion = stage.store.calls().pop().unwrap();
    stage.clock.advance(Duration::from_secs(31));
    assert_eq!(stage.retry(&charge).await, "runs: run 2");
    // Now the dead process's completion arrives.
    let idempotency_testkit::store::StoreCall::Update {
        id,
        change,
        condition,
    } = completion
    else {
        panic!("the last call was the completion");
    };
    let arrived = stage.store.inner().update(&id, &change, &condition).await;
    assert!(matches!(arrived, WriteOutcome::ConditionFailed { .. }));
    assert_eq!(stage.retry(&charge).await, "the response of run 2");
}
