//! Bodies of requests and responses: streams, limits, errors half-way, clients that disconnect.
//!
//! What is stored of a response, and what a duplicate gets.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use idempotency_core::config::Settings;
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::OnError;
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use idempotency_core::store::MemoryStore;
use idempotency_http::{HttpOperation, ResponseBody, Unstorable};
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::*;

/// A body of these frames, which counts how often it is polled.
struct Frames {
    frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
    length: Option<u64>,
    polls: Runs,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.polls.add();
        Poll::Ready(self.frames.pop_front())
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// An empty body that does not tell its length, as that of `lambda_http`.
struct EmptyBody;

impl http_body::Body for EmptyBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
    Ok(Frame::data(Bytes::from(text)))
}

fn trailers() -> Result<Frame<Bytes>, &'static str> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("14"));
    Ok(Frame::trailers(trailers))
}

fn response(
    polls: &Runs,
    length: Option<u64>,
    frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>,
) -> Response<Frames> {
    Response::new(Frames {
        frames: frames.into_iter().collect(),
        length,
        polls: polls.clone(),
    })
}

fn unstorable(policy: Unstorable) -> HttpOperation {
    with(|builder| builder.on_unstorable(policy).max_response_body(4))
}

/// Sends a request to a service whose responses are streams of `one two`. Returns status, body and problem.
async fn twice(operation: HttpOperation, length: Option<u64>) -> (Vec<(u16, Bytes)>, usize) {
    let (runs, polls) = (Runs::default(), Runs::default());
    let service = operation.layer(backend()).layer(app(&runs, move |_| {
        response(&polls, length, [data("one "), data("two")])
    }));
    let mut sent = Vec::new();
    for _ in 0..2 {
        let response = pay(&service).await;
        assert!(!is_replayed(&response));
        sent.push((response.status().as_u16(), response.into_body()));
    }
    (sent, runs.count())
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_follows_the_policy() {
    // A stream of unknown length, and a body above the limit.
    for length in [None, Some(7)] {
        let (sent, runs) = twice(unstorable(Unstorable::Complete), length).await;
        assert_eq!((sent[0].0, &sent[0].1), (200, &"one two".into()));
        assert_eq!(sent[1].0, 500);
        assert!(
            sent[1]
                .1
                .starts_with(b"{\"detail\":\"the request was processed")
        );
        assert_eq!(runs, 1);

        let (sent, runs) = twice(unstorable(Unstorable::Release), length).await;
        assert_eq!(sent[1], (200, "one two".into()));
        assert_eq!((&sent[0], runs), (&sent[1], 2));

        let (sent, runs) = twice(unstorable(Unstorable::Refuse), length).await;
        assert_eq!((sent[0].0, sent[1].0, runs), (500, 500, 1));
        assert_eq!(sent[0].1, sent[1].1, "no client sees the response");
    }
}

#[tokio::test]
async fn an_empty_response_without_a_length_is_replayed() {
    let operation = unstorable(Unstorable::Complete);
    let (service, runs) = serve(operation.layer(backend()), |_| Response::new(EmptyBody));
    let first = pay(&service).await;
    assert!(!is_replayed(&first));
    let again = pay(&service).await;
    assert!(is_replayed(&again));
    assert_eq!(
        (again.status(), again.into_body()),
        (first.status(), Bytes::new())
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_stream_is_not_read_before_its_client_reads_it() {
    for length in [None, Some(7)] {
        let polls = Runs::default();
        let counted = polls.clone();
        let service = unstorable(Unstorable::Complete)
            .layer(backend())
            .layer(app(&Runs::default(), move |_| {
                response(&counted, length, [data("one "), data("two")])
            }));
        let own = service.oneshot(request()).await.unwrap();
        assert_eq!(polls.count(), 0);
        assert_eq!(own.body().size_hint().exact(), length);
        assert_eq!(
            own.into_body().collect().await.unwrap().to_bytes(),
            "one two"
        );
    }
}

#[tokio::test]
async fn a_stream_is_stored_if_streams_are_collected_and_it_is_short() {
    let operation = |limit| {
        builder()
            .caller_header("x-user-id")
            .collect_streams(true)
            .max_response_body(limit)
            .build()
            .unwrap()
    };
    let (runs, polls) = (Runs::default(), Runs::default());
    let counted = polls.clone();
    let service = operation(7).layer(backend()).layer(app(&runs, move |_| {
        response(&counted, None, [data("one "), data("two")])
    }));
    for replayed in [false, true] {
        let response = pay(&service).await;
        assert_eq!(
            (response.body(), is_replayed(&response)),
            (&"one two".into(), replayed)
        );
    }
    assert_eq!(runs.count(), 1);
    // One byte above the limit: what was read is sent, and then the rest.
    let (sent, runs) = twice(operation(6), None).await;
    assert_eq!(
        (sent[0].1.as_ref(), sent[1].0, runs),
        (&b"one two"[..], 500, 1)
    );
}

#[tokio::test]
async fn trailers_reach_their_client_and_the_response_is_not_stored() {
    let (runs, polls) = (Runs::default(), Runs::default());
    let service = unstorable(Unstorable::Complete)
        .layer(backend())
        .layer(app(&runs, move |_| {
            response(&polls, Some(2), [data("ok"), trailers()])
        }));
    let own = service.clone().oneshot(request()).await;
    let collected = own.unwrap().into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "14");
    assert_eq!(collected.to_bytes(), "ok");
    let second = pay(&service).await;
    assert_eq!(problem(&second), "urn:idempotency:response-unavailable");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_response_that_fails_half_way_reaches_its_client_as_it_is_and_is_a_failure_of_the_handler()
 {
    let runs = Runs::default();
    let polls = Runs::default();
    let service = unstorable(Unstorable::Complete)
        .layer(backend())
        .layer(app(&runs, move |run| {
            let end = if run == 1 {
                Err("connection reset")
            } else {
                data("b")
            };
            response(&polls, Some(2), [data("a"), end])
        }));
    let own = service.clone().oneshot(request()).await;
    let mut own = own.unwrap().into_body();
    assert_eq!(
        own.frame().await.unwrap().unwrap().into_data().unwrap(),
        "a"
    );
    assert_eq!(own.frame().await.unwrap().err(), Some("connection reset"));
    assert!(own.frame().await.is_none());
    for replayed in [false, true] {
        let response = pay(&service).await;
        assert_eq!(
            (response.body(), is_replayed(&response)),
            (&"ab".into(), replayed)
        );
    }
    assert_eq!(runs.count(), 2);
}

/// A service that sends back the body of its request.
fn echo()
-> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ 'static {
    tower::service_fn(|request: Request<Body>| async { Ok(Response::new(request.into_body())) })
}

#[tokio::test]
async fn the_handler_gets_the_body_of_the_request_unchanged() {
    let bytes: Vec<u8> = (0..=255).collect();
    let service = operation().layer(backend()).layer(echo());
    let sent = send(&service, post().body(Body::from(bytes.clone())).unwrap()).await;
    assert_eq!(sent.body()[..], bytes[..]);
}

#[tokio::test]
async fn a_request_above_the_limit_is_413_and_its_key_is_free() {
    let operation = with(|builder| builder.max_request_body(4));
    let service = operation.layer(backend()).layer(echo());
    let polls = Runs::default();
    let streamed = response(&polls, None, [data("one "), data("two")]).into_body();
    for large in [
        Body::from("12345"),
        Body::new(streamed.map_err(std::io::Error::other)),
    ] {
        let response = send(&service, post().body(large).unwrap()).await;
        assert_eq!(response.status(), 413);
        assert_eq!(problem(&response), "urn:idempotency:body-too-large");
    }
    let response = send(&service, post().body(Body::from("1234")).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), response.body()),
        (200, &"1234".into())
    );
}

