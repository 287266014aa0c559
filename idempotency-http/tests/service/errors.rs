//! Errors of this framework as responses, and their headers.
//!
//! A handler that has its effect and then does not report its end, in each position of a stack, under `rerun` and under `hold`.
//!
//! Requests that run to their end although their client, or a layer outside, has given up.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::routing::post as on_post;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use idempotency_core::config::Settings;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::policy::{OnStoreError, OnTimeout};
use idempotency_core::store::{
    MemoryStore, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
};
use idempotency_core::system::SystemRandom;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_http::{
    Backend, ClientReply, FailureReport, Host, HttpIdempotencyLayer, HttpOperation, Place, Problem,
    ReceivedRequest, Unstorable, Variables, ViewError,
};
use tokio::sync::Notify;
use tower::timeout::error::Elapsed;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutLayer};

use crate::*;

/// A store that fails after its first writes. A failed write is not applied, and this is known.
struct FailsAfter {
    writes: AtomicUsize,
    kind: StoreErrorKind,
    store: MemoryStore,
}

fn fails_after(writes: usize) -> Backend {
    fails_with(StoreErrorKind::AccessDenied, writes)
}

fn fails_with(kind: StoreErrorKind, writes: usize) -> Backend {
    let store = FailsAfter {
        writes: AtomicUsize::new(writes),
        kind,
        store: MemoryStore::new(),
    };
    Backend::new(
        Arc::new(store),
        Arc::new(StillClock),
        Arc::new(SystemRandom),
    )
}

impl FailsAfter {
    fn failure(&self) -> StoreError {
        StoreError::new(self.kind, "no reply of table secret-table")
    }
}

impl Store for FailsAfter {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let left = self.writes.load(Ordering::SeqCst);
        if left == 0 || request.record().is_none() {
            return Box::pin(std::future::ready(StoreReply::failed(self.failure())));
        }
        self.writes.store(left - 1, Ordering::SeqCst);
        self.store.send(request, log)
    }

    fn name(&self) -> String {
        "table secret-table".to_owned()
    }
}

#[tokio::test]
async fn a_request_in_progress_is_409_with_a_time_to_wait() {
    let store = Arc::new(MemoryStore::new());
    let lease = std::time::Duration::from_millis(20_500);
    let operation = with(|builder| builder.lease(lease));
    let never = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    // The first process is in the handler. The second has a backend of its own on the same store.
    let mut first = operation.layer(backend_over(&store)).layer(never);
    let mut running = Box::pin(first.call(request()));
    assert!(futures_poll(&mut running).is_pending());
    let second = operation.layer(backend_over(&store)).layer(never);
    let response = pay(&second).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(problem(&response), "urn:idempotency:in-progress");
    assert_eq!(response.headers()["retry-after"], "1");
    // A duplicate in the first process meets the first call without a request to the store.
    let response = pay(&first).await;
    assert_eq!(problem(&response), "urn:idempotency:in-progress");
    assert_eq!(response.headers()["retry-after"], "1");
    let other = send(&second, post().body(body("other")).unwrap()).await;
    assert_eq!(problem(&other), "urn:idempotency:key-reused");
}

/// Polls a future once.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

#[tokio::test]
async fn the_time_to_wait_is_as_long_as_the_request_has_run_and_ends_with_its_lease() {
    let clock = Arc::new(SetClock::default());
    let backend = Backend::new(
        Arc::new(MemoryStore::new()),
        clock.clone(),
        Arc::new(SystemRandom),
    );
    let operation = operation();
    let never = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let mut first = operation.layer(backend.clone()).layer(never);
    let mut running = Box::pin(first.call(request()));
    assert!(futures_poll(&mut running).is_pending());
    // Without a `lease`, the claim lasts 15 minutes.
    for (after, seconds) in [
        (0, "1"),
        (999, "1"),
        (1_001, "2"),
        (30_000, "30"),
        (450_000, "450"),
        (800_000, "100"),
        (899_500, "1"),
    ] {
        clock.0.store(after, Ordering::SeqCst);
        let response = pay(&first).await;
        assert_eq!(problem(&response), "urn:idempotency:in-progress");
        assert_eq!(response.headers()["retry-after"], seconds, "{after}");
    }
}

