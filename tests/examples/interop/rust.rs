//! The same function in Rust, as a process of its own. The test controls its clock and its handler.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_core::config::Variables;
use idempotency_core::time::EpochMillis;
use idempotency_dynamodb::AttributeNames;
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, ErrorKind, Operation, OperationBuilder,
    Outcome, SystemRandom, backend_over, with_backend,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use serde_json::Value;

/// A process, and the operation in it.
pub(crate) struct Rust {
    store: Arc<DynamoDbStore>,
    pub(crate) backend: Backend,
    operation: Operation,
    now: Now,
}

/// The clock of a process.
#[derive(Clone, Copy)]
enum Now {
    /// The machine's.
    System,
    /// A clock that stands still.
    Still(EpochMillis),
}

/// The result of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum CallResult {
    /// The handler ran and returned this.
    Ran(Value),
    /// The response of an earlier call.
    Replayed(Value),
    /// The framework's error.
    Refused(ErrorKind),
    /// The handler's own error.
    Failed,
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

fn milliseconds() -> Result<i64, BoxError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_millis())?)
}

fn ended(outcome: Result<Outcome<Value>, BoxError>) -> CallResult {
    match outcome {
        Ok(outcome) if outcome.is_replayed() => CallResult::Replayed(outcome.into_response()),
        Ok(outcome) => CallResult::Ran(outcome.into_response()),
        Err(error) => match error.downcast::<idempotency_lambda::Error>() {
            Ok(error) => CallResult::Refused(error.kind()),
            Err(_) => CallResult::Failed,
        },
    }
}

impl Rust {
    /// Returns a process on the table `idempotency` with the machine's clock.
    pub(crate) fn start(
        database: &EmbeddedDynamoDb,
        operation: OperationBuilder,
    ) -> Result<Self, BoxError> {
        let store = DynamoDbStore::builder()
            .sdk_config(&database.sdk_config())
            .table("idempotency");
        Self::with_store(store.build()?, operation)
    }

    /// Returns a process on the table `idempotency` that stores a response of any length as Python does, or not at all.
    pub(crate) fn without_large_forms(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let store = DynamoDbStore::builder()
            .sdk_config(&database.sdk_config())
            .table("idempotency")
            .compress_above(None)
            .split_large_responses(false);
        Self::with_store(store.build()?, charge())
    }

    /// Returns a process on a table with the sort key `sk`.
    pub(crate) fn composite(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let mut names = AttributeNames::default();
        names.key = "pk".to_owned();
        let store = DynamoDbStore::builder()
            .sdk_config(&database.sdk_config())
            .table("composite")
            .names(names)
            .composite_key("sk", "payments");
        Self::with_store(store.build()?, charge())
    }

    /// Returns a process on a table with other attribute names.
    pub(crate) fn renamed(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let mut names = AttributeNames::default();
        names.key = "key".to_owned();
        names.expiration = "ttl".to_owned();
        names.in_progress_expiration = "lease".to_owned();
        names.status = "state".to_owned();
        names.data = "response".to_owned();
        names.validation = "fingerprint".to_owned();
        let store = DynamoDbStore::builder()
            .sdk_config(&database.sdk_config())
            .table("renamed")
            .names(names);
        Self::with_store(store.build()?, charge())
    }

    fn with_store(store: DynamoDbStore, operation: OperationBuilder) -> Result<Self, BoxError> {
        let store = Arc::new(store);
        Ok(Self {
            backend: backend_over(store.clone()),
            store,
            operation: operation.build()?,
            now: Now::System,
        })
    }

    /// Returns the same process with a clock that stands still, this many seconds from now.
    pub(crate) fn at(mut self, seconds: i64) -> Result<Self, BoxError> {
        let now = milliseconds()? + seconds * 1_000;
        let clock = ManualClock::at(now);
        self.backend = Backend::new(self.store.clone(), Arc::new(clock), Arc::new(SystemRandom));
        self.now = Now::Still(EpochMillis::new(now));
        Ok(self)
    }

    /// Makes a call with 30 s left.
    pub(crate) async fn call<F>(&self, event: &Value, handler: F) -> Result<CallResult, BoxError>
    where
        F: AsyncFnOnce() -> Result<Value, BoxError>,
    {
        let deadline = self.deadline()?;
        let call = self.operation.run(event, deadline, || handler());
        Ok(ended(with_backend(self.backend.clone(), call).await))
    }

    /// Makes a call with 30 s left, whose handler asks for its call.
    pub(crate) async fn call_stepping<F>(
        &self,
        event: &Value,
        handler: F,
    ) -> Result<CallResult, BoxError>
    where
        F: AsyncFnOnce(Call) -> Result<Value, BoxError>,
    {
        let deadline = self.deadline()?;
        let call = self
            .operation
            .run(event, deadline, |call: Call| handler(call));
        Ok(ended(with_backend(self.backend.clone(), call).await))
    }

    fn deadline(&self) -> Result<Deadline, BoxError> {
        let now = match self.now {
            Now::System => EpochMillis::new(milliseconds()?),
            Now::Still(now) => now,
        };
        Ok(Deadline::At(now.plus(Duration::from_secs(30))))
    }

    /// Makes a call whose handler returns this if it runs.
    pub(crate) async fn call_returning(
        &self,
        event: &Value,
        response: &Value,
    ) -> Result<CallResult, BoxError> {
        self.call(event, async || Ok(response.clone())).await
    }
}
