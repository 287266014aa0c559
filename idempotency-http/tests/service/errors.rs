//! Requests that fail, or whose client gives up. The tests are in three groups:
//! - errors of this framework as responses, and their headers
//! - a handler that has its effect and does not report its end, with each other layer around it, under `rerun` and under `hold`
//! - requests that run to their end although their client, or a layer outside, has given up

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::middleware::{Next, from_fn};
use axum::routing::post as on_post;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::future::BoxFuture;
use idempotency_core::operation::Call;
use idempotency_core::protocol::policy::{OnStoreError, OnTimeout, Steps};
use idempotency_core::store::{
    MemoryStore, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
};
use idempotency_http::{
    Backend, ClientReply, FailureReport, HttpIdempotencyLayer, HttpOperation, Problem,
};
use tokio::sync::Notify;
use tower::timeout::error::Elapsed;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutLayer};

use crate::*;

/// A store that fails after its first requests. A failed write is not applied, and this is known.
struct FailsAfter {
    requests_left: AtomicUsize,
    kind: StoreErrorKind,
    store: MemoryStore,
}

fn fails(kind: StoreErrorKind, after: usize) -> Arc<FailsAfter> {
    Arc::new(FailsAfter {
        requests_left: AtomicUsize::new(after),
        kind,
        store: MemoryStore::new(),
    })
}

/// Returns a backend whose store denies access after this number of requests.
fn denied(after: usize) -> Backend {
    backend_with(fails(StoreErrorKind::AccessDenied, after), &Arc::default())
}

impl Store for FailsAfter {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let take = |left: usize| left.checked_sub(1);
        let order = Ordering::SeqCst;
        if self.requests_left.fetch_update(order, order, take).is_ok() {
            return self.store.send(request, log);
        }
        let failure = StoreError::new(self.kind, "no reply of table secret-table");
        Box::pin(std::future::ready(StoreReply::failed(failure)))
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    fn name(&self) -> String {
        "table secret-table".to_owned()
    }
}

/// Tokio's clock, which a test pauses.
struct Paused(tokio::time::Instant);

impl Clock for Paused {
    fn now(&self) -> EpochMillis {
        NOW.plus(self.0.elapsed())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_renews_its_lease_and_after_a_kill_the_next_one_runs_soon() {
    let (store, begun) = (Arc::new(MemoryStore::new()), tokio::time::Instant::now());
    let process = || {
        let (clock, random) = (Arc::new(Paused(begun)), Arc::new(SystemRandom));
        let backend = Backend::new(store.clone(), clock, random);
        with(|builder| builder.renew(true)).layer(backend)
    };
    let killed = tokio::spawn(hang(process()).0.oneshot(request()));
    let (next, runs) = count(process());
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let refused = pay(&next).await;
        let wait = refused.headers()["retry-after"].to_str().unwrap();
        assert_eq!(refused.status(), 409);
        assert!((1..=10).contains(&wait.parse().unwrap()), "{wait} s");
    }
    killed.abort();
    let killed_at = tokio::time::Instant::now();
    let response = loop {
        let response = pay(&next).await;
        let Some(wait) = response.headers().get("retry-after") else {
            break response;
        };
        let seconds = wait.to_str().unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    };
    assert_eq!((seen(&response).as_str(), runs.count()), ("200 1", 1));
    assert!(killed_at.elapsed() < Duration::from_secs(45));
}

#[tokio::test]
async fn a_request_in_progress_is_409_with_a_time_to_wait() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::default());
    // The first process is in the handler. The second has a backend of its own on the same store.
    let process = || hang(operation().layer(backend_with(store.clone(), &clock))).0;
    let (first, second) = (process(), process());
    let _running = start(&first);
    // It is likely to run for as long again.
    clock.set(30_000);
    // A duplicate in the first process meets the first call without a request to the store.
    for process in [&second, &first] {
        let answer = answer(process, request()).await;
        assert_eq!(answer, "409 in-progress, retry after 30");
    }
    let other = of(post(), "other");
    assert_eq!(answer(&second, other).await, "422 key-reused");
}

