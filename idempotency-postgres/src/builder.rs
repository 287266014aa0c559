//! The builder of the store.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use idempotency_core::config::ConfigurationError;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::connection::{self, Connections, Own, Passwords, TEST_AFTER};
use crate::store::PostgresStore;
use crate::table::TableName;

/// Builds a [`PostgresStore`].
///
/// # Examples
///
/// A server has more connections, and takes its password from elsewhere:
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_postgres::PostgresStore;
/// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
///
/// let store = PostgresStore::builder()
///     .url("postgres://app@db.internal/shop?sslmode=verify-full&sslrootcert=/etc/rds.pem")
///     .connections(8)
///     .password(token)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct PostgresStoreBuilder {
    server: Option<Server>,
    table: Option<String>,
    is_pooled: bool,
    connections: Option<u32>,
    passwords: Option<Passwords>,
    unencrypted_events: bool,
    test_after: Option<Duration>,
}

#[derive(Clone)]
enum Server {
    Url(String),
    Pool(PgPool),
}

impl PostgresStore {
    /// Returns a builder of a store.
    pub fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::default()
    }
}

impl PostgresStoreBuilder {
    /// Sets the server, such as `postgres://USER:PASSWORD@HOST:5432/DATABASE`. The variables of libpq (`PGPASSWORD`, `PGSSLROOTCERT`, ..)
    /// set what the URL does not.
    ///
    /// TLS is required, unless the URL says `sslmode=disable`. Its certificate is checked with `sslmode=verify-full`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.server = Some(Server::Url(url.into()));
        self
    }

    /// Sets a pool of connections that the program has already. Its own options decide about TLS, the number of connections and their test:
    /// [`pool_options`](crate::pool_options) returns those that the store takes for a URL.
    pub fn pool(mut self, pool: PgPool) -> Self {
        self.server = Some(Server::Pool(pool));
        self
    }

    /// Sets the table, `idempotency` by default, also with its schema: `billing.idempotency`.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Sets the most connections that the store opens, 1 by default: a function takes one event at a time.
    pub fn connections(mut self, most: u32) -> Self {
        self.connections = Some(most);
        self
    }

    /// Says that a pooler in transaction mode is between this process and the server, and keeps no prepared statements, as PgBouncer before
    /// 1.21. Each request is then a transaction of four round trips instead of one.
    pub fn transaction_pooler(mut self) -> Self {
        self.is_pooled = true;
        self
    }

    /// Sets where passwords come from. It is called before a connection is opened, and again if the last password is older than ten
    /// minutes: a token of IAM is valid for 15.
    pub fn password<F, E>(mut self, next: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let next = move || {
            let next = next();
            Box::pin(async move { next.await.map_err(Into::into) }) as _
        };
        self.passwords = Some(Passwords {
            next: Arc::new(next),
            asked: Arc::default(),
        });
        self
    }

    /// Says that events (`store_event`) may be kept in the table, as plain text: the store cannot see whether the disks of the server are
    /// encrypted. The default is `false`: an operation that keeps events is refused.
    pub fn unencrypted_events(mut self, allowed: bool) -> Self {
        self.unencrypted_events = allowed;
        self
    }

    /// Sets after which pause a connection is tested, for the tests of this product.
    #[doc(hidden)]
    pub fn test_after(mut self, pause: Duration) -> Self {
        self.test_after = Some(pause);
        self
    }

    /// Builds the store. It connects when it is first used, or with its `warm_up`.
    ///
    /// # Errors
    ///
    /// Without a URL or pool, if the URL or the name of the table is wrong, if there is a number of connections of zero, if a pool keeps no
    /// prepared statements, or outside of a Tokio runtime.
    pub fn build(self) -> Result<PostgresStore, ConfigurationError> {
        let table = self.table.as_deref().unwrap_or(TableName::DEFAULT);
        let table = TableName::new("`table`", table)?;
        if tokio::runtime::Handle::try_current().is_err() {
            let text = "a store on PostgreSQL needs a Tokio runtime: call `build` inside of one";
            return Err(ConfigurationError::new(text));
        }
        let (pool, own) = match self.server {
            None => {
                return Err(ConfigurationError::new(
                    "there is no server: set `url` or `pool`",
                ));
            }
            Some(Server::Pool(pool)) => {
                // `sqlx` has no other getter.
                let url = pool.connect_options().to_url_lossy();
                let keeps_none = |it: &str| it.contains("statement-cache-capacity=0");
                if !self.is_pooled && url.query().is_some_and(keeps_none) {
                    let text = "the pool has `statement_cache_capacity(0)`, so each request would leave a prepared statement at the server: \
                                raise it, or behind a pooler in transaction mode call `transaction_pooler`";
                    return Err(ConfigurationError::new(text));
                }
                (pool, None)
            }
            Some(Server::Url(url)) => {
                let options = connection::options("`url`", &url)?;
                let most = self.connections.unwrap_or(1);
                if most == 0 {
                    let remedy = "write at least 1";
                    return Err(ConfigurationError::value("`connections`", "0", remedy));
                }
                let own = Own::new(self.test_after.unwrap_or(TEST_AFTER));
                let pool = own.pool_options().max_connections(most);
                (pool.connect_lazy_with(options), Some(own))
            }
        };
        let connections = Connections::new(pool, own, self.is_pooled, self.passwords, &table);
        Ok(PostgresStore {
            connections,
            statements: OnceLock::new(),
            table,
            unencrypted_events: self.unencrypted_events,
        })
    }
}

/// Returns the options of the pool that a store opens for a URL: one connection, which is tested before it is used after a pause, because
/// Lambda freezes processes.
pub fn pool_options() -> PgPoolOptions {
    connection::pool_options(TEST_AFTER, Arc::default())
}

/// Shows no URL, because it can have a password.
impl fmt::Debug for PostgresStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStoreBuilder")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
