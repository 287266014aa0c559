//! The process's own environment: variables, store, clock and randomness, built once.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use idempotency_core::cache::LocalCache;
use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::Operation;
use idempotency_core::store::{MemoryStore, Store, StoreError, StoreErrorKind};
use tokio::sync::OnceCell;

use crate::clock::{SystemClock, SystemRandom};
use crate::notice::warn;

static VARIABLES: OnceLock<Variables> = OnceLock::new();
static ENVIRONMENT: OnceCell<Backend> = OnceCell::const_new();
/// The caches of every environment made here, for as long as it lives.
static CACHES: Mutex<Vec<Weak<LocalCache>>> = Mutex::new(Vec::new());

/// The process's variables, as they were when they were first asked for.
pub(crate) fn variables() -> &'static Variables {
    VARIABLES.get_or_init(|| {
        // `vars` would panic on a name or value that is not Unicode; such a one cannot be ours.
        std::env::vars_os()
            .filter_map(|(name, value)| Some(copied(name.into_string().ok()?, &value)))
            .collect()
    })
}

/// What is kept of a variable. Of those that nothing here reads the name alone, which may be a misspelt one of ours:
/// credentials do not belong into a copy that lives as long as the process.
fn copied(name: String, value: &OsStr) -> (String, String) {
    let value = if Variables::is_known(&name) {
        // A value that is not Unicode must not count as not set.
        value.to_string_lossy().into_owned()
    } else {
        String::new()
    };
    (name, value)
}

/// Checks every variable of this framework, used or not, and warns of names that nothing reads; once for the process.
///
/// # Errors
/// The first value that cannot be understood, with what is accepted.
pub(crate) fn check() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), ConfigurationError>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| {
        for unknown in variables().unknown() {
            warn(&unknown.to_string());
        }
        check_values(variables())
    });
    checked.as_ref().copied().map_err(configuration)
}

fn check_values(variables: &Variables) -> Result<(), ConfigurationError> {
    // An operation without settings of its own uses every variable that operations read.
    Operation::new("idempotency", &Settings::default(), variables)?;
    store_kind(variables)?;
    idempotency_dynamodb::settings::Settings::check(variables)
}

/// Says in a debug event which variables an operation does not use, since it has settings of its own.
pub(crate) fn note_overridden(operation: &str, settings: &Settings, variables: &Variables) {
    for (setting, variable) in settings.overridden(variables) {
        tracing::debug!("{operation} does not use {variable}: it sets `{setting}` itself");
    }
}

/// Which store `IDEMPOTENCY_STORE` names.
fn store_kind(variables: &Variables) -> Result<StoreKind, ConfigurationError> {
    let name = "IDEMPOTENCY_STORE";
    match variables.value(name) {
        None | Some("dynamodb") => Ok(StoreKind::DynamoDb),
        Some("memory") => Ok(StoreKind::Memory),
        Some(other) => Err(ConfigurationError::value(
            name,
            other,
            "write one of `dynamodb`, `memory`",
        )),
    }
}

enum StoreKind {
    DynamoDb,
    Memory,
}

/// The process's environment; built at the first call, which `run` makes during the init phase.
pub(crate) async fn environment() -> Result<&'static Backend, Error> {
    ENVIRONMENT
        .get_or_try_init(async || store(variables()).await.map(environment_with))
        .await
        .map_err(|error| configuration(&error))
}

/// Returns the process's environment, if it was built already.
pub(crate) fn existing() -> Option<&'static Backend> {
    ENVIRONMENT.get()
}

/// An environment over `store`, with the operating system's clock and randomness and an empty cache.
///
/// ```
/// use idempotency_lambda::core::store::MemoryStore;
/// use std::sync::Arc;
/// let environment = idempotency_lambda::environment_with(Arc::new(MemoryStore::new()));
/// assert_eq!(environment.store().name(), "memory");
/// ```
pub fn environment_with(store: Arc<dyn Store>) -> Backend {
    let environment = Backend::new(store, Arc::new(SystemClock), Arc::new(SystemRandom));
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.push(Arc::downgrade(environment.shared_cache()));
    environment
}

/// Forgets every answer that is kept in memory.
pub(crate) fn clear_caches() {
    let caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches
        .iter()
        .filter_map(Weak::upgrade)
        .for_each(|cache| cache.clear());
}

/// Whether protection is switched off for this process.
pub(crate) fn is_disabled() -> Result<bool, Error> {
    Settings::disabled(variables()).map_err(|error| configuration(&error))
}

/// Makes `environment` the process's own, instead of the one that the variables describe: for a DynamoDB client of
/// one's own, or another store.
///
/// Call it before the first event, best at the top of `main`.
///
/// ```no_run
/// # async fn f(client: aws_sdk_dynamodb::Client) -> Result<(), idempotency_lambda::BoxError> {
/// use idempotency_lambda::{DynamoDbStore, environment_with, install};
/// use std::sync::Arc;
/// let store = DynamoDbStore::builder().client(client).table("payments").build()?;
/// install(environment_with(Arc::new(store)))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the process has an environment already.
pub fn install(environment: Backend) -> Result<(), Error> {
    ENVIRONMENT.set(environment).map_err(|_| {
        configuration(&ConfigurationError::new(
            "the process has an environment already: call `install` once, before anything is called",
        ))
    })
}

