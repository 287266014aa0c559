//! The embedded database on its port: its clients, its requests and its faults. A test creates, writes and reads tables and items
//! directly, so these requests are not counted and no fault applies to them.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, SseSpecification, SseType, TimeToLiveSpecification,
};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_types::SdkConfig;

use super::proxy::Proxy;
use super::{Fault, Injected, Request};
use crate::wire::{self, Background};

const REGION: &str = "eu-central-1";
const ACCESS_KEY_ID: &str = "test";
const SECRET_ACCESS_KEY: &str = "test";

/// An in-memory DynamoDB on a loopback port. It runs as long as this value lives.
///
/// It runs on its own thread: tests with different runtimes can share it, and a paused tokio clock does not affect it.
/// Dropping it closes the port and all connections and discards the data. Expired items stay: TTL is accepted as a
/// setting, but no item is deleted.
///
/// [`requests`](Self::requests), [`clear_requests`](Self::clear_requests) and [`inject`](Self::inject) apply to requests
/// that arrive at [`endpoint`](Self::endpoint). The helpers [`create_table`](Self::create_table), [`put`](Self::put),
/// [`item`](Self::item), [`items`](Self::items) and [`delete`](Self::delete) go to the database directly: they are not
/// counted, and no fault applies to them.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = EmbeddedDynamoDb::start().await?;
/// db.client().list_tables().send().await?;
/// assert_eq!(db.requests().len(), 1);
/// # Ok(()) }
/// ```
pub struct EmbeddedDynamoDb {
    endpoint: String,
    pub(super) proxy: Arc<Proxy>,
    /// Connects to the database directly. Used on the background runtime only, because pooled connections end with the
    /// runtime that opened them.
    pub(super) direct: Client,
    pub(super) background: Background,
}

impl EmbeddedDynamoDb {
    /// Starts an empty database on an unused port.
    ///
    /// # Errors
    ///
    /// If no thread or port is available, or the database does not open.
    pub async fn start() -> Result<Self, DatabaseError> {
        Self::start_on(0).await
    }

    /// Starts an empty database on this port of the loopback interface; 0 is an unused port.
    ///
    /// # Errors
    ///
    /// If the port is in use; otherwise as [`start`](Self::start).
    pub async fn start_on(port: u16) -> Result<Self, DatabaseError> {
        let background = Background::start("embedded-dynamodb").map_err(Cause::Start)?;
        let served = background.handle().spawn(async move {
            let behind = serve_database(open_database()?, std::future::pending())?;
            let bound = wire::bind_to(port);
            let (listener, address) = bound.map_err(|source| Cause::Port { port, source })?;
            let proxy = Proxy::new(behind);
            let handler = Arc::clone(&proxy);
            tokio::spawn(wire::serve(listener, move |request| {
                Arc::clone(&handler).handle(request)
            }));
            let direct = Client::new(&sdk_config(&format!("http://{behind}")));
            Ok::<_, DatabaseError>((format!("http://{address}"), proxy, direct))
        });
        let (endpoint, proxy, direct) = served.await.map_err(|_| Cause::Stopped)??;
        Ok(Self {
            endpoint,
            proxy,
            direct,
            background,
        })
    }

    /// Returns the address: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns a new SDK client with the SDK's default retries.
    ///
    /// A connection belongs to the runtime that first uses the client: make one client per test.
    pub fn client(&self) -> Client {
        Client::new(&self.sdk_config())
    }

    /// Returns the SDK configuration: endpoint, region, static credentials and no proxy; everything else is the default.
    ///
    /// By default the SDK waits up to 1 s before it sends again. A test with many retries may set a shorter
    /// `RetryConfig::standard().with_initial_backoff(..)`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_sdk_dynamodb::{Client, config::{Builder, retry::RetryConfig}};
    /// # use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = EmbeddedDynamoDb::start().await?;
    /// let without_retries = Builder::from(&db.sdk_config()).retry_config(RetryConfig::disabled());
    /// let client = Client::from_conf(without_retries.build());
    /// # let _ = client;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.endpoint)
    }

    /// Returns the environment variables with which the SDK of another process finds this database.
    ///
    /// Pass them to a `Command`, or to a function of the local Lambda.
    pub fn environment(&self) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint.as_str()),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

impl fmt::Debug for EmbeddedDynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedDynamoDb")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Returns an empty database.
pub(crate) fn open_database() -> Result<dynoxide::Database, Cause> {
    dynoxide::Database::memory().map_err(|error| Cause::Open(error.to_string()))
}

/// Serves a database in the context of this runtime, until this future ends. Returns its address.
pub(crate) fn serve_database(
    database: dynoxide::Database,
    until: impl Future<Output = ()> + Send + 'static,
) -> Result<SocketAddr, Cause> {
    let (listener, address) = wire::bind().map_err(Cause::Start)?;
    tokio::spawn(dynoxide::server::serve_with_shutdown(
        listener, database, until,
    ));
    Ok(address)
}

