//! Errors of this framework as responses, and their headers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use idempotency_core::clock::Clock;
use idempotency_core::config::Settings;
use idempotency_core::engine::Backend;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::policy::OnStoreError;
use idempotency_core::store::{
    MemoryStore, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
};
use idempotency_core::system::SystemRandom;
use idempotency_core::time::EpochMillis;
use idempotency_http::{Host, Place, Problem, Unstorable, Variables};
use tower_layer::Layer;
use tower_service::Service;

use crate::common::*;

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
    let operation = builder().caller_header("x-user-id").lease(lease);
    let operation = operation.build().unwrap();
    let never = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    // The first process is in the handler. The second has a backend of its own on the same store.
    let mut first = operation.layer(backend_over(&store)).layer(never);
    let mut running = Box::pin(first.call(post().body(body("{}")).unwrap()));
    assert!(futures_poll(&mut running).is_pending());
    let second = operation.layer(backend_over(&store)).layer(never);
    let response = send(&second, post().body(body("{}")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(problem(&response), "urn:idempotency:in-progress");
    assert_eq!(response.headers()["retry-after"], "1");
    // A duplicate in the first process meets the first call without a request to the store.
    let response = send(&first, post().body(body("{}")).unwrap()).await;
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
    let mut running = Box::pin(first.call(post().body(body("{}")).unwrap()));
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
        let response = send(&first, post().body(body("{}")).unwrap()).await;
        assert_eq!(problem(&response), "urn:idempotency:in-progress");
        assert_eq!(response.headers()["retry-after"], seconds, "{after}");
    }
}

#[tokio::test]
async fn a_store_that_fails_before_the_handler_is_503_with_retry_after() {
    let runs = Runs::default();
    let service = operation()
        .layer(fails_after(0))
        .layer(app(&runs, |_| text(200, "paid")));
    let response = send(&service, post().body(body("{}")).unwrap()).await;
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
    let operation = builder().settings(settings).caller_header("x-user-id");
    let operation = operation.build().unwrap();
    let clock = Arc::new(SetClock::default());
    let store = FailsAfter {
        writes: AtomicUsize::new(0),
        kind: StoreErrorKind::Throttled,
        store: MemoryStore::new(),
    };
    let backend = Backend::new(Arc::new(store), clock.clone(), Arc::new(SystemRandom));
    let runs = Runs::default();
    let service = operation
        .layer(backend)
        .layer(app(&runs, |_| text(200, "paid")));
    let mut seen = Vec::new();
    // Five failures open the circuit for one second. Each failed probe opens it for twice the time.
    for after in [
        0, 0, 0, 0, 0, 0, 1_001, 1_001, 2_000, 2_001, 3_002, 3_002, 4_002,
    ] {
        clock.0.store(after, Ordering::SeqCst);
        let response = send(&service, post().body(body("{}")).unwrap()).await;
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
        let operation = builder()
            .settings(settings.clone())
            .caller_header("x-user-id")
            .on_unstorable(unstorable)
            .max_response_body(3)
            .build()
            .unwrap();
        let service = operation
            .layer(fails_with(StoreErrorKind::Throttled, 0))
            .layer(app(&runs, |_| text(200, "paid")));
        let response = send(&service, post().body(body("{}")).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK, "{unstorable:?}");
        assert_eq!(response.body(), "paid");
        assert!(!is_replayed(&response));
    }
    assert_eq!(runs.count(), 3);
}

#[tokio::test]
async fn a_completion_that_fails_is_500_with_what_to_do() {
    let runs = Runs::default();
    let service = operation()
        .layer(fails_after(1))
        .layer(app(&runs, |_| text(200, "paid")));
    let response = send(&service, post().body(body("{}")).unwrap()).await;
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
    let runs = Runs::default();
    let service = operation()
        .layer(Nowhere)
        .layer(app(&runs, |_| text(200, "paid")));
    let response = send(&service, post().body(body("{}")).unwrap()).await;
    assert_eq!(problem(&response), "urn:idempotency:misconfigured");
    assert_eq!((response.status().as_u16(), runs.count()), (500, 0));
}

#[tokio::test]
async fn the_switch_off_lets_every_request_pass() {
    let variables = || Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())]);
    let operation = builder().variables(variables()).caller_header("x-user-id");
    let operation = operation.build().unwrap();
    let runs = Runs::default();
    let request = || Request::post("/").header("idempotency-key", "a,b");
    let service = operation
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
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
    let operation = builder().caller_header("x-user-id").error_response(own);
    let operation = operation.build().unwrap();
    let runs = Runs::default();
    let service = operation
        .layer(fails_after(0))
        .layer(app(&runs, |_| text(200, "paid")));
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
        let operation = builder().caller_header("x-user-id").replayed_header(name);
        let operation = operation.build().unwrap();
        let runs = Runs::default();
        let service = operation
            .layer(backend())
            .layer(app(&runs, |_| text(200, "paid")));
        send(&service, post().body(body("{}")).unwrap()).await;
        let replay = send(&service, post().body(body("{}")).unwrap()).await;
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
    let paid = send(&service, post().body(body("{}")).unwrap()).await;
    assert!(!paid.headers().contains_key("link"));
}
