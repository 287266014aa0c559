use super::Error;
use super::proxy::Proxy;
use super::table::{Item, TableSpec};
use crate::background::Background;
use crate::wire;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, TimeToLiveSpecification,
};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_types::SdkConfig;
use std::fmt;
use std::sync::Arc;

const REGION: &str = "eu-central-1";
const ACCESS_KEY_ID: &str = "test";
const SECRET_ACCESS_KEY: &str = "test";

/// A DynamoDB in memory, on a loopback port, for as long as this value lives.
///
/// It runs on a thread of its own: it can be shared by tests that each have their runtime, and a paused tokio clock
/// does not reach it. Dropping it closes the port and all connections, and forgets the data. Expired items stay: TTL is
/// accepted as a setting, and nothing sweeps.
///
/// [`requests`](Self::requests), [`clear_requests`](Self::clear_requests) and [`inject`](Self::inject) concern what
/// arrives at [`endpoint`](Self::endpoint). The helpers [`create_table`](Self::create_table), [`put`](Self::put),
/// [`item`](Self::item), [`items`](Self::items) and [`delete`](Self::delete) go around it: they are neither counted nor
/// spoiled.
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
    /// Speaks to the database itself, and only on our own runtime: pooled connections die with the runtime of their
    /// first use.
    direct: Client,
    background: Background,
}

impl EmbeddedDynamoDb {
    /// Starts an empty database.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = EmbeddedDynamoDb::start().await?;
    /// let tables = db.client().list_tables().send().await?;
    /// assert!(tables.table_names().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Start`] or [`Error::Port`] without a free thread or port, [`Error::Open`] if the database does not open.
    pub async fn start() -> Result<Self, Error> {
        Self::start_on(0).await
    }

    /// Starts an empty database on this port of the loopback interface; 0 is an unused one.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Error};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = EmbeddedDynamoDb::start_on(0).await?;
    /// let port = db.endpoint().rsplit(':').next().unwrap_or_default().parse()?;
    /// let second = EmbeddedDynamoDb::start_on(port).await;
    /// assert!(matches!(second, Err(Error::Port { .. })), "it is taken");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Port`] if the port cannot be had; otherwise as [`start`](Self::start).
    pub async fn start_on(port: u16) -> Result<Self, Error> {
        let background = Background::start("embedded-dynamodb").map_err(Error::Start)?;
        let served = background.handle().spawn(async move {
            let database =
                dynoxide::Database::memory().map_err(|error| Error::Open(error.to_string()))?;
            let (listener, behind) = wire::bind().map_err(Error::Start)?;
            tokio::spawn(dynoxide::server::serve_with_shutdown(
                listener,
                database,
                std::future::pending(),
            ));
            let bound = wire::bind_to(port);
            let (listener, address) = bound.map_err(|source| Error::Port { port, source })?;
            let proxy = Proxy::new(behind);
            let handler = Arc::clone(&proxy);
            tokio::spawn(wire::serve(listener, move |request| {
                Arc::clone(&handler).handle(request)
            }));
            let direct = Client::new(&sdk_config(&format!("http://{behind}")));
            Ok((format!("http://{address}"), proxy, direct))
        });
        let (endpoint, proxy, direct) = served.await.map_err(|_| Error::Stopped)??;
        Ok(Self {
            endpoint,
            proxy,
            direct,
            background,
        })
    }

