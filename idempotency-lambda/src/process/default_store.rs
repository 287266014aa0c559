//! The store that the environment variables name.

use std::sync::Arc;

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::store::{MemoryStore, Store};

use crate::process::warn;

/// The variable that names the store.
const STORE: &str = "IDEMPOTENCY_STORE";

/// The variables of a DynamoDB table. They are known without the feature `dynamodb` too, because a template may set them for
/// all functions, also for one that has another store.
const TABLE_VARIABLES: &[&str] = &[
    "IDEMPOTENCY_TABLE",
    "IDEMPOTENCY_KEY_ATTR",
    "IDEMPOTENCY_SORT_KEY_ATTR",
    "IDEMPOTENCY_STATIC_PK_VALUE",
    "IDEMPOTENCY_EXPIRY_ATTR",
    "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR",
    "IDEMPOTENCY_STATUS_ATTR",
    "IDEMPOTENCY_DATA_ATTR",
    "IDEMPOTENCY_VALIDATION_ATTR",
    "IDEMPOTENCY_COMPRESS_ABOVE",
    "IDEMPOTENCY_LARGE_RESPONSES",
    "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED",
    "IDEMPOTENCY_CLIENT",
];

/// A kind of store that [`STORE`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreKind {
    DynamoDb,
    Memory,
}

impl StoreKind {
    fn of(variables: &Variables) -> Result<Self, ConfigurationError> {
        match variables.value(STORE) {
            None | Some("dynamodb") => Ok(Self::DynamoDb),
            Some("memory") => Ok(Self::Memory),
            Some(other) => Err(ConfigurationError::value(
                STORE,
                other,
                "write one of `dynamodb`, `memory`",
            )),
        }
    }
}

/// Returns the variables that describe a store, which core does not know.
pub(super) fn variables() -> Vec<&'static str> {
    [&[STORE], TABLE_VARIABLES].concat()
}

/// Returns true if a variable of this name describes a store.
pub(super) fn is_known(name: &str) -> bool {
    variables().contains(&name)
}

/// Checks the variables that describe a store, without a connection.
pub(super) fn check(variables: &Variables) -> Result<(), ConfigurationError> {
    StoreKind::of(variables)?;
    #[cfg(feature = "dynamodb")]
    idempotency_dynamodb::TableConfig::check(variables)?;
    Ok(())
}

/// Makes the store that the variables name.
///
/// # Errors
///
/// If a variable that it needs is missing or cannot be used, or if the store is not compiled into this program.
pub(super) async fn from_variables(
    variables: &Variables,
) -> Result<Arc<dyn Store>, ConfigurationError> {
    if Settings::disabled(variables)? {
        // No request is made to it, and a function that is switched off needs no table.
        return Ok(Arc::new(MemoryStore::new()));
    }
    match StoreKind::of(variables)? {
        StoreKind::DynamoDb => dynamodb(variables).await,
        StoreKind::Memory => {
            warn(
                "IDEMPOTENCY_STORE is `memory`: calls are protected within this process alone, and not after it ends",
            );
            Ok(Arc::new(MemoryStore::new()))
        }
    }
}

#[cfg(feature = "dynamodb")]
async fn dynamodb(variables: &Variables) -> Result<Arc<dyn Store>, ConfigurationError> {
    let table = idempotency_dynamodb::TableConfig::from_variables(variables)?;
    Ok(Arc::new(table.connect().await?))
}

#[cfg(not(feature = "dynamodb"))]
async fn dynamodb(_: &Variables) -> Result<Arc<dyn Store>, ConfigurationError> {
    Err(ConfigurationError::new(
        "there is no store, because this program is built without the feature `dynamodb` of `idempotency-lambda`: switch \
         the feature on, call `set_global_backend` before `run` or `init`, give each operation a store (`store = ..`), or set \
         IDEMPOTENCY_STORE to `memory` for a trial",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;

    #[test]
    fn an_unknown_store_or_client_is_refused_with_the_known_names() {
        for (name, value, remedy) in [
            (STORE, "redis", "write one of `dynamodb`, `memory`"),
            #[cfg(feature = "dynamodb")]
            ("IDEMPOTENCY_CLIENT", "fast", "write one of `lean`, `sdk`"),
        ] {
            let error = check(&only(name, value)).unwrap_err().to_string();
            assert_eq!(error, format!("{name} is `{value}`: {remedy}"));
        }
    }

    #[tokio::test]
    async fn the_store_in_memory_needs_no_other_variable() {
        let store = from_variables(&only(STORE, "memory")).await.unwrap();
        assert_eq!(store.name(), "memory");
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn the_variables_of_a_table_are_known_without_the_feature_too() {
        assert_eq!(
            TABLE_VARIABLES,
            idempotency_dynamodb::TableConfig::VARIABLES
        );
    }

    #[test]
    fn a_variable_of_the_table_is_never_reported_as_misspelt() {
        let table = TABLE_VARIABLES
            .iter()
            .map(|name| ((*name).to_owned(), "x".to_owned()));
        assert_eq!(Variables::from_iter(table).unknown(&super::variables()), []);
    }

    #[cfg(feature = "dynamodb")]
    #[tokio::test]
    async fn without_a_table_the_error_names_the_variable_to_set() {
        let error = from_variables(&Variables::default()).await.err().unwrap();
        assert!(error.to_string().contains("IDEMPOTENCY_TABLE"), "{error}");
    }

    #[cfg(not(feature = "dynamodb"))]
    #[tokio::test]
    async fn without_the_feature_the_error_names_every_other_way_to_a_store() {
        let error = from_variables(&Variables::default()).await.err().unwrap();
        for remedy in [
            "`dynamodb`",
            "`set_global_backend`",
            "`store = ..`",
            "IDEMPOTENCY_STORE to `memory`",
        ] {
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}