fn sdk_config(endpoint: &str) -> SdkConfig {
    // The SDK's default HTTP client would send requests for a loopback address to the proxy in `HTTP_PROXY`.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let credentials = Credentials::new(ACCESS_KEY_ID, SECRET_ACCESS_KEY, None, None, "testkit");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint)
        .http_client(http)
        .build()
}

impl EmbeddedDynamoDb {
    /// Returns every request since the start or the last [`clear_requests`](Self::clear_requests), in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.proxy.requests()
    }

    /// Forgets the requests noted so far.
    pub fn clear_requests(&self) {
        self.proxy.clear_requests();
    }

    /// Activates a fault. If several faults match a request, the one that was injected first applies.
    pub fn inject(&self, fault: Fault) -> Injected {
        self.proxy.faults.inject(fault)
    }

    /// Calls `choose` for each request that no injected fault applies to, for example to fail one in ten at random.
    ///
    /// The [`FaultBuilder`](super::FaultBuilder)'s own conditions are ignored, because `choose` has seen the request. A later
    /// call replaces `choose`. `choose` must not block; it is called for one request at a time.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut number = 0;
    /// db.inject_chosen(move |_request| {
    ///     number += 1;
    ///     (number % 2 == 1).then(|| Fault::on_any().throttle())
    /// });
    /// db.client().list_tables().send().await?;
    /// assert_eq!(db.requests().len(), 2, "the SDK sent it again");
    /// # Ok(()) }
    /// ```
    pub fn inject_chosen(&self, choose: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.proxy.faults.choose(Box::new(choose));
    }

    /// Removes all faults. Requests that a fault holds still wait for their release.
    pub fn clear_faults(&self) {
        self.proxy.faults.clear();
    }
}

impl EmbeddedDynamoDb {
    /// Creates a table. It can be used at once.
    ///
    /// # Errors
    ///
    /// If the table exists already or a name is not allowed.
    pub async fn create_table(&self, table: TableSpec) -> Result<(), DatabaseError> {
        let client = self.direct.clone();
        let create = async move {
            let partition = Some((table.partition_key, KeyType::Hash));
            let sort = table.sort_key.map(|attribute| (attribute, KeyType::Range));
            let keys: Vec<_> = partition.into_iter().chain(sort).collect();
            let create = client
                .create_table()
                .table_name(&table.name)
                .billing_mode(BillingMode::PayPerRequest)
                .set_sse_specification(table.encrypted.then(encryption))
                .set_attribute_definitions(Some(keys.iter().filter_map(definition).collect()))
                .set_key_schema(Some(keys.iter().filter_map(key).collect()));
            let created = create.send().await;
            created.map_err(|error| DatabaseError::refused("CreateTable", &table.name, error))?;
            if let Some(attribute) = table.ttl {
                let ttl = TimeToLiveSpecification::builder()
                    .attribute_name(attribute)
                    .enabled(true)
                    .build();
                let update = client.update_time_to_live().table_name(&table.name);
                let update = update.set_time_to_live_specification(ttl.ok());
                let name = &table.name;
                let updated = update.send().await;
                updated.map_err(|error| DatabaseError::refused("UpdateTimeToLive", name, error))?;
            }
            Ok(())
        };
        self.in_background(create).await?
    }

    /// Writes an item without a condition; replaces the item that has this key.
    ///
    /// # Errors
    ///
    /// If there is no such table or a key attribute is missing.
    pub async fn put<K>(
        &self,
        table: &str,
        item: impl IntoIterator<Item = (K, AttributeValue)>,
    ) -> Result<(), DatabaseError>
    where
        K: Into<String>,
    {
        let item = item.into_iter().map(|(name, value)| (name.into(), value));
        let put = self.direct.put_item().table_name(table);
        let put = put.set_item(Some(item.collect())).send();
        self.directly("PutItem", table, put).await.map(drop)
    }

    /// Reads the item with this key, with a consistent read; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If there is no such table or a key attribute is missing.
    pub async fn item<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<HashMap<String, AttributeValue>>, DatabaseError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let read = self.direct.get_item().table_name(table);
        let read = read
            .consistent_read(true)
            .set_key(Some(strings(key)))
            .send();
        Ok(self.directly("GetItem", table, read).await?.item)
    }

    /// Reads all items of a table, in no particular order.
    ///
    /// # Errors
    ///
    /// If there is no such table.
    pub async fn items(
        &self,
        table: &str,
    ) -> Result<Vec<HashMap<String, AttributeValue>>, DatabaseError> {
        let scan = self.direct.scan().table_name(table).consistent_read(true);
        let items = scan.into_paginator().items().send();
        self.directly("Scan", table, async move { items.collect().await })
            .await
    }

    /// Deletes the item with this key, as TTL or an operator would.
    ///
    /// # Errors
    ///
    /// If there is no such table or a key attribute is missing.
    pub async fn delete<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DatabaseError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let delete = self.direct.delete_item().table_name(table);
        let delete = delete.set_key(Some(strings(key))).send();
        self.directly("DeleteItem", table, delete).await.map(drop)
    }

    /// Performs a request of a helper.
    async fn directly<T, E>(
        &self,
        operation: &'static str,
        table: &str,
        request: impl Future<Output = Result<T, SdkError<E>>> + Send + 'static,
    ) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        E: ProvideErrorMetadata + StdError + Send + 'static,
    {
        let done = self.in_background(request).await?;
        done.map_err(|error| DatabaseError::refused(operation, table, error))
    }

    /// Runs `work` on the background runtime, which owns the connections of the direct client.
    async fn in_background<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let done = self.background.handle().spawn(work).await;
        Ok(done.map_err(|_| Cause::Stopped)?)
    }
}

