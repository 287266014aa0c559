//! The outcome event of a request, and what is never written to a log.
//!
//! What becomes of the writes that a handler stages, by the response that it returns.
//!
//! Random responses: a replay is the first response, byte for byte.
//!
//! What a client of a protected service sees: replays, refusals and their headers.

use std::convert::Infallible;
use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use idempotency_core::config::Settings;
use idempotency_core::operation::{Call, Run};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_http::{
    ClientReply, HttpOperation, HttpOperationBuilder, ReceivedRequest, Unstorable,
};
use proptest::prelude::*;
use tower::ServiceExt;
use tower_layer::Layer;
use tracing::instrument::WithSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use crate::*;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the outcome events, each as JSON.
    fn events(&self) -> Vec<serde_json::Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|event: &serde_json::Value| {
                event["target"] == idempotency_core::event::TARGET
                    && event["fields"]["message"] == idempotency_core::event::MESSAGE
            })
            .collect()
    }
}

/// Sends requests to a service that responds with `secret-response`, and returns the log.
async fn logged(operation: HttpOperation, requests: Vec<Request<axum::body::Body>>) -> Log {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let service = operation
        .layer(backend())
        .layer(app(&Runs::default(), |_| text(200, "secret-response")));
    async {
        for request in requests {
            send(&service, request).await;
        }
    }
    .with_subscriber(subscriber)
    .await;
    log
}

fn with_key(key: &str) -> Request<axum::body::Body> {
    Request::post("/secret-path?secret-query")
        .header("idempotency-key", key)
        .header("x-user-id", "secret-caller")
        .header("content-type", "application/json")
        .body(body("{\"card\":\"secret-body\"}"))
        .unwrap()
}

#[tokio::test]
async fn no_log_contains_a_part_of_a_request_or_a_response() {
    let expression = builder().caller("powertools_json(body).secret").build();
    let headers = builder().caller_header("x-other").build();
    let log = |operation, requests| async move { logged(operation, requests).await.text() };
    let texts = [
        log(
            operation(),
            vec![with_key("secret-key"), with_key("secret-key")],
        )
        .await,
        log(
            operation(),
            vec![with_key("secret-key,"), with_key("\"secret-key")],
        )
        .await,
        log(expression.unwrap(), vec![with_key("secret-key")]).await,
        log(headers.unwrap(), vec![with_key("secret-key")]).await,
    ];
    for text in texts {
        assert!(text.contains("\"operation\":"), "a log was written: {text}");
        for secret in ["key", "path", "query", "caller", "body", "response"] {
            assert!(!text.contains(&format!("secret-{secret}")), "{text}");
        }
    }
}

