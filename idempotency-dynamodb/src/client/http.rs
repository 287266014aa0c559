//! The HTTP client of the SDK clients that this crate makes.
//!
//! It differs from the SDK's default HTTP client in two ways, which both shorten the start of a process:
//!
//! - Its TLS provider is that of this crate's features: `ring` by default. AWS-LC, which the SDK uses, seeds its random generator
//!   for tens of milliseconds.
//! - It makes a connector when the first request needs it. The SDK's client makes one more to validate its configuration, and
//!   each of them reads every certificate authority of the system.
//!
//! Proxies, timeouts and the reuse of connections are those of the SDK's client, and so are the trusted certificate authorities, unless
//! `AWS_CA_BUNDLE` names others, as for the AWS CLI. The SDK ignores it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::environment::BUNDLE;

/// Makes the HTTP client that [`default_client`](crate::default_client) uses.
///
/// It trusts the certificate authorities in the file that `AWS_CA_BUNDLE` names; without it, those of the system.
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
/// let store = DynamoDbStore::builder().table("idempotency").sdk_config(&config).build()?;
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

/// Returns what `AWS_CA_BUNDLE` names. An empty value counts as not set.
fn bundle_path() -> Option<PathBuf> {
    let path = std::env::var_os(BUNDLE).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// Reads a file with certificates of authorities.
///
/// # Errors
///
/// If it cannot be read, or has none, or one that is none. The HTTP client would panic.
fn bundle(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |why: &str| {
        format!(
            "{BUNDLE} is `{}`: {why}: name a file with certificates in PEM, or remove the variable",
            path.display()
        )
    };
    let pem =
        std::fs::read(path).map_err(|error| wrong(&format!("it cannot be read ({error})")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| wrong("it is not PEM"))?;
        let added = roots.add(certificate);
        added.map_err(|_| wrong("it has a certificate that cannot be read"))?;
    }
    if roots.is_empty() {
        return Err(wrong("it has no certificate"));
    }
    Ok(pem)
}

/// Returns true if the system has certificate authorities.
fn has_authorities() -> bool {
    let found = rustls_native_certs::load_native_certs();
    let (valid, _) = RootCertStore::empty().add_parsable_certificates(found.certs);
    valid > 0
}

/// Returns what a connector trusts.
///
/// # Errors
///
/// If `AWS_CA_BUNDLE` names no file with certificates.
fn trust() -> Result<TlsContext, String> {
    let trusted = match bundle_path() {
        Some(path) => TrustStore::empty().with_pem_certificate(bundle(&path)?),
        // In a debug build the SDK's HTTP client asserts that there are some, also for an endpoint without TLS.
        None => TrustStore::empty().with_native_roots(!cfg!(debug_assertions) || has_authorities()),
    };
    let context = TlsContext::builder().with_trust_store(trusted).build();
    context.map_err(|error| error.to_string())
}

/// Checks that the file of `AWS_CA_BUNDLE` can be used, if it is set.
///
/// # Errors
///
/// If it names no file with certificates.
pub(super) fn check_bundle() -> Result<(), String> {
    bundle_path().map_or(Ok(()), |path| bundle(&path).map(drop))
}

/// Returns what to do about a certificate that is not trusted.
pub(super) fn authorities() -> String {
    match bundle_path() {
        Some(path) => format!(
            "only the authorities in `{}` ({BUNDLE}) are trusted: add the one that issued it",
            path.display()
        ),
        None if !has_authorities() => format!(
            "there are no certificate authorities here: install them (the package `ca-certificates`), or name a file with \
             them in SSL_CERT_FILE or {BUNDLE}"
        ),
        None => format!(
            "name a file with its authority in {BUNDLE}; if the certificate has expired, or is not valid yet, check the clock"
        ),
    }
}

/// A connector that sends nothing, because what to trust is not known.
#[derive(Debug)]
struct Distrusting(String);

impl HttpConnector for Distrusting {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        // Nothing is sent, as if the connection had been refused.
        let error = io::Error::new(io::ErrorKind::ConnectionRefused, self.0.clone());
        HttpConnectorFuture::ready(Err(ConnectorError::other(error.into(), None)))
    }
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
        let connector = match trust() {
            Ok(trust) => {
                let builder = Connector::builder().tls_provider(provider());
                let mut builder = builder.tls_context(trust);
                builder.set_connector_settings(Some(settings.clone()));
                builder.set_sleep_impl(components.sleep_impl());
                builder.set_proxy_config(Some(ProxyConfig::from_env()));
                SharedHttpConnector::new(builder.build())
            }
            Err(why) => SharedHttpConnector::new(Distrusting(why)),
        };
        connectors.push((timeouts, connector.clone()));
        connector
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        Some(ConnectorMetadata::new("hyper", Some("1.x".into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_that_can_be_read_is_refused_with_its_name() {
        let folder = std::env::temp_dir().join(format!("bundle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pem = |body: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
        };
        for (name, text, why) in [
            ("empty", String::new(), "it has no certificate"),
            ("text", "no certificate".to_owned(), "it has no certificate"),
            ("base64", pem("?"), "it is not PEM"),
            (
                "der",
                pem("AAAA"),
                "it has a certificate that cannot be read",
            ),
            (
                "cut",
                "-----BEGIN CERTIFICATE-----\nAAAA".to_owned(),
                "it is not PEM",
            ),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            let error = bundle(&path).unwrap_err();
            let begin = format!("AWS_CA_BUNDLE is `{}`: {why}: name a file", path.display());
            assert!(error.starts_with(&begin), "{error}");
        }
        let missing = bundle(&folder.join("missing")).unwrap_err();
        assert!(missing.contains("it cannot be read"), "{missing}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_request_names_the_http_client_in_its_user_agent() {
        let named = http_client().connector_metadata();
        assert_eq!(named.unwrap().to_string(), "http#hyper-1.x");
    }
}
