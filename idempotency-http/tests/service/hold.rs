//! A handler that has its effect and then does not report its end, in each position of a stack, under `rerun` and under `hold`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::routing::post as on_post;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Request, Response, StatusCode};
use idempotency_core::config::Settings;
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::store::MemoryStore;
use idempotency_http::{
    Backend, ClientReply, FailureReport, HttpIdempotencyLayer, HttpOperation, Place,
    ReceivedRequest, ViewError,
};
use tower::timeout::error::Elapsed;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutLayer};

use crate::common::*;

const SECOND: Duration = Duration::from_secs(1);

fn operation(on_timeout: OnTimeout) -> HttpOperation {
    let settings = Settings {
        on_timeout: Some(on_timeout),
        ..Settings::new()
    };
    let operation = builder().settings(settings).caller_header("x-user-id");
    operation.collect_streams(true).build().unwrap()
}

fn request() -> Request<Body> {
    post().body(body("{}")).unwrap()
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
            let layer = operation(on_timeout).layer(backend_over(&store));
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
            .layer(operation(on_timeout).layer(backend()))
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
        let operation = operation(OnTimeout::Hold);
        for _ in 0..2 {
            let place = Place {
                backend: backend_over(&store),
                deadline: None,
                tenant: None,
            };
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
        let operation = operation(on_timeout);
        for _ in 0..2 {
            let place = Place {
                backend: backend_over(&store),
                deadline: None,
                tenant: None,
            };
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
