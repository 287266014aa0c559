//! The kinds of stores that `IDEMPOTENCY_STORE` can name: one list, for functions and for the operator's command.

#[cfg(any(test, feature = "__shelf"))]
mod tests;

use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_core::store::{MemoryStore, Store, StoreKind, StoreUse};

/// The variable that names the kind.
const STORE: &str = "IDEMPOTENCY_STORE";

/// The name of the kind without the variable.
const DEFAULT: &str = "dynamodb";

/// The kinds that are behind a feature of their name.
const OF_FEATURES: [&str; 3] = [DEFAULT, "postgres", "valkey"];

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

/// Returns the kinds that this program links. A kind is one line here, behind the feature that links its crate.
fn kinds<S: StoreUse + ?Sized>() -> impl Iterator<Item = StoreKind<S>> {
    let kinds = [
        #[cfg(feature = "dynamodb")]
        idempotency_dynamodb::DynamoDbStore::kind(),
        MemoryStore::kind(),
        #[cfg(feature = "postgres")]
        idempotency_postgres::PostgresStore::kind(),
        #[cfg(feature = "valkey")]
        idempotency_valkey::ValkeyStore::kind(),
        #[cfg(feature = "__shelf")]
        tests::shelf::kind(),
    ];
    kinds.into_iter()
}

/// Returns the variables that describe a store, which core does not know.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let of_kinds = kinds::<dyn Store>().flat_map(|kind| kind.variables);
    let known = [&STORE].into_iter().chain(TABLE_VARIABLES).chain(of_kinds);
    known.copied()
}

/// Returns the name of the kind that the variables choose.
///
/// # Errors
///
/// If there is no such kind.
pub fn chosen(variables: &Variables) -> Result<&str, ConfigurationError> {
    let chosen = variables.value(STORE).unwrap_or(DEFAULT);
    let linked = kinds::<dyn Store>().map(|kind| kind.name);
    let others = linked.filter(|name| !OF_FEATURES.contains(name));
    let names: Vec<_> = OF_FEATURES.into_iter().chain(others).collect();
    if names.contains(&chosen) {
        return Ok(chosen);
    }
    let names = names.join("`, `");
    let remedy = format!("write one of `{names}`");
    Err(ConfigurationError::value(STORE, chosen, remedy))
}

/// Returns the kind that the variables choose.
///
/// # Errors
///
/// If there is no such kind, or if it is not compiled into this program.
pub fn kind<S: StoreUse + ?Sized>(
    variables: &Variables,
) -> Result<StoreKind<S>, ConfigurationError> {
    let chosen = chosen(variables)?;
    let kind = kinds().find(|kind| kind.name == chosen);
    kind.ok_or_else(|| {
        ConfigurationError::new(format!(
            "there is no store, because this program is built without the feature `{chosen}` of `idempotency-lambda`: switch \
             the feature on, call `set_global_backend` before `run` or `init`, give each operation a store (`store = ..`), or set \
             IDEMPOTENCY_STORE to `memory` for a trial",
        ))
    })
}

/// Checks the variables that describe a store, without a connection: those of each kind.
///
/// # Errors
///
/// If one of them cannot be used.
pub(crate) fn check(variables: &Variables) -> Result<(), ConfigurationError> {
    chosen(variables)?;
    kinds::<dyn Store>().try_for_each(|kind| (kind.check)(variables))
}