#[tokio::test]
async fn each_request_has_one_outcome_event() {
    let log = logged(
        operation(),
        vec![
            with_key("k-1"),
            with_key("k-1"),
            with_key("a,b"),
            Request::post("/")
                .header("idempotency-key", "k")
                .body(body(""))
                .unwrap(),
            Request::post("/").body(body("")).unwrap(),
            Request::get("/").body(body("")).unwrap(),
        ],
    )
    .await;
    let outcomes: Vec<_> = log
        .events()
        .into_iter()
        .map(|event| {
            let error = event["fields"]["error"].as_str().map(str::to_owned);
            error.unwrap_or_else(|| event["fields"]["outcome"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            "executed",
            "replayed",
            "IdempotencyInvalidPayload",
            "IdempotencyKeyMissing",
            "IdempotencyKeyMissing",
        ]
    );
}

#[tokio::test]
async fn a_method_that_is_not_protected_and_has_a_key_is_a_warning_once() {
    let request = |method: &str, key: Option<&str>| {
        let request = Request::builder().method(method).uri("/secret-path");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        request.body(body("secret-body")).unwrap()
    };
    let requests = vec![
        request("GET", None),
        request("PUT", Some("secret-key")),
        request("PUT", Some("secret-key")),
        request("GET", Some("secret-key")),
    ];
    let log = logged(operation(), requests).await.text();
    assert_eq!(log.matches("\"WARN\"").count(), 1, "{log}");
    for part in ["local.shop.payments", "PUT", "`methods`", "ran unprotected"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("secret"), "{log}");
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_a_warning_that_says_why() {
    for policy in [
        Unstorable::Complete,
        Unstorable::Release,
        Unstorable::Refuse,
    ] {
        let operation = with(|builder| builder.max_response_body(4).on_unstorable(policy));
        let log = logged(operation, vec![with_key("k-1")]).await;
        let events = log.events();
        assert_eq!(events.len(), 1, "{policy:?}");
        assert_eq!(events[0]["level"], "WARN", "{policy:?}");
        let cause = events[0]["fields"]["cause"].as_str().unwrap();
        assert!(cause.contains("larger than `max_response_body`"), "{cause}");
    }
}

/// Stages a write that adds one to an account.
fn stage(call: &Call) {
    let staged = call.stage(|writes: &mut MemoryWrites| {
        writes.push(LedgerEntry::add("shop", 1));
        Ok::<_, Infallible>(())
    });
    staged.unwrap();
}

/// Looks for the key in the body, where the requests of this module have none.
fn key_in_event(builder: HttpOperationBuilder) -> HttpOperationBuilder {
    let builder = builder.key("powertools_json(body).order_id");
    builder.key_required(false)
}

fn without_key() -> Request<Body> {
    let request = Request::post("/payments").header("x-user-id", "u-1");
    request.body(body("{}")).unwrap()
}

/// Sends a request through the layer to a handler that stages a write. Returns the response, and how many writes were applied.
async fn sent(
    operation: &HttpOperation,
    request: Request<Body>,
    response: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> (Response<Bytes>, i64) {
    let store = Arc::new(MemoryStore::new());
    let service = operation
        .layer(backend_over(&store))
        .layer(tower::service_fn(move |request: Request<Body>| {
            stage(request.extensions().get::<Call>().unwrap());
            let response = response();
            async move { Ok::<_, Infallible>(response) }
        }));
    let response = send(&service, request).await;
    (response, store.balance("shop"))
}

#[tokio::test]
async fn a_response_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let optional = with(|builder| builder.key_required(false));
    let in_event = with(key_in_event);
    for (status, applied) in [
        (200, 1),
        (303, 1),
        (422, 1),
        (403, 0),
        (409, 0),
        (429, 0),
        (500, 0),
        (503, 0),
    ] {
        for (operation, request) in [
            (&optional, request()),
            (&optional, without_key()),
            (&in_event, request()),
        ] {
            let (response, balance) = sent(operation, request, move || text(status, "x")).await;
            assert_eq!((response.status().as_u16(), balance), (status, applied));
            assert_eq!(response.body(), "x");
        }
    }
}

#[tokio::test]
async fn staged_writes_of_a_response_that_cannot_be_stored_are_applied_under_every_rule() {
    for rule in [
        Unstorable::Complete,
        Unstorable::Release,
        Unstorable::Refuse,
    ] {
        let optional = with(|builder| {
            let builder = builder.key_required(false);
            builder.on_unstorable(rule).max_response_body(3)
        });
        for request in [request(), without_key()] {
            let (_, balance) = sent(&optional, request, || text(200, "too long")).await;
            assert_eq!(balance, 1, "{rule:?}");
        }
    }
    // The key is completed, so a duplicate does not apply them again.
    let store = Arc::new(MemoryStore::new());
    let released = with(|builder| {
        builder
            .on_unstorable(Unstorable::Release)
            .max_response_body(3)
    });
    let service = released
        .layer(backend_over(&store))
        .layer(tower::service_fn(|request: Request<Body>| {
            stage(request.extensions().get::<Call>().unwrap());
            async { Ok::<_, Infallible>(text(200, "too long")) }
        }));
    let first = send(&service, request()).await;
    assert_eq!(
        (first.status().as_u16(), &first.body()[..]),
        (200, &b"too long"[..])
    );
    let second = send(&service, request()).await;
    assert_eq!(problem(&second), "urn:idempotency:response-unavailable");
    assert_eq!(store.balance("shop"), 1);
}

#[tokio::test]
async fn store_when_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let settings = Settings {
        store_when: Some("statusCode != `200`".into()),
        ..Settings::default()
    };
    let optional = with(|builder| builder.settings(settings).key_required(false));
    for (status, applied) in [(200, 0), (201, 1)] {
        for request in [request(), without_key()] {
            let (response, balance) = sent(&optional, request, move || text(status, "x")).await;
            assert_eq!((response.status().as_u16(), balance), (status, applied));
        }
    }
}

#[tokio::test]
async fn a_request_in_memory_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let optional = with(|builder| builder.key_required(false));
    let in_event = with(key_in_event);
    for (status, applied) in [(200, 1), (409, 0), (500, 0)] {
        for (operation, request) in [
            (&optional, request()),
            (&optional, without_key()),
            (&in_event, request()),
        ] {
            let store = Arc::new(MemoryStore::new());
            let place = place(backend_over(&store));
            let (parts, _) = request.into_parts();
            let call = operation.call(Ok(place), &ReceivedRequest::new(&parts, b"{}"));
            let response = Response::builder()
                .status(status)
                .body(Bytes::new())
                .unwrap();
            let run = call.run(
                async |call| {
                    stage(&call);
                    Ok::<_, Infallible>(response)
                },
                |response| Ok(response.clone()),
            );
            let sent = run.await.unwrap();
            assert!(matches!(sent, ClientReply::Own(response) if response.status() == status));
            assert_eq!(store.balance("shop"), applied, "{status}");
        }
    }
}

#[tokio::test]
async fn a_request_whose_event_has_no_key_runs_unprotected_and_its_stream_is_not_read() {
    let in_event = with(|builder| {
        let builder = key_in_event(builder).collect_streams(true);
        builder.on_unstorable(Unstorable::Refuse)
    });
    let (store, read) = (Arc::new(MemoryStore::new()), Runs::default());
    let counted = read.clone();
    let service = in_event
        .layer(backend_over(&store))
        .layer(tower::service_fn(move |request: Request<Body>| {
            let call = request.extensions().get::<Call>().unwrap();
            assert_eq!((call.which_run(), call.key()), (Run::Unprotected, None));
            let counted = counted.clone();
            let chunks = stream::iter([Ok::<_, Infallible>("paid")]);
            let chunks = chunks.inspect(move |_| {
                counted.add();
            });
            async { Ok::<_, Infallible>(Response::new(Body::from_stream(chunks))) }
        }));
    for run in 0..2 {
        let response = service.clone().oneshot(request()).await.unwrap();
        assert_eq!(read.count(), run, "nothing is stored of it");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "paid");
    }
    assert!(store.is_empty());
}

