//! The outcome event of a request, and what is never written to a log.
//!
//! What becomes of the writes that a handler stages, by the response that it returns.
//!
//! What a client of a protected service sees: a replay is the first response, byte for byte.

use std::convert::Infallible;
use std::future::ready;
use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::request::Builder;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use idempotency_core::operation::{Call, Run};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_http::{ClientReply, HttpOperation, HttpOperationBuilder, Unstorable};
use proptest::prelude::*;
use tower::{Layer, ServiceExt};
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
async fn logged(
    operation: &HttpOperation,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> Log {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let respond = |_| text(200, "secret-response");
    let (service, _) = serve(operation.layer(backend()), respond);
    let sent = answers(&service, requests).with_subscriber(subscriber);
    drop(sent.await);
    log
}

fn with_key(key: &str) -> Request<Body> {
    let head = Request::post("/secret-path?secret-query")
        .header("idempotency-key", key)
        .header("x-user-id", "secret-caller")
        .header("content-type", "application/json");
    of(head, "{\"card\":\"secret-body\"}")
}

#[tokio::test]
async fn no_log_contains_a_part_of_a_request_or_a_response() {
    let expression = built(builder().caller("powertools_json(body).secret"));
    let header = built(builder().caller_header("x-other"));
    for (operation, keys) in [
        (&operation(), &["secret-key", "secret-key"][..]),
        (&operation(), &["secret-key,", "\"secret-key"]),
        (&expression, &["secret-key"]),
        (&header, &["secret-key"]),
    ] {
        let requests = keys.iter().map(|key| with_key(key));
        let text = logged(operation, requests).await.text();
        assert!(text.contains("\"operation\":"), "a log was written: {text}");
        for secret in ["key", "path", "query", "caller", "body", "response"] {
            assert!(!text.contains(&format!("secret-{secret}")), "{text}");
        }
    }
}

#[tokio::test]
async fn each_request_has_one_outcome_event() {
    let requests = [
        with_key("k-1"),
        with_key("k-1"),
        with_key("a,b"),
        of(Request::post("/").header("idempotency-key", "k"), ""),
        of(Request::post("/"), ""),
        of(Request::get("/"), ""),
    ];
    let events = logged(&operation(), requests).await.events();
    let outcomes = events.iter().map(|event| {
        let fields = &event["fields"];
        fields["error"].as_str().or(fields["outcome"].as_str())
    });
    let expected = [
        "executed",
        "replayed",
        "IdempotencyInvalidPayload",
        "IdempotencyKeyMissing",
        "IdempotencyKeyMissing",
    ];
    assert!(outcomes.eq(expected.map(Some)), "{events:?}");
}

#[tokio::test]
async fn a_method_that_is_not_protected_and_has_a_key_is_a_warning_once() {
    let to = |method: &str| Request::builder().method(method).uri("/secret-path");
    let with_key = |head: Builder| head.header("idempotency-key", "secret-key");
    let heads = [
        to("GET"),
        with_key(to("PUT")),
        with_key(to("PUT")),
        with_key(to("GET")),
    ];
    let requests = heads.map(|head| of(head, "secret-body"));
    let log = logged(&operation(), requests).await.text();
    assert_eq!(log.matches("\"WARN\"").count(), 1, "{log}");
    for part in ["local.shop.payments", "PUT", "`methods`", "ran unprotected"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("secret"), "{log}");
}

/// Every rule for a response that cannot be stored.
const RULES: [Unstorable; 3] = [
    Unstorable::Complete,
    Unstorable::Release,
    Unstorable::Refuse,
];

#[tokio::test]
async fn a_response_that_is_not_stored_is_a_warning_that_says_why() {
    for rule in RULES {
        let operation = with(|builder| builder.max_response_body(4).on_unstorable(rule));
        let events = logged(&operation, [with_key("k-1")]).await.events();
        assert_eq!(events.len(), 1, "{rule:?}");
        assert_eq!(events[0]["level"], "WARN", "{rule:?}");
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

/// Returns a service over this store whose handler stages a write and responds with this text.
fn staging(
    operation: &HttpOperation,
    store: &Arc<MemoryStore>,
    status: u16,
    response: &'static str,
) -> App {
    let layer = operation.layer(backend_over(store));
    let stage_and_respond = move |request: Request<Body>, _| {
        stage(request.extensions().get::<Call>().unwrap());
        ready(text(status, response))
    };
    serve_with(layer, stage_and_respond).0
}

/// Checks how many writes are applied of a handler that stages one and responds with `x`: with a key and without one, where the head and
/// where the body shows that there is none, through the layer and in memory.
async fn applies(
    set: impl Fn(HttpOperationBuilder) -> HttpOperationBuilder,
    status: u16,
    expected: i64,
) {
    let optional = with(|builder| set(builder).key_required(false));
    let in_event = with(|builder| key_in_event(set(builder)));
    for (operation, head) in [
        (&optional, post as fn() -> Builder),
        (&optional, without_key),
        (&in_event, post),
    ] {
        let store = Arc::new(MemoryStore::new());
        let service = staging(operation, &store, status, "x");
        let answer = answer(&service, of(head(), "{}")).await;
        assert_eq!(answer, format!("{status} x"));
        assert_eq!(store.balance("shop"), expected, "{status} {operation:?}");

        let store = Arc::new(MemoryStore::new());
        let handler = async |call: Call| {
            stage(&call);
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Bytes::from("x")).unwrap())
        };
        let view = |response: &Response<Bytes>| Ok(response.clone());
        let sent = run_in_memory(operation, &store, head(), handler, view).await;
        assert!(matches!(sent, Ok(ClientReply::Own(own)) if own.status() == status));
        assert_eq!(store.balance("shop"), expected, "{status} {operation:?}");
    }
}

#[tokio::test]
async fn a_response_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
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
        applies(|builder| builder, status, applied).await;
    }
}

