//! What exists once in a process: its variables, the global backend, and the list of local caches.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use idempotency_core::cache::LocalCache;
use idempotency_core::config::{ConfigurationError, HostVariables, Settings, Variables};
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::store::{MemoryStore, Store};
use idempotency_core::system::{SystemClock, SystemRandom};
use tokio::sync::OnceCell;

use crate::stores;

// The process's environment variables, copied at first use.

static VARIABLES: OnceLock<Variables> = OnceLock::new();

/// Returns the process's variables, as they were at the first call.
pub(crate) fn variables() -> &'static Variables {
    VARIABLES.get_or_init(|| {
        let variables: Variables = std::env::vars_os().map(copied).collect();
        variables.on(HostVariables::LAMBDA)
    })
}

/// Copies a variable. If this framework does not read it, only its name is kept. The name may be a misspelt one of ours, and the value may
/// be a credential, which does not belong in a static.
fn copied((name, value): (OsString, OsString)) -> (OsString, OsString) {
    let is_read = name.to_str().is_some_and(is_read);
    (name, if is_read { value } else { OsString::new() })
}

/// Returns true if this framework reads a variable of this name.
fn is_read(name: &str) -> bool {
    Variables::is_known(name)
        || stores::variables().any(|known| known == name)
        || HostVariables::LAMBDA.contains(name)
}

// Checks of the process's variables, each once.

/// Checks every variable of this framework, used or not, and warns of names that nothing reads.
///
/// The work is done once for the process.
///
/// # Errors
///
/// The first value that cannot be used, with what is accepted.
pub(crate) fn check_variables() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), ConfigurationError>> = OnceLock::new();
    let checked = CHECKED.get_or_init(|| {
        let of_stores: Vec<_> = stores::variables().collect();
        for unknown in variables().unknown(&of_stores) {
            warn(&unknown.to_string());
        }
        check_values(variables())
    });
    checked.as_ref().copied().map_err(configuration_error)
}

fn check_values(variables: &Variables) -> Result<(), ConfigurationError> {
    // An operation without settings of its own uses every variable that operations read.
    CompiledOperation::new("idempotency", &Settings::new(), variables)?;
    stores::check(variables)
}

/// Logs at debug level which variables an operation does not use because it has settings of its own.
pub(crate) fn note_overridden(operation: &str, settings: &Settings, variables: &Variables) {
    for (setting, variable) in settings.overridden(variables) {
        tracing::debug!("{operation} does not use {variable}: it sets `{setting}` itself");
    }
}

/// Returns true if protection is switched off for this process.
pub(crate) fn is_disabled() -> Result<bool, Error> {
    Settings::disabled(variables()).map_err(|error| configuration_error(&error))
}

/// Returns an error about the process's configuration, which belongs to no single operation.
pub(crate) fn configuration_error(error: &ConfigurationError) -> Error {
    Error::new(ErrorKind::Configuration, "idempotency").with_detail(error.to_string())
}

// The global backend: the store, clock, randomness and cache that operations use if they have no other.

static GLOBAL: OnceCell<Backend> = OnceCell::const_new();

/// Returns the global backend. The first call makes it from the variables; `run` does so during the init phase.
///
/// # Errors
///
/// If the variables describe no store that can be used.
pub(crate) async fn global_backend() -> Result<&'static Backend, Error> {
    GLOBAL
        .get_or_try_init(|| {
            // The future takes 12 KB, because it makes a client. On the heap it is not a part of the future of each call.
            Box::pin(async { open_store(variables()).await.map(backend_over) })
        })
        .await
        .map_err(|error| configuration_error(&error))
}

/// Opens the store that the variables describe.
///
/// # Errors
///
/// If a variable that it needs is missing or cannot be used, or if the store is not compiled into this program.
async fn open_store(variables: &Variables) -> Result<Arc<dyn Store>, ConfigurationError> {
    if Settings::disabled(variables)? {
        // No request is made to it, and a function that is switched off needs no table.
        return Ok(Arc::new(MemoryStore::new()));
    }
    let kind = stores::kind::<dyn Store>(variables)?;
    if let Some(warning) = kind.warning {
        warn(warning);
    }
    (kind.open)(variables).await
}

/// Returns the global backend if it exists already.
pub(crate) fn existing_backend() -> Option<&'static Backend> {
    GLOBAL.get()
}

/// Returns a backend over `store`, with the operating system's clock and randomness and an empty cache.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::MemoryStore;
/// use std::sync::Arc;
///
/// let backend = idempotency_lambda::backend_over(Arc::new(MemoryStore::new()));
/// assert_eq!(backend.store().name(), "memory");
/// ```
pub fn backend_over(store: Arc<dyn Store>) -> Backend {
    let backend = Backend::new(store, Arc::new(SystemClock), Arc::new(SystemRandom));
    register_cache(backend.cache());
    backend
}

/// Returns a backend for a run that sends no request, with the operating system's clock and randomness.
#[cfg(feature = "http")]
pub(crate) fn backend_without_store() -> Backend {
    let store = Arc::new(MemoryStore::new());
    Backend::new(store, Arc::new(SystemClock), Arc::new(SystemRandom))
}

