//! Starts an HTTP function: in one line, or with a runtime that the user builds.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Body as HttpBody, IntoResponse, Request, Response};
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::streaming::Body;
use lambda_runtime::tower::{Layer, ServiceExt};
use lambda_runtime::{Diagnostic, FunctionResponse, LambdaEvent, Runtime, Service};
use serde::Serialize;

use crate::diagnostic::{BoxError, diagnostic};
use crate::invocation::InvocationLayer;
use crate::start::{ClearCaches, init};

/// Starts an HTTP function: does what [`init`](crate::init) does, then serves requests with `app`.
///
/// `app` is an axum `Router`, a `service_fn` over [`lambda_http::Request`], or any other tower service of these requests. API
/// Gateway (both payload formats), Application Load Balancer and function URLs can send them.
///
/// It does for a service what [`run`](crate::run) does for a handler:
///
/// - Settings are checked and the connection is opened before the first event.
/// - Code inside `app` finds the invocation's deadline and tenant.
/// - Errors of `app` reach Lambda under stable `errorType` names.
/// - The local caches are cleared after a SnapStart restore.
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
/// It does what [`run`] does. With `AWS_LAMBDA_MAX_CONCURRENCY` above 1 it serves that many requests at a time, each with a clone
/// of `app`. Concurrent duplicates in one process are refused while the first call runs, or wait for it, without a request to
/// the store.
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
/// last value replace the others. Without this function a second idempotency key would not be seen.
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

#[cfg(test)]
mod tests {
    use aws_lambda_events::apigw::ApiGatewayProxyRequest;
    use http::HeaderValue;
    use idempotency_core::store::MemoryStore;
    use lambda_runtime::{Context, service_fn};
    use serde_json::{Value, json};

    use super::*;
    use crate::Operation;

    #[test]
    fn only_a_header_that_was_sent_several_times_is_taken_from_all_its_values() {
        let mut request = ApiGatewayProxyRequest::default();
        for (name, value) in [
            ("host", "shop.example"),
            ("idempotency-key", "k-1"),
            ("idempotency-key", "k-2"),
        ] {
            let value = HeaderValue::from_static(value);
            request.headers.insert(name, value.clone());
            request.multi_value_headers.append(name, value);
        }
        let event = LambdaEvent::new(LambdaRequest::ApiGatewayV1(request), Context::default());
        let LambdaRequest::ApiGatewayV1(request) = with_all_values(event).payload else {
            panic!("another event");
        };
        let names: Vec<_> = request.headers.keys().map(HeaderName::as_str).collect();
        // `lambda_http` makes the URL from the header `host`.
        assert_eq!(names, ["host"]);
    }

    #[tokio::test]
    async fn a_replay_is_text_if_the_handler_says_that_its_response_is() -> Result<(), BoxError> {
        let layer = Operation::builder("shop::text")
            .store(Arc::new(MemoryStore::new()))
            .http()
            .shared_by_all_callers()
            .build()?;
        let handler = service_fn(async |_: Request| {
            // `lambda_http` sends a body of this type as base64, unless the second header asks for text.
            let response = Response::builder().header("content-type", "application/x-receipt");
            let response = response.header("x-lambda-http-content-encoding", "text");
            Ok::<_, BoxError>(response.body(HttpBody::from("paid"))?)
        });
        let app = layer.layer(handler);
        let mut events: Value = serde_json::from_str(include_str!("handler/events.json"))?;
        let event = events["v2"].take().to_string();
        for replayed in [None, Some("true")] {
            let event = LambdaEvent::new(serde_json::from_str(&event)?, Context::default());
            let sent = service(app.clone()).oneshot(event).await;
            let Ok(FunctionResponse::BufferedResponse(sent)) = sent else {
                panic!("no response");
            };
            let sent = serde_json::to_value(sent)?;
            assert_eq!(sent["headers"]["idempotent-replayed"].as_str(), replayed);
            assert_eq!(
                (&sent["body"], &sent["isBase64Encoded"]),
                (&json!("paid"), &json!(false))
            );
        }
        Ok(())
    }
}
