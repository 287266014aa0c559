//! The client of the feature `lean-client`, which costs less CPU than the SDK's.
//!
//! [`dynamodb_lean_client`] signs and sends; `body` writes what it sends.

mod body;

use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryMode;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};
use dynamodb_lean_client::{ItemReply, RetryQuota, SendNotes, SendResult, TableClient};
use idempotency_core::config::ConfigurationError;
use idempotency_core::store::StoreError;

use crate::client;
use crate::failure;
use crate::request::Request;
use crate::sends::{SendEnd, Sends};
use crate::transport::Reply;

/// The begin of the header `user-agent`.
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
            quota: RetryQuota::default(),
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
pub(crate) struct Lean(TableClient);

impl Lean {
    pub(crate) fn new(client: LeanClient, table: &str) -> Self {
        let LeanClient { client, quota } = client;
        Self(TableClient::new(client, table, quota, PRODUCT))
    }

    /// Returns the SDK's client from which this one has its settings.
    pub(crate) fn sdk(&self) -> &Client {
        self.0.sdk()
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        sends: &Sends,
    ) -> Result<Reply, StoreError> {
        let body = body::write(sends.table(), &request)
            .map_err(|error| sends.error::<ErrorMetadata>(SdkError::construction_failure(error)))?;
        match self.0.send(body::target(&request), body, sends).await {
            Ok(ItemReply::Success(item)) => Ok(Reply::Success(item)),
            Ok(ItemReply::ConditionFailed(item)) => Ok(Reply::ConditionFailed(item)),
            Err(error) => Err(sends.error(error)),
        }
    }
}

impl SendNotes for Sends {
    fn timeout(&self, own: Duration) -> Duration {
        self.timeout(own)
    }

    fn starts(&self, uri: &str) {
        self.starts(uri);
    }

    fn ends(&self, result: SendResult<'_>) {
        self.ends(match result {
            SendResult::Success => SendEnd::Success,
            SendResult::Unsent => SendEnd::Unknown,
            SendResult::Timeout => SendEnd::NoResponse {
                never_connected: false,
                timeout: true,
            },
            SendResult::NoResponse(error) => SendEnd::NoResponse {
                never_connected: failure::never_connected(error),
                timeout: error.is_timeout(),
            },
            SendResult::Response {
                status,
                code,
                message,
            } => SendEnd::ErrorResponse {
                status: Some(status),
                code,
                message,
            },
        });
    }
}
