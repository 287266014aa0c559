//! A tower service of HTTP requests as a service of Lambda events, for a `main` that builds its own runtime.

use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, IntoResponse, Request};
use lambda_runtime::streaming::Body;
use lambda_runtime::tower::{Layer, ServiceExt};
use lambda_runtime::{Diagnostic, FunctionResponse, LambdaEvent, Service};
use serde::Serialize;

use crate::BoxError;
use crate::diagnostic::diagnostic;
use crate::invocation::InvocationLayer;

/// Returns a service of HTTP requests as a service of Lambda events, for a `main` that builds its own
/// [`Runtime`](lambda_runtime::Runtime).
///
/// Its errors have stable `errorType` names. Each call of the service is an invocation: code inside `app` finds its deadline
/// and tenant.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_lambda::BoxError;
/// # use lambda_http::{Request, service_fn};
/// # async fn app(_: Request) -> Result<&'static str, BoxError> { Ok("paid") }
/// # async fn f() -> Result<(), BoxError> {
/// idempotency_lambda::init().await?;
/// lambda_runtime::Runtime::new(idempotency_lambda::http::service(service_fn(app))).run().await
/// # }
/// ```
pub fn service<S, R, E>(
    app: S,
) -> impl Service<
    LambdaEvent<LambdaRequest>,
    Response = FunctionResponse<impl Serialize + Send + 'static, Body>,
    Error = Diagnostic,
    Future: Send,
> + Clone
where
    S: Service<Request, Response = R, Error = E> + Clone,
    S::Future: Send + 'static,
    R: IntoResponse + 'static,
    E: Into<BoxError> + 'static,
{
    let adapter = Adapter::from(app)
        .map_response(FunctionResponse::BufferedResponse)
        .map_err(diagnostic);
    InvocationLayer::new().layer(adapter)
}
