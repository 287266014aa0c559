//! The position of the layer in a stack: a mistake and its consequence, or the position that is right. The requests to most of them
//! are in `requests.txt`.

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use axum::middleware::{Next, from_fn, map_request};
use axum::response::IntoResponse;
use axum::routing::{get, post as on_post};
use idempotency_http::{Backend, HttpIdempotencyLayer, HttpOperation};
use tower::ServiceBuilder;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::normalize_path::NormalizePathLayer;
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

fn layer() -> HttpIdempotencyLayer<Backend> {
    operation().layer(backend())
}

/// Returns a route whose response is the number of its run. It reads its body.
fn payments() -> Router {
    let runs = Runs::default();
    let pay = async move |body: Result<Bytes, BytesRejection>| match body {
        Ok(_) => Ok(runs.add().to_string()),
        Err(refused) => Err(refused.status()),
    };
    Router::new().route("/payments", on_post(pay))
}

fn nested(inside: Router) -> Router {
    let outside = Router::new().nest("/v1", inside.clone());
    outside.nest("/v2", inside)
}

/// Returns the payments of each account.
fn accounts(inside: Router) -> Router {
    Router::new().nest("/accounts/{account}", inside)
}

/// Hands every request on as one for `/payments`.
fn to_payments<B>(mut request: Request<B>) -> Request<B> {
    *request.uri_mut() = Uri::from_static("/payments");
    request
}

/// The URI before [`to_payments`].
#[derive(Clone)]
struct Sent(Uri);

fn keep_uri<B>(mut request: Request<B>) -> Request<B> {
    let sent = Sent(request.uri().clone());
    request.extensions_mut().insert(sent);
    request
}

/// Returns the router with the layer in this position.
pub(crate) fn app(position: &str) -> Router {
    let user = |parts: &Parts| Some(parts.extensions.get::<User>()?.0.clone());
    let by_user = built(builder().caller_from(user)).layer(backend());
    let shared = built(builder().shared_by_all_callers()).layer(backend());
    let gateway = built(HttpOperation::builder("shop::gateway").caller_header("x-user-id"));
    let authenticated = payments().layer(from_fn(authenticate));
    let limit = RequestBodyLimitLayer::new(4);
    let protected = payments().layer(layer());
    match position {
        "authentication outside" => payments().layer(by_user).layer(from_fn(authenticate)),
        "authentication inside" => authenticated.layer(by_user),
        "authentication inside, shared keys" => authenticated.layer(shared),
        "a layer around the router" => protected,
        "a layer of the routes" => payments().route_layer(layer()),
        "a layer of one handler" => {
            let pay = on_post(async || "paid").layer(layer());
            Router::new().route("/payments", pay)
        }
        "a layer inside a trace" => {
            let traced = ServiceBuilder::new().layer(TraceLayer::new_for_http());
            payments().layer(traced.layer(layer()))
        }
        "a route after the layer" => {
            let health = Router::new().route("/health", get(async || "ok"));
            health.layer(layer()).merge(payments())
        }
        "a layer inside a nested router" => nested(protected),
        "a layer in a router of each account" => accounts(protected),
        "a layer of routes of each account" => accounts(payments().route_layer(layer())),
        "a layer two routers deep" => Router::new().nest("/{region}", accounts(protected)),
        "a layer in a nested service" => {
            Router::new().nest_service("/accounts/{account}", protected)
        }
        "a layer in a merged router" => {
            Router::new().nest("/{region}", Router::new().merge(accounts(protected)))
        }
        "a layer of a nested fallback" => {
            let runs = Runs::default();
            let fallback = Router::new().fallback(async move || runs.add().to_string());
            accounts(fallback.layer(layer()))
        }
        "an own fingerprint in a router of each account" => {
            let body = with(|rules| rules.fingerprint("body"));
            accounts(payments().layer(body.layer(backend())))
        }
        "a part of the path in the fingerprint" => {
            let also = with(|rules| rules.fingerprint_also("[rawPath, requestContext.http.path]"));
            accounts(payments().layer(also.layer(backend())))
        }
        "a key of the path" => {
            let key = "[rawPath, queryStringParameters.k]";
            accounts(payments().layer(with(|rules| rules.key(key)).layer(backend())))
        }
        "a path without its last slash" => {
            protected.layer(NormalizePathLayer::trim_trailing_slash())
        }
        "a rewritten path inside the router" => {
            let any = Router::new().route("/{*path}", axum::routing::any_service(protected));
            any.layer(map_request(async |request: AxumRequest| {
                to_payments(request)
            }))
        }
        "a rewritten path outside of the router" => {
            let sent = |parts: &Parts| Some(parts.extensions.get::<Sent>()?.0.clone());
            let sent = with(|rules| rules.uri_from(sent));
            let inside = payments().layer(sent.layer(backend()));
            let rewritten = ServiceBuilder::new()
                .map_request(keep_uri)
                .map_request(to_payments);
            Router::new().fallback_service(rewritten.service(inside))
        }
        "a layer outside a nested router" => nested(payments()).layer(layer()),
        "two layers of one operation" => {
            let one = layer();
            payments().layer(one.clone()).layer(one)
        }
        "layers of two operations" => protected.layer(gateway.layer(backend())),
        "a limit of the body outside" => protected.layer(limit),
        "a limit of the body inside" => payments().layer(limit).layer(layer()),
        _ => panic!("no service has the name {position}"),
    }
}

