//! Shared set-up of the tests that cross crates: a store, a clock and a random source that the test controls.

mod end;
mod folder;
pub mod hostile;
mod noting;
pub mod postgres;
pub mod process;
mod proxy;
#[cfg(unix)]
pub mod server;
pub mod soak;
mod table;
pub mod valkey;

pub use end::{End, end};
pub use folder::Folder;
pub use noting::{NotedRequest, NotingStore};
pub use proxy::{Proxy, SentRequest, WireFault};
pub use table::TableFactory;
pub use table::{Table, has_sdk_client, store_on, with_the_sdk_client};

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotency_core::config::Variables;
use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{MemoryStore, Store, Write};
use idempotency_core::time::{Clock, EpochMillis, EpochSeconds};
use idempotency_lambda::{
    Backend, BoxError, Deadline, Operation, OperationBuilder, Outcome, with_backend,
};
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use serde_json::Value;

/// Returns the rows of a data file with their cells, which stand between `|`. A line that starts with `#` is no row.
///
/// # Panics
///
/// If there is no row, or if one has another number of cells.
pub fn rows<const N: usize>(
    file: &'static str,
) -> impl Iterator<Item = (&'static str, [&'static str; N])> {
    let rows = file.lines().filter(|row| !row.starts_with('#'));
    let mut rows = rows.peekable();
    assert!(rows.peek().is_some(), "the file has no row");
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let Ok(cells) = cells.try_into() else {
            panic!("{N} cells: {row}")
        };
        (row, cells)
    })
}

/// A clock that stands still, except that pauses of at most 1 s pass at once. Requests take real time, so their time limits must not pass.
#[derive(Clone)]
pub struct QuickPauses(pub ManualClock);

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

/// The time at which tests start, in milliseconds since the epoch.
pub const START: i64 = 1_700_000_000_500;

/// A memory store that counts requests and injects faults, a clock that stands still, and a backend over both.
pub struct Harness {
    /// The clock.
    pub clock: ManualClock,
    /// The store.
    pub store: Arc<NotingStore<MemoryStore>>,
    /// The backend of a process.
    pub backend: Backend,
    runs: AtomicUsize,
    /// The number of further processes.
    processes: AtomicU64,
}

impl Default for Harness {
    fn default() -> Self {
        Self::with_clock(ManualClock::at(START))
    }
}

impl Harness {
    /// Returns the records that the store was asked to put, each with its id: claims, in order.
    pub fn puts(&self) -> Vec<(RecordId, Record)> {
        let noted = self.store.noted().into_iter();
        noted
            .filter_map(|request| match request {
                NotedRequest::Write(id, Write::Put(record), _) => Some((id, record)),
                _ => None,
            })
            .collect()
    }

    /// Returns a harness with this clock.
    pub fn with_clock(clock: ManualClock) -> Self {
        let store = Arc::new(NotingStore::new(MemoryStore::new()));
        let backend = backend(store.clone(), &clock, 7);
        Self {
            clock,
            store,
            backend,
            runs: AtomicUsize::new(0),
            processes: AtomicU64::new(0),
        }
    }

    /// Returns a harness whose clock advances by itself: pauses pass at once, and time limits of requests that hang too.
    pub fn advancing() -> Self {
        Self::with_clock(ManualClock::auto_advancing(START))
    }

    /// Returns the backend of another process over the same store, with its own cache and its own owner tokens.
    pub fn another_process(&self) -> Backend {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        backend(self.store.clone(), &self.clock, 1_000 + number)
    }

    /// Returns a deadline at this distance from now.
    pub fn deadline_in(&self, duration: Duration) -> Deadline {
        Deadline::At(self.clock.now().plus(duration))
    }

    /// Calls `operation` with 30 s left. The handler returns the number of its run.
    pub async fn call(
        &self,
        operation: &Operation,
        payload: Value,
    ) -> Result<Outcome<usize>, BoxError> {
        self.call_with(operation, payload, async |run| Ok(run))
            .await
    }

    /// As [`call`](Self::call), in another process, which shares only the store.
    pub async fn call_elsewhere(
        &self,
        operation: &Operation,
        payload: Value,
    ) -> Result<Outcome<usize>, BoxError> {
        let deadline = self.deadline_in(Duration::from_secs(30));
        let process = self.another_process();
        self.call_in(process, deadline, operation, payload, async |run| Ok(run))
            .await
    }

    /// As [`call`](Self::call), with a handler that receives the number of its run.
    pub async fn call_with<R, F>(
        &self,
        operation: &Operation,
        payload: Value,
        handler: F,
    ) -> Result<Outcome<R>, BoxError>
    where
        R: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce(usize) -> Result<R, BoxError>,
    {
        let deadline = self.deadline_in(Duration::from_secs(30));
        self.call_in(self.backend.clone(), deadline, operation, payload, handler)
            .await
    }

    /// As [`call_with`](Self::call_with), in the process of this backend, with this deadline.
    pub async fn call_in<R, F>(
        &self,
        backend: Backend,
        deadline: Deadline,
        operation: &Operation,
        payload: Value,
        handler: F,
    ) -> Result<Outcome<R>, BoxError>
    where
        R: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce(usize) -> Result<R, BoxError>,
    {
        let call = operation.run(&payload, deadline, || async {
            let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
            handler(run).await
        });
        with_backend(backend, call).await
    }

