//! The position of the layer in a stack: each test is a mistake and its consequence, or the position that is right.
//!
//! Routers, routes and other services that take the layer, and what they make of paths.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request as AxumRequest;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::{get, post as on_post};
use axum::{Json, Router};
use http_body_util::BodyExt;
use idempotency_core::error::Error as IdempotencyError;
use idempotency_core::store::MemoryStore;
use idempotency_http::{Backend, Host, HttpIdempotencyLayer, HttpOperation, Place};
use lambda_http::Body as LambdaBody;
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;
use tower_layer::Layer;

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

fn by_user() -> HttpOperation {
    builder()
        .caller_from(|parts| Some(parts.extensions.get::<User>()?.0.clone()))
        .build()
        .unwrap()
}

pub(crate) fn layer() -> HttpIdempotencyLayer<Backend> {
    operation().layer(backend())
}

/// A route that counts its runs, with a text that is long enough to be compressed.
pub(crate) fn payments(runs: &Runs) -> Router {
    let runs = runs.clone();
    let pay = async move || format!("charge {} {}", runs.add(), "x".repeat(100));
    Router::new().route("/payments", on_post(pay))
}

fn of_user(user: &str) -> Request<Body> {
    post()
        .header("authorization", user)
        .body(body("{}"))
        .unwrap()
}

#[tokio::test]
async fn authentication_outside_checks_every_replay() {
    let runs = Runs::default();
    let app = payments(&runs)
        .layer(by_user().layer(backend()))
        .layer(from_fn(authenticate));
    assert_eq!(send(&app, of_user("alice")).await.status(), 200);
    assert!(is_replayed(&send(&app, of_user("alice")).await));
    assert!(!is_replayed(&send(&app, of_user("bob")).await));
    let revoked = send(&app, of_user("mallory")).await;
    assert_eq!((revoked.status().as_u16(), runs.count()), (401, 2));
}