#[tokio::test]
async fn a_store_that_fails_before_the_handler_is_503_with_retry_after() {
    let (service, runs) = serve(operation().layer(fails_after(0)), |_| text(200, "paid"));
    let response = pay(&service).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(problem(&response), "urn:idempotency:unavailable");
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(runs.count(), 0);
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert!(
        !text.contains("secret-table") && !text.contains("shop"),
        "{text}"
    );
}

/// A clock that the test moves.
#[derive(Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(NOW.get() + self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_open_circuit_is_503_with_the_seconds_until_the_store_is_asked_again() {
    let settings = Settings {
        circuit_breaker: Some(true),
        ..Settings::default()
    };
    let operation = with(|builder| builder.settings(settings));
    let clock = Arc::new(SetClock::default());
    let store = FailsAfter {
        writes: AtomicUsize::new(0),
        kind: StoreErrorKind::Throttled,
        store: MemoryStore::new(),
    };
    let backend = Backend::new(Arc::new(store), clock.clone(), Arc::new(SystemRandom));
    let (service, runs) = serve(operation.layer(backend), |_| text(200, "paid"));
    let mut seen = Vec::new();
    // Five failures open the circuit for one second. Each failed probe opens it for twice the time.
    for after in [
        0, 0, 0, 0, 0, 0, 1_001, 1_001, 2_000, 2_001, 3_002, 3_002, 4_002,
    ] {
        clock.0.store(after, Ordering::SeqCst);
        let response = pay(&service).await;
        assert_eq!(problem(&response), "urn:idempotency:unavailable");
        let seconds = response.headers()["retry-after"].to_str().unwrap();
        seen.push(seconds.parse::<u64>().unwrap());
    }
    assert_eq!(seen, [1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 4, 3]);
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_store_that_fails_before_the_handler_is_no_error_for_a_service_that_runs_unprotected() {
    let runs = Runs::default();
    let settings = Settings {
        on_store_error: Some(OnStoreError::RunUnprotected),
        ..Settings::default()
    };
    for unstorable in [
        Unstorable::Complete,
        Unstorable::Release,
        Unstorable::Refuse,
    ] {
        // The body is above the limit, so it cannot be stored. Nothing is stored of this run anyway.
        let operation = with(|builder| {
            builder
                .settings(settings.clone())
                .on_unstorable(unstorable)
                .max_response_body(3)
        });
        let service = operation
            .layer(fails_with(StoreErrorKind::Throttled, 0))
            .layer(app(&runs, |_| text(200, "paid")));
        let response = pay(&service).await;
        assert_eq!(response.status(), StatusCode::OK, "{unstorable:?}");
        assert_eq!(response.body(), "paid");
        assert!(!is_replayed(&response));
    }
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn a_completion_that_fails_is_500_with_what_to_do() {
    let (service, runs) = serve(operation().layer(fails_after(1)), |_| text(200, "paid"));
    let response = pay(&service).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(problem(&response), "urn:idempotency:not-confirmed");
    assert_eq!(runs.count(), 1);
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    assert!(text.contains("was processed"), "{text}");
    assert!(
        text.contains("send it again, unchanged and under the same key"),
        "{text}"
    );
}

/// A host that does not know the invocation.
#[derive(Clone)]
struct Nowhere;

impl Host for Nowhere {
    async fn place(&self, operation: &str, _: &Parts) -> Result<Place, Error> {
        Err(Error::new(ErrorKind::UnknownInvocation, operation))
    }
}

#[tokio::test]
async fn a_request_without_a_place_is_500_and_does_not_run() {
    let (service, runs) = serve(operation().layer(Nowhere), |_| text(200, "paid"));
    let response = pay(&service).await;
    assert_eq!(problem(&response), "urn:idempotency:misconfigured");
    assert_eq!((response.status().as_u16(), runs.count()), (500, 0));
}

#[tokio::test]
async fn the_switch_off_lets_every_request_pass() {
    let variables = || Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())]);
    let operation = with(|builder| builder.variables(variables()));
    let request = || Request::post("/").header("idempotency-key", "a,b");
    let (service, runs) = serve(operation.layer(backend()), |run| text(200, run.to_string()));
    for run in ["1", "2"] {
        let response = send(&service, request().body(body("{}")).unwrap()).await;
        assert_eq!(response.body(), run);
    }
    let service = operation
        .layer(Nowhere)
        .layer(app(&runs, |run| text(200, run.to_string())));
    let response = send(&service, request().body(body("{}")).unwrap()).await;
    assert_eq!(response.body(), "3");
}

