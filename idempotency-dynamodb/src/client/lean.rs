//! The lean client, which costs less CPU than the SDK's.
//!
//! [`dynamodb_lean_client`] signs and sends. What it sends, the transport writes.

use std::fmt;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryMode;
use dynamodb_lean_client::{RetryQuota, TableClient};
use idempotency_core::config::ConfigurationError;

use super::sdk::default_client;

/// The beginning of the header `user-agent`.
const PRODUCT: &str = concat!("idempotency-dynamodb/", env!("CARGO_PKG_VERSION"));

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
    quota: RetryQuota,
}

impl LeanClient {
    /// Makes a client with the settings of [`default_client`](crate::default_client). No request is sent.
    ///
    /// # Errors
    ///
    /// If no region is configured, or if the program has no TLS provider.
    pub async fn from_env() -> Result<Self, ConfigurationError> {
        Ok(Self::new(default_client().await?))
    }

    /// Makes a client with every setting of a client of the SDK. From an SDK configuration, [`sdk_client`](crate::sdk_client) makes one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::{DynamoDbStore, LeanClient, sdk_client};
    /// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// let client = LeanClient::new(sdk_client(&config));
    /// let store = DynamoDbStore::builder().table("idempotency").lean_client(client).build()?;
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn new(client: Client) -> Self {
        Self {
            client,
            quota: RetryQuota::default(),
        }
    }

    /// Returns the SDK's client from which this one has its settings.
    pub(crate) fn sdk(&self) -> &Client {
        &self.client
    }

    /// Returns this client for one table.
    pub(crate) fn of_table(self, table: &str) -> TableClient {
        TableClient::new(self.client, table, self.quota, PRODUCT)
    }

    /// Returns true if a lean client can do what this client of the SDK is configured for.
    pub(crate) fn can_replace(client: &Client) -> bool {
        let retries = client.config().retry_config();
        retries.is_none_or(|retries| retries.mode() != RetryMode::Adaptive)
    }

    /// Checks that this client can do what the SDK's client is configured for.
    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        if !Self::can_replace(&self.client) {
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