#[tokio::test]
async fn authentication_inside_is_noticed_because_the_caller_is_unknown() {
    let runs = Runs::default();
    let app = payments(&runs)
        .layer(from_fn(authenticate))
        .layer(by_user().layer(backend()));
    let response = send(&app, of_user("alice")).await;
    assert_eq!(problem(&response), "urn:idempotency:caller-unknown");
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn authentication_inside_a_shared_layer_gives_a_replay_to_any_client() {
    let runs = Runs::default();
    let shared = builder().shared_by_all_callers().build().unwrap();
    let app = payments(&runs)
        .layer(from_fn(authenticate))
        .layer(shared.layer(backend()));
    send(&app, of_user("alice")).await;
    let stolen = send(&app, of_user("no token at all")).await;
    assert_eq!(
        stolen.status(),
        200,
        "the mistake: no token, and the response of alice"
    );
    assert!(is_replayed(&stolen));
}

fn accepts_gzip() -> Request<Body> {
    post()
        .header("accept-encoding", "gzip")
        .body(body("{}"))
        .unwrap()
}

#[tokio::test]
async fn compression_outside_compresses_each_response_for_its_client() {
    let app = payments(&Runs::default())
        .layer(layer())
        .layer(CompressionLayer::new());
    let first = send(&app, accepts_gzip()).await;
    assert_eq!(first.headers()["content-encoding"], "gzip");
    let plain = pay(&app).await;
    assert!(is_replayed(&plain) && plain.body().starts_with(b"charge 1"));
    assert!(!plain.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn compression_inside_hides_the_length_so_duplicates_get_an_error() {
    let runs = Runs::default();
    let app = payments(&runs)
        .layer(CompressionLayer::new())
        .layer(layer());
    let first = send(&app, accepts_gzip()).await;
    assert_eq!(first.headers()["content-encoding"], "gzip");
    let second = send(&app, accepts_gzip()).await;
    assert_eq!(problem(&second), "urn:idempotency:response-unavailable");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn compression_inside_with_collected_streams_replays_gzip_to_every_client() {
    let collecting = builder().caller_header("x-user-id").collect_streams(true);
    let app = payments(&Runs::default())
        .layer(CompressionLayer::new())
        .layer(collecting.build().unwrap().layer(backend()));
    let first = send(&app, accepts_gzip()).await;
    let plain = pay(&app).await;
    assert!(is_replayed(&plain));
    assert_eq!(
        plain.headers()["content-encoding"],
        "gzip",
        "the client did not accept it"
    );
    assert_eq!(plain.body(), first.body());
}

fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin("https://shop.example".parse::<HeaderValue>().unwrap())
        .allow_methods([Method::POST])
}

#[tokio::test]
async fn a_preflight_passes_and_cors_outside_marks_refusals_and_replays() {
    let app = payments(&Runs::default()).layer(layer()).layer(cors());
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/payments")
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST");
    let preflight = send(&app, preflight.body(body("")).unwrap()).await;
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.headers()["access-control-allow-methods"], "POST");
    let from_browser = || post().header("origin", "https://shop.example");
    for _ in 0..2 {
        let response = send(&app, from_browser().body(body("{}")).unwrap()).await;
        assert!(
            response
                .headers()
                .contains_key("access-control-allow-origin")
        );
    }
    let refused = send(&app, from_browser().body(body("other")).unwrap()).await;
    assert_eq!(refused.status(), 422);
    assert!(
        refused
            .headers()
            .contains_key("access-control-allow-origin")
    );
}

#[tokio::test]
async fn cors_inside_marks_replays_and_lets_browsers_refuse_errors() {
    let app = payments(&Runs::default()).layer(cors()).layer(layer());
    let from_browser = || post().header("origin", "https://shop.example");
    let first = send(&app, from_browser().body(body("{}")).unwrap()).await;
    assert!(first.headers().contains_key("access-control-allow-origin"));
    let replay = send(&app, from_browser().body(body("{}")).unwrap()).await;
    assert!(is_replayed(&replay));
    assert!(replay.headers().contains_key("access-control-allow-origin"));
    let refused = send(&app, from_browser().body(body("other")).unwrap()).await;
    assert_eq!(refused.status(), 422);
    assert!(
        !refused
            .headers()
            .contains_key("access-control-allow-origin")
    );
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
    let operation = builder().caller_header("x-user-id").add_headers(own_cors);
    let operation = operation
        .methods([Method::POST, Method::HEAD])
        .max_request_body(8);
    let operation = operation.build().unwrap();
    let pay = async |headers: HeaderMap| (own_cors(&headers), "paid");
    let app = Router::new()
        .route("/payments", axum::routing::any(pay))
        .layer(operation.layer(backend()));
    let of = |origin: &'static str| post().header("origin", origin);
    let (shop, admin) = ("https://shop.example", "https://admin.example");
    let without = |name: &str, mut request: Request<Body>| {
        request.headers_mut().remove(name);
        request
    };
    let head = of(shop).method(Method::HEAD);
    for (request, origin, status, replayed) in [
        (of(shop).body(body("{}")), shop, 200, false),
        (of(shop).body(body("{}")), shop, 200, true),
        // The stored response has the header of the first origin.
        (of(admin).body(body("{}")), admin, 200, true),
        (of(shop).body(body("other")), shop, 422, false),
        (head.body(body("{}")), shop, 422, false),
        (of(shop).body(body("123456789")), shop, 413, false),
        (
            Ok(without("x-user-id", of(shop).body(body("{}")).unwrap())),
            shop,
            403,
            false,
        ),
        (
            Ok(without(
                "idempotency-key",
                of(shop).body(body("{}")).unwrap(),
            )),
            shop,
            400,
            false,
        ),
    ] {
        let response = send(&app, request.unwrap()).await;
        assert_eq!(
            (response.status().as_u16(), is_replayed(&response)),
            (status, replayed)
        );
        let headers = response.headers();
        for (name, value) in [
            ("access-control-allow-origin", origin),
            ("x-frame-options", "DENY"),
        ] {
            let values: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(values, [value], "{status} {name}");
        }
    }
}

/// A router whose first run never ends.
fn slow(runs: &Runs) -> Router {
    let runs = runs.clone();
    let pay = async move || {
        if runs.add() == 1 {
            std::future::pending::<()>().await;
        }
        "paid"
    };
    Router::new().route("/payments", on_post(pay))
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_is_a_failure_that_frees_the_key() {
    let runs = Runs::default();
    let app = slow(&runs).layer(timeout()).layer(layer());
    let first = pay(&app).await;
    assert_eq!(first.status(), 504);
    let second = pay(&app).await;
    assert_eq!((second.body(), runs.count()), (&"paid".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_drops_the_call_so_its_key_is_busy_until_the_lease_ends() {
    let runs = Runs::default();
    let store = Arc::new(MemoryStore::new());
    let app = slow(&runs)
        .layer(operation().layer(backend_over(&store)))
        .layer(timeout());
    let first = pay(&app).await;
    assert_eq!(first.status(), 504);
    let second = pay(&app).await;
    assert_eq!(problem(&second), "urn:idempotency:in-progress");
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!((runs.count(), store.len()), (1, 1));
}

#[tokio::test]
async fn a_limit_of_the_body_outside_is_413_and_inside_it_is_a_stored_response() {
    let runs = Runs::default();
    let read = runs.clone();
    let pay = async move |text: String| {
        read.add();
        text.len().to_string()
    };
    let router = || Router::new().route("/payments", on_post(pay.clone()));
    let large = || post().body(Body::from_stream(Chunks(2))).unwrap();
    let outside = router().layer(layer()).layer(RequestBodyLimitLayer::new(4));
    let response = send(&outside, large()).await;
    assert_eq!(response.status(), 413);
    assert_eq!(problem(&response), "urn:idempotency:body-too-large");
    assert_eq!(
        send(&outside, post().body(body("four")).unwrap())
            .await
            .status(),
        200
    );

    let inside = router().layer(RequestBodyLimitLayer::new(4)).layer(layer());
    assert_eq!(send(&inside, large()).await.status(), 413);
    assert!(
        is_replayed(&send(&inside, large()).await),
        "413 is the result of this request"
    );
    let smaller = send(&inside, post().body(body("four")).unwrap()).await;
    assert_eq!(smaller.status(), 422, "the client needs a new key");
}

/// A stream of chunks of four bytes.
struct Chunks(usize);

impl futures_util::Stream for Chunks {
    type Item = Result<&'static str, std::convert::Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        std::task::Poll::Ready(left.map(|_| Ok("1234")))
    }
}

#[tokio::test]
async fn a_router_a_route_and_a_handler_take_the_layer() {
    let handler = || async { Json(json!({"paid": true})) };
    let apps: [Router; 4] = [
        Router::new()
            .route("/payments", on_post(handler))
            .layer(layer()),
        Router::new()
            .route("/payments", on_post(handler))
            .route_layer(layer()),
        Router::new().route("/payments", on_post(handler).layer(layer())),
        Router::new().route("/payments", on_post(handler)).layer(
            ServiceBuilder::new()
                .layer(TraceLayer::new_for_http())
                .layer(layer()),
        ),
    ];
    for app in apps {
        for replayed in [false, true] {
            let response = pay(&app).await;
            let paid: Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(
                (paid, is_replayed(&response)),
                (json!({"paid": true}), replayed)
            );
            assert_eq!(response.headers()["content-type"], "application/json");
        }
    }
}

#[tokio::test]
async fn a_layer_around_the_router_stores_404_and_a_route_layer_does_not_see_it() {
    let runs = Runs::default();
    let lost = || post().uri("/paymnets").body(body("{}")).unwrap();
    let around = payments(&runs).layer(layer());
    assert!(!is_replayed(&send(&around, lost()).await));
    assert!(
        is_replayed(&send(&around, lost()).await),
        "the mistake: 404 takes the key"
    );
    assert_eq!(pay(&around).await.status(), 422);

    let routes = payments(&runs).route_layer(layer());
    for _ in 0..2 {
        let response = send(&routes, lost()).await;
        assert_eq!(
            (response.status().as_u16(), is_replayed(&response)),
            (404, false)
        );
    }
    assert_eq!(pay(&routes).await.status(), 200);
}

#[tokio::test]
async fn routes_that_are_added_after_the_layer_are_not_protected() {
    let runs = Runs::default();
    let counted = runs.clone();
    let late = async move || counted.add().to_string();
    let app = Router::new()
        .route("/health", get(async || "ok"))
        .layer(layer())
        .route("/payments", on_post(late));
    for run in ["1", "2"] {
        assert_eq!(pay(&app).await.body(), run);
    }
}

#[tokio::test]
async fn a_layer_inside_a_nested_router_sees_the_path_without_its_prefix() {
    let (runs, backend) = (Runs::default(), backend());
    let nested = payments(&runs).layer(operation().layer(backend.clone()));
    let app = Router::new()
        .nest("/v1", nested.clone())
        .nest("/v2", nested);
    let of = |uri: &str| post().uri(uri).body(body("{}")).unwrap();
    send(&app, of("/v1/payments")).await;
    let other = send(&app, of("/v2/payments")).await;
    assert!(
        is_replayed(&other),
        "the mistake: both are `/payments` of one operation"
    );

    let outside = Router::new()
        .nest("/v1", payments(&runs))
        .nest("/v2", payments(&runs))
        .layer(operation().layer(backend));
    let of = |uri: &str| {
        let mut request = of(uri);
        let key = HeaderValue::from_static("k-2");
        request.headers_mut().insert("idempotency-key", key);
        request
    };
    send(&outside, of("/v1/payments")).await;
    assert_eq!(send(&outside, of("/v2/payments")).await.status(), 422);
}

#[tokio::test]
async fn two_layers_of_one_operation_block_each_other_and_two_operations_do_not() {
    let runs = Runs::default();
    let one = operation().layer(backend());
    let twice = payments(&runs).layer(one.clone()).layer(one);
    let response = pay(&twice).await;
    assert_eq!(
        problem(&response),
        "urn:idempotency:in-progress",
        "the mistake"
    );
    assert_eq!(runs.count(), 0);

    let outer = HttpOperation::builder("shop::gateway").caller_header("x-user-id");
    let app = payments(&runs)
        .layer(layer())
        .layer(outer.build().unwrap().layer(backend()));
    for replayed in [false, true] {
        let response = pay(&app).await;
        assert_eq!(
            (response.status().as_u16(), is_replayed(&response)),
            (200, replayed)
        );
    }
    assert_eq!(runs.count(), 1);
}

#[test]
fn the_service_is_clone_send_and_sync_if_the_inner_one_is() {
    fn check<T: Clone + Send + Sync + 'static>(_: T) {}
    check(layer());
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, std::convert::Infallible>(axum::http::Response::new(Body::empty()))
    });
    check(layer().layer(service));
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
        .layer(lambda_http::service_fn(handler));
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