#[tokio::test]
async fn a_request_whose_body_fails_is_400_and_its_key_is_free() {
    let service = operation().layer(backend()).layer(echo());
    let polls = Runs::default();
    let broken = response(&polls, None, [data("a"), Err("reset")]).into_body();
    let broken = Body::new(broken.map_err(std::io::Error::other));
    let response = send(&service, post().body(broken).unwrap()).await;
    assert_eq!(response.status(), 400);
    assert_eq!(problem(&response), "urn:idempotency:request-unreadable");
    assert_eq!(
        send(&service, post().body(body("a")).unwrap()).await.body(),
        "a"
    );
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_the_claim_to_its_lease() {
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::default();
    let counted = runs.clone();
    let never = tower::service_fn(move |_: Request<Body>| {
        counted.add();
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let mut service = operation().layer(backend_over(&store)).layer(never);
    let mut running = Box::pin(service.call(request()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    drop(running);
    assert_eq!((runs.count(), store.len()), (1, 1));
    let second = pay(&service).await;
    assert_eq!(problem(&second), "urn:idempotency:in-progress");
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(runs.count(), 1, "the handler may have had its effect");
}

/// The id of the record of [`post`].
fn id() -> RecordId {
    let digest = HashAlgorithm::Md5.hex(r#"["u-1", "k-1"]"#);
    RecordId::new(format!("local.shop.payments#{digest}"))
}

fn with_headers(_: usize) -> Response<Body> {
    Response::builder()
        .status(201)
        .header("content-type", "text/plain; charset=utf-8")
        .header("location", "/payments/1")
        .header("link", "<a>")
        .header("link", "<b>")
        .header("set-cookie", "session=secret")
        .header("x-request-id", "r-1")
        .header("x-receipt", "17")
        .body(Body::from("paid"))
        .unwrap()
}

#[tokio::test]
async fn the_own_response_is_unchanged_and_a_replay_has_the_listed_headers() {
    let store = Arc::new(MemoryStore::new());
    let operation = with(|builder| builder.stored_headers(["X-Receipt"]));
    let service = operation
        .layer(backend_over(&store))
        .layer(app(&Runs::default(), with_headers));
    let own = pay(&service).await;
    let expected = with_headers(1);
    assert_eq!(own.headers(), expected.headers());
    assert_eq!(own.headers()["set-cookie"], "session=secret");

    let replay = pay(&service).await;
    assert_eq!((replay.status(), replay.body()), (own.status(), own.body()));
    let mut headers: Vec<_> = replay.headers().iter().collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    let headers: Vec<_> = headers
        .into_iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        headers,
        [
            ("content-length", "4"),
            ("content-type", "text/plain; charset=utf-8"),
            ("idempotent-replayed", "true"),
            ("link", "<a>"),
            ("link", "<b>"),
            ("location", "/payments/1"),
            ("x-receipt", "17"),
        ]
    );
    let record = store.record(&id()).unwrap();
    assert_eq!(
        record.data.value().unwrap().as_str(),
        r#"{"statusCode":201,"headers":{"content-type":"text/plain; charset=utf-8","location":"/payments/1","x-receipt":"17"},"multiValueHeaders":{"link":["<a>","<b>"]},"body":"paid","isBase64Encoded":false}"#
    );
}

#[tokio::test]
async fn a_binary_body_is_replayed_byte_for_byte() {
    let bytes: Vec<u8> = (0..=255).collect();
    let service = {
        let bytes = bytes.clone();
        operation()
            .layer(backend())
            .layer(app(&Runs::default(), move |_| {
                Response::new(Body::from(bytes.clone()))
            }))
    };
    for replayed in [false, true] {
        let response = pay(&service).await;
        assert_eq!(response.body()[..], bytes[..]);
        assert_eq!(is_replayed(&response), replayed);
    }
}

#[tokio::test]
async fn a_replay_of_head_names_no_length() {
    let head = with(|builder| builder.methods([Method::HEAD]));
    let service = head.layer(backend());
    let service = service.layer(app(&Runs::default(), |_| {
        let mut response = text(200, "");
        response.headers_mut().insert("content-length", 4.into());
        response
    }));
    for length in [Some(4.into()), None::<http::HeaderValue>] {
        let request = post().method(Method::HEAD).body(body("")).unwrap();
        let response = send(&service, request).await;
        assert_eq!(response.headers().get("content-length"), length.as_ref());
    }
}

#[tokio::test]
async fn each_status_is_replayed_or_runs_again() {
    for (status, is_stored) in [
        (200, true),
        (201, true),
        (204, true),
        (302, true),
        (303, true),
        (304, false),
        (307, false),
        (308, false),
        (400, true),
        (401, false),
        (402, true),
        (403, false),
        (404, true),
        (408, false),
        (409, false),
        (412, false),
        (413, true),
        (417, false),
        (421, false),
        (422, true),
        (425, false),
        (428, false),
        (429, false),
        (499, false),
        (500, false),
        (502, false),
        (503, false),
        (504, false),
    ] {
        let (service, runs) = serve(operation().layer(backend()), move |_| text(status, ""));
        for _ in 0..2 {
            let response = pay(&service).await;
            assert_eq!(response.status().as_u16(), status);
        }
        assert_eq!(runs.count(), if is_stored { 1 } else { 2 }, "{status}");
    }
}

#[tokio::test]
async fn a_policy_of_the_user_decides_on_statuses_and_the_body() {
    let settings = Settings {
        store_when: Some("powertools_json(body).state == 'done'".into()),
        ..Settings::new()
    };
    let operation = with(|builder| {
        builder
            .settings(settings)
            .stored_statuses(|status| status == StatusCode::ACCEPTED)
    });
    for (status, response, is_stored) in [
        (202, r#"{"state":"done"}"#, true),
        (202, r#"{"state":"queued"}"#, false),
        (200, r#"{"state":"done"}"#, false),
        (500, r#"{"state":"done"}"#, false),
    ] {
        let (service, runs) = serve(operation.layer(backend()), move |_| text(status, response));
        for _ in 0..2 {
            pay(&service).await;
        }
        assert_eq!(
            runs.count(),
            if is_stored { 1 } else { 2 },
            "{status} {response}"
        );
    }
}

#[tokio::test]
async fn a_server_error_is_a_failure_that_is_recorded_if_asked_for() {
    for (status, is_recorded) in [(500, true), (408, true), (409, false)] {
        let settings = Settings {
            on_error: Some(OnError::Record),
            ..Settings::new()
        };
        let operation = builder().settings(settings).caller_header("x-user-id");
        let store = Arc::new(MemoryStore::new());
        let service = operation
            .build()
            .unwrap()
            .layer(backend_over(&store))
            .layer(app(&Runs::default(), move |_| text(status, "failed")));
        let own = pay(&service).await;
        assert_eq!(
            (own.status().as_u16(), own.body()),
            (status, &"failed".into())
        );
        let record = store.record(&id());
        let failure = record.as_ref().and_then(|record| record.failure.value());
        let expected = is_recorded.then_some("unreported: idempotency_http::reply::CallFailed");
        assert_eq!(failure.map(String::as_str), expected, "{status}");
    }
}

#[tokio::test]
async fn an_error_of_the_service_stays_its_error_and_releases_the_claim() {
    use tower::ServiceExt;

    let runs = Runs::default();
    let counted = runs.clone();
    let fails = tower::service_fn(move |_: Request<Body>| {
        counted.add();
        async { Err::<Response<Body>, _>("the database is down") }
    });
    let service = operation().layer(backend()).layer(fails);
    for _ in 0..2 {
        let request = request();
        let error = service.clone().oneshot(request).await.err();
        assert_eq!(error, Some("the database is down"));
    }
    assert_eq!(runs.count(), 2);
}

/// Returns a service for whose request this response is stored, without a fingerprint, and the runs of its handler.
fn with_stored(
    text: &str,
) -> (
    impl Service<
        Request<Body>,
        Response = Response<ResponseBody<Body>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone,
    Runs,
) {
    let store = Arc::new(MemoryStore::new());
    let end = NOW.ceil_to_seconds().plus(Duration::from_secs(60));
    let record = Record {
        status: Field::Value(Status::Completed),
        expiration: Field::Value(end),
        data: Field::Value(Data::new(text.to_owned())),
        ..Record::default()
    };
    store.insert(id(), record);
    let operation = with(|builder| builder.without_fingerprint());
    serve(operation.layer(backend_over(&store)), |_| {
        Response::default()
    })
}

#[tokio::test]
async fn a_response_that_a_function_in_python_stored_is_replayed() {
    let text = r#"{"statusCode": 201, "body": "{\"id\": 1}", "isBase64Encoded": false, "multiValueHeaders": {"Content-Type": ["application/json"], "Set-Cookie": ["session=1"]}}"#;
    let (service, runs) = with_stored(text);
    let replay = pay(&service).await;
    assert_eq!(
        (replay.status().as_u16(), replay.body()),
        (201, &r#"{"id": 1}"#.into())
    );
    assert_eq!(replay.headers()["content-type"], "application/json");
    assert!(!replay.headers().contains_key("set-cookie") && is_replayed(&replay));
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_record_that_is_no_response_is_an_error_and_the_handler_does_not_run() {
    let (service, runs) = with_stored(r#"{"id": "secret"}"#);
    let response = pay(&service).await;
    assert_eq!(problem(&response), "urn:idempotency:response-unavailable");
    assert_eq!((response.status().as_u16(), runs.count()), (500, 0));
}

#[tokio::test]
async fn a_panic_of_the_handler_passes_through_and_releases_the_claim() {
    let runs = Runs::default();
    let counted = runs.clone();
    let service = operation()
        .layer(backend())
        .layer(tower::service_fn(move |_: Request<Body>| {
            let run = counted.add();
            async move {
                assert!(run > 1, "the first run panics");
                Ok::<_, Infallible>(text(200, "paid"))
            }
        }));
    let first = service.clone();
    let panicked = tokio::spawn(async move { pay(&first).await });
    assert!(panicked.await.unwrap_err().is_panic());
    let second = pay(&service).await;
    assert_eq!((second.body(), runs.count()), (&"paid".into(), 2));
}
