//! The store on Valkey against real servers, which `tests/scripts/valkey.sh` installs: Redis and Valkey, alone and as a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod cluster;
mod command;
mod conformance;
mod durability;
mod frozen;
mod harness;
mod password;
mod server;
mod soak;
mod steps;
mod tls;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_core::record::{Attribute, Field, Record, Status};
use idempotency_core::store::{Change, Condition, Operand, Store, StoreReply, Write};
use idempotency_core::system::SystemClock;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{Backend, BoxError, Deadline, Operation, Outcome, with_backend};
use idempotency_testkit::SeededRandom;
use idempotency_testkit::store::StoreExt;
use idempotency_tests::valkey::{Server, record};
use idempotency_tests::{End, end, keyed};
use idempotency_valkey::ValkeyStore;
use serde_json::json;

/// Serves in a process that a test started. In the test run it does nothing.
#[test]
fn the_function() {
    server::serve();
}

/// Returns a store on the server at this URL.
fn store(url: &str) -> Arc<ValkeyStore> {
    Arc::new(ValkeyStore::builder(url).build().unwrap())
}

/// As [`store`], after its start.
async fn started(url: &str) -> Arc<ValkeyStore> {
    let store = store(url);
    store.warm_up(false).await.unwrap();
    store
}

/// Returns the operation that all tests call. Its key is `order_id`.
fn charge() -> Operation {
    keyed(|operation| operation.expires_after(Duration::from_secs(3_600)))
}

/// Calls of one operation, each in a process of its own, and how often its handler ran.
#[derive(Default)]
struct Calls {
    runs: AtomicUsize,
}

impl Calls {
    /// Calls the operation with this order and 30 s left. The handler returns the number of its run.
    async fn call(&self, store: &Arc<ValkeyStore>, order: impl Into<String>) -> End<usize> {
        self.call_with(store, order, async || Ok(())).await
    }

    /// As [`call`](Self::call), with what happens while the handler runs.
    async fn call_with(
        &self,
        store: &Arc<ValkeyStore>,
        order: impl Into<String>,
        meanwhile: impl AsyncFnOnce() -> Result<(), BoxError>,
    ) -> End<usize> {
        end(self.result(store, order, meanwhile).await)
    }

    async fn result(
        &self,
        store: &Arc<ValkeyStore>,
        order: impl Into<String>,
        meanwhile: impl AsyncFnOnce() -> Result<(), BoxError>,
    ) -> Result<Outcome<usize>, BoxError> {
        let order = json!({ "order_id": order.into() });
        let deadline = Deadline::At(SystemClock.now().plus(Duration::from_secs(30)));
        let charge = charge();
        let call = charge.run(&order, deadline, || async {
            let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
            meanwhile().await?;
            Ok::<_, BoxError>(run)
        });
        with_backend(process(store.clone()), call).await
    }

    /// Returns the error of a call. It is empty if there is none.
    async fn error(&self, store: &Arc<ValkeyStore>, order: &str) -> String {
        let result = self.result(store, order, async || Ok(())).await;
        result.map_or_else(|error| error.to_string(), |_| String::new())
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

/// Returns the backend of a process that remembers nothing.
fn process(store: Arc<dyn Store>) -> Backend {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let seed = STARTED.fetch_add(1, Ordering::Relaxed);
    Backend::new(
        store,
        Arc::new(SystemClock),
        Arc::new(SeededRandom::new(seed)),
    )
}

/// Returns the key of an order's record.
fn record_key(order: &str) -> String {
    let id = idempotency_tests::id(&charge(), &json!(order));
    format!("idempotency:{{{}}}", id.as_str())
}

/// Lets the lease of an order's claim have ended a second ago.
async fn end_lease(store: &Arc<ValkeyStore>, order: &str) {
    let ended = EpochMillis::new(SystemClock.now().get() - 1_000);
    let change = Change {
        set: Record {
            in_progress_expiration: Field::Value(ended),
            ..Record::default()
        },
        remove: Vec::new(),
    };
    let id = idempotency_tests::id(&charge(), &json!(order));
    let status = Operand::status(&Status::InProgress);
    let claimed = Condition::Equals(Attribute::Status, status);
    let reply = store.write(&id, Write::Update(change), &claimed).await;
    assert!(matches!(reply, StoreReply::Applied { .. }), "{reply:?}");
}

/// Returns a field of an order's record. It is empty without one.
fn field(server: &Server, order: &str, name: &str) -> String {
    let value = server.ask(&["GET", &record_key(order)]);
    let mut fields = record::fields(&value.bytes());
    fields.remove(name).unwrap_or_default()
}

/// Writes a record of an order, as another program would.
fn plant(server: &Server, order: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|(name, it)| (*name, it.as_bytes()));
    let value = record::value(fields);
    let key = record_key(order);
    let words = [b"SET".as_slice(), key.as_bytes(), &value];
    assert_eq!(server.ask_bytes(&words).text(), "OK");
}
