//! The settings of a store from variables, and the kind `valkey` of `IDEMPOTENCY_STORE`.

use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_core::store::{StoreKind, StoreUse};

use crate::builder::ValkeyStoreBuilder;
use crate::start::Durability;
use crate::store::ValkeyStore;

const URL: &str = "IDEMPOTENCY_VALKEY_URL";
const PREFIX: &str = "IDEMPOTENCY_VALKEY_PREFIX";
const USER: &str = "IDEMPOTENCY_VALKEY_USER";
const PASSWORD: &str = "IDEMPOTENCY_VALKEY_PASSWORD";
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
            variables: &[URL, PREFIX, USER, PASSWORD, DURABILITY],
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
    let mut builder = ValkeyStore::builder(url);
    if let Some(prefix) = variables.value(PREFIX) {
        builder = builder.prefix(prefix);
    }
    if let Some(user) = variables.value(USER) {
        builder = builder.user(user);
    }
    if let Some(password) = variables.value(PASSWORD) {
        builder = builder.password(password);
    }
    if let Some(value) = variables.value(DURABILITY) {
        let known = DURABILITIES.into_iter().find(|(name, _)| *name == value);
        let (_, durability) = known.ok_or_else(|| {
            ConfigurationError::value(DURABILITY, value, "write `asynchronous` or `synchronous`")
        })?;
        builder = builder.durability(durability);
    }
    Ok(builder)
}
