//! A tower service of HTTP requests as a service of Lambda events, for a `main` that builds its own runtime.

use std::future::{Future, ready};
use std::pin::Pin;

use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Body as HttpBody, IntoResponse, Request, Response};
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
    let in_memory = |response: R| {
        let response = response.into_response();
        async move { Ok::<_, Diagnostic>(InMemory(response.await)) }
    };
    let app = app.map_err(diagnostic).and_then(in_memory);
    let adapter = Adapter::from(app).map_response(FunctionResponse::BufferedResponse);
    InvocationLayer::new().layer(adapter)
}

/// A response whose body is in memory.
///
/// [`Adapter`] is `Send` only if the response is `Sync`, which the response of an axum `Router` is not.
struct InMemory(Response<HttpBody>);

impl IntoResponse for InMemory {
    fn into_response(self) -> Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>> {
        Box::pin(ready(self.0))
    }
}