#[tokio::test]
async fn compression_outside_serves_each_client_and_inside_it_hides_the_length_or_is_replayed() {
    // A response that is long enough to be compressed.
    let route = || Router::new().route("/payments", on_post(async || "x".repeat(100)));
    let compressed = || route().layer(CompressionLayer::new());
    let collecting = with(|builder| builder.collect_streams(true)).layer(backend());
    let outside = route().layer(layer()).layer(CompressionLayer::new());
    let whole = format!("200 {}, replayed", "x".repeat(100));
    let inside = compressed().layer(layer());
    // The last is a mistake: the client does not accept gzip.
    for (app, duplicate, is_gzip) in [
        (outside, &*whole, false),
        (inside, "500 response-unavailable", false),
        (compressed().layer(collecting), ", replayed", true),
    ] {
        let app = App::new(app);
        let first = send(&app, of(post().header("accept-encoding", "gzip"), "{}")).await;
        assert_eq!(first.headers()["content-encoding"], "gzip");
        let plain = pay(&app).await;
        assert!(seen(&plain).ends_with(duplicate), "{duplicate}");
        let encoding = plain.headers().get("content-encoding");
        assert_eq!(encoding.is_some(), is_gzip, "{duplicate}");
        assert_eq!(plain.body() == first.body(), is_gzip, "{duplicate}");
    }
}

const ALLOW_ORIGIN: &str = "access-control-allow-origin";

#[tokio::test]
async fn cors_outside_marks_refusals_and_replays_and_inside_lets_browsers_refuse_errors() {
    let shop = "https://shop.example";
    let cors = CorsLayer::new()
        .allow_origin(HeaderValue::from_static(shop))
        .allow_methods([Method::POST]);
    for (app, marks_refusals) in [
        (payments().layer(layer()).layer(cors.clone()), true),
        (payments().layer(cors).layer(layer()), false),
    ] {
        let app = App::new(app);
        let preflight = Request::options("/payments").header("origin", shop);
        let preflight = preflight.header("access-control-request-method", "POST");
        let preflight = send(&app, of(preflight, "")).await;
        assert_eq!(preflight.status(), 200);
        assert_eq!(preflight.headers()["access-control-allow-methods"], "POST");
        for (body, expected, is_marked) in [
            ("{}", "200 1", true),
            ("{}", "200 1, replayed", true),
            ("other", "422 key-reused", marks_refusals),
        ] {
            let response = send(&app, of(post().header("origin", shop), body)).await;
            assert_eq!(seen(&response), expected);
            let found = response.headers().contains_key(ALLOW_ORIGIN);
            assert_eq!(found, is_marked, "{expected}");
        }
    }
}

/// Returns the headers with which a service answers CORS itself.
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
    let route = Router::new().route("/payments", axum::routing::any(pay));
    let app = App::new(route.layer(operation.layer(backend())));
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

#[tokio::test]
async fn a_service_that_limits_its_requests_is_asked_whether_it_is_ready() {
    let service = ServiceBuilder::new().layer(layer()).concurrency_limit(1);
    let service = service.service_fn(async |_| Ok::<_, Infallible>(text(200, "paid")));
    let service = App::new(service.map_response(|response| response.map(Body::new)));
    for (head, expected) in [
        (post(), "200 paid"),
        (post(), "200 paid, replayed"),
        // A method that is not protected.
        (post().method(Method::GET), "200 paid"),
    ] {
        assert_eq!(answer(&service, of(head, "{}")).await, expected);
    }
}
