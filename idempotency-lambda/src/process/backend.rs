//! The global backend: the store, clock, randomness and cache that operations use if they have no other.

use std::sync::Arc;

use idempotency_core::config::ConfigurationError;
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
#[cfg(feature = "http")]
use idempotency_core::store::MemoryStore;
use idempotency_core::store::Store;
use tokio::sync::OnceCell;

use super::checks::configuration_error;
use super::variables::variables;
use super::{caches, default_store};
use idempotency_core::system::{SystemClock, SystemRandom};

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
            Box::pin(async {
                default_store::from_variables(variables())
                    .await
                    .map(backend_over)
            })
        })
        .await
        .map_err(|error| configuration_error(&error))
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
    caches::register(backend.shared_cache());
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
