//! The position of the layer in a stack: each test is a mistake and its consequence, or the position that is right.
//!
//! Routers, routes and other services that take the layer, and what they make of paths.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request as AxumRequest;
use axum::http::request::{Builder, Parts};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::{get, post as on_post};
use futures_util::stream;
use http_body_util::BodyExt;
use idempotency_core::error::Error as IdempotencyError;
use idempotency_core::store::MemoryStore;
use idempotency_http::{Backend, Host, HttpIdempotencyLayer, HttpOperation, Place};
use lambda_http::Body as LambdaBody;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::*;

#[derive(Clone)]
struct User(String);

/// Accepts the token `alice` or `bob`, and adds the user to the request.
async fn authenticate(mut request: AxumRequest, next: Next) -> axum::response::Response {
    let token = request.headers().get("authorization");
    match token.and_then(|token| token.to_str().ok()) {
        Some(user @ ("alice" | "bob")) => {
            let user = User(user.to_owned());
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

fn by_user() -> HttpIdempotencyLayer<Backend> {
    let caller = |parts: &Parts| Some(parts.extensions.get::<User>()?.0.clone());
    built(builder().caller_from(caller)).layer(backend())
}

fn layer() -> HttpIdempotencyLayer<Backend> {
    operation().layer(backend())
}

/// A route whose response is the number of its run.
fn payments() -> Router {
    slow_once(false)
}

/// A route whose response is the number of its run. The first run never ends if `is_slow`.
fn slow_once(is_slow: bool) -> Router {
    let runs = Runs::default();
    let pay = async move || {
        let run = runs.add();
        if is_slow && run == 1 {
            std::future::pending::<()>().await;
        }
        run.to_string()
    };
    Router::new().route("/payments", on_post(pay))
}

fn of_user(user: &str) -> Request<Body> {
    of(post().header("authorization", user), "{}")
}

#[tokio::test]
async fn authentication_outside_checks_every_replay() {
    let app = payments().layer(by_user()).layer(from_fn(authenticate));
    let requests = ["alice", "alice", "bob", "mallory"].map(of_user);
    let expected = ["200 1", "200 1, replayed", "200 2", "401"];
    assert_eq!(answers(&app, requests).await, expected);
}

#[tokio::test]
async fn authentication_inside_is_noticed_because_the_caller_is_unknown() {
    let app = payments().layer(from_fn(authenticate)).layer(by_user());
    let answer = answer(&app, of_user("alice")).await;
    assert_eq!(answer, "403 caller-unknown");
}

#[tokio::test]
async fn authentication_inside_a_shared_layer_gives_a_replay_to_any_client() {
    let shared = built(builder().shared_by_all_callers());
    let app = payments()
        .layer(from_fn(authenticate))
        .layer(shared.layer(backend()));
    // The mistake: no token, and the response of alice.
    let requests = ["alice", "no token at all"].map(of_user);
    let expected = ["200 1", "200 1, replayed"];
    assert_eq!(answers(&app, requests).await, expected);
}

fn accepts_gzip() -> Request<Body> {
    of(post().header("accept-encoding", "gzip"), "{}")
}

/// A route with a response that is long enough to be compressed.
fn long_response() -> Router {
    let pay = async || "x".repeat(100);
    Router::new().route("/payments", on_post(pay))
}

#[tokio::test]
async fn compression_outside_compresses_each_response_for_its_client() {
    let app = long_response()
        .layer(layer())
        .layer(CompressionLayer::new());
    let first = send(&app, accepts_gzip()).await;
    assert_eq!(first.headers()["content-encoding"], "gzip");
    let plain = pay(&app).await;
    let expected = format!("200 {}, replayed", "x".repeat(100));
    assert_eq!(seen(&plain), expected);
    assert!(!plain.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn compression_inside_hides_the_length_so_duplicates_get_an_error() {
    let app = long_response()
        .layer(CompressionLayer::new())
        .layer(layer());
    let first = send(&app, accepts_gzip()).await;
    assert_eq!(first.headers()["content-encoding"], "gzip");
    let second = answer(&app, accepts_gzip()).await;
    assert_eq!(second, "500 response-unavailable");
}

#[tokio::test]
async fn compression_inside_with_collected_streams_replays_gzip_to_every_client() {
    let collecting = with(|builder| builder.collect_streams(true));
    let app = long_response()
        .layer(CompressionLayer::new())
        .layer(collecting.layer(backend()));
    let first = send(&app, accepts_gzip()).await;
    // The client does not accept gzip.
    let plain = pay(&app).await;
    assert_eq!(plain.headers()["content-encoding"], "gzip");
    assert!(seen(&plain).ends_with(", replayed"));
    assert_eq!(plain.body(), first.body());
}

fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin("https://shop.example".parse::<HeaderValue>().unwrap())
        .allow_methods([Method::POST])
}

const ALLOW_ORIGIN: &str = "access-control-allow-origin";

#[tokio::test]
async fn cors_outside_marks_refusals_and_replays_and_inside_lets_browsers_refuse_errors() {
    for (app, marks_refusals) in [
        (payments().layer(layer()).layer(cors()), true),
        (payments().layer(cors()).layer(layer()), false),
    ] {
        for (body, expected, is_marked) in [
            ("{}", "200 1", true),
            ("{}", "200 1, replayed", true),
            ("other", "422 key-reused", marks_refusals),
        ] {
            let from_browser = post().header("origin", "https://shop.example");
            let response = send(&app, of(from_browser, body)).await;
            assert_eq!(seen(&response), expected);
            let found = response.headers().contains_key(ALLOW_ORIGIN);
            assert_eq!(found, is_marked, "{expected}");
        }
    }
}

#[tokio::test]
async fn a_preflight_passes() {
    let app = payments().layer(layer()).layer(cors());
    let preflight = Request::options("/payments")
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST");
    let preflight = send(&app, of(preflight, "")).await;
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.headers()["access-control-allow-methods"], "POST");
}

/// The headers with which a service answers CORS itself.
fn own_cors(request: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(origin) = request.get("origin") {
        headers.insert("access-control-allow-origin", origin.clone());
    }
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
    headers
}

#[tokio::test]
async fn a_service_that_answers_cors_itself_adds_its_headers_to_replays_and_errors() {
    let operation = with(|builder| {
        let builder = builder.add_headers(own_cors).max_request_body(8);
        builder.methods([Method::POST, Method::HEAD])
    });
    let pay = async |headers: HeaderMap| (own_cors(&headers), "paid");
    let app = Router::new()
        .route("/payments", axum::routing::any(pay))
        .layer(operation.layer(backend()));
    let (shop, admin) = ("https://shop.example", "https://admin.example");
    let anonymous = || Request::post("/payments").header("idempotency-key", "k-1");
    let head = post().method(Method::HEAD);
    for (head, body, origin, expected) in [
        (post(), "{}", shop, "200 paid"),
        (post(), "{}", shop, "200 paid, replayed"),
        // The stored response has the header of the first origin.
        (post(), "{}", admin, "200 paid, replayed"),
        (post(), "other", shop, "422 key-reused"),
        (head, "{}", shop, "422"),
        (post(), "123456789", shop, "413 body-too-large"),
        (anonymous(), "{}", shop, "403 caller-unknown"),
        (without_key(), "{}", shop, "400 key-missing"),
    ] {
        let response = send(&app, of(head.header("origin", origin), body)).await;
        assert_eq!(seen(&response), expected);
        for (name, value) in [(ALLOW_ORIGIN, origin), ("x-frame-options", "DENY")] {
            let values = response.headers().get_all(name).iter();
            assert!(values.eq([value]), "{expected} {name}");
        }
    }
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_is_a_failure_that_frees_the_key() {
    let app = slow_once(true).layer(timeout()).layer(layer());
    assert_eq!(twice(&app).await, ["504", "200 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_drops_the_call_so_its_key_is_busy_until_the_lease_ends() {
    let store = Arc::new(MemoryStore::new());
    let layer = operation().layer(backend_over(&store));
    let app = slow_once(true).layer(layer).layer(timeout());
    let expected = ["504", "409 in-progress, retry after 1"];
    assert_eq!(twice(&app).await, expected);
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn a_limit_of_the_body_outside_is_413_and_inside_it_is_a_stored_response() {
    let runs = Runs::default();
    let read = runs.clone();
    let pay = async move |text: String| {
        read.add();
        text
    };
    let router = || Router::new().route("/payments", on_post(pay.clone()));
    let large = || {
        let chunks = stream::iter([Ok::<_, Infallible>("1234"); 2]);
        of(post(), Body::from_stream(chunks))
    };
    let outside = router().layer(layer()).layer(RequestBodyLimitLayer::new(4));
    let sent = answers(&outside, [large(), of(post(), "four")]).await;
    assert_eq!(sent, ["413 body-too-large", "200 four"]);

    let inside = router().layer(RequestBodyLimitLayer::new(4)).layer(layer());
    assert_eq!(send(&inside, large()).await.status(), 413);
    let again = answer(&inside, large()).await;
    assert!(again.starts_with("413 ") && again.ends_with(", replayed"));
    // 413 is the result of this request: the client needs a new key.
    let smaller = answer(&inside, of(post(), "four")).await;
    assert_eq!(smaller, "422 key-reused");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_router_a_route_and_a_handler_take_the_layer() {
    let handler = || async { ([("content-type", "text/x")], "paid") };
    let routed = || Router::new().route("/payments", on_post(handler));
    let traced = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(layer());
    for app in [
        routed().layer(layer()),
        routed().route_layer(layer()),
        Router::new().route("/payments", on_post(handler).layer(layer())),
        routed().layer(traced),
    ] {
        for expected in ["200 paid", "200 paid, replayed"] {
            let response = pay(&app).await;
            assert_eq!(seen(&response), expected);
            assert_eq!(response.headers()["content-type"], "text/x");
        }
    }
}

fn to(uri: &str) -> Builder {
    post().uri(uri)
}

#[tokio::test]
async fn a_layer_around_the_router_stores_404_and_a_route_layer_does_not_see_it() {
    let requests = || {
        [
            of(to("/paymnets"), "{}"),
            of(to("/paymnets"), "{}"),
            request(),
        ]
    };
    let around = payments().layer(layer());
    // The mistake: 404 takes the key.
    let expected = ["404", "404, replayed", "422 key-reused"];
    assert_eq!(answers(&around, requests()).await, expected);
    let routes = payments().route_layer(layer());
    let expected = ["404", "404", "200 1"];
    assert_eq!(answers(&routes, requests()).await, expected);
}

#[tokio::test]
async fn routes_that_are_added_after_the_layer_are_not_protected() {
    let app = Router::new()
        .route("/health", get(async || "ok"))
        .layer(layer())
        .merge(payments());
    assert_eq!(twice(&app).await, ["200 1", "200 2"]);
}

#[tokio::test]
async fn a_layer_inside_a_nested_router_sees_the_path_without_its_prefix() {
    let nested = |inside: Router| {
        Router::new()
            .nest("/v1", inside.clone())
            .nest("/v2", inside)
    };
    let requests = || ["/v1/payments", "/v2/payments"].map(|uri| of(to(uri), "{}"));
    // The mistake: both are `/payments` of one operation.
    let inside = nested(payments().layer(layer()));
    let expected = ["200 1", "200 1, replayed"];
    assert_eq!(answers(&inside, requests()).await, expected);
    let outside = nested(payments()).layer(layer());
    let expected = ["200 1", "422 key-reused"];
    assert_eq!(answers(&outside, requests()).await, expected);
}

#[tokio::test]
async fn two_layers_of_one_operation_block_each_other_and_two_operations_do_not() {
    let one = layer();
    let app = payments().layer(one.clone()).layer(one);
    let answer = answer(&app, request()).await;
    assert_eq!(answer, "409 in-progress, retry after 1", "the mistake");

    let outer = built(HttpOperation::builder("shop::gateway").caller_header("x-user-id"));
    let app = payments().layer(layer()).layer(outer.layer(backend()));
    assert_eq!(twice(&app).await, ["200 1", "200 1, replayed"]);
}

#[test]
fn the_service_is_clone_send_and_sync_if_the_inner_one_is() {
    fn check<T: Clone + Send + Sync + 'static>(_: T) {}
    check(layer());
    check(layer().layer(payments()));
}

/// A host of Lambda: its handlers get bytes as bytes.
#[derive(Clone)]
struct Lambda(Backend);

impl Host for Lambda {
    async fn place(&self, operation: &str, request: &Parts) -> Result<Place, IdempotencyError> {
        self.0.place(operation, request).await
    }

    fn may_be_text(&self, body: &dyn std::any::Any) -> bool {
        matches!(body.downcast_ref(), Some(LambdaBody::Text(_)))
    }
}

#[tokio::test]
async fn services_of_the_lambda_runtime_get_text_as_text_and_bytes_as_bytes() {
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move |request: lambda_http::Request| {
        counted.add();
        async move {
            Ok::<_, lambda_http::Error>(lambda_http::Response::new(LambdaBody::from(match request
                .body()
            {
                LambdaBody::Text(_) => "text",
                LambdaBody::Binary(_) => "binary",
                _ => "empty",
            })))
        }
    };
    let service = operation()
        .layer(Lambda(backend()))
        .layer(service_fn(handler));
    for (key, sent, expected) in [
        ("k-1", LambdaBody::from("{}"), "text"),
        ("k-1", LambdaBody::from("{}"), "text"),
        ("k-2", LambdaBody::from(b"{}".to_vec()), "binary"),
        ("k-3", LambdaBody::from(b"\xff".to_vec()), "binary"),
    ] {
        let request = Request::post("/payments")
            .header("idempotency-key", key)
            .header("x-user-id", "u-1");
        let response = service.clone().oneshot(request.body(sent).unwrap()).await;
        let body = response.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), expected);
    }
    assert_eq!(runs.count(), 3);
}
