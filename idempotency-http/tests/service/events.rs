//! What a request does beside its response:
//! - its outcome event, and what is never written to a log
//! - the writes that its handler stages: which responses apply them
//! - the window that its handler chooses

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::request::{Builder, Parts};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use idempotency_core::operation::{Call, Run};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryTransaction, MemoryWrites};
use idempotency_http::{ClientReply, Error, HttpOperation, HttpOperationBuilder, Unstorable};
use tower::{Layer, ServiceExt, service_fn};
use tracing::instrument::WithSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use crate::*;

/// Sends requests to a service that responds with `secret-response`, and returns the log.
async fn logged(
    operation: &HttpOperation,
    requests: impl IntoIterator<Item = Request<Body>>,
) -> String {
    let respond = |_| text(200, "secret-response");
    let (service, _) = serve(operation.layer(backend()), respond);
    log_of(answers(&service, requests)).await
}

/// Returns an empty log.
fn empty_log() -> &'static Mutex<Vec<u8>> {
    // `tracing` switches an event off for the whole process if it is first reached without a subscriber. This global
    // subscriber enables every event and writes nothing.
    static ENABLE_EVENTS: Once = Once::new();
    ENABLE_EVENTS.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
    Box::leak(Box::default())
}

/// Returns what the code of a future logs.
async fn log_of(of: impl Future) -> String {
    let log = empty_log();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(|| log.make_writer())
        .finish();
    drop(of.with_subscriber(subscriber).await);
    String::from_utf8(log.lock().unwrap().clone()).unwrap()
}

/// Returns the outcome events of a log, each as JSON.
fn events(log: &str) -> Vec<serde_json::Value> {
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|event: &serde_json::Value| {
            event["target"] == idempotency_core::event::TARGET
                && event["fields"]["message"] == idempotency_core::event::MESSAGE
        })
        .collect()
}

fn with_key(key: &str) -> Request<Body> {
    let head = Request::post("/secret-path?secret-query")
        .header("idempotency-key", key)
        .header("x-user-id", "secret-caller")
        .header("content-type", "application/json");
    of(head, "{\"card\":\"secret-body\"}")
}

#[tokio::test]
async fn each_request_has_one_outcome_event_and_no_log_has_a_part_of_a_request_or_a_response() {
    let by_header = [
        with_key("secret-key"),
        with_key("secret-key"),
        with_key("secret-key,"),
        with_key("\"secret-key"),
        of(Request::post("/").header("idempotency-key", "k"), ""),
        of(Request::post("/"), ""),
        of(Request::get("/"), ""),
    ];
    let ends = [
        "executed",
        "replayed",
        "IdempotencyInvalidPayload",
        "IdempotencyInvalidPayload",
        "IdempotencyKeyMissing",
        "IdempotencyKeyMissing",
    ];
    let one = || vec![with_key("secret-key")];
    let in_part = built(builder().caller("powertools_json(body).secret"));
    let in_other_header = built(builder().caller_header("x-other"));
    let in_body = with(|builder| builder.key("powertools_json(body).id"));
    let no_json = with_key("secret-key").map(|_| Body::from("secret-body {"));
    for (operation, requests, expected) in [
        (operation(), by_header.into(), &ends[..]),
        (in_part, one(), &["IdempotencyKeyMissing"]),
        (in_other_header, one(), &["IdempotencyKeyMissing"]),
        (in_body, vec![no_json], &["IdempotencyExpressionFailed"]),
    ] {
        let log = logged(&operation, requests).await;
        let events = events(&log);
        let ends = events.iter().map(|event| {
            let fields = &event["fields"];
            fields["error"].as_str().or(fields["outcome"].as_str())
        });
        assert!(ends.eq(expected.iter().copied().map(Some)), "{log}");
        for secret in ["key", "path", "query", "caller", "body", "response"] {
            assert!(!log.contains(&format!("secret-{secret}")), "{log}");
        }
    }
}

