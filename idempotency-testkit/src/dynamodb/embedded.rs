//! Starts and stops the database, makes clients for it, shows its requests and injects faults.

use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_types::SdkConfig;

use super::proxy::Proxy;
use super::{DatabaseError, Fault, Injected, Request};
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
    /// [`DatabaseError::Start`] or [`DatabaseError::Port`] if no thread or port is available, [`DatabaseError::Open`] if the
    /// database does not open.
    pub async fn start() -> Result<Self, DatabaseError> {
        Self::start_on(0).await
    }

    /// Starts an empty database on this port of the loopback interface; 0 is an unused port.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Port`] if the port is in use; otherwise as [`start`](Self::start).
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, DatabaseError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let db = EmbeddedDynamoDb::start_on(0).await?;
    /// let port = db.endpoint().rsplit(':').next().unwrap_or_default().parse()?;
    /// let second = EmbeddedDynamoDb::start_on(port).await;
    /// assert!(matches!(second, Err(DatabaseError::Port { .. })), "the port is in use");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start_on(port: u16) -> Result<Self, DatabaseError> {
        let background = Background::start("embedded-dynamodb").map_err(DatabaseError::Start)?;
        let served = background.handle().spawn(async move {
            let database = dynoxide::Database::memory()
                .map_err(|error| DatabaseError::Open(error.to_string()))?;
            let (listener, behind) = wire::bind().map_err(DatabaseError::Start)?;
            tokio::spawn(dynoxide::server::serve_with_shutdown(
                listener,
                database,
                std::future::pending(),
            ));
            let bound = wire::bind_to(port);
            let (listener, address) =
                bound.map_err(|source| DatabaseError::Port { port, source })?;
            let proxy = Proxy::new(behind);
            let handler = Arc::clone(&proxy);
            tokio::spawn(wire::serve(listener, move |request| {
                Arc::clone(&handler).handle(request)
            }));
            let direct = Client::new(&sdk_config(&format!("http://{behind}")));
            Ok((format!("http://{address}"), proxy, direct))
        });
        let (endpoint, proxy, direct) = served.await.map_err(|_| DatabaseError::Stopped)??;
        Ok(Self {
            endpoint,
            proxy,
            direct,
            background,
        })
    }

    /// Returns the address: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns a new SDK client with the SDK's default retries.
    ///
    /// A connection belongs to the runtime that first uses the client: make one client per test.
    #[must_use]
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
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.endpoint)
    }

    /// Returns the environment variables with which the SDK of another process finds this database.
    ///
    /// Pass them to a `Command`, or to a function of the local Lambda.
    ///
    /// # Examples
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
}

impl fmt::Debug for EmbeddedDynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedDynamoDb")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.client().list_tables().send().await?;
    /// let operations: Vec<_> = db.requests().into_iter().map(|request| request.operation).collect();
    /// assert_eq!(operations, ["ListTables"]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.proxy.requests()
    }

    /// Forgets the requests noted so far.
    pub fn clear_requests(&self) {
        self.proxy.clear_requests();
    }

    /// Activates a fault. If several faults match a request, the one that was injected first applies.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let fault = db.inject(Fault::on("ListTables").drop_reply());
    /// db.client().list_tables().send().await?;
    /// assert_eq!(fault.applied_count(), 1);
    /// assert_eq!(db.requests().len(), 2, "the SDK sent it again");
    /// # Ok(()) }
    /// ```
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