#[tokio::test]
async fn an_open_circuit_is_503_with_the_seconds_until_the_store_is_asked_again() {
    let operation = built(with_settings(|settings| {
        settings.circuit_breaker = Some(true)
    }));
    let clock = Arc::default();
    let backend = backend_with(fails(StoreErrorKind::Throttled, 0), &clock);
    let (service, runs) = count(operation.layer(backend));
    // Five failures open the circuit for one second. Each failed probe opens it for twice the time.
    let failures = [(0, 1); 6];
    let probes = [(1_001, 1), (1_001, 2), (2_000, 2), (2_001, 1)];
    let further_probes = [(3_002, 1), (3_002, 4), (4_002, 3)];
    for (after, seconds) in [&failures[..], &probes, &further_probes].concat() {
        clock.set(after);
        let expected = format!("503 unavailable, retry after {seconds}");
        assert_eq!(answer(&service, request()).await, expected, "{after}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_store_that_fails_before_the_handler_is_no_error_for_a_service_that_runs_unprotected() {
    for unstorable in RULES {
        // The body is above the limit, so it cannot be stored. Nothing is stored of this run anyway.
        let run_unprotected = Some(OnStoreError::RunUnprotected);
        let operation = with_settings(|settings| settings.on_store_error = run_unprotected);
        let operation = built(operation.on_unstorable(unstorable).max_response_body(3));
        let backend = backend_with(fails(StoreErrorKind::Throttled, 0), &Arc::default());
        let (service, runs) = serve(operation.layer(backend), |_| text(200, "paid"));
        assert_eq!(answer(&service, request()).await, "200 paid");
        assert_eq!(runs.count(), 1, "{unstorable:?}");
    }
}

#[tokio::test]
async fn a_store_that_fails_is_503_before_the_handler_and_500_with_what_to_do_after_it() {
    let again = "was processed, but its result could not be confirmed: send it again, unchanged and under the same key";
    for (writes, expected, part) in [
        (0, "503 unavailable, retry after 1", "send it again later"),
        (1, "500 not-confirmed, retry after 1", again),
    ] {
        let (service, runs) = count(operation().layer(denied(writes)));
        let response = pay(&service).await;
        assert_eq!(seen(&response), expected);
        assert_eq!(runs.count(), writes);
        let text = text_of(&response);
        let is_secret = text.contains("secret-table") || text.contains("shop");
        assert!(text.contains(part) && !is_secret, "{text}");
    }
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
    let (service, _) = count(operation.layer(denied(0)));
    let with_key = |key| Request::post("/").header("idempotency-key", key);
    for (head, uri) in [
        (Request::post("/"), "urn:idempotency:key-missing"),
        (with_key("a,b"), "urn:idempotency:key-malformed"),
        (with_key("a"), "urn:idempotency:caller-unknown"),
        (post(), "urn:idempotency:unavailable"),
    ] {
        let response = send(&service, of(head, "{}")).await;
        assert_eq!((response.status().as_u16(), text_of(&response)), (418, uri));
    }
}

#[tokio::test]
async fn the_header_of_a_replay_can_be_named_and_switched_off() {
    for (name, expected) in [(Some("x-replay"), Some("true")), (None, None)] {
        let operation = with(|builder| builder.replayed_header(name));
        let (service, _) = count(operation.layer(backend()));
        pay(&service).await;
        let replay = pay(&service).await;
        assert_eq!(seen(&replay), "200 1");
        let header = replay.headers().get("x-replay");
        assert_eq!(header.map(|value| value.to_str().unwrap()), expected);
    }
}

#[tokio::test]
async fn a_refusal_names_the_header_of_the_key_and_links_to_the_documentation() {
    let url = "https://developer.example.com/idempotency";
    let (service, _) = count(with(|builder| builder.documentation(url)).layer(backend()));
    let link = format!("<{url}>; rel=\"describedby\"");
    let malformed = without_key().header("idempotency-key", "a,b");
    for head in [without_key(), malformed] {
        let refused = send(&service, of(head, "{}")).await;
        assert_eq!(refused.headers()["link"], link.as_str());
        assert!(text_of(&refused).contains("`idempotency-key`"));
    }
    assert!(!pay(&service).await.headers().contains_key("link"));
}

const SECOND: Duration = Duration::from_secs(1);

fn with_on_timeout(on_timeout: OnTimeout) -> HttpOperation {
    let operation = with_settings(|settings| settings.on_timeout = Some(on_timeout));
    built(operation.collect_streams(true))
}

/// What the handler does after its effect, in its first run. Each further run responds with 200.
#[derive(Clone, Copy)]
enum First {
    Hangs,
    Panics,
    Status(u16),
    Responds(fn() -> Response<Body>),
}

/// Returns a route whose handler has its effect. The runs are counted.
fn route(runs: &Runs, first: First) -> Router {
    let runs = runs.clone();
    let handler = async move || match (runs.add(), first) {
        (1, First::Hangs) => std::future::pending().await,
        (1, First::Panics) => panic!("after the effect"),
        (1, First::Status(status)) => text(status, ""),
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

fn reported(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(FailureReport);
    response
}

fn broken() -> Response<Body> {
    Response::new(stream_of([Ok("pa"), Err("connection reset")]))
}

fn hanging_body() -> Response<Body> {
    let chunks = stream::iter([Ok::<_, Infallible>("pa")]).chain(stream::pending());
    Response::new(Body::from_stream(chunks))
}

#[tokio::test(start_paused = true)]
async fn an_end_that_no_handler_reported_frees_the_key_under_rerun_and_is_held_under_hold() {
    use First::{Hangs, Panics, Responds, Status};
    let towers_timeout: Position = |app, layer| {
        let timed_out = async |_: BoxError| StatusCode::BAD_GATEWAY;
        let inside = ServiceBuilder::new()
            .layer(HandleErrorLayer::new(timed_out))
            .timeout(SECOND);
        app.layer(inside).layer(layer)
    };
    let deep_timeout: Position =
        |app, layer| timeout::<504>(app, layer.clone()).layer(CatchPanicLayer::new());
    let timeout_outside: Position = |app, layer| {
        let outside = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, SECOND);
        app.layer(layer).layer(outside)
    };
    let catcher_inside: Position = |app, layer| app.layer(CatchPanicLayer::new()).layer(layer);
    let catcher_outside: Position = |app, layer| app.layer(layer).layer(CatchPanicLayer::new());
    let body_timeout: Position = |app, layer| {
        let inside = ResponseBodyTimeoutLayer::new(SECOND);
        app.layer(inside).layer(layer)
    };
    let attempts: Position = |app, layer| {
        let refuse_the_second = async |request: axum::extract::Request, next: Next| {
            drop(next.run(request).await);
            StatusCode::TOO_MANY_REQUESTS
        };
        app.layer(from_fn(refuse_the_second)).layer(layer)
    };
    let reported_503 = Responds(|| reported(text(503, "")));
    let reported_409 = Responds(|| reported(text(409, "")));
    let reported_422 = Responds(|| reported(text(422, "")));
    let reported_200 = Responds(|| reported(text(200, "")));
    let reported_break = Responds(|| reported(broken()));
    let cases: [(&str, First, Position, usize, usize); 36] = [
        ("408 of a timeout inside", Hangs, timeout::<408>, 2, 1),
        ("499 of a timeout inside", Hangs, timeout::<499>, 2, 1),
        ("500 of a timeout inside", Hangs, timeout::<500>, 2, 1),
        ("503 of a timeout inside", Hangs, timeout::<503>, 2, 1),
        ("504 of a timeout inside", Hangs, timeout::<504>, 2, 1),
        ("tower's timeout inside", Hangs, towers_timeout, 2, 1),
        ("a timeout in a layer inside", Hangs, deep_timeout, 2, 1),
        ("a timeout outside", Hangs, timeout_outside, 1, 1),
        ("a panic catcher inside", Panics, catcher_inside, 2, 1),
        ("a panic catcher outside", Panics, catcher_outside, 2, 1),
        ("a body that breaks off", Responds(broken), only, 2, 1),
        ("a slow body", Responds(hanging_body), body_timeout, 2, 1),
        // The status of a handler is not distinguished from that of a layer.
        ("500", Status(500), only, 2, 1),
        ("502", Status(502), only, 2, 1),
        ("503", Status(503), only, 2, 1),
        ("507", Status(507), only, 2, 1),
        ("408", Status(408), only, 2, 1),
        // The handler says so itself.
        ("503 with a report", reported_503, only, 2, 2),
        ("a broken body with a report", reported_break, only, 2, 1),
        // These say that the request was not processed. They too can be made by a layer.
        ("401", Status(401), only, 2, 1),
        ("403", Status(403), only, 2, 1),
        ("409", Status(409), only, 2, 1),
        ("412", Status(412), only, 2, 1),
        ("425", Status(425), only, 2, 1),
        ("429", Status(429), only, 2, 1),
        ("304", Status(304), only, 2, 1),
        ("307", Status(307), only, 2, 1),
        ("409 of a timeout inside", Hangs, timeout::<409>, 2, 1),
        ("425 of a timeout inside", Hangs, timeout::<425>, 2, 1),
        ("429 of a timeout inside", Hangs, timeout::<429>, 2, 1),
        ("429 for the second attempt", Status(500), attempts, 2, 1),
        ("409 with a report", reported_409, only, 2, 2),
        // The response is stored, unless a report says that there was no effect.
        ("404", Status(404), only, 1, 1),
        ("422", Status(422), only, 1, 1),
        ("422 with a report", reported_422, only, 2, 2),
        ("200 with a report", reported_200, only, 1, 1),
    ];
    for (name, first, position, rerun, hold) in cases {
        for (on_timeout, expected) in [(OnTimeout::Rerun, rerun), (OnTimeout::Hold, hold)] {
            let runs = Runs::default();
            let layer = with_on_timeout(on_timeout).layer(backend());
            let app = position(route(&runs, first), layer);
            let mut last = String::new();
            for _ in 0..2 {
                let response = app.clone().oneshot(request()).await.unwrap();
                // The client reads the body, as far as it comes.
                if let Ok(body) = response.into_body().collect().await {
                    last = String::from_utf8_lossy(&body.to_bytes()).into_owned();
                }
            }
            assert_eq!(runs.count(), expected, "{name}, {on_timeout:?}");
            // A run that has ended is not said to go on. A call that was dropped cannot say that it has ended.
            let told = match name {
                "a timeout outside" => "in-progress",
                _ if expected < rerun => "outcome-unknown",
                _ => "",
            };
            assert!(last.contains(told), "{name}, {on_timeout:?}: {last}");
        }
    }
}

#[tokio::test]
async fn a_status_that_a_policy_does_not_store_is_held_under_hold() {
    let rules = |all| {
        let rules = with_settings(|settings| settings.on_timeout = Some(OnTimeout::Hold));
        built(if all {
            rules.stored_statuses(|_| true)
        } else {
            rules
        })
    };
    for (all, status) in [
        (false, 429),
        (false, 404),
        (false, 200),
        (true, 429),
        (true, 200),
    ] {
        let (service, counted) = serve(rules(all).layer(backend()), move |_| text(status, ""));
        twice(&service).await;
        assert_eq!(counted.count(), 1, "{all} {status}");
        let (service, counted) = serve(rules(all).layer(backend()), move |_| {
            reported(text(status, ""))
        });
        twice(&service).await;
        // A stored success is stored all the same.
        let runs = if status >= 400 { 2 } else { 1 };
        assert_eq!(counted.count(), runs, "{all} {status}");
    }
}

#[tokio::test]
async fn a_refusal_of_a_layer_inside_frees_the_key_of_the_layer_outside() {
    type Inner = fn(HttpOperationBuilder) -> HttpOperationBuilder;
    let optional: Inner = |rules| rules.key_header("x-inner");
    let small: Inner = |rules| rules.max_request_body(1);
    let by_part: Inner = |rules| rules.key("powertools_json(body)");
    let shown: Inner = |rules| rules.error_response(text_of_problem);
    let inner = |rules: Inner, backend: Backend| {
        let inner = HttpOperation::builder("shop::inner").variables(Variables::default());
        built(rules(inner.caller_header("x-inner-user"))).layer(backend)
    };
    let user = || post().header("x-inner-user", "u-1");
    let malformed = || user().header("x-inner", "a,b");
    let used = Arc::new(MemoryStore::new());
    let (first, _) = count(inner(|rules| rules, backend_over(&used)));
    let other = answer(&first, of(user(), "other")).await;
    assert_eq!(other, "200 1");
    let store = Arc::new(MemoryStore::new());
    for (head, layer, expected) in [
        (user(), inner(optional, backend()), "400 key-missing"),
        (malformed(), inner(optional, backend()), "400 key-malformed"),
        (user(), inner(by_part, backend()), "400 request-unreadable"),
        (
            post(),
            inner(|rules| rules, backend()),
            "403 caller-unknown",
        ),
        (user(), inner(small, backend()), "413 body-too-large"),
        (
            user(),
            inner(|rules| rules, backend_over(&used)),
            "422 key-reused",
        ),
        (
            user(),
            inner(|rules| rules, denied(0)),
            "503 unavailable, retry after 1",
        ),
        (
            user(),
            inner(shown, denied(0)),
            "418 urn:idempotency:unavailable",
        ),
    ] {
        let request = of(head, "no JSON {");
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let request = || Request::from_parts(parts.clone(), Body::from(body.clone()));
        for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
            let outer = with_on_timeout(on_timeout).layer(backend_over(&store));
            let (inside, runs) = count(layer.clone());
            let app = App::new(outer.layer(inside).map_response(|it| it.map(Body::new)));
            assert_eq!(answer(&app, request()).await, expected, "{on_timeout:?}");
            assert!(store.is_empty(), "{expected} {on_timeout:?}");
            assert_eq!(answer(&app, request()).await, expected, "{on_timeout:?}");
            assert_eq!(runs.count(), 0, "{expected} {on_timeout:?}");
        }
    }
}

fn text_of_problem(problem: &Problem) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(problem.reason().type_uri()));
    *response.status_mut() = StatusCode::IM_A_TEAPOT;
    response
}

