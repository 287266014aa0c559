//! A tower service of HTTP requests as a service of Lambda events, for a `main` that builds its own runtime.

use std::future::{Future, ready};
use std::pin::Pin;

use http::{HeaderMap, HeaderName};
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
/// and tenant. A header that was sent several times has all its values, also from events of payload format 1.0.
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
    let adapter = Adapter::from(app)
        .map_request(with_all_values)
        .map_response(FunctionResponse::BufferedResponse);
    InvocationLayer::new().layer(adapter)
}

/// Keeps all values of a header that was sent several times.
///
/// An event of payload format 1.0 has the last value in `headers` and all values in `multiValueHeaders`. `lambda_http` lets the
/// last value replace the others. A second idempotency key would not be seen.
fn with_all_values(mut event: LambdaEvent<LambdaRequest>) -> LambdaEvent<LambdaRequest> {
    if let LambdaRequest::ApiGatewayV1(request) = &mut event.payload {
        let names = request.multi_value_headers.keys();
        for name in names.filter(|name| is_repeated(&request.multi_value_headers, name)) {
            request.headers.remove(name);
        }
    }
    event
}

fn is_repeated(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
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
