//! The kind `postgres` of `IDEMPOTENCY_STORE`.

use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_core::store::events::{UNENCRYPTED_EVENTS, unencrypted_events};
use idempotency_core::store::{StoreKind, StoreUse};

use crate::builder::PostgresStoreBuilder;
use crate::connection::options;
use crate::store::PostgresStore;
use crate::table::TableName;

/// The URL of the server.
const URL: &str = "IDEMPOTENCY_POSTGRES_URL";
/// The table, with or without its schema.
const TABLE: &str = "IDEMPOTENCY_POSTGRES_TABLE";
/// Whether a pooler keeps sessions.
const POOLER: &str = "IDEMPOTENCY_POSTGRES_POOLER";
/// The most connections.
const CONNECTIONS: &str = "IDEMPOTENCY_POSTGRES_CONNECTIONS";

impl PostgresStore {
    /// Returns the kind of these stores.
    #[doc(hidden)]
    pub fn kind<S: StoreUse + ?Sized>() -> StoreKind<S> {
        StoreKind {
            name: "postgres",
            variables: &[URL, TABLE, POOLER, CONNECTIONS, UNENCRYPTED_EVENTS],
            warning: None,
            check: |variables| builder(variables).map(drop),
            open: |variables| {
                Box::pin(async move { Ok(S::shared(Self::from_variables(variables)?)) })
            },
        }
    }

    /// Returns the store that the variables describe.
    #[doc(hidden)]
    pub fn from_variables(variables: &Variables) -> Result<Self, ConfigurationError> {
        if variables.value(URL).is_none() {
            return Err(ConfigurationError::new(format!(
                "{URL} is not set, and IDEMPOTENCY_STORE is `postgres`: set it to the URL of the server"
            )));
        }
        builder(variables)?.build()
    }

    /// Returns the migration of the table that the variables name.
    #[doc(hidden)]
    pub fn migration(variables: &Variables) -> Result<String, ConfigurationError> {
        let table = variables.value(TABLE).unwrap_or(TableName::DEFAULT);
        let table = TableName::new(TABLE, table)?;
        Ok(TableName::migration(&table.to_string()))
    }
}

/// Returns the builder that the variables describe.
///
/// # Errors
///
/// If one of them has a value that it cannot have.
fn builder(variables: &Variables) -> Result<PostgresStoreBuilder, ConfigurationError> {
    let mut builder = PostgresStore::builder();
    if let Some(url) = variables.value(URL) {
        options(URL, url)?;
        builder = builder.url(url);
    }
    if let Some(table) = variables.value(TABLE) {
        TableName::new(TABLE, table)?;
        builder = builder.table(table);
    }
    if let Some(most) = variables.value(CONNECTIONS) {
        let number = most.parse().ok().filter(|most| *most > 0);
        let remedy = "write a number of connections, such as `1`";
        let number = number.ok_or_else(|| ConfigurationError::value(CONNECTIONS, most, remedy))?;
        builder = builder.connections(number);
    }
    builder = builder.unencrypted_events(unencrypted_events(variables)?);
    let remedy = "write `session` or `transaction`";
    if variables.is_second_value(POOLER, ["session", "transaction"], remedy)? {
        builder = builder.transaction_pooler();
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use idempotency_core::store::{Store, StoreErrorKind};
    use sqlx::postgres::PgConnectOptions;

    use super::*;

    fn check(pairs: &[(&str, &str)]) -> Result<(), String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let kind = PostgresStore::kind::<dyn Store>();
        (kind.check)(&pairs.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variables_are_checked_without_a_connection() {
        assert_eq!(check(&[]), Ok(()));
        let url = (URL, "postgres://app:s3cr3t@db/shop?sslmode=verify-full");
        let all = [
            url,
            (TABLE, "shop.idempotency"),
            (POOLER, "transaction"),
            (CONNECTIONS, "4"),
        ];
        assert_eq!(check(&all), Ok(()));
        for (name, value, remedy) in [
            (URL, "db", "write `postgres://"),
            (TABLE, "a.b.c", "SCHEMA.TABLE"),
            (TABLE, "\"a\"", "without quotes"),
            (POOLER, "statement", "write `session` or `transaction`"),
            (CONNECTIONS, "0", "write a number of connections"),
            (UNENCRYPTED_EVENTS, "ok", "write `true` or `false`"),
            (CONNECTIONS, "many", "write a number of connections"),
        ] {
            let error = check(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(name) && error.contains(remedy), "{error}");
        }
    }

    #[tokio::test]
    async fn a_store_needs_a_url_and_shows_no_password() {
        let open = PostgresStore::kind::<dyn Store>().open;
        let error = open(&Variables::default()).await.err().unwrap();
        assert!(
            error
                .to_string()
                .starts_with("IDEMPOTENCY_POSTGRES_URL is not set")
        );
        let builder = PostgresStore::builder().url("postgres://app:s3cr3t@db/shop");
        let store = builder.clone().build().unwrap();
        let shown = format!("{builder:?} {store:?} {}", store.name());
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert_eq!(
            store.name(),
            "PostgreSQL table `idempotency` of `shop` at db:5432"
        );
        for unfinished in [PostgresStore::builder(), builder.connections(0)] {
            assert!(unfinished.build().is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_that_does_not_come_is_an_error_at_the_start() {
        let builder = PostgresStore::builder().url("postgres://app@db/shop");
        let never = || std::future::pending::<Result<String, std::io::Error>>();
        let store = builder.password(never).build().unwrap();
        let error = store.warm_up(false).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Credentials);
        assert!(error.to_string().contains("did not end within"), "{error}");
    }

    #[tokio::test]
    async fn a_pool_that_keeps_no_statements_is_one_behind_a_pooler() {
        let pool = |kept| {
            let options = PgConnectOptions::new_without_pgpass().statement_cache_capacity(kept);
            PostgresStore::builder().pool(crate::pool_options().connect_lazy_with(options))
        };
        let error = pool(0).build().unwrap_err().to_string();
        assert!(error.contains("`statement_cache_capacity(0)`"), "{error}");
        assert!(pool(0).transaction_pooler().build().is_ok() && pool(10).build().is_ok());
    }

    #[test]
    fn outside_of_a_runtime_no_store_is_built() {
        let builder = PostgresStore::builder().url("postgres://app@db/shop");
        assert!(builder.build().unwrap_err().to_string().contains("Tokio"));
    }
}
