//! The whole framework on the embedded DynamoDB, with each client of the store: requests, faults on the wire, crashes, transfers of
//! money, and the conformance suite.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod conformance;
mod crash_matrix;
mod events;
mod faults;
mod large;
mod resolved;
mod steps;
mod transfers;
mod undo;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotency_core::store::Store;
use idempotency_core::time::Clock;
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, ErrorKind, Operation, Outcome, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{End, NotingStore, QuickPauses, START, Table, end, ours, store_on};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Returns the backend of a process that remembers nothing.
fn process(store: Arc<dyn Store>, clock: &ManualClock, seed: u64) -> Backend {
    let clock = Arc::new(QuickPauses(clock.clone()));
    Backend::new(store, clock, Arc::new(SeededRandom::new(seed)))
}

/// Processes over one table, whose requests can fail.
struct Processes {
    clock: ManualClock,
    store: Arc<NotingStore<DynamoDbStore>>,
    started: AtomicU64,
}

impl Processes {
    /// Creates the table.
    async fn on(database: &EmbeddedDynamoDb, table: &str) -> Self {
        database.create_table(TableSpec::new(table)).await.unwrap();
        let store = store_on(database).table(table).build().unwrap();
        Self {
            clock: ManualClock::at(START),
            store: Arc::new(NotingStore::new(store)),
            started: AtomicU64::new(0),
        }
    }

    /// Starts a process, which remembers nothing.
    fn start(&self) -> Backend {
        let seed = self.started.fetch_add(1, Ordering::Relaxed);
        process(self.store.clone(), &self.clock, seed)
    }

    /// Calls an operation in a new process, with 30 s left.
    async fn call<R, F>(
        &self,
        operation: &Operation,
        payload: &Value,
        handler: F,
    ) -> Result<Outcome<R>, BoxError>
    where
        R: Serialize + DeserializeOwned,
        F: AsyncFnOnce(Call) -> Result<R, BoxError>,
    {
        let deadline = Deadline::At(self.clock.now().plus(Duration::from_secs(30)));
        let call = operation.run(payload, deadline, |call: Call| handler(call));
        with_backend(self.start(), call).await
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Lets a call die at its request of this kind and number. Then its lease ends.
    async fn die(&self, call: impl Future, (request, number): Request, fault: StoreFault) {
        self.store.inject(request, number, fault);
        kill(&self.store, call, &format!("{request:?} {number}")).await;
        self.pass(31);
    }
}

/// A request of a call: its kind, and which of its kind it is.
type Request = (StoreOperation, usize);

/// Returns each death of the runs of an order: its name, its table, and its place. `first` and `second` are the requests of a run, and of
/// one that follows a death of the first. The place of a death in the second has `true`.
fn deaths<'a>(
    table: &'a str,
    first: &'a [(&str, Request)],
    second: &'a [(&str, Request)],
) -> impl Iterator<Item = (String, String, (Request, StoreFault, bool))> {
    let requests = first.iter().chain(second).enumerate();
    requests.flat_map(move |(number, (name, request))| {
        DEATHS.map(|(when, fault)| {
            let table = format!("{table}-{number}-{when}");
            let place = (*request, fault, number >= first.len());
            (format!("{when} the {name}"), table, place)
        })
    })
}

/// Runs a call until a request hangs: the process dies there.
///
/// # Panics
///
/// If the call ends.
async fn kill<S: Store>(store: &FaultyStore<S>, call: impl Future, place: &str) {
    tokio::select! {
        _ = call => panic!("the call ended, and did not die at {place}"),
        () = store.hung() => {}
    }
}

/// A process dies before or after its request is applied.
const DEATHS: [(&str, StoreFault); 2] = [
    ("before", StoreFault::Hang),
    ("after", StoreFault::HangAfter),
];

/// Says what the caller of a retry gets: the response of which run, and whether it is replayed.
fn said(retry: Result<(usize, bool), BoxError>) -> String {
    match retry {
        Ok((run, true)) => format!("the response of run {run}"),
        Ok((run, false)) => format!("runs: run {run}"),
        Err(error) => match ours(&error).kind() {
            ErrorKind::AlreadyInProgress => "in progress".to_owned(),
            other => other.name().to_owned(),
        },
    }
}

/// Asserts that `crashes.md` has these rows.
fn assert_published(rows: &[String]) {
    let published = include_str!("crashes.md");
    let missing = rows.iter().find(|row| !published.contains(row.as_str()));
    let all = rows.join("\n");
    assert_eq!(missing, None, "crashes.md does not say:\n{all}");
}

/// Calls an operation, with a handler that returns this response.
async fn returning<R: Serialize + DeserializeOwned>(
    table: &Table,
    operation: &Operation,
    payload: &Value,
    response: R,
) -> End<R> {
    end(table.call(operation, payload, async || Ok(response)).await)
}

/// Returns the operations that the table received. `!` marks a write whose condition failed.
fn operations(table: &Table) -> String {
    let mark = |status| if status == Some(200) { "" } else { "!" };
    let requests = table.requests().into_iter();
    let requests = requests.map(|(operation, status)| operation + mark(status));
    requests.collect::<Vec<_>>().join(" ")
}

/// Begins a run that is dropped in its handler.
async fn drop_in_handler(table: &Table, operation: &Operation, payload: &Value) {
    let (begun, begins) = tokio::sync::oneshot::channel();
    let stuck = table.call(operation, payload, async || {
        let _ = begun.send(());
        std::future::pending::<Result<u8, BoxError>>().await
    });
    tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), _ = begins => {} }
}

/// The tests of this program run again with the other client, except the transfers, the stores that send no request, and what another
/// test of the other client has: large responses and a composite key, which one test has together. The conditions on foreign records are
/// not of a client, because both send the same bodies (`clients`, in `idempotency-dynamodb`).
#[test]
fn each_test_passes_with_the_sdk_client() {
    idempotency_tests::with_the_sdk_client(&[
        "--skip",
        "transfers::",
        "--skip",
        "conformance::a_store_",
        "--skip",
        "conformance::the_store_in_memory",
        "--skip",
        "conformance::the_dynamodb_store_conforms_with",
        "--skip",
        "conformance::foreign::conditions",
        "--skip",
        "each_test_passes",
    ]);
}