/// A host with a deadline and a tenant.
#[derive(Clone)]
struct Tenants(Backend);

impl Host for Tenants {
    async fn place(&self, _: &str, request: &Parts) -> Result<Place, Error> {
        let tenant = request.headers["x-tenant"].to_str().unwrap().to_owned();
        Ok(Place {
            backend: self.0.clone(),
            deadline: Some(EpochMillis::new(NOW.get() - 1)),
            tenant: Some(tenant),
        })
    }
}

#[tokio::test]
async fn a_deadline_that_has_expired_is_503() {
    let runs = Runs::default();
    let service = operation()
        .layer(Tenants(backend()))
        .layer(app(&runs, |_| text(200, "paid")));
    let request = post().header("x-tenant", "acme").body(body("{}")).unwrap();
    let response = send(&service, request).await;
    assert_eq!(problem(&response), "urn:idempotency:unavailable");
    assert_eq!((response.status().as_u16(), runs.count()), (503, 0));
}

#[tokio::test]
async fn a_function_of_the_user_replaces_every_response() {
    fn own(problem: &Problem) -> Response<Bytes> {
        let mut response = problem.response();
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        *response.body_mut() = Bytes::from(problem.reason().type_uri());
        response
    }
    let operation = with(|builder| builder.error_response(own));
    let (service, _) = serve(operation.layer(fails_after(0)), |_| text(200, "paid"));
    for (request, uri) in [
        (Request::post("/"), "urn:idempotency:key-missing"),
        (
            Request::post("/").header("idempotency-key", "a,b"),
            "urn:idempotency:key-malformed",
        ),
        (
            Request::post("/").header("idempotency-key", "a"),
            "urn:idempotency:caller-unknown",
        ),
        (post(), "urn:idempotency:unavailable"),
    ] {
        let response = send(&service, request.body(body("{}")).unwrap()).await;
        assert_eq!(
            (response.status().as_u16(), response.body()),
            (418, &Bytes::from(uri))
        );
    }
}

