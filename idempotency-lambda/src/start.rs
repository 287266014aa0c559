//! The start of a function: the checks and the connection before the first event, the handler as a service, and what SnapStart needs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::ConfigurationError;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::event::refused;
use idempotency_core::store::{Store, StoreError, StoreErrorKind};
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::streaming::Body;
use lambda_runtime::tower::Layer;
use lambda_runtime::{
    BoxFuture, Diagnostic, FunctionResponse, LambdaEvent, Runtime, Service, SnapStartResource,
    service_fn,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diagnostic::{BoxError, ServiceError, diagnostic};
use crate::init_phase::reported;
use crate::invocation::InvocationLayer;
use crate::operation::registry;
use crate::plain_event::{EventBodyLayer, ReadEvent};
use crate::process::warn;
use crate::{metrics, process};

/// Starts the function: does what [`init`](crate::init) does, then serves events with `handler`.
///
/// It runs on `lambda_runtime`, and so under `cargo lambda watch` too. An event is read in less time than by `lambda_runtime` alone.
/// An event that does not fit its type ends in [`InvalidPayload`](crate::ErrorKind::InvalidPayload), whose text names the place and never
/// quotes the payload, and the runtime's log has no payload at any level. Errors of this framework reach Lambda under stable `errorType` names, such as `IdempotencyAlreadyInProgress` (see
/// [`ErrorKind::name`](crate::ErrorKind::name)). The local caches are cleared after a SnapStart restore.
///
/// # Errors
///
/// If [`init`](crate::init) fails: the error is also reported to Lambda, so that the invoker gets it. Also the error that ended the
/// runtime. A table that cannot be reached at the start is logged, not returned.
///
/// # Panics
///
/// If the process was not started by Lambda, `cargo lambda` or another program that speaks the Runtime API, because
/// `lambda_runtime` needs its environment variables.
///
/// # Examples
///
/// ```no_run
/// use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
/// use serde_json::{Value, json};
///
/// #[idempotent(key = "order_id", validate = "amount")]
/// async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
///     Ok(json!({ "charged": event.payload["amount"] }))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), BoxError> {
///     idempotency_lambda::run(handler).await
/// }
/// ```
pub async fn run<F, Fut, A, R, E>(handler: F) -> Result<(), BoxError>
where
    F: Fn(LambdaEvent<A>) -> Fut + Clone,
    Fut: Future<Output = Result<R, E>>,
    A: DeserializeOwned,
    R: Serialize,
    E: Into<BoxError>,
{
    init().await?;
    let handler = move |event: LambdaEvent<ReadEvent<A>>| {
        let ReadEvent(payload) = event.payload;
        let response = payload.map(|payload| handler(LambdaEvent::new(payload, event.context)));
        async move {
            match response {
                Ok(response) => response.await.map_err(ServiceError::of),
                Err(why) => Err(refused(unreadable(why)).into()),
            }
        }
    };
    Runtime::new(service(handler))
        .layer(EventBodyLayer)
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run()
        .await
}

/// Returns the error of an event that does not fit the type of the handler.
fn unreadable(why: String) -> Error {
    let operation = registry::only_prefix();
    let operation = operation.unwrap_or_else(|| "idempotency".to_owned());
    Error::new(ErrorKind::InvalidPayload, operation).with_detail(why)
}

/// Returns the handler as a service, for a `main` that builds its own [`Runtime`](lambda_runtime::Runtime).
///
/// Its errors have stable `errorType` names. Each call of the service is an invocation: calls inside the handler find its
/// deadline and tenant, even if the handler itself is not annotated.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::{BoxError, LambdaEvent};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// # async fn f() -> Result<(), BoxError> {
/// idempotency_lambda::init().await?;
/// lambda_runtime::Runtime::new(idempotency_lambda::service(handler)).run().await
/// # }
/// ```
///
/// A process that takes several events at a time (Lambda Managed Instances) needs `lambda_runtime`'s feature
/// `concurrency-tokio`. Concurrent duplicates in it are refused while the first call runs, or wait for it, without a request to
/// the store:
///
/// ```no_run
/// # use idempotency_lambda::{BoxError, LambdaEvent};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// # async fn f() -> Result<(), BoxError> {
/// idempotency_lambda::init().await?;
/// lambda_runtime::run_concurrent(idempotency_lambda::service(handler)).await
/// # }
/// ```
pub fn service<F, Fut, A, R, E>(
    handler: F,
) -> impl Service<
    LambdaEvent<A>,
    Response = FunctionResponse<R, Body>,
    Error = Diagnostic,
    Future = impl Future<Output = Result<FunctionResponse<R, Body>, Diagnostic>>,
> + Clone
where
    F: Fn(LambdaEvent<A>) -> Fut + Clone,
    Fut: Future<Output = Result<R, E>>,
    E: Into<BoxError>,
{
    InvocationLayer::new().layer(service_fn(move |event: LambdaEvent<A>| {
        let response = handler(event);
        async move {
            response
                .await
                .map(FunctionResponse::BufferedResponse)
                .map_err(diagnostic)
        }
    }))
}

// The work before the first event: checks, and the connection to the store.

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
/// If a variable or a setting cannot be used, if two operations share a key prefix by mistake, if there is no store, if its
/// certificate is not trusted, if the table has other keys than the configured ones, or if it is not encrypted and an operation keeps
/// events in it. The error says what to do, and is reported to Lambda, so that the invoker gets it.
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
pub async fn init() -> Result<(), Error> {
    started().await.map_err(reported)
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
    let Err(error) = warm_up(backend.store()).await else {
        return Ok(());
    };
    // A retry cannot correct these errors. With other keys, two records could become one item. Without encryption no event is
    // written, and without trust nothing is sent, so no call would run.
    let lasting = [
        StoreErrorKind::WrongSchema,
        StoreErrorKind::NotEncrypted,
        StoreErrorKind::Certificate,
    ];
    if lasting.contains(&error.kind()) {
        let error = ConfigurationError::new(error.to_string());
        return Err(process::configuration_error(&error));
    }
    warn(&format!(
        "the idempotency store cannot be used yet, and every event will be refused until it can: {error}"
    ));
    Ok(())
}

/// Opens the store's connection, or returns the error that the first request would get.
async fn warm_up(store: &dyn Store) -> Result<(), StoreError> {
    let opening = store.warm_up(registry::stores_events());
    match tokio::time::timeout(WARM_UP, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Unreachable,
            format!("{} does not reply", store.name()),
        )),
    }
}

