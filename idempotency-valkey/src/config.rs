//! The settings of a store from variables, and the kind `valkey` of `IDEMPOTENCY_STORE`.

use idempotency_core::compression::{self, COMPRESS_ABOVE};
use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_core::store::events::{UNENCRYPTED_EVENTS, unencrypted_events};
use idempotency_core::store::{StoreKind, StoreUse};

use crate::builder::ValkeyStoreBuilder;
use crate::password::Password;
use crate::store::{Durability, ValkeyStore};

const URL: &str = "IDEMPOTENCY_VALKEY_URL";
const PREFIX: &str = "IDEMPOTENCY_VALKEY_PREFIX";
const USER: &str = "IDEMPOTENCY_VALKEY_USER";
const PASSWORD: &str = "IDEMPOTENCY_VALKEY_PASSWORD";
const DURABILITY: &str = "IDEMPOTENCY_VALKEY_DURABILITY";

impl ValkeyStore {
    /// Returns the kind of these stores.
    #[doc(hidden)]
    pub fn kind<S: StoreUse + ?Sized>() -> StoreKind<S> {
        StoreKind {
            name: "valkey",
            variables: &[
                URL,
                PREFIX,
                USER,
                PASSWORD,
                DURABILITY,
                COMPRESS_ABOVE,
                UNENCRYPTED_EVENTS,
            ],
            warning: None,
            check: |variables| {
                let url = variables.value(URL).unwrap_or("redis://unset");
                builder(url, variables)?.read().map(drop)
            },
            open: |variables| {
                Box::pin(async move {
                    let url = variables.value(URL).ok_or_else(|| {
                        ConfigurationError::new(format!("{URL} is not set: set it to `redis://host:6379`, or to `rediss://host:6379` for TLS"))
                    })?;
                    Ok(S::shared(builder(url, variables)?.build()?))
                })
            },
        }
    }
}

/// Returns the builder of the store that the variables describe.
///
/// # Errors
///
/// If a variable has a value that it cannot have.
fn builder(url: &str, variables: &Variables) -> Result<ValkeyStoreBuilder, ConfigurationError> {
    let mut builder = ValkeyStore::builder(url)
        .compress_above(compression::threshold(variables)?)
        .unencrypted_events(unencrypted_events(variables)?);
    if let Some(prefix) = variables.value(PREFIX) {
        builder = builder.prefix(prefix);
    }
    builder.user = variables.value(USER).map(str::to_owned);
    builder.password = variables.value(PASSWORD).map(Password::text);
    let remedy = "write `asynchronous` or `synchronous`";
    if variables.is_second_value(DURABILITY, ["asynchronous", "synchronous"], remedy)? {
        builder = builder.durability(Durability::Synchronous);
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use idempotency_core::store::Store;

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn check(pairs: &[(&str, &str)]) -> Result<(), String> {
        let kind = ValkeyStore::kind::<dyn Store>();
        (kind.check)(&variables(pairs)).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_variables_describe_a_store_and_no_password_is_shown() {
        let set = variables(&[
            (URL, "redis://:s3cr3t@cache:7"),
            (PREFIX, "shop"),
            (PASSWORD, "s3cr3t"),
        ]);
        let store = (ValkeyStore::kind::<dyn Store>().open)(&set).await.unwrap();
        assert_eq!(store.name(), "Valkey at cache:7");
        let open = ValkeyStore::kind::<dyn Store>().open;
        let error = open(&Variables::default()).await.err().unwrap();
        assert!(
            error
                .to_string()
                .starts_with("IDEMPOTENCY_VALKEY_URL is not set")
        );
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_refused_without_a_connection() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(
            check(&[(URL, "rediss://cache"), (DURABILITY, "synchronous")]),
            Ok(())
        );
        for (name, value, text) in [
            (
                URL,
                "cache:s3cr3t",
                "(IDEMPOTENCY_VALKEY_URL) cannot be read",
            ),
            (
                PREFIX,
                "a b",
                "(IDEMPOTENCY_VALKEY_PREFIX) is `a b`: write 1 to 128 bytes",
            ),
            (USER, "shop", "needs a password, because a user is set"),
            (UNENCRYPTED_EVENTS, "ok", "write `true` or `false`"),
            (DURABILITY, "yes", "write `asynchronous` or `synchronous`"),
        ] {
            let error = check(&[(name, value)]).unwrap_err();
            assert!(error.contains(text) && !error.contains("s3cr3t"), "{error}");
        }
    }

    #[test]
    fn the_configuration_page_has_the_default_of_each_variable() {
        let page = include_str!("../../docs/reference/configuration.md");
        for (variable, default) in [
            (URL, "none: required"),
            (PREFIX, "`idempotency`"),
            (USER, "none"),
            (PASSWORD, "none"),
            (DURABILITY, "`asynchronous`"),
        ] {
            let mut rows = page
                .lines()
                .filter(|line| line.starts_with(&format!("| `{variable}` |")));
            let row = rows.next();
            assert!(
                row.is_some_and(|row| row.ends_with(&format!("| {default} |"))),
                "{variable}: {row:?}"
            );
        }
        assert_eq!(crate::key::KeyPrefix::default().as_str(), "idempotency");
        let durability = |set: &[(&str, &str)]| {
            let builder = builder("redis://cache", &variables(set)).unwrap();
            builder.read().unwrap().1.durability
        };
        for set in [&[][..], &[(DURABILITY, "asynchronous")]] {
            assert_eq!(durability(set), Durability::default());
        }
        assert_eq!(
            durability(&[(DURABILITY, "synchronous")]),
            Durability::Synchronous
        );
    }
}