#[tokio::test]
async fn a_handler_reports_a_refusal_of_the_operation_that_it_calls() {
    for (ends, held) in [
        (ErrorKind::StoreFailed, false),
        (ErrorKind::PayloadMismatch, false),
        (ErrorKind::AlreadyInProgress, true),
        (ErrorKind::Unresolved, true),
        (ErrorKind::CompletionUnknown, true),
    ] {
        let store = Arc::new(MemoryStore::new());
        let layer = with_on_timeout(OnTimeout::Hold).layer(backend_over(&store));
        let error = idempotency_http::Error::new(ends, "shop::inner");
        let report = FailureReport::of(&error).map(Extension);
        let pay = move || async move { (StatusCode::CONFLICT, report, "") };
        let app = App::new(Router::new().route("/payments", on_post(pay)).layer(layer));
        assert_eq!(answer(&app, request()).await, "409");
        assert_eq!(!store.is_empty(), held, "{ends:?}");
    }
    let ran = idempotency_http::Error::new(ErrorKind::NoTimeLeft, "shop").with_handler_ran(true);
    assert_eq!(FailureReport::of(&ran), None);
}

/// Sends each request a second time if it has no response after a second.
async fn try_twice(request: axum::extract::Request, next: Next) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let attempt = || {
        let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
        next.clone().run(request)
    };
    match tokio::time::timeout(SECOND, attempt()).await {
        Ok(response) => response,
        Err(_) => attempt().await,
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_report_after_an_attempt_that_ran_inside() {
    let inner = HttpOperation::builder("shop::inner").variables(Variables::default());
    let inner = built(inner.shared_by_all_callers());
    let used = Arc::new(MemoryStore::new());
    let (other, _) = hang(inner.layer(backend_over(&used)));
    let _running = start(&other);
    let (unavailable, in_progress) = ("503 unavailable", "409 in-progress");
    // The first attempt of two has its effect and is dropped. The second one meets its claim, or a store that fails.
    for (runs_first, backend, expected) in [
        (true, denied(1), unavailable),
        (true, backend(), in_progress),
        (false, denied(0), unavailable),
        (false, backend_over(&used), in_progress),
    ] {
        let (runs, store) = (Runs::default(), Arc::new(MemoryStore::new()));
        let outer = with_on_timeout(OnTimeout::Hold).layer(backend_over(&store));
        let inside = route(&runs, First::Hangs).layer(inner.layer(backend));
        let app = App::new(inside.layer(from_fn(try_twice)).layer(outer));
        let seen = answer(&app, request()).await;
        assert_eq!(seen, format!("{expected}, retry after 1"));
        let found = (runs.count(), store.is_empty());
        assert_eq!(found, (usize::from(runs_first), !runs_first), "{expected}");
    }
}

/// They say nothing of what the handler did before.
#[tokio::test]
async fn a_refusal_and_a_report_of_a_request_of_the_handlers_own_are_no_report_of_the_handler() {
    let inner = HttpOperation::builder("shop::inner").variables(Variables::default());
    let inner = built(inner.shared_by_all_callers());
    let (refused, _) = count(inner.layer(denied(0)));
    let (reports, _) = serve(inner.layer(backend()), |_| reported(text(429, "busy")));
    for (inside, expected) in [
        (refused, "503 unavailable, retry after 1"),
        (reports, "429 busy"),
    ] {
        let outer = with_on_timeout(OnTimeout::Hold).layer(backend());
        let (app, charges) = serve_with(outer, move |_, _| {
            let notified = inside.clone().oneshot(request());
            async { notified.await.unwrap() }
        });
        assert_eq!(twice(&app).await, [expected, "500 outcome-unknown"]);
        assert_eq!(charges.count(), 1, "{expected}");
    }
}

/// What a run inside may have done is not known from this.
#[tokio::test]
async fn a_response_of_a_layer_inside_that_leaves_doubt_holds_the_key_of_the_layer_outside() {
    let inner = HttpOperation::builder("shop::inner").variables(Variables::default());
    let inner = built(inner.shared_by_all_callers());
    let (inside, _) = count(inner.layer(denied(1)));
    let outer = with_on_timeout(OnTimeout::Hold).layer(backend());
    let app = App::new(outer.layer(inside).map_response(|it| it.map(Body::new)));
    let expected = ["500 not-confirmed, retry after 1", "500 outcome-unknown"];
    assert_eq!(twice(&app).await, expected);
}

#[tokio::test]
async fn a_response_that_a_layer_inside_replays_is_the_result_of_the_layer_outside() {
    let inner = HttpOperation::builder("shop::inner").variables(Variables::default());
    let inner = built(inner.shared_by_all_callers());
    let (inside, runs) = serve(inner.layer(backend()), |_| text(422, "sorry"));
    assert_eq!(answer(&inside, request()).await, "422 sorry");
    let store = Arc::new(MemoryStore::new());
    let outer = with_on_timeout(OnTimeout::Hold).layer(backend_over(&store));
    let app = App::new(outer.layer(inside).map_response(|it| it.map(Body::new)));
    assert_eq!(twice(&app).await, ["422 sorry, replayed"; 2]);
    assert_eq!((runs.count(), store.is_empty()), (1, false));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_inside_is_held_under_hold() {
    for (on_timeout, expected) in [(OnTimeout::Rerun, (200, 2)), (OnTimeout::Hold, (500, 1))] {
        let runs = Runs::default();
        let counted = runs.clone();
        let service = ServiceBuilder::new()
            .layer(with_on_timeout(on_timeout).layer(backend()))
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
        assert_eq!((second.status().as_u16(), runs.count()), expected);
    }
}

fn to_end() -> HttpIdempotencyLayer<Backend> {
    operation().layer(backend()).run_to_end()
}

#[tokio::test]
async fn a_client_that_disconnects_and_retries_gets_the_response_of_the_run() {
    let allowed = Arc::new(Notify::new());
    let waits = Arc::clone(&allowed);
    let layer = to_end();
    let (service, _) = serve_with(layer.clone(), move |_, run| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            text(201, format!("charge {run}"))
        }
    });
    drop(start(&service));
    let mut idle = Box::pin(layer.idle());
    let mut context = Context::from_waker(Waker::noop());
    assert!(idle.as_mut().poll(&mut context).is_pending());
    allowed.notify_one();
    idle.await;
    let retried = answer(&service, request()).await;
    assert_eq!(retried, "201 charge 1, replayed");
}

