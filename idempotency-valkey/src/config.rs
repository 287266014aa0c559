//! The settings of a store from variables, and the kind `valkey` of `IDEMPOTENCY_STORE`.

use idempotency_core::compression::{self, COMPRESS_ABOVE};
use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_core::store::{StoreKind, StoreUse};

use crate::builder::ValkeyStoreBuilder;
use crate::start::Durability;
use crate::store::ValkeyStore;

const URL: &str = "IDEMPOTENCY_VALKEY_URL";
const PREFIX: &str = "IDEMPOTENCY_VALKEY_PREFIX";
const USER: &str = "IDEMPOTENCY_VALKEY_USER";
const PASSWORD: &str = "IDEMPOTENCY_VALKEY_PASSWORD";
const UNENCRYPTED_EVENTS: &str = "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED";
const DURABILITY: &str = "IDEMPOTENCY_VALKEY_DURABILITY";

/// The values of [`DURABILITY`]. The first one is the default.
const DURABILITIES: [(&str, Durability); 2] = [
    ("asynchronous", Durability::Asynchronous),
    ("synchronous", Durability::Synchronous),
];

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
            check: |variables| match variables.value(URL) {
                Some(url) => builder(url, variables)?.read().map(drop),
                None => builder("redis://unset", variables)?.read().map(drop),
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
    let threshold = compression::threshold(variables)?;
    let mut builder = ValkeyStore::builder(url).compress_above(threshold);
    if let Some(prefix) = variables.value(PREFIX) {
        builder = builder.prefix(prefix);
    }
    builder.user = variables.value(USER).map(str::to_owned);
    builder.password = variables.value(PASSWORD).map(str::to_owned);
    if let Some(value) = variables.value(DURABILITY) {
        let known = DURABILITIES.into_iter().find(|(name, _)| *name == value);
        let (_, durability) = known.ok_or_else(|| {
            ConfigurationError::value(DURABILITY, value, "write `asynchronous` or `synchronous`")
        })?;
        builder = builder.durability(durability);
    }
    match variables.value(UNENCRYPTED_EVENTS) {
        None | Some("false") => Ok(builder),
        Some("true") => Ok(builder.unencrypted_events(true)),
        Some(value) => Err(ConfigurationError::value(
            UNENCRYPTED_EVENTS,
            value,
            "write `true` or `false`",
        )),
    }
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
            (UNENCRYPTED_EVENTS, "1", "write `true` or `false`"),
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
        assert_eq!(crate::key::KeyPrefix::DEFAULT, "idempotency");
        assert_eq!(DURABILITIES[0], ("asynchronous", Durability::default()));
    }
}