    /// Where it listens: `http://127.0.0.1:PORT`.
    ///
    /// ```no_run
    /// # fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) {
    /// println!("aws dynamodb scan --table-name orders --endpoint-url {}", db.endpoint());
    /// # }
    /// ```
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A new SDK client for it, with the SDK's default retries.
    ///
    /// Connections belong to the runtime that first uses the client: make one per test.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let order = db.client().get_item().table_name("orders").key("id", AttributeValue::S("o-1".into()));
    /// assert!(order.send().await?.item.is_none());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.sdk_config())
    }

    /// The SDK configuration: endpoint, region, static credentials and no proxy, everything else by default.
    ///
    /// By default the SDK waits up to a second before it tries again; tests that retry much may want a shorter
    /// `RetryConfig::standard().with_initial_backoff(..)`.
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
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.endpoint)
    }

    /// The environment variables with which another process's SDK finds it.
    ///
    /// Pass them to a `Command`, or to a function of the local Lambda.
    ///
    /// ```no_run
    /// # fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) {
    /// let mut function = std::process::Command::new("target/debug/payment");
    /// function.envs(db.environment());
    /// # }
    /// ```
    #[must_use]
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

    /// Creates a table; it can be used at once.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let shared = TableSpec::new("everything").partition_key("pk").with_sort_key("sk");
    /// db.create_table(shared.clone()).await?;
    /// assert!(db.create_table(shared).await.is_err(), "there is one already");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if there is such a table already, or a name is not allowed.
    pub async fn create_table(&self, table: TableSpec) -> Result<(), Error> {
        let client = self.direct.clone();
        let create = async move {
            let partition = Some((table.partition_key, KeyType::Hash));
            let sort = table.sort_key.map(|attribute| (attribute, KeyType::Range));
            let keys: Vec<_> = partition.into_iter().chain(sort).collect();
            let create = client
                .create_table()
                .table_name(&table.name)
                .billing_mode(BillingMode::PayPerRequest)
                .set_attribute_definitions(Some(keys.iter().filter_map(definition).collect()))
                .set_key_schema(Some(keys.iter().filter_map(key).collect()));
            create
                .send()
                .await
                .map_err(|error| Error::refused("CreateTable", &table.name, error))?;
            if let Some(attribute) = table.ttl {
                let ttl = TimeToLiveSpecification::builder()
                    .attribute_name(attribute)
                    .enabled(true)
                    .build();
                client
                    .update_time_to_live()
                    .table_name(&table.name)
                    .set_time_to_live_specification(ttl.ok())
                    .send()
                    .await
                    .map_err(|error| Error::refused("UpdateTimeToLive", &table.name, error))?;
            }
            Ok(())
        };
        self.aside(create).await
    }

    /// Writes an item as it is, replacing what was there.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// // What another program may have left in the table: an item without a status.
    /// db.put("orders", [("id", AttributeValue::S("o-1".into()))]).await?;
    /// assert!(db.put("payments", [("id", AttributeValue::S("o-1".into()))]).await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without such a table, or if a key attribute is missing.
    pub async fn put<K>(
        &self,
        table: &str,
        item: impl IntoIterator<Item = (K, AttributeValue)>,
    ) -> Result<(), Error>
    where
        K: Into<String>,
    {
        let item: Item = item
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        let put = self
            .direct
            .put_item()
            .table_name(table)
            .set_item(Some(item));
        let put = self.aside(async move { Ok(put.send().await) }).await?;
        put.map(drop)
            .map_err(|error| Error::refused("PutItem", table, error))
    }

    /// Reads the item with this key (consistently); `None` if there is none.
    ///
    /// ```
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = EmbeddedDynamoDb::start().await?;
    /// db.create_table(TableSpec::new("orders")).await?;
    /// db.put("orders", [("id", AttributeValue::S("o-1".into())), ("paid", AttributeValue::Bool(true))]).await?;
    ///
    /// let item = db.item("orders", [("id", "o-1")]).await?.expect("it was put");
    /// assert_eq!(item["paid"], AttributeValue::Bool(true));
    /// assert!(db.requests().is_empty(), "helpers are not counted");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without such a table, or if a key attribute is missing.
    pub async fn item<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<Item>, Error>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let read = self
            .direct
            .get_item()
            .table_name(table)
            .consistent_read(true)
            .set_key(Some(strings(key)));
        let read = self.aside(async move { Ok(read.send().await) }).await?;
        read.map(|output| output.item)
            .map_err(|error| Error::refused("GetItem", table, error))
    }

    /// Reads all items of a table, in no particular order.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// for id in ["o-1", "o-2"] {
    ///     db.put("orders", [("id", AttributeValue::S(id.into()))]).await?;
    /// }
    /// assert_eq!(db.items("orders").await?.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without such a table.
    pub async fn items(&self, table: &str) -> Result<Vec<Item>, Error> {
        let pages = self
            .direct
            .scan()
            .table_name(table)
            .consistent_read(true)
            .into_paginator()
            .items();
        let all = self
            .aside(async move { Ok(pages.send().collect::<Result<Vec<_>, _>>().await) })
            .await?;
        all.map_err(|error| Error::refused("Scan", table, error))
    }

    /// Deletes the item with this key, as TTL or an operator would.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.put("orders", [("id", AttributeValue::S("o-1".into()))]).await?;
    /// db.delete("orders", [("id", "o-1")]).await?;
    /// assert!(db.items("orders").await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] without such a table, or if a key attribute is missing.
    pub async fn delete<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), Error>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let delete = self
            .direct
            .delete_item()
            .table_name(table)
            .set_key(Some(strings(key)));
        let delete = self.aside(async move { Ok(delete.send().await) }).await?;
        delete
            .map(drop)
            .map_err(|error| Error::refused("DeleteItem", table, error))
    }

    async fn aside<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.background.handle().spawn(work).await;
        done.map_err(|_| Error::Stopped)?
    }
}

impl fmt::Debug for EmbeddedDynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedDynamoDb")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

fn sdk_config(endpoint: &str) -> SdkConfig {
    // The SDK's own client would take `HTTP_PROXY` at its word and ask the proxy for a loopback address.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
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

fn strings<K, V>(key: impl IntoIterator<Item = (K, V)>) -> Item
where
    K: Into<String>,
    V: Into<String>,
{
    key.into_iter()
        .map(|(name, value)| (name.into(), AttributeValue::S(value.into())))
        .collect()
}

// All that is required is given, so neither builder can refuse.
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
