//! The same function in Rust, with a store of its own. The test controls its clock and its handler.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder};
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, ErrorKind, Operation, OperationBuilder, SystemRandom,
    backend_over, with_backend,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_tests::{End, end};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The Rust function: its store, its backend and its operation.
pub(crate) struct Rust {
    store: Arc<DynamoDbStore>,
    pub(crate) backend: Backend,
    operation: Operation,
}

/// Returns the builder of the operation that `crate::python` calls too.
pub(crate) fn charge() -> OperationBuilder {
    Operation::builder("shop::charge")
        .variables(Variables::default())
        .key("[user_id, order_id]")
        // Python's default.
        .key_required(false)
        .validate("amount")
        .key_prefix("shop.charge")
        // The annotated handler of `crate::cases` and the variants with other settings share the prefix.
        .shared_key_prefix(true)
}

impl Rust {
    /// Returns the function on the table `idempotency`, with the machine's clock.
    pub(crate) fn start(database: &EmbeddedDynamoDb, operation: OperationBuilder) -> Self {
        Self::start_with(database, operation, |store| store)
    }

    /// As [`start`](Self::start), with further settings of the store.
    pub(crate) fn start_with(
        database: &EmbeddedDynamoDb,
        operation: OperationBuilder,
        settings: impl FnOnce(DynamoDbStoreBuilder) -> DynamoDbStoreBuilder,
    ) -> Self {
        let store = DynamoDbStore::builder().sdk_config(&database.sdk_config());
        let store = settings(store.table("idempotency")).build();
        let store = Arc::new(store.unwrap());
        Self {
            backend: backend_over(store.clone()),
            store,
            operation: operation.build().unwrap(),
        }
    }

    /// Returns the same process with a clock that stands still, this many seconds from now.
    pub(crate) fn at(mut self, seconds: i64) -> Self {
        let now = self.backend.clock().now().get() + seconds * 1_000;
        let clock = ManualClock::at(now);
        self.backend = Backend::new(self.store.clone(), Arc::new(clock), Arc::new(SystemRandom));
        self
    }

    /// Makes a call with 30 s left.
    pub(crate) async fn call<F>(&self, event: &Value, handler: F) -> End<Value>
    where
        F: AsyncFnOnce(Call) -> Result<Value, BoxError>,
    {
        let deadline = self.backend.clock().now().plus(Duration::from_secs(30));
        let handler = |call: Call| handler(call);
        let call = self.operation.run(event, Deadline::At(deadline), handler);
        end(with_backend(self.backend.clone(), call).await)
    }

    /// Makes a call whose handler returns this if it runs.
    pub(crate) async fn call_returning(&self, event: &Value, response: &Value) -> End<Value> {
        self.call(event, async |_| Ok(response.clone())).await
    }

    /// Makes a call and checks that it runs and returns this.
    pub(crate) async fn runs(&self, event: &Value, response: &Value) {
        let ended = self.call_returning(event, response).await;
        assert_eq!(ended, End::Ran(response.clone()), "{event}");
    }

    /// Makes a call and checks that it replays this.
    pub(crate) async fn replays(&self, event: &Value, response: &Value) {
        let ended = self.call_returning(event, &json!("another run")).await;
        assert_eq!(ended, End::Replayed(response.clone()), "{event}");
    }

    /// Makes a call and checks that it is refused with this error.
    pub(crate) async fn refuses(&self, event: &Value, kind: ErrorKind) {
        let ended = self.call_returning(event, &json!("another run")).await;
        assert_eq!(ended, End::Refused(kind), "{event}");
    }

    /// Makes a call that is killed while its handler runs.
    pub(crate) async fn dies_in_its_handler(&self, event: &Value) {
        let started = Notify::new();
        let runs = self.call(event, async |_| {
            started.notify_one();
            std::future::pending().await
        });
        tokio::select! {
            ended = runs => panic!("it ended: {ended:?}"),
            () = started.notified() => {}
        }
    }
}