#[tokio::test]
async fn a_layer_whose_requests_end_with_their_clients_is_idle_at_once() {
    let layer = operation().layer(backend());
    let (service, _) = hang(layer.clone());
    let _running = start(&service);
    layer.idle().await;
}

#[tokio::test]
async fn a_panic_of_the_handler_reaches_the_server_and_frees_the_key() {
    for layer in [operation().layer(backend()), to_end()] {
        let (service, _) = serve_with(layer, async |_, run| {
            assert!(run > 1, "the first run panics");
            text(201, "paid")
        });
        let first = service.clone();
        let first = tokio::spawn(async move { pay(&first).await });
        assert!(first.await.unwrap_err().is_panic());
        assert_eq!(answer(&service, request()).await, "201 paid");
    }
}

#[tokio::test]
async fn another_body_type_is_mapped_outside() {
    let (service, _) = count(to_end());
    let service = MapRequestBodyLayer::new(Body::new).layer(service);
    for _ in 0..2 {
        let request = post().body(Limited::new(Full::from("{}"), 100)).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "1");
    }
}

tokio::task_local! { static OUTSIDE: (); }

#[tokio::test]
async fn a_request_keeps_its_extensions_and_loses_task_locals_of_the_code_outside() {
    let (service, _) = serve_with(to_end(), async |request, _| {
        let extension = request.extensions().get::<u8>().copied();
        let seen = format!("{extension:?} {:?}", OUTSIDE.try_with(|&()| ()).is_ok());
        text(200, seen)
    });
    let mut request = request();
    request.extensions_mut().insert(7_u8);
    let answer = OUTSIDE.scope((), answer(&service, request)).await;
    assert_eq!(answer, "200 Some(7) false");
}

