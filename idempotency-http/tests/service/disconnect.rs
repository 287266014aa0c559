//! Requests that run to their end although their client, or a layer outside, has given up.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use idempotency_core::store::MemoryStore;
use idempotency_http::{Backend, HttpIdempotencyLayer};
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt};
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_http::timeout::TimeoutLayer;

use crate::common::*;

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

fn request() -> Request<Body> {
    post().body(body("{}")).unwrap()
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
