//! A table in the embedded DynamoDB, with a store on it.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::{Staged, Store, StoreScan};
use idempotency_core::time::Clock;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder, LeanClient, sdk_client, transact};
use idempotency_lambda::{Backend, BoxError, Deadline, Operation, Outcome, with_backend};
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{ForeignRecord, ForeignValue, StoreFactory};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::store::StoreOperation;
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
        let backend = crate::backend(store.clone(), &clock, 7);
        Ok(Self {
            clock,
            database,
            backend,
            store,
        })
    }

    /// Returns the backend of another process over the same table, with its own owner tokens.
    pub fn another_process(&self, number: u64) -> Backend {
        crate::backend(self.store.clone(), &self.clock, 1_000 + number)
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
        let requests = self.database.requests().into_iter();
        let requests = requests.map(|request| (request.operation, request.status));
        let requests = requests.collect();
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
        let text = |value: AttributeValue| {
            let text = value.as_s().or_else(|_| value.as_n());
            text.cloned().unwrap_or_default()
        };
        let item = item.into_iter();
        Ok(item.map(|(name, value)| (name, text(value))).collect())
    }
}

/// The largest response of Lambda, in bytes.
const LARGEST_RESPONSE: usize = 6_291_556;

/// Makes stores on one DynamoDB table.
pub struct TableFactory {
    client: Client,
    table: String,
    /// The name of the sort key and the value of the partition key.
    composite: Option<(String, String)>,
    /// True if large responses are compressed and split.
    large: bool,
    /// True if the stores have the lean client.
    lean: bool,
    /// The embedded database, if replies can be lost.
    database: Option<Arc<EmbeddedDynamoDb>>,
}

impl TableFactory {
    /// Returns a factory of stores on this table, which has a partition key alone. They have the client that this test program tests.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            composite: None,
            large: false,
            lean: !has_sdk_client(),
            database: None,
        }
    }

    /// Sets the sort key of the table, and the partition of the stores.
    #[must_use]
    pub fn composite(self, sort_key: &str, partition: &str) -> Self {
        let composite = Some((sort_key.to_owned(), partition.to_owned()));
        Self { composite, ..self }
    }

    /// Lets the stores compress and split large responses.
    #[must_use]
    pub fn with_large_responses(self) -> Self {
        Self {
            large: true,
            ..self
        }
    }

    /// Sets whether the stores have the lean client.
    #[must_use]
    pub fn lean(self, lean: bool) -> Self {
        Self { lean, ..self }
    }

    /// Lets the suite lose replies of this database.
    #[must_use]
    pub fn losing_replies(self, database: &Arc<EmbeddedDynamoDb>) -> Self {
        let database = Some(Arc::clone(database));
        Self { database, ..self }
    }

    fn build(&self) -> Result<Arc<DynamoDbStore>, BoxError> {
        // The suite does not test encryption, and an emulator does not say whether a table is encrypted.
        let store = DynamoDbStore::builder()
            .table(&self.table)
            .unencrypted_events(true);
        let store = if self.large {
            store
        } else {
            store.compress_above(None).split_large_responses(false)
        };
        let client = self.client.clone();
        let store = if self.lean {
            store.lean_client(LeanClient::new(client))
        } else {
            store.client(client)
        };
        let store = match &self.composite {
            None => store,
            Some((sort_key, partition)) => store.composite_key(sort_key, partition),
        };
        Ok(Arc::new(store.build()?))
    }

    fn key(&self, id: &RecordId) -> HashMap<String, AttributeValue> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        match &self.composite {
            None => [("id".to_owned(), text(id.as_str()))].into(),
            Some((sort_key, partition)) => [
                ("id".to_owned(), text(partition)),
                (sort_key.clone(), text(id.as_str())),
            ]
            .into(),
        }
    }
}

impl StoreFactory for TableFactory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        Box::pin(async move { Ok(self.build()? as Arc<dyn Store>) })
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        Some(Box::pin(
            async move { Ok(self.build()? as Arc<dyn StoreScan>) },
        ))
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        Some(Box::pin(async move {
            let mut item = self.key(id);
            item.extend(
                foreign
                    .attributes
                    .iter()
                    .map(|(name, value)| (name.clone(), attribute(value))),
            );
            let put = self.client.put_item().table_name(&self.table);
            put.set_item(Some(item)).send().await?;
            Ok(())
        }))
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        let Some(database) = &self.database else {
            return false;
        };
        let operation = match operation {
            StoreOperation::Put => "PutItem",
            StoreOperation::Update => "UpdateItem",
            StoreOperation::Delete => "DeleteItem",
            StoreOperation::Transact => "TransactWriteItems",
            StoreOperation::Read => "GetItem",
            _ => return false,
        };
        database.inject(Fault::on(operation).drop_reply());
        true
    }

    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let number = |number: u32| AttributeValue::N(number.to_string());
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(self.key(&RecordId::new(name))))
            .update_expression("ADD taken :one")
            .condition_expression("attribute_not_exists(taken) OR taken < :limit")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":limit", number(limit))
            .build()
            .ok()?;
        transact::staged([TransactWriteItem::builder().update(update).build()]).ok()
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        Box::pin(async move {
            let key = self.key(&RecordId::new(name));
            let get = self.client.get_item().table_name(&self.table);
            let got = get.set_key(Some(key)).consistent_read(true);
            let item = got.send().await?.item;
            match item.as_ref().and_then(|item| item.get("taken")) {
                Some(AttributeValue::N(taken)) => Ok(taken.parse()?),
                _ => Ok(0),
            }
        })
    }

    fn largest_response(&self) -> Option<usize> {
        self.large.then_some(LARGEST_RESPONSE)
    }
}

fn attribute(value: &ForeignValue) -> AttributeValue {
    match value {
        ForeignValue::Text(text) => AttributeValue::S(text.clone()),
        ForeignValue::Number(number) => AttributeValue::N(number.clone()),
        ForeignValue::Bool(value) => AttributeValue::Bool(*value),
        ForeignValue::Bytes(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
        ForeignValue::List(values) => AttributeValue::L(values.iter().map(attribute).collect()),
        ForeignValue::Map(values) => {
            let values = values
                .iter()
                .map(|(name, value)| (name.clone(), attribute(value)));
            AttributeValue::M(values.collect())
        }
        _ => AttributeValue::Null(true),
    }
}