fn strings<K, V>(key: impl IntoIterator<Item = (K, V)>) -> Item
where
    K: Into<String>,
    V: Into<String>,
{
    key.into_iter()
        .map(|(name, value)| (name.into(), AttributeValue::S(value.into())))
        .collect()
}

/// Returns the encryption with a key of KMS.
fn encryption() -> SseSpecification {
    let encryption = SseSpecification::builder().enabled(true);
    encryption.sse_type(SseType::Kms).build()
}

// All required fields are set, so neither builder fails.
fn definition((attribute, _): &(String, KeyType)) -> Option<AttributeDefinition> {
    AttributeDefinition::builder()
        .attribute_name(attribute)
        .attribute_type(ScalarAttributeType::S)
        .build()
        .ok()
}

fn key((attribute, kind): &(String, KeyType)) -> Option<KeySchemaElement> {
    KeySchemaElement::builder()
        .attribute_name(attribute)
        .key_type(kind.clone())
        .build()
        .ok()
}

type Item = HashMap<String, AttributeValue>;

/// A table to create. By default: partition key `id` (a string), on-demand billing, TTL on `expiration`.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::dynamodb::TableSpec;
///
/// let plain = TableSpec::new("idempotency");
/// let shared = TableSpec::new("everything").partition_key("pk").with_sort_key("sk").ttl(None);
/// # let _ = (plain, shared);
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `EmbeddedDynamoDb::create_table`"]
pub struct TableSpec {
    pub(crate) name: String,
    pub(crate) partition_key: String,
    pub(crate) sort_key: Option<String>,
    pub(super) ttl: Option<String>,
    pub(super) encrypted: bool,
}

impl TableSpec {
    /// Describes a table with the default layout.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_key: "id".to_owned(),
            sort_key: None,
            ttl: Some("expiration".to_owned()),
            encrypted: false,
        }
    }

    /// Sets the name of the partition key, a string attribute.
    pub fn partition_key(mut self, attribute: impl Into<String>) -> Self {
        self.partition_key = attribute.into();
        self
    }

    /// Adds a sort key, a string attribute.
    pub fn with_sort_key(mut self, attribute: impl Into<String>) -> Self {
        self.sort_key = Some(attribute.into());
        self
    }

    /// Sets the TTL attribute (a number, in seconds since the epoch); `None` leaves TTL off.
    pub fn ttl<'a>(mut self, attribute: impl Into<Option<&'a str>>) -> Self {
        self.ttl = attribute.into().map(str::to_owned);
        self
    }

    /// Creates the table with encryption by a key of KMS. Its description says so, but the embedded database encrypts nothing.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }
}

/// Why the embedded DynamoDB could not do what the test asked for. Its text says what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DatabaseError(#[from] Cause);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    /// No thread or port is available.
    #[error("the embedded DynamoDB could not start: check the limits on open files and threads")]
    Start(#[source] io::Error),

    /// The requested port is not available.
    #[error(
        "the embedded DynamoDB could not listen on port {port}: choose another one, or 0 for an unused one"
    )]
    Port {
        /// The requested port; 0 means any.
        port: u16,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// The database did not open.
    #[error("the embedded database could not be opened: {0}")]
    Open(String),

    /// The database rejected the request of a helper.
    #[error(
        "{operation} on table `{table}` failed: {reason}; create the table first, and set every key attribute"
    )]
    Refused {
        /// The API operation.
        operation: &'static str,
        /// The table.
        table: String,
        /// The code and message of the database.
        reason: String,
    },

    /// The thread of the server has ended.
    #[error("the embedded DynamoDB has stopped: keep the value alive while it is used")]
    Stopped,
}

impl DatabaseError {
    /// Classifies an error of the SDK.
    pub(super) fn refused<E>(operation: &'static str, table: &str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        // Code and message only: the SDK's full context would print the raw response, which contains the item.
        let reason = match &error {
            SdkError::ServiceError(context) => {
                let code = context.err().code().unwrap_or("unknown error");
                let message = context.err().message().unwrap_or("no message");
                format!("{code}: {message}")
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
                "the database did not respond".to_owned()
            }
            SdkError::ConstructionFailure(_) => "the request could not be built".to_owned(),
            _ => "the response of the database could not be read".to_owned(),
        };
        let table = table.to_owned();
        Self(Cause::Refused {
            operation,
            table,
            reason,
        })
    }
}