#[tokio::test]
async fn the_event_of_a_request_without_a_key_or_a_caller_says_where_it_was_looked_for() {
    let in_body = with(|builder| builder.key("powertools_json(body).id"));
    let by_other = built(builder().caller_header("x-other"));
    for (operation, head, cause) in [
        (
            operation(),
            without_key(),
            "the request has no header `idempotency-key`",
        ),
        (
            in_body,
            without_key(),
            "the `key` `powertools_json(body).id` finds nothing in the request",
        ),
        (
            by_other,
            post(),
            "the caller is not known: the header `x-other` is missing, empty, repeated or not text",
        ),
    ] {
        let events = events(&logged(&operation, [of(head, "{}")]).await);
        assert_eq!(events[0]["fields"]["cause"], cause);
    }
}

#[test]
fn a_caller_that_only_the_user_can_judge_and_a_key_that_changes_are_warnings_when_the_operation_is_built()
 {
    let warned = |builder: HttpOperationBuilder| {
        let log = empty_log();
        let subscriber = tracing_subscriber::fmt().with_writer(|| log.make_writer());
        tracing::subscriber::with_default(subscriber.finish(), || built(builder));
        String::from_utf8(log.lock().unwrap().clone()).unwrap()
    };
    for (builder, text) in [
        (
            builder().caller_header("x-user-id"),
            "the key prefix begins with `local`",
        ),
        (
            builder().caller_header("Authorization"),
            "after the client's token is renewed",
        ),
        (
            builder().caller("powertools_json(body).user"),
            "is written by the client",
        ),
        (
            builder().caller("iam_caller(@) || header(@, 'x-user')"),
            "takes the caller from",
        ),
        (
            builder().shared_by_all_callers().key_header("traceparent"),
            "`key_header`: `headers.traceparent` is new with each request",
        ),
        (
            builder()
                .caller("powertools_json(body).user")
                .key("[requestContext.requestId, powertools_json(body).id]"),
            "`key`: `requestContext.requestId` is new with each request",
        ),
    ] {
        let log = warned(builder);
        assert!(log.contains("WARN") && log.contains(text), "{log}");
    }
    let sub = "requestContext.authorizer.jwt.claims.[iss, sub]";
    assert_eq!(warned(builder().key_prefix("shop").caller(sub)), "");
}

#[tokio::test]
async fn each_method_that_is_not_protected_and_has_a_key_is_a_warning_once() {
    let to = |method: &str| Request::builder().method(method).uri("/secret-path");
    let with_key = |head: Builder| head.header("idempotency-key", "secret-key");
    let heads = [
        with_key(to("GET")),
        with_key(to("PUT")),
        with_key(to("DELETE")),
        with_key(to("PUT")),
        with_key(to("DELETE")),
        with_key(to("PUT")),
        with_key(to("LOCK")),
        with_key(to("LOCK")),
        to("PROPFIND"),
    ];
    let requests = heads.map(|head| of(head, "secret-body"));
    let log = logged(&operation(), requests).await;
    assert_eq!(log.matches("\"WARN\"").count(), 3, "{log}");
    for part in [
        "local.shop.payments",
        "a PUT",
        "a DELETE",
        "a LOCK",
        "`methods`",
        "ran unprotected",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("secret"), "{log}");
}

/// Another version of axum, as far as a program can tell.
mod axum_core {
    pub(super) mod body {
        pub(crate) struct Body(pub(crate) String);
    }
}

type OtherBody = axum_core::body::Body;

impl http_body::Body for OtherBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let text = std::mem::take(&mut self.0);
        Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text.into()))))
    }
}

impl From<String> for OtherBody {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Vec<u8>> for OtherBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self(String::from_utf8(bytes).unwrap())
    }
}

