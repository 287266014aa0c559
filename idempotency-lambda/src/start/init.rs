//! What is done before the first event.

use std::time::Duration;

use idempotency_core::config::ConfigurationError;
use idempotency_core::error::Error;
use idempotency_core::store::{Store, StoreError, StoreErrorKind};

use crate::operation::registry;
use crate::process;
use crate::warning::warn;

/// How long the connection may take to open. Lambda's init phase ends after 10 s, and the first event can wait for it too.
const WARM_UP: Duration = Duration::from_secs(2);

/// Does what [`run`] does before the first event, for a `main` that builds its own
/// [`Runtime`](lambda_runtime::Runtime).
///
/// ```no_run
/// use idempotency_lambda::{BoxError, LambdaEvent, service};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// idempotency_lambda::init().await?;
/// lambda_runtime::Runtime::new(service(handler)).run().await
/// # }
/// ```
///
/// The process's store is built here, and its connection is opened, unless every operation has a store of its own: every
/// annotated function, and every [`Operation`](crate::Operation) that was built before. Then no table is needed. Without
/// any operation the store is built.
///
/// # Errors
/// A setting that cannot be understood, with the remedy.
pub async fn init() -> Result<(), Error> {
    // Before all else, and without the store: two operations under one prefix are a mistake in the program itself.
    registry::check_prefixes()?;
    process::check_variables()?;
    registry::check_settings()?;
    if process::is_disabled()? {
        warn(
            "IDEMPOTENCY_DISABLED or POWERTOOLS_IDEMPOTENCY_DISABLED is set: every handler runs unprotected",
        );
        return Ok(());
    }
    if !registry::needs_global_backend() {
        // Neither a table nor a region is asked for where every operation brings its own store.
        return Ok(());
    }
    let backend = process::global_backend().await?;
    let trouble = match warm_up(backend.store()).await {
        Ok(()) => return Ok(()),
        // Not a passing trouble, and with other keys than were configured records could meet that must not.
        Err(error) if error.kind() == StoreErrorKind::WrongSchema => {
            return Err(process::configuration_error(&ConfigurationError::new(
                error.to_string(),
            )));
        }
        Err(error) => error,
    };
    warn(&format!(
        "the idempotency store cannot be used yet, and every event will be refused until it can: {trouble}"
    ));
    Ok(())
}

/// Opens the store's connection, or returns the error that the first request would get.
async fn warm_up(store: &dyn Store) -> Result<(), StoreError> {
    match tokio::time::timeout(WARM_UP, store.warm_up()).await {
        Ok(opened) => opened,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unreachable,
            format!("{} does not answer", store.name()),
        )),
    }
}
