//! The HTTP client of the SDK clients that this crate makes.
//!
//! It differs from the SDK's default HTTP client in two ways, which both shorten the start of a process:
//!
//! - Its TLS provider is that of this crate's features: `ring` by default. AWS-LC, which the SDK uses, seeds its random generator
//!   for tens of milliseconds.
//! - It makes a connector when the first request needs it. The SDK's client makes one more to validate its configuration, and
//!   each of them reads every certificate authority of the system.
//!
//! Proxies, trusted certificate authorities, timeouts and the reuse of connections are those of the SDK's client.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};

/// Makes the HTTP client that [`default_client`](crate::default_client) uses.
///
/// Use it for the other AWS clients of a function too. Then they share its connections and its TLS provider, and the start of the
/// process does not wait for the SDK's own provider.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use idempotency_dynamodb::DynamoDbStore;
/// let config = aws_config::defaults(aws_config::BehaviorVersion::latest())
///     .http_client(idempotency_dynamodb::http_client())
///     .load()
///     .await;
/// // Clients of other services use `config` too.
/// let store = DynamoDbStore::from_sdk_config(&config, "idempotency")?;
/// # Ok(())
/// # }
/// ```
pub fn http_client() -> SharedHttpClient {
    SharedHttpClient::new(Https::default())
}

/// Returns the TLS provider of the features.
fn provider() -> Provider {
    #[cfg(feature = "rustls-aws-lc")]
    let mode = CryptoMode::AwsLc;
    #[cfg(not(feature = "rustls-aws-lc"))]
    let mode = CryptoMode::Ring;
    Provider::Rustls(mode)
}

/// The timeouts that a connector is made with: to connect, and to read.
type Timeouts = (Option<Duration>, Option<Duration>);

/// The connectors that were made. Requests with the same timeouts share a connector, and so its connections.
#[derive(Debug, Default)]
struct Https {
    connectors: Mutex<Vec<(Timeouts, SharedHttpConnector)>>,
}

impl HttpClient for Https {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let timeouts = (settings.connect_timeout(), settings.read_timeout());
        let connectors = self.connectors.lock();
        let mut connectors = connectors.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, connector)) = connectors.iter().find(|(of, _)| *of == timeouts) {
            return connector.clone();
        }
        let mut builder = Connector::builder().tls_provider(provider());
        builder.set_connector_settings(Some(settings.clone()));
        builder.set_sleep_impl(components.sleep_impl());
        builder.set_proxy_config(Some(ProxyConfig::from_env()));
        let connector = SharedHttpConnector::new(builder.build());
        connectors.push((timeouts, connector.clone()));
        connector
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        Some(ConnectorMetadata::new("hyper", Some("1.x".into())))
    }
}