#[tokio::test]
async fn a_final_response_below_500_is_stored_and_any_other_refuses_the_undoing() {
    use OnTimeout::{Hold, Rerun};

    // The status of the final response, whether it has a report, what the client gets two times, and how often the handler ran and
    // the step was undone.
    let cases = [
        (Rerun, 200, false, "200 sorry", "200 sorry, replayed", 1, 1),
        (Rerun, 308, false, "308 sorry", "308 sorry, replayed", 1, 1),
        (Rerun, 409, false, "409 sorry", "409 sorry, replayed", 1, 1),
        (
            Rerun,
            409,
            true,
            "500 not-confirmed, retry after 1",
            "200 paid",
            2,
            0,
        ),
        (
            Rerun,
            408,
            false,
            "500 not-confirmed, retry after 1",
            "200 paid",
            2,
            0,
        ),
        (
            Rerun,
            503,
            false,
            "500 not-confirmed, retry after 1",
            "200 paid",
            2,
            0,
        ),
        (
            Rerun,
            503,
            true,
            "500 not-confirmed, retry after 1",
            "200 paid",
            2,
            0,
        ),
        (Hold, 422, false, "422 sorry", "422 sorry, replayed", 1, 1),
        // A layer inside can have made it.
        (Hold, 409, false, "409 sorry", "500 outcome-unknown", 1, 0),
        (Hold, 503, false, "503 sorry", "500 outcome-unknown", 1, 0),
        (
            Hold,
            503,
            true,
            "500 not-confirmed, retry after 1",
            "200 paid",
            2,
            0,
        ),
    ];
    for (on_timeout, status, has_report, first, second, runs, undone) in cases {
        let operation = with_settings(|settings| {
            settings.on_timeout = Some(on_timeout);
            settings.steps = Some(Steps::Keep);
        });
        let undos = Runs::default();
        let counted = undos.clone();
        let handler = move |request: Request<Body>, run| {
            let call = request.extensions().get::<Call>().unwrap().clone();
            let undos = counted.clone();
            async move { decide(call, run, status, has_report, &undos).await }
        };
        let (app, counted) = serve_with(built(operation).layer(backend()), handler);
        let name = format!("{on_timeout:?} {status} {has_report}");
        assert_eq!(twice(&app).await, [first, second], "{name}");
        assert_eq!((counted.count(), undos.count()), (runs, undone), "{name}");
    }
}