#[tokio::test]
async fn store_when_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let settings = Settings {
        store_when: Some("statusCode != `200`".into()),
        ..Settings::default()
    };
    for (status, applied) in [(200, 0), (201, 1)] {
        applies(
            |builder| builder.settings(settings.clone()),
            status,
            applied,
        )
        .await;
    }
}

#[tokio::test]
async fn staged_writes_of_a_response_that_cannot_be_stored_are_applied_under_every_rule() {
    let too_long = |rule| {
        with(|builder| {
            let builder = builder.key_required(false).on_unstorable(rule);
            builder.max_response_body(3)
        })
    };
    for rule in RULES {
        for head in [post(), without_key()] {
            let store = Arc::new(MemoryStore::new());
            let service = staging(&too_long(rule), &store, 200, "too long");
            drop(send(&service, of(head, "{}")).await);
            assert_eq!(store.balance("shop"), 1, "{rule:?}");
        }
    }
    // The key is completed, so a duplicate does not apply them again.
    let store = Arc::new(MemoryStore::new());
    let service = staging(&too_long(Unstorable::Release), &store, 200, "too long");
    let expected = ["200 too long", "500 response-unavailable"];
    assert_eq!(twice(&service).await, expected);
    assert_eq!(store.balance("shop"), 1);
}

#[tokio::test]
async fn a_request_whose_event_has_no_key_runs_unprotected_and_its_stream_is_not_read() {
    let in_event = with(|builder| {
        let builder = key_in_event(builder).collect_streams(true);
        builder.on_unstorable(Unstorable::Refuse)
    });
    let (store, read) = (Arc::new(MemoryStore::new()), Runs::default());
    let counted = read.clone();
    let layer = in_event.layer(backend_over(&store));
    let (service, _) = serve_with(layer, move |request, _| {
        let call = request.extensions().get::<Call>().unwrap();
        assert_eq!((call.which_run(), call.key()), (Run::Unprotected, None));
        let counted = counted.clone();
        let chunks = stream::iter([Ok::<_, Infallible>("paid")]);
        let chunks = chunks.inspect(move |_| {
            counted.add();
        });
        ready(Response::new(Body::from_stream(chunks)))
    });
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
    let (inner, _) = serve_with(inner.layer(backend()), |request, _| {
        let call = request.extensions().get::<Call>().unwrap();
        assert_eq!(call.which_run(), Run::First);
        ready(text(201, "paid"))
    });
    let service = operation().layer(backend()).layer(inner);
    let response = service.oneshot(request()).await.unwrap();
    assert_eq!(response.status(), 201);
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
            let of = |response: &Response<Bytes>| -> Vec<HeaderValue> {
                response.headers().get_all(name).iter().cloned().collect()
            };
            let is_stored = !["x-request-id", "set-cookie"].contains(&name);
            let stored = if is_stored { of(&own) } else { Vec::new() };
            prop_assert_eq!(of(&replay), stored, "{}", name);
        }
    }
}

#[tokio::test]
async fn methods_that_are_not_protected_pass_unchanged() {
    let (service, _) = count(operation().layer(backend()));
    for (method, expected) in [
        ("GET", "200 1"),
        ("HEAD", "200 2"),
        ("OPTIONS", "200 3"),
        ("PUT", "200 4"),
        ("DELETE", "200 5"),
    ] {
        let head = Request::builder().method(method).uri("/payments");
        assert_eq!(answer(&service, of(head, "")).await, expected);
    }
}