#[tokio::test]
async fn the_header_of_a_replay_can_be_named_and_switched_off() {
    for (name, expected) in [(Some("x-replay"), Some("true")), (None, None)] {
        let operation = with(|builder| builder.replayed_header(name));
        let (service, runs) = serve(operation.layer(backend()), |_| text(200, "paid"));
        pay(&service).await;
        let replay = pay(&service).await;
        assert!(!is_replayed(&replay));
        let header = replay.headers().get("x-replay");
        assert_eq!(header.map(|value| value.to_str().unwrap()), expected);
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn an_error_links_to_the_documentation_and_a_response_does_not() {
    let url = "https://developer.example.com/idempotency";
    let operation = builder().caller_header("x-user-id").documentation(url);
    let service = operation
        .build()
        .unwrap()
        .layer(backend())
        .layer(app(&Runs::default(), |_| text(200, "paid")));
    let refused = send(&service, Request::post("/").body(body("{}")).unwrap()).await;
    let link = format!("<{url}>; rel=\"describedby\"");
    assert_eq!(refused.headers()["link"], link.as_str());
    let paid = pay(&service).await;
    assert!(!paid.headers().contains_key("link"));
}

const SECOND: Duration = Duration::from_secs(1);

fn holding(on_timeout: OnTimeout) -> HttpOperation {
    let settings = Settings {
        on_timeout: Some(on_timeout),
        ..Settings::new()
    };
    with(|builder| builder.settings(settings).collect_streams(true))
}

/// What the handler does after its effect, in its first run. Each further run responds with 200.
#[derive(Clone, Copy)]
enum First {
    Hangs,
    Panics,
    Responds(fn() -> Response<Body>),
}

/// A route whose handler has its effect, which is counted.
fn route(runs: &Runs, first: First) -> Router {
    let runs = runs.clone();
    let handler = async move || match (runs.add(), first) {
        (1, First::Hangs) => std::future::pending().await,
        (1, First::Panics) => panic!("after the effect"),
        (1, First::Responds(respond)) => respond(),
        _ => text(200, "paid"),
    };
    Router::new().route("/payments", on_post(handler))
}

type Position = fn(Router, HttpIdempotencyLayer<Backend>) -> Router;

fn only(app: Router, layer: HttpIdempotencyLayer<Backend>) -> Router {
    app.layer(layer)
}

fn timeout<const STATUS: u16>(app: Router, layer: HttpIdempotencyLayer<Backend>) -> Router {
    let status = StatusCode::from_u16(STATUS).unwrap();
    app.layer(TimeoutLayer::with_status_code(status, SECOND))
        .layer(layer)
}

fn broken() -> Response<Body> {
    let chunks = [Ok("pa"), Err("connection reset")];
    Response::new(Body::from_stream(stream::iter(chunks)))
}

fn hanging_body() -> Response<Body> {
    let chunks = stream::iter([Ok::<_, Infallible>("pa")]).chain(stream::pending());
    Response::new(Body::from_stream(chunks))
}

#[tokio::test(start_paused = true)]
async fn an_end_that_no_handler_reported_frees_the_key_under_rerun_and_is_held_under_hold() {
    use First::{Hangs, Panics, Responds};
    let unmarked = |status: fn() -> Response<Body>| Responds(status);
    let cases: [(&str, First, Position, usize, usize); 24] = [
        ("408 of a timeout inside", Hangs, timeout::<408>, 2, 1),
        ("499 of a timeout inside", Hangs, timeout::<499>, 2, 1),
        ("500 of a timeout inside", Hangs, timeout::<500>, 2, 1),
        ("503 of a timeout inside", Hangs, timeout::<503>, 2, 1),
        ("504 of a timeout inside", Hangs, timeout::<504>, 2, 1),
        (
            "tower's timeout inside",
            Hangs,
            |app, layer| {
                let timed_out = async |_: BoxError| StatusCode::BAD_GATEWAY;
                let inside = ServiceBuilder::new()
                    .layer(HandleErrorLayer::new(timed_out))
                    .timeout(SECOND);
                app.layer(inside).layer(layer)
            },
            2,
            1,
        ),
        (
            "a timeout inside of another layer inside",
            Hangs,
            |app, layer| timeout::<504>(app, layer.clone()).layer(CatchPanicLayer::new()),
            2,
            1,
        ),
        (
            "a timeout outside",
            Hangs,
            |app, layer| {
                let outside = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, SECOND);
                app.layer(layer).layer(outside)
            },
            1,
            1,
        ),
        (
            "a panic catcher inside",
            Panics,
            |app, layer| app.layer(CatchPanicLayer::new()).layer(layer),
            2,
            1,
        ),
        (
            "a panic catcher outside",
            Panics,
            |app, layer| app.layer(layer).layer(CatchPanicLayer::new()),
            2,
            1,
        ),
        ("a body that breaks off", Responds(broken), only, 2, 1),
        (
            "a timeout of the body inside",
            Responds(hanging_body),
            |app, layer| {
                app.layer(ResponseBodyTimeoutLayer::new(SECOND))
                    .layer(layer)
            },
            2,
            1,
        ),
        // The status of a handler is not distinguished from that of a layer.
        ("500", unmarked(|| text(500, "")), only, 2, 1),
        ("502", unmarked(|| text(502, "")), only, 2, 1),
        ("503", unmarked(|| text(503, "")), only, 2, 1),
        ("507", unmarked(|| text(507, "")), only, 2, 1),
        ("408", unmarked(|| text(408, "")), only, 2, 1),
        // The handler says so itself.
        (
            "503 with a report",
            Responds(|| {
                let mut response = text(503, "");
                response.extensions_mut().insert(FailureReport);
                response
            }),
            only,
            2,
            2,
        ),
        (
            "a body that breaks off, with a report",
            Responds(|| {
                let mut response = broken();
                response.extensions_mut().insert(FailureReport);
                response
            }),
            only,
            2,
            1,
        ),
        // These say that the request was not processed.
        ("403", Responds(|| text(403, "")), only, 2, 2),
        ("409", Responds(|| text(409, "")), only, 2, 2),
        ("412", Responds(|| text(412, "")), only, 2, 2),
        ("429", Responds(|| text(429, "")), only, 2, 2),
        // The response is stored.
        ("404", Responds(|| text(404, "")), only, 1, 1),
    ];
    for (name, first, position, rerun, hold) in cases {
        for (on_timeout, expected) in [(OnTimeout::Rerun, rerun), (OnTimeout::Hold, hold)] {
            let (runs, store) = (Runs::default(), Arc::new(MemoryStore::new()));
            let layer = holding(on_timeout).layer(backend_over(&store));
            let app = position(route(&runs, first), layer);
            for _ in 0..2 {
                let response = app.clone().oneshot(request()).await.unwrap();
                // The client reads the body, as far as it comes.
                let _ = http_body_util::BodyExt::collect(response.into_body()).await;
            }
            assert_eq!(runs.count(), expected, "{name}, {on_timeout:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_inside_is_held_under_hold() {
    for (on_timeout, expected) in [(OnTimeout::Rerun, 2), (OnTimeout::Hold, 1)] {
        let runs = Runs::default();
        let counted = runs.clone();
        let service = ServiceBuilder::new()
            .layer(holding(on_timeout).layer(backend()))
            .timeout(SECOND)
            .service_fn(move |_: Request<Body>| {
                let run = counted.add();
                async move {
                    if run == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(text(200, "paid"))
                }
            });
        let error = service.clone().oneshot(request()).await.err().unwrap();
        assert!(error.is::<Elapsed>());
        let second = service.oneshot(request()).await.unwrap();
        let status = if expected == 1 { 409 } else { 200 };
        assert_eq!((second.status().as_u16(), runs.count()), (status, expected));
    }
}

/// Nothing stands between the protocol and a handler that `HttpCall` runs.
#[tokio::test]
async fn what_the_handler_of_a_request_in_memory_returns_is_a_report() {
    for result in [Ok(500), Ok(503), Ok(408), Err("failed")] {
        let (runs, store) = (Runs::default(), Arc::new(MemoryStore::new()));
        let operation = holding(OnTimeout::Hold);
        for _ in 0..2 {
            let place = place(backend_over(&store));
            let (parts, _) = request().into_parts();
            let call = operation.call(Ok(place), &ReceivedRequest::new(&parts, b"{}"));
            let handler = async |_| {
                runs.add();
                let response = |status: u16| Response::builder().status(status).body(Bytes::new());
                result.map(|status| response(status).unwrap())
            };
            let sent = call.run(handler, |response| Ok(response.clone())).await;
            let sent = sent.map(|sent| match sent {
                ClientReply::Own(response) => response.status().as_u16(),
                ClientReply::Made(response) => panic!("{response:?}"),
            });
            assert_eq!(sent, result);
        }
        assert_eq!(runs.count(), 2, "{result:?}");
    }
}

#[tokio::test]
async fn a_response_that_is_no_response_is_a_failure_and_no_report() {
    for (on_timeout, expected) in [(OnTimeout::Rerun, 2), (OnTimeout::Hold, 1)] {
        let (runs, store) = (Runs::default(), Arc::new(MemoryStore::new()));
        let operation = holding(on_timeout);
        for _ in 0..2 {
            let place = place(backend_over(&store));
            let (parts, _) = request().into_parts();
            let call = operation.call(Ok(place), &ReceivedRequest::new(&parts, b"{}"));
            let handler = async |_| Ok::<_, Infallible>(runs.add());
            let sent = call
                .run(handler, |_| Err(ViewError::NoResponse("the status is 0")))
                .await;
            drop(sent.unwrap());
        }
        assert_eq!(runs.count(), expected, "{on_timeout:?}");
    }
}

/// Returns a service that counts its runs, and responds when it is allowed to.
fn waiting(
    runs: &Runs,
    allowed: &Arc<Notify>,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ 'static {
    let (runs, allowed) = (runs.clone(), Arc::clone(allowed));
    tower::service_fn(move |_: Request<Body>| {
        let (runs, allowed) = (runs.clone(), Arc::clone(&allowed));
        async move {
            let run = runs.add();
            allowed.notified().await;
            Ok(text(201, format!("charge {run}")))
        }
    })
}

fn to_end() -> HttpIdempotencyLayer<Backend> {
    let store = Arc::new(MemoryStore::new());
    operation().layer(backend_over(&store)).run_to_end()
}

/// Sends the request again until it is not in progress.
async fn result<S, R>(service: &S) -> Response<Bytes>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    loop {
        let response = send(service, request()).await;
        if response.status() != 409 {
            return response;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_and_retries_gets_the_response_of_the_run() {
    let (runs, allowed) = (Runs::default(), Arc::new(Notify::new()));
    let mut service = to_end().layer(waiting(&runs, &allowed));
    let mut running = Box::pin(service.call(request()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    drop(running);
    allowed.notify_one();
    let retried = result(&service).await;
    assert!(is_replayed(&retried), "{retried:?}");
    assert_eq!((retried.status().as_u16(), runs.count()), (201, 1));
    assert_eq!(retried.body(), "charge 1");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_does_not_end_the_run() {
    let (runs, allowed) = (Runs::default(), Arc::new(Notify::new()));
    let limit =
        TimeoutLayer::with_status_code(http::StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5));
    let service = limit.layer(to_end().layer(waiting(&runs, &allowed)));
    assert_eq!(send(&service, request()).await.status(), 504);
    allowed.notify_one();
    let retried = result(&service).await;
    assert_eq!((retried.status().as_u16(), runs.count()), (201, 1));
}

#[tokio::test]
async fn a_panic_of_the_handler_reaches_the_server_and_frees_the_key() {
    let runs = Runs::default();
    let counted = runs.clone();
    let panicking = tower::service_fn(move |_: Request<Body>| {
        let run = counted.add();
        async move {
            assert!(run > 1, "the first run panics");
            Ok::<_, Infallible>(text(201, "paid"))
        }
    });
    let service = to_end().layer(panicking);
    let first = tokio::spawn({
        let service = service.clone();
        async move { send(&service, request()).await }
    });
    assert!(first.await.unwrap_err().is_panic());
    assert_eq!(send(&service, request()).await.status(), 201);
}

#[tokio::test]
async fn another_body_type_is_mapped_outside() {
    let runs = Runs::default();
    let service = to_end().layer(app(&runs, |run| text(201, format!("charge {run}"))));
    let service = MapRequestBodyLayer::new(Body::new).layer(service);
    for _ in 0..2 {
        let request = post().body(Limited::new(Full::from("{}"), 100)).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "charge 1");
    }
}

tokio::task_local! { static OUTSIDE: (); }

#[tokio::test]
async fn a_request_keeps_its_extensions_and_loses_task_locals_of_the_code_outside() {
    let inside = tower::service_fn(|request: Request<Body>| async move {
        let extension = request.extensions().get::<u8>().copied();
        let seen = format!("{extension:?} {:?}", OUTSIDE.try_with(|&()| ()).is_ok());
        Ok::<_, Infallible>(text(200, seen))
    });
    let service = to_end().layer(inside);
    let mut request = request();
    request.extensions_mut().insert(7_u8);
    let response = OUTSIDE.scope((), send(&service, request)).await;
    assert_eq!(response.body(), "Some(7) false");
}
