//! Builds the store.

use std::error::Error;
use std::sync::Arc;

use idempotency_core::compression;
use idempotency_core::config::ConfigurationError;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::address::Target;
use crate::connection::Connector;
use crate::key::KeyPrefix;
use crate::nodes::Nodes;
use crate::password::Password;
use crate::send::Sender;
use crate::store::{Durability, Settings, ValkeyStore};

/// Builds a [`ValkeyStore`]. It has no `Debug`, because its URL can have a password.
///
/// # Examples
///
/// ```
/// use idempotency_valkey::{Durability, ValkeyStore};
/// let builder = ValkeyStore::builder("rediss://memorydb.example.com:6379").durability(Durability::Synchronous);
/// let store = builder.user("shop").password("s3cr3t").build()?;
/// assert!(!format!("{store:?}").contains("s3cr3t"));
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ValkeyStoreBuilder {
    url: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    settings: Settings,
}

impl ValkeyStore {
    /// Returns the builder of a store on the server at this URL: `redis://host:port`, or `rediss://` for TLS. One server of a cluster is
    /// enough.
    pub fn builder(url: impl Into<String>) -> ValkeyStoreBuilder {
        ValkeyStoreBuilder {
            url: url.into(),
            user: None,
            password: None,
            settings: Settings {
                prefix: KeyPrefix::default(),
                durability: Durability::default(),
                compress_above: compression::DEFAULT_THRESHOLD,
                unencrypted_events: false,
            },
        }
    }
}

impl ValkeyStoreBuilder {
    /// Sets what the keys of the records begin with. The default is `idempotency`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = KeyPrefix::new(prefix);
        self
    }

    /// Sets the user, instead of that of the URL.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the password, instead of that of the URL.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Password::text(password));
        self
    }

    /// Sets a function that is called before each connection and returns the password, such as a token of IAM.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// use idempotency_valkey::ValkeyStore;
    /// let store = ValkeyStore::builder("rediss://cache.example.com").user("shop").password_from(token).build()?;
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn password_from<F, E>(mut self, next: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.password = Some(Password::from_function(next));
        self
    }

    /// Says whether the server can lose a write that it has acknowledged. The default is [`Durability::Asynchronous`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Sets the number of bytes above which a response, a result of a step or an event is compressed, or `None` for never. The default is 16
    /// KiB, and never without the feature `zstd`.
    pub fn compress_above(mut self, bytes: Option<usize>) -> Self {
        self.settings.compress_above = bytes;
        self
    }

    /// Says that events (`store_event`) may be kept on the server, whose memory and files no key of yours encrypts. The default is `false`:
    /// an operation that keeps events is refused.
    pub fn unencrypted_events(mut self, allowed: bool) -> Self {
        self.settings.unencrypted_events = allowed;
        self
    }

    /// Builds the store, without a connection.
    ///
    /// # Errors
    ///
    /// If the URL or the prefix cannot be used, or if there is no certificate authority for TLS.
    pub fn build(self) -> Result<ValkeyStore, ConfigurationError> {
        let (target, settings) = self.read()?;
        let tls = target.tls.then(tls).transpose()?;
        let nodes = Nodes::new(Connector { target, tls });
        Ok(ValkeyStore::new(Sender::new(nodes), settings))
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// If the URL or the prefix cannot be used.
    pub(crate) fn read(self) -> Result<(Target, Settings), ConfigurationError> {
        let mut target = Target::of(&self.url)?;
        target.user = self.user.or(target.user);
        target.password = self.password.or(target.password);
        if target.user.is_some() && target.password.is_none() {
            return Err(ConfigurationError::new(
                "the Valkey server needs a password, because a user is set: set IDEMPOTENCY_VALKEY_PASSWORD, or the password in the URL",
            ));
        }
        self.settings.prefix.check()?;
        compression::check(self.settings.compress_above)?;
        Ok((target, self.settings))
    }
}

/// Returns what makes TLS connections: with `ring`, which a process needs not to install, and the certificate authorities of the system.
fn tls() -> Result<TlsConnector, ConfigurationError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(ConfigurationError::new(
            "there is no certificate authority for TLS: install `ca-certificates`, or set SSL_CERT_FILE to a file with one",
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let config =
        config.map_err(|error| ConfigurationError::new(format!("TLS cannot be used: {error}")))?;
    Ok(TlsConnector::from(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    )))
}