/// Sets the backend that operations use if they have no store of their own, instead of the one that the environment
/// variables describe: for a DynamoDB client of your own, or another store.
///
/// Call it at the start of `main`, before [`run`](crate::run) or [`init`](crate::init).
///
/// # Errors
///
/// If the process has a global backend already.
///
/// # Examples
///
/// ```no_run
/// # #[cfg(feature = "dynamodb")]
/// # async fn f() -> Result<(), idempotency_lambda::BoxError> {
/// use idempotency_lambda::{DynamoDbStore, backend_over, set_global_backend};
/// use std::sync::Arc;
///
/// # let client = idempotency_dynamodb::default_client().await?;
/// // `client` is an `aws_sdk_dynamodb::Client`.
/// let store = DynamoDbStore::builder().client(client).table("payments").build()?;
/// set_global_backend(backend_over(Arc::new(store)))?;
/// # Ok(())
/// # }
/// ```
pub fn set_global_backend(backend: Backend) -> Result<(), Error> {
    GLOBAL.set(backend).map_err(|_| {
        configuration_error(&ConfigurationError::new(
            "the process has a backend already: call `set_global_backend` once, before `run` or `init` and before the \
             first call of an operation",
        ))
    })
}

// The local caches of the process, so that they can be cleared together.

/// The caches of all backends made by [`backend_over`](backend_over). A cache ends with its backend.
static CACHES: Mutex<Vec<Weak<LocalCache>>> = Mutex::new(Vec::new());

/// Adds a cache to those that [`clear_caches`] clears.
fn register_cache(cache: &Arc<LocalCache>) {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.push(Arc::downgrade(cache));
}

/// Removes all responses that the process keeps in memory.
pub(crate) fn clear_caches() {
    let caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches
        .iter()
        .filter_map(Weak::upgrade)
        .for_each(|cache| cache.clear());
}

/// Logs a `tracing` warning, or writes it to standard error if no subscriber is set.
pub(crate) fn warn(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        eprintln!("WARN {text}");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns one variable.
    pub(crate) fn only(name: &str, value: &str) -> Variables {
        Variables::from_iter([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn only_the_name_of_another_programs_variable_is_kept() {
        let copied = |name: &str, value: &str| copied((name.into(), value.into())).1;
        assert_eq!(copied("AWS_SECRET_ACCESS_KEY", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENT_TOKEN", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENCY_LEASE", "1m"), "1m");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_NAME", "shop"), "shop");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"), "128");
    }

    #[cfg(all(feature = "dynamodb", feature = "postgres", feature = "valkey"))]
    #[test]
    fn the_configuration_page_names_the_stores_variables_and_no_unknown_one() {
        let page = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/configuration.md"
        ));
        let is_part_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words: Vec<_> = page.split(|letter| !is_part_of_a_name(letter)).collect();
        for name in stores::variables().filter(|name| name.starts_with("IDEMPOTENCY_")) {
            assert!(words.contains(&name), "the page does not name {name}");
        }
        for name in words {
            let is_ours = name.starts_with("IDEMPOTENCY_");
            assert!(is_read(name) || !is_ours, "nothing reads {name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_unicode_does_not_count_as_not_set() {
        use std::os::unix::ffi::OsStringExt as _;
        let value = OsString::from_vec(b"1\xff".to_vec());
        let variables = Variables::from_iter([copied(("IDEMPOTENCY_EXPIRES_AFTER".into(), value))]);
        assert!(Settings::new().policy(&variables).is_err());
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_even_if_no_operation_reads_it() {
        for (name, value) in [
            ("IDEMPOTENCY_STORE", "redis"),
            ("IDEMPOTENCY_EXPIRES_AFTER", "1x"),
            ("IDEMPOTENCY_DISABLED", "perhaps"),
            ("POWERTOOLS_IDEMPOTENCY_DISABLED", "perhaps"),
        ] {
            // Neither a table nor an operation is needed to find it.
            let error = check_values(&only(name, value)).unwrap_err().to_string();
            let start = format!("{name} is `{value}`: ");
            assert!(error.starts_with(&start), "{error}");
        }
        assert_eq!(check_values(&Variables::default()), Ok(()));
    }

    #[test]
    fn a_cache_that_has_ended_is_forgotten_with_the_next_one() {
        let ended = Arc::downgrade(backend_over(Arc::new(MemoryStore::new())).cache());
        let _next = backend_over(Arc::new(MemoryStore::new()));
        let caches = CACHES.lock().unwrap();
        assert!(!caches.iter().any(|cache| cache.ptr_eq(&ended)));
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn two_attributes_of_the_table_with_one_name_are_refused_before_a_table_is_known() {
        let variables = only("IDEMPOTENCY_DATA_ATTR", "status");
        let error = check_values(&variables).unwrap_err().to_string();
        assert!(error.contains("data attribute is `status`"), "{error}");
    }

    #[tokio::test]
    async fn the_store_in_memory_needs_no_other_variable() {
        let store = open_store(&only("IDEMPOTENCY_STORE", "memory"))
            .await
            .unwrap();
        assert_eq!(store.name(), "memory");
    }

    #[cfg(feature = "dynamodb")]
    #[tokio::test]
    async fn without_a_table_the_error_names_the_variable_to_set() {
        let error = open_store(&Variables::default()).await.err().unwrap();
        assert!(error.to_string().contains("IDEMPOTENCY_TABLE"), "{error}");
    }

    #[cfg(not(feature = "dynamodb"))]
    #[tokio::test]
    async fn without_the_feature_the_error_names_every_other_way_to_a_store() {
        let error = open_store(&Variables::default()).await.err().unwrap();
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
