//! The handler as a service, for a `main` that builds its own runtime.

use std::future::Future;

use lambda_runtime::streaming::Body;
use lambda_runtime::tower::Layer;
use lambda_runtime::{Diagnostic, FunctionResponse, LambdaEvent, Service, service_fn};

use crate::BoxError;
use crate::diagnostic::diagnostic;
use crate::invocation::InvocationLayer;

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
/// `concurrency-tokio`. Concurrent duplicates in it are refused by the first call, or wait for it, without a request to the
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