#[tokio::test]
async fn a_final_response_in_memory_is_that_of_the_handler_itself() {
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        for (status, sent, undone) in [(200, 200, 1), (409, 409, 1), (503, 500, 0)] {
            let operation = built(with_settings(|settings| {
                settings.on_timeout = Some(on_timeout);
                settings.steps = Some(Steps::Keep);
            }));
            let (parts, _) = request().into_parts();
            let request = ReceivedRequest::new(&parts, b"{}");
            let undos = Runs::default();
            let handler = async |call| {
                let response = decide(call, 1, status, false, &undos).await;
                Ok::<_, Infallible>(response.map(|_| Bytes::new()))
            };
            let call = operation.call(Ok(place(backend())), &request);
            let sent_to_client = match call.run(handler, |own| Ok(own.clone())).await.unwrap() {
                ClientReply::Own(response) | ClientReply::Made(response) => response.status(),
            };
            assert_eq!(
                (sent_to_client.as_u16(), undos.count()),
                (sent, undone),
                "{on_timeout:?} {status}"
            );
        }
    }
}

#[tokio::test]
async fn the_steps_of_a_request_that_is_not_protected_are_undone_and_an_undo_that_fails_is_an_error()
 {
    let (backend, operation) = (backend(), operation());
    for (status, fails, sent, undone) in [(409, false, 409, 1), (409, true, 500, 1)] {
        let undos = Runs::default();
        let counted = undos.clone();
        let handler = async |call: Call| {
            let charge = call.named_step("charge").undo(move |_: u32, _| {
                counted.add();
                let refused = Error::new(ErrorKind::Internal, "bank");
                ready(if fails { Err(refused) } else { Ok(()) })
            });
            charge.run(|| ready(Ok::<_, Error>(17))).await.unwrap();
            let response = Response::builder().status(status).body(Bytes::new());
            Ok::<_, Infallible>(call.undo(response.unwrap()))
        };
        let headers = HeaderMap::new();
        let view = |own: &Response<Bytes>| Ok(own.clone());
        let run = operation.run_unprotected(&backend, None, &headers, handler, view);
        let found = match run.await.unwrap() {
            ClientReply::Own(response) | ClientReply::Made(response) => response.status(),
        };
        assert_eq!((found.as_u16(), undos.count()), (sent, undone));
    }
}

/// Charges in a step with an undo. The first run then decides that it is undone, with a final response of this status.
async fn decide(
    call: Call,
    run: usize,
    status: u16,
    has_report: bool,
    undos: &Runs,
) -> Response<Body> {
    let undos = undos.clone();
    let charge = call.named_step("charge").undo(move |_: u32, _| {
        undos.add();
        ready(Ok::<_, Error>(()))
    });
    charge.run(|| ready(Ok::<_, Error>(17))).await.unwrap();
    if run > 1 {
        return text(200, "paid");
    }
    let mut response = text(status, "sorry");
    if has_report {
        response.extensions_mut().insert(FailureReport);
    }
    call.undo(response)
}
