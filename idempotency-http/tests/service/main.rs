//! The tower layer as its users meet it: axum, tower-http, and plain services.
//!
//! Here: requests, a clock that stands still, and an app that counts its runs.
#![allow(clippy::unwrap_used)]

mod bodies;
mod errors;
mod events;
mod keys;
mod stack;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Builder;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use idempotency_core::engine::Backend;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::MemoryStore;
use idempotency_core::system::SystemRandom;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_http::{
    Host, HttpIdempotencyLayer, HttpOperation, HttpOperationBuilder, Place, ResponseBody, Variables,
};
use tower::{Layer, Service, ServiceExt};

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct StillClock;

/// The time of [`StillClock`].
pub(crate) const NOW: EpochMillis = EpochMillis::new(1_700_000_000_000);

impl Clock for StillClock {
    fn now(&self) -> EpochMillis {
        NOW
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn backend() -> Backend {
    backend_over(&Arc::new(MemoryStore::new()))
}

pub(crate) fn backend_over(store: &Arc<MemoryStore>) -> Backend {
    let store = Arc::clone(store);
    Backend::new(store, Arc::new(StillClock), Arc::new(SystemRandom))
}

/// Returns a builder that reads no environment variables.
pub(crate) fn builder() -> HttpOperationBuilder {
    HttpOperation::builder("shop::payments").variables(Variables::default())
}

/// Returns an operation whose callers are distinguished by `x-user-id`.
pub(crate) fn operation() -> HttpOperation {
    with(|builder| builder)
}

/// Returns the same with these settings.
pub(crate) fn with(
    set: impl FnOnce(HttpOperationBuilder) -> HttpOperationBuilder,
) -> HttpOperation {
    let builder = builder().caller_header("x-user-id");
    set(builder).build().unwrap()
}

/// Returns a place without a deadline and a tenant.
pub(crate) fn place(backend: Backend) -> Place {
    Place {
        backend,
        deadline: None,
        tenant: None,
    }
}

/// Returns a POST of `/payments` by client `u-1` with key `k-1`.
pub(crate) fn post() -> Builder {
    Request::post("/payments")
        .header("idempotency-key", "\"k-1\"")
        .header("x-user-id", "u-1")
}

pub(crate) fn body(text: &'static str) -> Body {
    Body::from(text)
}

/// Sends a request, and returns the response with its whole body.
pub(crate) async fn send<S, R>(service: &S, request: Request<Body>) -> Response<Bytes>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    let response = service.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// Returns the request of [`post`] with an empty object.
pub(crate) fn request() -> Request<Body> {
    post().body(body("{}")).unwrap()
}

/// Sends the request of [`request`].
pub(crate) async fn pay<S, R>(service: &S) -> Response<Bytes>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    send(service, request()).await
}

/// Returns the problem's `type`, and checks that the response is a problem.
#[track_caller]
pub(crate) fn problem(response: &Response<Bytes>) -> String {
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(problem["status"], response.status().as_u16());
    assert!(problem["title"].is_string() && problem["detail"].is_string());
    problem["type"].as_str().unwrap().to_owned()
}

/// Returns true if the response is marked as a replay.
pub(crate) fn is_replayed(response: &Response<Bytes>) -> bool {
    response
        .headers()
        .get("idempotent-replayed")
        .is_some_and(|value| value == "true")
}

/// Counts the runs of a handler.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns a service that counts its runs and responds with `respond`.
pub(crate) fn app<F, R>(
    runs: &Runs,
    respond: F,
) -> impl Service<Request<Body>, Response = Response<R>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ use<F, R>
+ 'static
where
    F: Fn(usize) -> Response<R> + Clone + Send + 'static,
    R: Send + 'static,
{
    let runs = runs.clone();
    tower::service_fn(move |_: Request<Body>| {
        let response = respond(runs.add());
        async move { Ok(response) }
    })
}

/// Returns a service in this layer that responds with `respond`, and the runs of its handler.
pub(crate) fn serve<H, F, R>(
    layer: HttpIdempotencyLayer<H>,
    respond: F,
) -> (
    impl Service<
        Request<Body>,
        Response = Response<ResponseBody<R>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static,
    Runs,
)
where
    H: Host,
    F: Fn(usize) -> Response<R> + Clone + Send + 'static,
    R: http_body::Body<Data = Bytes, Error: Send> + Send + 'static,
{
    let runs = Runs::default();
    (layer.layer(app(&runs, respond)), runs)
}

/// Returns a response of this status with this text.
pub(crate) fn text(status: u16, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