    /// As [`call`](Self::call). Returns the end of the call.
    pub async fn end(&self, operation: &Operation, payload: Value) -> End<usize> {
        end(self.call(operation, payload).await)
    }

    /// As [`end`](Self::end), in another process.
    pub async fn end_elsewhere(&self, operation: &Operation, payload: Value) -> End<usize> {
        end(self.call_elsewhere(operation, payload).await)
    }

    /// As [`end`](Self::end), with a handler that receives the number of its run.
    pub async fn end_with<R, F>(&self, operation: &Operation, payload: Value, handler: F) -> End<R>
    where
        R: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce(usize) -> Result<R, BoxError>,
    {
        end(self.call_with(operation, payload, handler).await)
    }

    /// Runs a call in the process of this harness.
    pub fn within<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        with_backend(self.backend.clone(), call)
    }

    /// Makes the `nth` request of this kind from now on fail in this way.
    pub fn inject(&self, operation: StoreOperation, nth: usize, fault: StoreFault) {
        self.store.inject(operation, nth, fault);
    }

    /// Makes the next `times` requests of this kind fail in this way.
    pub fn fail(&self, operation: StoreOperation, times: usize, fault: StoreFault) {
        (1..=times).for_each(|nth| self.inject(operation, nth, fault));
    }

    /// Returns how often a handler ran.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns the number of requests of each kind: put, update, delete, read.
    pub fn requests(&self) -> [usize; 4] {
        [
            StoreOperation::Put,
            StoreOperation::Update,
            StoreOperation::Delete,
            StoreOperation::Read,
        ]
        .map(|operation| self.store.count(operation))
    }

    /// Returns the record under this key.
    ///
    /// # Panics
    ///
    /// If there is no record under this key.
    pub fn record(&self, operation: &Operation, payload: &Value) -> Record {
        let id = id(operation, payload);
        match self.store.inner().record(&id) {
            Some(record) => record,
            None => panic!("there is no record under {id}"),
        }
    }

    /// Puts a record under this key, and replaces any that is there.
    pub fn insert(&self, operation: &Operation, payload: &Value, record: Record) {
        self.store.inner().insert(id(operation, payload), record);
    }

    /// Moves the clock on by so many milliseconds.
    pub fn pass(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds));
    }

    /// Returns the milliseconds since the start of the test.
    pub fn elapsed(&self) -> i64 {
        self.now().get() - START
    }

    /// Returns the time by the harness's clock.
    pub fn now(&self) -> EpochMillis {
        self.clock.now()
    }
}

/// Returns the backend of a process, with its own owner tokens.
fn backend(store: Arc<dyn Store>, clock: &ManualClock, seed: u64) -> Backend {
    let random = SeededRandom::new(seed);
    Backend::new(store, Arc::new(clock.clone()), Arc::new(random))
}

/// Returns the record id of a key, hashed with md5.
pub fn id(operation: &Operation, key: &Value) -> RecordId {
    use idempotency_core::key::Json;
    use idempotency_lambda::HashAlgorithm;
    let json = Json::parse(&key.to_string()).map(|json| json.to_canonical());
    let digest = HashAlgorithm::Md5.hex(&json.unwrap_or_default());
    RecordId::new(format!("{}#{digest}", operation.key_prefix()))
}

/// Returns the builder of an operation that reads no environment variables.
///
/// Operations of several tests share the prefix, because a test process stands for several programs or versions.
pub fn operation() -> OperationBuilder {
    Operation::builder("shop::charge")
        .variables(Variables::default())
        .key_prefix("local.shop.charge")
        .shared_key_prefix(true)
}

/// Returns an operation as [`operation`] starts it, whose key is `order_id`, with these settings.
///
/// # Panics
///
/// If a setting is refused.
#[allow(clippy::unwrap_used)]
pub fn keyed(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Operation {
    settings(operation().key("order_id")).build().unwrap()
}

/// Returns the framework's error inside a boxed one.
///
/// # Panics
///
/// If it is another error.
pub fn ours(error: &BoxError) -> &idempotency_lambda::Error {
    match error.downcast_ref() {
        Some(error) => error,
        None => panic!("{error} is not the framework's"),
    }
}

/// Returns the claim of a process that was killed. Its lease ends so many milliseconds after the start of the test.
pub fn claim_of_another(lease: i64) -> Record {
    Record {
        status: Field::Value(Status::InProgress),
        expiration: Field::Value(EpochSeconds::new((START + lease) / 1_000 + 3_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(START + lease)),
        owner: Field::Value(OwnerToken::from_bytes([9; 16])),
        ..Record::default()
    }
}

/// Returns the output of a future, or the payload of its panic.
///
/// # Errors
///
/// The panic's payload.
pub async fn unless_it_panics<T>(future: impl Future<Output = T>) -> std::thread::Result<T> {
    AssertUnwindSafe(future).catch_unwind().await
}