/// Clears the local caches after a SnapStart restore, because their records may be old. [`run`](crate::run) registers it.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::{BoxError, ClearCaches, LambdaEvent};
/// # async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> { Ok(event.payload) }
/// # async fn f() -> Result<(), BoxError> {
/// lambda_runtime::Runtime::new(idempotency_lambda::service(handler))
///     .register_snapstart_resource(std::sync::Arc::new(ClearCaches))
///     .run()
///     .await
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ClearCaches;

impl SnapStartResource for ClearCaches {
    fn after_restore(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async {
            process::clear_caches();
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use idempotency_core::cache::CacheLimits;
    use idempotency_core::engine::Backend;
    use idempotency_core::record::{Record, RecordId};
    use idempotency_core::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn every_local_cache_is_empty_after_a_restore() {
        let backends = [(); 2].map(|()| crate::backend_over(Arc::new(MemoryStore::new())));
        let id = RecordId::new("charge#1");
        let one = CacheLimits::new(NonZeroUsize::MIN, CacheLimits::DEFAULT_BYTES);
        for cache in backends.iter().map(Backend::cache) {
            cache.insert("charge", one, id.clone(), Record::default());
            assert!(cache.find("charge", &id).is_some());
        }
        ClearCaches.after_restore().await.unwrap();
        for cache in backends.iter().map(Backend::cache) {
            assert_eq!(cache.find("charge", &id), None);
        }
    }
}
