//! What a URL says: a server, whether it is reached over TLS, and credentials. No text contains the credentials.

use std::fmt;

use idempotency_core::config::ConfigurationError;
use redis::{ConnectionAddr, IntoConnectionInfo};

use crate::password::Password;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Returns the address in this text, such as `10.0.0.1:6379` or `::1:6379`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Some(Self {
            host,
            port: port.parse().ok()?,
        })
    }

    /// Returns the address of a server that this one names. Without a host, or with the one that means "not known", it is its own.
    pub(crate) fn named(&self, host: String, port: u16) -> Self {
        match host.as_str() {
            "" | "?" => Self {
                host: self.host.clone(),
                port,
            },
            _ => Self { host, port },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// How the servers of a store are reached. Its `Debug` shows no password.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Password>,
    /// The number of the database.
    pub(crate) database: i64,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// If it is no URL of a server. The text does not contain it, because it can have a password.
    pub(crate) fn of(url: &str) -> Result<Self, ConfigurationError> {
        Self::read(url).ok_or_else(|| {
            ConfigurationError::new(
                "the URL of the Valkey server (IDEMPOTENCY_VALKEY_URL) cannot be read: write `redis://host:6379`, or `rediss://host:6379` for TLS, \
                 with a percent-encoded user and password before the host, or in IDEMPOTENCY_VALKEY_USER and IDEMPOTENCY_VALKEY_PASSWORD",
            )
        })
    }

    fn read(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return None,
        };
        // An option in the URL would be ignored: each has another place, or none.
        if rest.contains(['?', '#']) {
            return None;
        }
        let info = format!("redis://{rest}").into_connection_info().ok()?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return None;
        };
        let login = info.redis_settings();
        Some(Self {
            address: Address { host, port },
            tls,
            user: login.username().map(str::to_owned),
            password: login.password().map(Password::text),
            database: login.db(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_says_where_the_server_is_and_who_logs_in() {
        for (url, address, tls) in [
            ("redis://cache", "cache:6379", false),
            ("valkey://cache:7000/2", "cache:7000", false),
            (
                "rediss://cache.example.com:6380",
                "cache.example.com:6380",
                true,
            ),
            ("valkeys://:s3cr3t@[::1]:7", "[::1]:7", true),
            ("redis://shop:s%40cr3t@10.0.0.1", "10.0.0.1:6379", false),
        ] {
            let target = Target::of(url).unwrap();
            assert_eq!(
                (target.address.to_string().as_str(), target.tls),
                (address, tls),
                "{url}"
            );
            assert_eq!(Address::of(address), Some(target.address));
        }
        let target = Target::of("redis://shop:s%40:cr3t@cache/3").unwrap();
        assert_eq!((target.user.as_deref(), target.database), (Some("shop"), 3));
        assert_eq!(target.password.unwrap().next().await.unwrap(), "s@:cr3t");
    }

    #[test]
    fn a_url_that_cannot_be_read_is_refused_without_its_password() {
        for url in [
            "",
            "cache:6379",
            "http://:s3cr3t@cache",
            "redis+unix:///s3cr3t",
            "redis://:s3cr3t@",
            "redis://:s3cr3t@cache:port",
            "redis://:s3cr3t@cache/db",
            "rediss://:s3cr3t@cache/#insecure",
            "redis://:s3cr3t@cache/?protocol=resp3",
            "redis://:s3cr3t@cache:6379:7",
            "redis://:s3cr3t@cache/0/1",
            "redis://:s3/cr3t@cache",
            "redis://:s3cr3t@::1",
        ] {
            let error = Target::of(url).unwrap_err().to_string();
            assert!(
                error.contains("cannot be read: write") && !error.contains("s3cr3t"),
                "{error}"
            );
        }
    }
}
