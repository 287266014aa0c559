//! The tower layer as its users meet it: axum, tower-http, and plain services.
//!
//! Here: requests, what a client sees of a response, a clock, and an app that counts its runs.
#![allow(clippy::unwrap_used)]

mod bodies;
mod errors;
mod events;
mod keys;
mod protocols;
mod renewals;
mod requests;
mod stack;

use std::convert::Infallible;
use std::fmt::Display;
use std::future::{Future, pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::request::Builder;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use idempotency_core::config::Settings;
use idempotency_core::engine::Backend;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::{MemoryStore, Store};
use idempotency_core::system::SystemRandom;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_http::{
    Host, HttpIdempotencyLayer, HttpOperation, HttpOperationBuilder, Place, ReceivedRequest,
    ResponseBody, Unstorable, Variables,
};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

/// Every rule for a response that cannot be stored.
pub(crate) const RULES: [Unstorable; 3] = [
    Unstorable::Complete,
    Unstorable::Release,
    Unstorable::Refuse,
];

/// A clock that stands still at [`NOW`], unless the test moves it.
#[derive(Default)]
pub(crate) struct TestClock(AtomicI64);

/// The time at which a [`TestClock`] starts.
pub(crate) const NOW: EpochMillis = EpochMillis::new(1_700_000_000_000);

impl TestClock {
    /// Sets the milliseconds after [`NOW`].
    pub(crate) fn set(&self, after: i64) {
        self.0.store(after, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(NOW.get() + self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

pub(crate) fn backend() -> Backend {
    backend_over(&Arc::new(MemoryStore::new()))
}

pub(crate) fn backend_over(store: &Arc<MemoryStore>) -> Backend {
    backend_with(store.clone(), &Arc::default())
}

pub(crate) fn backend_with(store: Arc<dyn Store>, clock: &Arc<TestClock>) -> Backend {
    Backend::new(store, clock.clone(), Arc::new(SystemRandom))
}

/// Returns a builder that reads no environment variables.
pub(crate) fn builder() -> HttpOperationBuilder {
    HttpOperation::builder("shop::payments").variables(Variables::default())
}

/// Returns an operation whose callers are distinguished by `x-user-id`.
pub(crate) fn operation() -> HttpOperation {
    with(|builder| builder)
}

/// Returns the operation of [`operation`] with these rules.
pub(crate) fn with(
    set: impl FnOnce(HttpOperationBuilder) -> HttpOperationBuilder,
) -> HttpOperation {
    built(set(builder().caller_header("x-user-id")))
}

/// Returns the builder of [`operation`] with these settings.
pub(crate) fn with_settings(set: impl FnOnce(&mut Settings)) -> HttpOperationBuilder {
    let mut settings = Settings::new();
    set(&mut settings);
    builder().settings(settings).caller_header("x-user-id")
}

pub(crate) fn built(builder: HttpOperationBuilder) -> HttpOperation {
    builder.build().unwrap()
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
    without_key().header("idempotency-key", "\"k-1\"")
}

/// Returns a POST of `/payments` by client `u-1` without a key.
pub(crate) fn without_key() -> Builder {
    Request::post("/payments").header("x-user-id", "u-1")
}

/// Returns the request with this body.
pub(crate) fn of(head: Builder, body: impl Into<Body>) -> Request<Body> {
    head.body(body.into()).unwrap()
}

/// Returns the request of [`post`] with an empty object.
pub(crate) fn request() -> Request<Body> {
    of(post(), "{}")
}

/// Sends a request, and returns the response with its whole body.
pub(crate) async fn send(app: &App, request: Request<Body>) -> Response<Bytes> {
    let response = app.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// Sends the request of [`request`].
pub(crate) async fn pay(app: &App) -> Response<Bytes> {
    send(app, request()).await
}

/// Sends a request, and returns what the client sees.
pub(crate) async fn answer(app: &App, request: Request<Body>) -> String {
    seen(&send(app, request).await)
}

/// Sends requests one after the other, and returns what their clients see.
pub(crate) async fn answers(
    app: &App,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Vec<String> {
    let mut answers = Vec::new();
    for request in requests {
        answers.push(answer(app, request).await);
    }
    answers
}

/// Sends the request of [`request`] two times, and returns what its client sees.
pub(crate) async fn twice(app: &App) -> Vec<String> {
    answers(app, [request(), request()]).await
}

/// Returns what a client sees of a response, such as `201 paid, replayed`, or `409 in-progress, retry after 1` for a problem.
#[track_caller]
pub(crate) fn seen(response: &Response<Bytes>) -> String {
    let status = response.status().as_u16();
    let header = |name| Some(response.headers().get(name)?.to_str().unwrap());
    let is_problem = header("content-type") == Some("application/problem+json");
    // A response to HEAD has no body.
    let mut seen = if is_problem && !response.body().is_empty() {
        let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        let kind = problem["type"].as_str().unwrap();
        let kind = kind.strip_prefix("urn:idempotency:").unwrap();
        format!("{status} {kind}")
    } else {
        let text = String::from_utf8_lossy(response.body());
        format!("{status} {text}").trim_end().to_owned()
    };
    if let Some(seconds) = header("retry-after") {
        seen += &format!(", retry after {seconds}");
    }
    if is_replayed(response) {
        seen += ", replayed";
    }
    seen
}

/// Returns true if the response is marked as a replay.
pub(crate) fn is_replayed(response: &Response<Bytes>) -> bool {
    let header = response.headers().get("idempotent-replayed");
    header.is_some_and(|value| value == "true")
}

/// Returns the text of a body.
pub(crate) fn text_of(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
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

/// A service in the layer.
pub(crate) type App = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Returns a service in this layer. Its handler takes the request and the number of the run.
pub(crate) fn serve_with<H, F, R>(
    layer: HttpIdempotencyLayer<H>,
    handler: impl Fn(Request<Body>, usize) -> F + Clone + Send + Sync + 'static,
) -> (App, Runs)
where
    H: Host,
    F: Future<Output = Response<R>> + Send + 'static,
    R: http_body::Body<Data = Bytes, Error: Display + Send> + Send + 'static,
{
    let runs = Runs::default();
    let counted = runs.clone();
    let inner = service_fn(move |request| {
        let response = handler(request, counted.add());
        async { Ok::<_, Infallible>(response.await) }
    });
    let in_axum = |response: Response<ResponseBody<R>>| {
        response.map(|body| Body::new(BodyExt::map_err(body, |error| error.to_string())))
    };
    let service = layer.layer(inner).map_response(in_axum);
    (BoxCloneSyncService::new(service), runs)
}

/// Returns a service in this layer whose handler responds with `respond` to the number of the run.
pub(crate) fn serve<H, R>(
    layer: HttpIdempotencyLayer<H>,
    respond: impl Fn(usize) -> Response<R> + Clone + Send + Sync + 'static,
) -> (App, Runs)
where
    H: Host,
    R: http_body::Body<Data = Bytes, Error: Display + Send> + Send + 'static,
{
    serve_with(layer, move |_, run| ready(respond(run)))
}

/// Returns a service in this layer whose runs respond with `1`, `2` and so on.
pub(crate) fn count<H: Host>(layer: HttpIdempotencyLayer<H>) -> (App, Runs) {
    serve(layer, |run| text(200, run.to_string()))
}

/// Returns a service in this layer whose handler never responds.
pub(crate) fn hang<H: Host>(layer: HttpIdempotencyLayer<H>) -> (App, Runs) {
    serve_with(layer, |_, _| pending::<Response<Body>>())
}

/// Starts a request whose handler waits.
pub(crate) fn start(app: &App) -> impl Future + use<> {
    let mut running = Box::pin(app.clone().oneshot(request()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    running
}

/// Returns a body of these pieces. It does not announce its length.
pub(crate) fn stream_of<const N: usize>(pieces: [Result<&'static str, &'static str>; N]) -> Body {
    Body::from_stream(stream::iter(pieces))
}

/// Returns a response of this status with this text.
pub(crate) fn text(status: u16, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