/// How long the connection may take to open. Lambda's init phase ends after 10 s, and the first event can wait for it too.
const WARM_UP: Duration = Duration::from_secs(2);

/// Opens the store's connection, or says what the first event would meet.
pub(crate) async fn warm_up(store: &dyn Store) -> Result<(), StoreError> {
    match tokio::time::timeout(WARM_UP, store.warm_up()).await {
        Ok(opened) => opened,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unreachable,
            format!("{} does not answer", store.name()),
        )),
    }
}

pub(crate) fn configuration(error: &ConfigurationError) -> Error {
    Error::new(ErrorKind::Configuration, "idempotency").with_detail(error.to_string())
}

/// The store that the variables name.
async fn store(variables: &Variables) -> Result<Arc<dyn Store>, ConfigurationError> {
    if Settings::disabled(variables)? {
        // Nothing is asked of it, and a function that is switched off needs no table.
        return Ok(Arc::new(MemoryStore::new()));
    }
    match store_kind(variables)? {
        StoreKind::DynamoDb => {
            let settings = idempotency_dynamodb::settings::Settings::from_variables(variables)?;
            let client = idempotency_dynamodb::client::client().await?;
            Ok(Arc::new(settings.store(client)?))
        }
        StoreKind::Memory => {
            warn(
                "IDEMPOTENCY_STORE is `memory`: calls are protected within this process alone, and not after it ends",
            );
            Ok(Arc::new(MemoryStore::new()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_store_is_refused_with_the_names_that_are_known() {
        let variables =
            Variables::from_iter([("IDEMPOTENCY_STORE".to_owned(), "redis".to_owned())]);
        let error = store(&variables).await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "IDEMPOTENCY_STORE is `redis`: write one of `dynamodb`, `memory`"
        );
    }

    #[tokio::test]
    async fn after_a_snapshot_was_restored_no_cache_of_the_process_remembers_anything() {
        use idempotency_core::record::{Record, RecordId};
        use lambda_runtime::SnapStartResource as _;
        let environment = environment_with(Arc::new(MemoryStore::new()));
        let (cache, id) = (environment.cache(), RecordId::new("charge#1"));
        let one = idempotency_core::cache::CacheLimits {
            records: std::num::NonZeroUsize::MIN,
            bytes: idempotency_core::cache::CacheLimits::DEFAULT_BYTES,
        };
        cache.insert("charge", one, id.clone(), Record::default());
        crate::ClearCaches.after_restore().await.unwrap();
        assert_eq!(cache.find("charge", &id), None);
    }

    #[test]
    fn a_value_that_cannot_be_understood_is_refused_whether_it_is_used_or_not() {
        for (name, value) in [
            ("IDEMPOTENCY_STORE", "redis"),
            ("IDEMPOTENCY_EXPIRES_AFTER", "1x"),
            ("IDEMPOTENCY_DISABLED", "perhaps"),
            ("POWERTOOLS_IDEMPOTENCY_DISABLED", "perhaps"),
        ] {
            // Neither a table nor an operation is needed to find it.
            let variables = Variables::from_iter([(name.to_owned(), value.to_owned())]);
            let error = check_values(&variables).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name} is `{value}`: ")),
                "{error}"
            );
        }
        let variables =
            Variables::from_iter([("IDEMPOTENCY_DATA_ATTR".to_owned(), "status".to_owned())]);
        let error = check_values(&variables).unwrap_err().to_string();
        assert!(error.contains("data attribute is `status`"), "{error}");
        assert_eq!(check_values(&Variables::default()), Ok(()));
    }

    #[test]
    fn of_other_programs_variables_the_name_alone_is_kept() {
        let copied = |name: &str, value: &str| copied(name.to_owned(), value.as_ref()).1;
        assert_eq!(copied("AWS_SECRET_ACCESS_KEY", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENT_TOKEN", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENCY_LEASE", "1m"), "1m");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_NAME", "shop"), "shop");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"), "128");
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_unicode_is_not_taken_for_none() {
        use std::os::unix::ffi::OsStrExt as _;
        let (_, value) = copied("IDEMPOTENCY_LEASE".to_owned(), OsStr::from_bytes(b"1\xff"));
        let variables = Variables::from_iter([("IDEMPOTENCY_LEASE".to_owned(), value)]);
        assert!(check_values(&variables).is_err());
    }

    #[tokio::test]
    async fn without_a_table_the_function_is_told_to_name_one() {
        let error = store(&Variables::default()).await.err().unwrap();
        assert!(error.to_string().contains("IDEMPOTENCY_TABLE"), "{error}");
    }
}
