//! A table in the embedded DynamoDB, with a store on it.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::time::Clock;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder, sdk_client};
use idempotency_lambda::{Backend, BoxError, Deadline, Operation, Outcome, with_backend};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use serde_json::Value;

use crate::START;

/// The variable with the client of the store: `sdk`, or the default if it is not set.
const CLIENT: &str = "TESTS_CLIENT";

/// Returns true if the tests of this process are about the client of the SDK.
pub fn has_sdk_client() -> bool {
    std::env::var(CLIENT).is_ok_and(|client| client == "sdk")
}

/// Runs tests of this program again, in a process with the client of the SDK, so that no test is written twice. The arguments are
/// those of a test program: which tests.
///
/// # Panics
///
/// If one of them fails, or if there is none.
pub fn with_the_sdk_client(arguments: &[&str]) {
    let program = std::env::current_exe().unwrap_or_default();
    let tests = Command::new(program)
        .args(arguments)
        .env(CLIENT, "sdk")
        .output();
    let tests = match tests {
        Ok(tests) => tests,
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&tests.stdout);
    println!("{text}{}", String::from_utf8_lossy(&tests.stderr));
    assert!(
        tests.status.success(),
        "a test fails with the client of the SDK"
    );
    assert!(!text.contains("\ntest result: ok. 0 passed"), "no test ran");
}

/// Returns the builder of a store on a database, with the client that the tests are about.
pub fn store_on(database: &EmbeddedDynamoDb) -> DynamoDbStoreBuilder {
    let config = database.sdk_config();
    if has_sdk_client() {
        DynamoDbStore::builder().client(sdk_client(&config))
    } else {
        DynamoDbStore::builder().sdk_config(&config)
    }
}

/// The table's name.
const TABLE: &str = "idempotency";

/// A table, a clock that stands still, and a backend over both.
pub struct Table {
    /// The clock.
    pub clock: ManualClock,
    /// The database.
    pub database: EmbeddedDynamoDb,
    /// The backend of a process.
    pub backend: Backend,
    store: Arc<DynamoDbStore>,
}

impl Table {
    /// Starts a database with an empty table.
    ///
    /// # Errors
    ///
    /// If the database does not start.
    pub async fn start() -> Result<Self, BoxError> {
        Self::start_with(|store| store).await
    }

    /// Starts a database with an empty table, whose store has further settings.
    ///
    /// # Errors
    ///
    /// If the database does not start, or if a setting is wrong.
    pub async fn start_with(
        settings: impl FnOnce(DynamoDbStoreBuilder) -> DynamoDbStoreBuilder,
    ) -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new(TABLE)).await?;
        let store = settings(store_on(&database).table(TABLE)).build()?;
        let clock = ManualClock::at(START);
        let store = Arc::new(store);
        let backend = Backend::new(
            store.clone(),
            Arc::new(clock.clone()),
            Arc::new(SeededRandom::new(7)),
        );
        Ok(Self {
            clock,
            database,
            backend,
            store,
        })
    }

    /// Returns the backend of another process over the same table, with its own owner tokens.
    pub fn another_process(&self, number: u64) -> Backend {
        Backend::new(
            self.store.clone(),
            Arc::new(self.clock.clone()),
            Arc::new(SeededRandom::new(1_000 + number)),
        )
    }

    /// Calls `operation` with 30 s left.
    ///
    /// # Errors
    ///
    /// The handler's, or the framework's.
    pub async fn call<R, F>(
        &self,
        operation: &Operation,
        payload: &Value,
        handler: F,
    ) -> Result<Outcome<R>, BoxError>
    where
        R: serde::Serialize + serde::de::DeserializeOwned,
        F: AsyncFnOnce() -> Result<R, BoxError>,
    {
        let deadline = Deadline::At(self.clock.now().plus(Duration::from_secs(30)));
        with_backend(
            self.backend.clone(),
            operation.run(payload, deadline, || handler()),
        )
        .await
    }

    /// Returns the operations that were requested since the last call of this function, each with the status of the reply.
    pub fn requests(&self) -> Vec<(String, Option<u16>)> {
        let requests = self
            .database
            .requests()
            .into_iter()
            .map(|request| (request.operation, request.status))
            .collect();
        self.database.clear_requests();
        requests
    }

    /// Returns the only item in the table. Texts and numbers are given as text.
    ///
    /// # Errors
    ///
    /// If the table cannot be read.
    ///
    /// # Panics
    ///
    /// If the table does not hold exactly one item.
    pub async fn only_item(&self) -> Result<std::collections::BTreeMap<String, String>, BoxError> {
        let mut items = self.database.items(TABLE).await?;
        assert_eq!(items.len(), 1, "one item");
        let item = items.pop().unwrap_or_default();
        Ok(item
            .into_iter()
            .map(|(name, value)| {
                let text = value
                    .as_s()
                    .or_else(|_| value.as_n())
                    .map_or_else(|_| String::new(), Clone::clone);
                (name, text)
            })
            .collect())
    }
}