#[tokio::test]
async fn an_unprotected_layer_inside_leaves_the_handler_the_call_of_the_layer_outside() {
    let inner = with(|builder| builder.key_header("x-audit-key").key_required(false));
    let handler = tower::service_fn(|request: Request<Body>| {
        let call = request.extensions().get::<Call>().unwrap();
        assert_eq!(call.which_run(), Run::First);
        async { Ok::<_, Infallible>(text(201, "paid")) }
    });
    let inner = inner.layer(backend()).layer(handler);
    let service = operation().layer(backend()).layer(inner);
    assert_eq!(pay(&service).await.status(), 201);
}

/// Headers that are stored, and headers that are not.
const NAMES: [&str; 6] = [
    "content-type",
    "location",
    "link",
    "etag",
    "x-request-id",
    "set-cookie",
];

fn any_response() -> impl Strategy<Value = (u16, Vec<(&'static str, String)>, Vec<u8>)> {
    let status = prop_oneof![200_u16..=204, Just(302), Just(303), Just(404), Just(422)];
    let header = (prop::sample::select(&NAMES[..]), "[ -~]{0,20}");
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        ".{0,100}".prop_map(String::into_bytes),
    ];
    (status, prop::collection::vec(header, 0..6), body)
}

fn response(
    (status, headers, body): &(u16, Vec<(&'static str, String)>, Vec<u8>),
) -> Response<Body> {
    let mut response = text(*status, "");
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        response
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    *response.body_mut() = Body::from(body.clone());
    response
}

proptest! {
    #[test]
    fn a_replay_has_the_status_the_body_and_the_stored_headers_of_the_first_response(
        expected in any_response(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let made = expected.clone();
        let (service, runs) = serve(operation().layer(backend()), move |_| response(&made));
        let own = runtime.block_on(send(&service, request()));
        let replay = runtime.block_on(send(&service, request()));
        let first = response(&expected);
        prop_assert_eq!(own.headers(), first.headers());
        prop_assert_eq!((own.status(), &own.body()[..]), (first.status(), &expected.2[..]));
        prop_assert!(is_replayed(&replay) && runs.count() == 1);
        prop_assert_eq!((replay.status(), replay.body()), (own.status(), own.body()));
        for name in NAMES {
            let of = |response: &Response<bytes::Bytes>| -> Vec<HeaderValue> {
                response.headers().get_all(name).iter().cloned().collect()
            };
            let is_stored = !["x-request-id", "set-cookie"].contains(&name);
            let stored = if is_stored { of(&own) } else { Vec::new() };
            prop_assert_eq!(of(&replay), stored, "{}", name);
        }
    }
}

#[tokio::test]
async fn a_duplicate_gets_the_first_response_and_the_handler_runs_one_time() {
    let (service, runs) = serve(operation().layer(backend()), |run| {
        text(201, format!("charge {run}"))
    });
    let first = pay(&service).await;
    let second = pay(&service).await;
    assert_eq!(
        (first.status(), second.status()),
        (http::StatusCode::CREATED, http::StatusCode::CREATED)
    );
    assert_eq!(
        (&first.body()[..], &second.body()[..]),
        (&b"charge 1"[..], &b"charge 1"[..])
    );
    assert!(!is_replayed(&first) && is_replayed(&second));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn methods_that_are_not_protected_pass_unchanged() {
    let (service, runs) = serve(operation().layer(backend()), |run| {
        text(200, run.to_string())
    });
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        let request = Request::builder().method(method).uri("/payments");
        let response = send(&service, request.body(body("")).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert!(!is_replayed(&response));
    }
    assert_eq!(runs.count(), 5);
}