/// A host that knows this path of each request.
#[derive(Clone)]
struct Knows(Backend, Option<&'static str>);

impl Host for Knows {
    async fn place(&self, _: &str, _: &Parts) -> Result<Place, Error> {
        Ok(place(self.0.clone()))
    }

    fn sent_path(&self, _: &Parts) -> Option<String> {
        self.1.map(str::to_owned)
    }
}

#[tokio::test]
async fn the_path_of_the_user_counts_before_that_of_the_platform_and_both_before_that_of_the_uri() {
    let known = |parts: &Parts| Some(parts.headers.get("x-uri")?.to_str().ok()?.parse().unwrap());
    let by_user = with(|builder| builder.uri_from(known));
    let by_path = |operation: &HttpOperation, path, store: &Arc<MemoryStore>| {
        let layer = operation.layer(Knows(backend_over(store), path));
        serve(layer, |_| text(200, "paid")).0
    };
    let store = Arc::new(MemoryStore::new());
    let uri = |head: Builder, uri: &str| of(head.uri(uri), "{}");
    for (operation, path, request, expected) in [
        (operation(), Some("/a"), uri(post(), "/b?q=1"), "200 paid"),
        (
            operation(),
            Some("/a"),
            uri(post(), "/c?q=1"),
            "200 paid, replayed",
        ),
        (
            operation(),
            Some("/b"),
            uri(post(), "/a?q=1"),
            "422 key-reused",
        ),
        (
            operation(),
            None,
            uri(post(), "/a?q=1"),
            "200 paid, replayed",
        ),
        (
            by_user.clone(),
            Some("/b"),
            uri(post().header("x-uri", "/a?q=1"), "/"),
            "200 paid, replayed",
        ),
        (
            by_user.clone(),
            Some("/a"),
            uri(post().header("x-uri", "/a?q=2"), "/?q=1"),
            "422 key-reused",
        ),
        (
            by_user,
            Some("/a"),
            uri(post(), "/?q=1"),
            "200 paid, replayed",
        ),
    ] {
        let app = by_path(&operation, path, &store);
        assert_eq!(answer(&app, request).await, expected, "{path:?}");
    }
}

#[tokio::test]
async fn an_axum_whose_routers_cannot_be_asked_for_the_path_is_a_warning_once() {
    let uri = |parts: &Parts| Some(parts.uri.clone());
    let path = Some("/accounts/1");
    for (operation, path, warnings) in [
        (operation(), None, 1),
        (operation(), path, 0),
        (with(|builder| builder.uri_from(uri)), None, 0),
    ] {
        let inner = service_fn(async |_: Request<OtherBody>| Ok::<_, Infallible>(text(200, "1")));
        let host = Knows(backend(), path);
        let service = operation.layer(host).layer(inner);
        let log = log_of(async {
            for _ in 0..3 {
                let request = post().body(OtherBody::from("{}".to_owned())).unwrap();
                service.clone().oneshot(request).await.unwrap();
            }
        });
        let log = log.await;
        assert_eq!(log.matches("\"WARN\"").count(), warnings, "{log}");
        for part in [
            "local.shop.payments",
            "Router::nest",
            "another version",
            "`uri_from(",
        ] {
            assert_eq!(
                log.contains(part),
                warnings == 1 || part.contains("shop"),
                "{part}: {log}"
            );
        }
    }
    // A body that is none of axum's.
    let inner = service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(text(200, "1")));
    let service = operation().layer(backend()).layer(inner);
    let log = log_of(service.oneshot(post().body(Full::from("{}")).unwrap())).await;
    assert!(!log.contains("WARN"), "{log}");
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_a_warning_that_says_why() {
    for rule in RULES {
        let operation = with(|builder| builder.max_response_body(4).on_unstorable(rule));
        let events = events(&logged(&operation, [with_key("k-1")]).await);
        assert_eq!(events.len(), 1, "{rule:?}");
        assert_eq!(events[0]["level"], "WARN", "{rule:?}");
        let cause = events[0]["fields"]["cause"].as_str().unwrap();
        assert!(cause.contains("larger than `max_response_body`"), "{cause}");
    }
}

/// Adds one to an account: with a staged write, or in an open transaction.
async fn add_one(call: Call, opens: bool) {
    if opens {
        let mut open = call
            .open_transaction::<Box<MemoryTransaction>>()
            .await
            .unwrap();
        open.add("shop", 1);
        open.commit_with_response();
        return;
    }
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

/// Returns a service over this store whose handler adds one to an account and responds with this text.
fn staging(
    operation: &HttpOperation,
    store: &Arc<MemoryStore>,
    opens: bool,
    status: u16,
    response: &'static str,
) -> App {
    let layer = operation.layer(backend_over(store));
    let stage_and_respond = move |request: Request<Body>, _| {
        let call = request.extensions().get::<Call>().unwrap().clone();
        async move {
            add_one(call, opens).await;
            text(status, response)
        }
    };
    serve_with(layer, stage_and_respond).0
}

/// Checks how many writes are applied of a handler that has one and responds with `x`: with a key and without one, where the head and
/// where the body shows that there is none, through the layer and in memory.
async fn applies(
    rules: impl Fn() -> HttpOperationBuilder,
    opens: bool,
    status: u16,
    expected: i64,
) {
    let optional = built(rules().key_required(false));
    let in_event = built(key_in_event(rules()));
    for (operation, head) in [
        (&optional, post as fn() -> Builder),
        (&optional, without_key),
        (&in_event, post),
    ] {
        let store = Arc::new(MemoryStore::new());
        let service = staging(operation, &store, opens, status, "x");
        let answer = answer(&service, of(head(), "{}")).await;
        assert_eq!(answer, format!("{status} x"));
        assert_eq!(store.balance("shop"), expected, "{status} {operation:?}");

        let store = Arc::new(MemoryStore::new());
        let (parts, _) = of(head(), "").into_parts();
        let request = ReceivedRequest::new(&parts, b"{}");
        let call = operation.call(Ok(place(backend_over(&store))), &request);
        let handler = async |call: Call| {
            add_one(call, opens).await;
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Bytes::from("x")).unwrap())
        };
        let sent = call.run(handler, |response| Ok(response.clone())).await;
        assert!(matches!(sent, Ok(ClientReply::Own(own)) if own.status() == status));
        assert_eq!(store.balance("shop"), expected, "{status} {operation:?}");
    }
}

