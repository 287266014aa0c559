//! The work before the first event: checks, and the connection to the store.

use std::time::Duration;

use idempotency_core::config::ConfigurationError;
use idempotency_core::error::Error;
use idempotency_core::store::{Store, StoreError, StoreErrorKind};

use super::init_error;
use crate::operation::registry;
use crate::warning::warn;
use crate::{metrics, process};

/// Time limit of opening the connection. Lambda's init phase ends after 10 s, and the first event can open it too.
const WARM_UP: Duration = Duration::from_secs(2);

/// Checks the settings and opens the store's connection, as [`run`] does before the first event.
///
/// It is for a `main` that builds its own [`Runtime`](lambda_runtime::Runtime).
///
/// The global backend is built here, unless every known operation has a store of its own: every annotated function, and
/// every [`Operation`](crate::Operation) that was built before. Then no table is needed. If the process has no operation yet,
/// the backend is built.
///
/// A table that cannot be reached is logged, not returned: each call then gets the error until the table can be reached.
///
/// # Errors
///
/// If a variable or a setting cannot be used, if two operations share a key prefix by mistake, if there is no store, if the
/// table has other keys than the configured ones, or if it is not encrypted and an operation keeps events in it. The error says
/// what to do, and is reported to Lambda, so that the invoker gets it.
///
/// # Examples
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
/// [`run`]: crate::run
pub async fn init() -> Result<(), Error> {
    started().await.map_err(init_error::reported)
}

async fn started() -> Result<(), Error> {
    // First, and without the store: a shared prefix is a mistake in the program itself.
    registry::check_prefixes()?;
    process::check_variables()?;
    metrics::check()?;
    registry::check_settings()?;
    if process::is_disabled()? {
        warn(
            "IDEMPOTENCY_DISABLED or POWERTOOLS_IDEMPOTENCY_DISABLED is set: every handler runs unprotected",
        );
        return Ok(());
    }
    if !registry::needs_global_backend() {
        return Ok(());
    }
    let backend = process::global_backend().await?;
    let error = match warm_up(backend.store()).await {
        Ok(()) => return Ok(()),
        // A retry cannot correct this error. With other keys, two records could become one item. Without encryption no event is
        // written, so no call would run.
        Err(error)
            if matches!(
                error.kind(),
                StoreErrorKind::WrongSchema | StoreErrorKind::NotEncrypted
            ) =>
        {
            return Err(process::configuration_error(&ConfigurationError::new(
                error.to_string(),
            )));
        }
        Err(error) => error,
    };
    warn(&format!(
        "the idempotency store cannot be used yet, and every event will be refused until it can: {error}"
    ));
    Ok(())
}

/// Opens the store's connection, or returns the error that the first request would get.
async fn warm_up(store: &dyn Store) -> Result<(), StoreError> {
    let opening = async {
        store.warm_up().await?;
        if registry::stores_events() {
            store.check_events().await?;
        }
        Ok(())
    };
    match tokio::time::timeout(WARM_UP, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unreachable,
            format!("{} does not reply", store.name()),
        )),
    }
}
