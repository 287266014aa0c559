//! The start of an HTTP function in one line.

use std::sync::Arc;

use lambda_http::{IntoResponse, Request};
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{Runtime, Service};

use super::service;
use crate::BoxError;
use crate::start::{ClearCaches, init};

/// Starts an HTTP function: does what [`init`](crate::init) does, then serves requests with `app`.
///
/// `app` is an axum `Router`, a `service_fn` over [`lambda_http::Request`], or any other tower service of these requests. API
/// Gateway (both payload formats), Application Load Balancer and function URLs can send them.
///
/// It does for a service what [`run`](crate::run) does for a handler: settings are checked and the connection is opened before
/// the first event, code inside `app` finds the invocation's deadline and tenant, errors of `app` reach Lambda under stable
/// `errorType` names, and the local caches are cleared after a SnapStart restore.
///
/// The whole response is read before it is sent. For a streamed response call [`init`](crate::init) and
/// `lambda_http::run_with_streaming_response`.
///
/// # Errors
///
/// If [`init`](crate::init) fails: the error is also reported to Lambda, so that the invoker gets it. Also the error that
/// ended the runtime. A table that cannot be reached at the start is logged, not returned.
///
/// # Panics
///
/// If the process was not started by Lambda, `cargo lambda` or another program that speaks the Runtime API, because
/// `lambda_runtime` needs its environment variables.
///
/// # Examples
///
/// ```no_run
/// use idempotency_lambda::BoxError;
/// use lambda_http::{Request, Response, service_fn};
///
/// async fn app(request: Request) -> Result<Response<String>, BoxError> {
///     Ok(Response::new(format!("{} {}", request.method(), request.uri().path())))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), BoxError> {
///     idempotency_lambda::http::run(service_fn(app)).await
/// }
/// ```
pub async fn run<S, R, E>(app: S) -> Result<(), BoxError>
where
    S: Service<Request, Response = R, Error = E> + Clone,
    S::Future: Send + 'static,
    R: IntoResponse + 'static,
    E: Into<BoxError> + 'static,
{
    init().await?;
    Runtime::new(service(app))
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run()
        .await
}

/// Starts an HTTP function that takes several requests at a time, as on Lambda Managed Instances.
///
/// It does what [`run`] does. With `AWS_LAMBDA_MAX_CONCURRENCY` above 1 it serves so many requests at a time, each with a clone
/// of `app`. Concurrent duplicates in one process are refused by the first call, or wait for it, without a request to the
/// store.
///
/// # Errors
///
/// As [`run`].
///
/// # Panics
///
/// As [`run`].
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::BoxError;
/// # use lambda_http::{Request, service_fn};
/// # async fn app(_: Request) -> Result<&'static str, BoxError> { Ok("paid") }
/// # async fn f() -> Result<(), BoxError> {
/// idempotency_lambda::http::run_concurrent(service_fn(app)).await
/// # }
/// ```
pub async fn run_concurrent<S, R, E>(app: S) -> Result<(), BoxError>
where
    S: Service<Request, Response = R, Error = E> + Clone + Send + 'static,
    S::Future: Send + 'static,
    R: IntoResponse + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    init().await?;
    Runtime::new(service(app))
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run_concurrent()
        .await
}