#[tokio::test]
async fn a_response_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let default = (None, &[200, 303, 422][..], &[403, 409, 429, 500, 503][..]);
    let by_status = (Some("statusCode != `200`"), &[201][..], &[200][..]);
    for (store_when, applied, dropped) in [default, by_status] {
        let rules = || with_settings(|settings| settings.store_when = store_when.map(Into::into));
        for (statuses, balance) in [(applied, 1), (dropped, 0)] {
            for status in statuses {
                for opens in [false, true] {
                    applies(rules, opens, *status, balance).await;
                }
            }
        }
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
            let service = staging(&too_long(rule), &store, false, 200, "too long");
            drop(send(&service, of(head, "{}")).await);
            assert_eq!(store.balance("shop"), 1, "{rule:?}");
        }
    }
    // The key is completed, so a duplicate does not apply them again.
    let store = Arc::new(MemoryStore::new());
    let service = staging(
        &too_long(Unstorable::Release),
        &store,
        false,
        200,
        "too long",
    );
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

#[tokio::test]
async fn the_handler_of_a_request_chooses_the_window_of_its_response() {
    let clock = Arc::new(TestClock::default());
    let layer = operation().layer(backend_with(Arc::new(MemoryStore::new()), &clock));
    let (service, runs) = serve_with(layer, |request, run| {
        let call = request.extensions().get::<Call>().unwrap();
        call.expires_after(Duration::from_secs(60)).unwrap();
        ready(text(200, run.to_string()))
    });
    for (after, run) in [(0, 1), (60_999, 1), (61_000, 2)] {
        clock.set(after);
        let _response = send(&service, request()).await;
        assert_eq!(runs.count(), run, "{after}");
    }
}
