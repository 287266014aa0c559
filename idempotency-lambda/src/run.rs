//! The one-line start of a Lambda function.

use std::future::Future;
use std::sync::Arc;

use idempotency_core::config::ConfigurationError;
use idempotency_core::error::Error;
use idempotency_core::store::StoreErrorKind;
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::streaming::Body;
use lambda_runtime::tower::Layer;
use lambda_runtime::{
    BoxFuture, Diagnostic, FunctionResponse, LambdaEvent, Runtime, Service, SnapStartResource,
    service_fn,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diagnostic::diagnostic;
use crate::invocation::InvocationLayer;
use crate::notice::warn;
use crate::{BoxError, init_error, process, registry};

/// Starts the function: checks every annotated function's settings, builds the store's client and opens its connection,
/// all before the first event; then answers events with `handler`.
///
/// It runs on `lambda_runtime`, and so under `cargo lambda watch` too. Errors of this framework get stable `errorType`s,
/// such as `IdempotencyAlreadyInProgress` (see [`ErrorKind::name`](crate::ErrorKind::name)).
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
///
/// # Errors
/// A setting that cannot be understood, with the remedy; or what ended the runtime. A table that cannot be reached at
/// start is logged, not returned: every event is then answered with the error until the table is there.
///
/// # Panics
/// If the process was not started by Lambda, `cargo lambda` or another that speaks the Runtime API: `lambda_runtime`
/// misses its environment variables.
pub async fn run<F, Fut, A, R, E>(handler: F) -> Result<(), BoxError>
where
    F: Fn(LambdaEvent<A>) -> Fut + Clone,
    Fut: Future<Output = Result<R, E>>,
    A: DeserializeOwned,
    R: Serialize,
    E: Into<BoxError>,
{
    if let Err(error) = init().await {
        init_error::report(&error).await;
        return Err(error.into());
    }
    Runtime::new(service(handler))
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run()
        .await
}

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
    process::check()?;
    registry::check()?;
    if process::is_disabled()? {
        warn(
            "IDEMPOTENCY_DISABLED or POWERTOOLS_IDEMPOTENCY_DISABLED is set: every handler runs unprotected",
        );
        return Ok(());
    }
    if !registry::needs_the_process_store() {
        // Neither a table nor a region is asked for where every operation brings its own store.
        return Ok(());
    }
    let environment = process::environment().await?;
    let trouble = match process::warm_up(environment.store()).await {
        Ok(()) => return Ok(()),
        // Not a passing trouble, and with other keys than were configured records could meet that must not.
        Err(error) if error.kind() == StoreErrorKind::WrongSchema => {
            return Err(process::configuration(&ConfigurationError::new(
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

/// The handler as a service whose errors have stable names, for a `main` that builds its own
/// [`Runtime`](lambda_runtime::Runtime).
///
/// Each call of it is an invocation: calls within the handler find its deadline and its tenant, whether the handler itself
/// is annotated or not.
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
/// A process that takes several events at a time (Lambda Managed Instances), with `lambda_runtime`'s feature
/// `concurrency-tokio`. Duplicates that meet there are refused by the first, or wait for it, without a request to the
/// store:
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

/// Clears what this process remembers after its snapshot was restored: it may be of another time.
///
/// [`run`] registers it by itself.
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
