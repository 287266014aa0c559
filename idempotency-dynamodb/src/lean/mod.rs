//! A client for exactly the requests of the store, which costs less CPU than the SDK's.
//!
//! It is made of AWS's own parts: the SDK prepares configuration, credentials and endpoint, `aws-sigv4` signs, and the SDK's
//! HTTP client sends. What it leaves out is the orchestration of a general client for each call.
//!
//! | module | what it does |
//! |---|---|
//! | `prepared` | takes HTTP client, credentials, endpoint rules, timeouts and retries from the SDK |
//! | `route` | an endpoint with the credentials for it |
//! | `sign` | signs requests |
//! | `clock` | corrects the clock that signs |
//! | `body`, `reply` | write requests and read responses |
//! | `send`, `retry` | send, wait, send again |

mod body;
mod clock;
mod prepared;
mod reply;
mod retry;
mod route;
mod send;
mod sign;

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryMode;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};
use idempotency_core::config::ConfigurationError;
use idempotency_core::store::StoreError;

use crate::client;
use crate::request::Request;
use crate::sends::Sends;
use crate::transport::Reply;
use prepared::Prepared;
use retry::Quota;
use send::Outgoing;

/// A client that sends the store's requests with less CPU than the SDK's client.
///
/// It takes configuration, credentials, endpoint, HTTP client, timeouts and retries from a client of the SDK, and signs and
/// sends the requests itself. The interceptors and plugins of that client are not called, its own retry classifiers do not
/// count, and it has no adaptive retry mode. Its requests appear in no metrics or spans of the SDK.
///
/// Clones share the retry quota.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
/// use idempotency_dynamodb::{DynamoDbStore, LeanClient};
///
/// let client = LeanClient::from_env().await?;
/// let store = DynamoDbStore::builder().table("idempotency").lean_client(client).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeanClient {
    client: Client,
    quota: Arc<Quota>,
}

impl LeanClient {
    /// Makes a client with the settings of [`default_client`](crate::default_client). No request is sent.
    ///
    /// # Errors
    ///
    /// If no region is configured.
    pub async fn from_env() -> Result<Self, ConfigurationError> {
        Ok(Self::new(client::default_client().await?))
    }

    /// Makes a client from an SDK configuration. Timeouts and retry settings that it does not set are those of
    /// [`DynamoDbStoreBuilder::sdk_config`](crate::DynamoDbStoreBuilder::sdk_config).
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::{DynamoDbStore, LeanClient};
    /// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// let client = LeanClient::from_sdk_config(&config);
    /// let store = DynamoDbStore::builder().table("idempotency").lean_client(client).build()?;
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn from_sdk_config(config: &SdkConfig) -> Self {
        Self::new(client::from_sdk_config(config))
    }

    /// Makes a client with every setting of a client of the SDK.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            quota: Arc::default(),
        }
    }

    /// Returns the SDK's client from which this one has its settings.
    pub(crate) fn sdk(&self) -> &Client {
        &self.client
    }

    /// Checks that this client can do what the SDK's client is configured for.
    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        let retries = self.client.config().retry_config();
        if retries.is_some_and(|retries| retries.mode() == RetryMode::Adaptive) {
            return Err(ConfigurationError::new(
                "the lean client has no adaptive retry mode: use the standard mode (AWS_RETRY_MODE, `retry_mode` of the \
                 profile, or the client's retry settings), or the SDK's client",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for LeanClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeanClient")
            .field("region", &self.client.config().region())
            .finish_non_exhaustive()
    }
}

/// A [`LeanClient`] for one table.
pub(crate) struct Lean {
    client: LeanClient,
    /// Set by the first request.
    prepared: OnceLock<Prepared>,
}

impl Lean {
    pub(crate) fn new(client: LeanClient) -> Self {
        Self {
            client,
            prepared: OnceLock::new(),
        }
    }

    /// Returns the SDK's client from which this one has its settings.
    pub(crate) fn sdk(&self) -> &Client {
        self.client.sdk()
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        sends: &Sends,
    ) -> Result<Reply, StoreError> {
        let body = body::write(sends.table(), &request)
            .map_err(|error| sends.error::<ErrorMetadata>(SdkError::construction_failure(error)))?;
        let outgoing = Outgoing::new(body::target(&request), body);
        let prepared = match self.prepared.get() {
            Some(prepared) => prepared,
            None => {
                let app = self.client.client.config().app_name();
                let user_agent = user_agent(app.map(AsRef::as_ref));
                let prepared = Prepared::of(&self.client.client, sends.table(), &user_agent).await;
                let prepared = prepared.map_err(|error| sends.error(error))?;
                // Of two first requests one result is kept; they are equal.
                self.prepared.get_or_init(|| prepared)
            }
        };
        send::send(prepared, &self.client.quota, &outgoing, sends).await
    }
}

/// Returns the value of the header `user-agent`: this crate, the language, the system, and the application if it has a name.
fn user_agent(app: Option<&str>) -> String {
    let mut text = concat!(
        "idempotency-dynamodb/",
        env!("CARGO_PKG_VERSION"),
        " lang/rust"
    )
    .to_owned();
    text.push_str(" os/");
    text.push_str(std::env::consts::OS);
    if let Ok(environment) = std::env::var("AWS_EXECUTION_ENV") {
        text.push_str(" exec-env/");
        text.extend(
            environment
                .chars()
                .filter(|letter| letter.is_ascii_graphic()),
        );
    }
    if let Some(app) = app {
        text.push_str(" app/");
        text.push_str(app);
    }
    text
}
