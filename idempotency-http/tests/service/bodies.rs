//! Bodies of requests and responses (streams, limits, errors half-way, clients that disconnect), and what is stored of a response for a
//! duplicate.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use idempotency_core::future::BoxFuture;
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::OnError;
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use idempotency_core::store::{
    MemoryStore, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
};
use idempotency_http::{ClientReply, HttpOperation, Unstorable};

use crate::*;

fn unstorable(policy: Unstorable) -> HttpOperation {
    with(|builder| builder.on_unstorable(policy).max_response_body(4))
}

/// Returns a service whose responses are `one two`, as a stream or with an announced length, and its runs.
fn one_two(operation: &HttpOperation, is_stream: bool) -> (App, Runs) {
    serve(operation.layer(backend()), move |_| {
        Response::new(match is_stream {
            true => stream_of([Ok("one "), Ok("two")]),
            false => Body::from("one two"),
        })
    })
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_follows_the_policy() {
    let (own, unavailable) = ("200 one two", "500 response-unavailable");
    // A stream of unknown length, and a body above the limit.
    for is_stream in [true, false] {
        for (policy, expected, runs) in [
            (Unstorable::Complete, [own, unavailable], 1),
            (Unstorable::Release, [own, own], 2),
            // No client sees the response.
            (Unstorable::Refuse, [unavailable, unavailable], 1),
        ] {
            let (service, counted) = one_two(&unstorable(policy), is_stream);
            assert_eq!(twice(&service).await, expected, "{policy:?} {is_stream}");
            assert_eq!(counted.count(), runs, "{policy:?} {is_stream}");
        }
    }
    let (service, _) = one_two(&unstorable(Unstorable::Complete), true);
    pay(&service).await;
    let second = pay(&service).await;
    assert!(text_of(&second).starts_with("{\"detail\":\"the request was processed"));
}

/// A store for which the response of the first call is too large: it refuses the second request.
#[derive(Default)]
struct HoldsNoResponse(MemoryStore, Runs);

impl Store for HoldsNoResponse {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        if self.1.add() != 2 {
            return self.0.send(request, log);
        }
        let too_large = StoreError::new(StoreErrorKind::TooLarge, "401 KB");
        Box::pin(ready(StoreReply::failed(too_large)))
    }

    fn limits(&self) -> StoreLimits {
        self.0.limits()
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

#[tokio::test]
async fn a_response_that_the_store_cannot_hold_is_sent_unless_the_policy_is_to_refuse_it() {
    let unavailable = "500 response-unavailable";
    for (policy, first) in [
        (Unstorable::Complete, "200 1"),
        (Unstorable::Release, "200 1"),
        (Unstorable::Refuse, unavailable),
    ] {
        let operation = with(|builder| builder.on_unstorable(policy));
        let backend = backend_with(Arc::new(HoldsNoResponse::default()), &Arc::default());
        let (service, runs) = count(operation.layer(backend));
        assert_eq!(twice(&service).await, [first, unavailable], "{policy:?}");
        assert_eq!(runs.count(), 1, "{policy:?}");
    }
}

#[tokio::test]
async fn a_handler_gets_the_body_of_a_request_as_text_if_it_is_utf_8() {
    use lambda_http::Body::{Binary, Text};

    let pay = async |request: Request<lambda_http::Body>| {
        let is_text = matches!(request.body(), Text(_));
        Ok::<_, Infallible>(text(200, is_text.to_string()))
    };
    let service = operation().layer(backend()).layer(service_fn(pay));
    for (key, body, expected) in [
        ("k-1", Text("{}".to_owned()), "true"),
        ("k-2", Binary(b"{}".to_vec()), "true"),
        ("k-3", Binary(b"\xff".to_vec()), "false"),
    ] {
        let request = without_key().header("idempotency-key", key).body(body);
        let response = service.clone().oneshot(request.unwrap()).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, expected, "{key}");
    }
}

#[tokio::test]
async fn a_response_in_memory_is_stored_up_to_the_limit() {
    for (body, second) in [
        ("four", "200 four, replayed"),
        ("five!", "500 response-unavailable"),
    ] {
        let (operation, backend) = (unstorable(Unstorable::Complete), backend());
        let (parts, ()) = post().body(()).unwrap().into_parts();
        let request = ReceivedRequest::new(&parts, b"{}");
        let mut answers = Vec::new();
        for _ in 0..2 {
            let call = operation.call(Ok(place(backend.clone())), &request);
            assert!(call.key().is_some());
            let handler = async |_| Ok::<_, Infallible>(Response::new(Bytes::from(body)));
            let sent = call.run(handler, |own| Ok(own.clone())).await.unwrap();
            let (ClientReply::Own(response) | ClientReply::Made(response)) = sent;
            answers.push(seen(&response));
        }
        assert_eq!(answers, [format!("200 {body}").as_str(), second]);
    }
}

#[tokio::test]
async fn an_empty_response_without_a_length_is_replayed() {
    let layer = unstorable(Unstorable::Complete).layer(backend());
    let (service, _) = serve(layer, |_| Response::new(lambda_http::Body::Empty));
    assert_eq!(twice(&service).await, ["200", "200, replayed"]);
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_not_read_before_its_client_reads_it() {
    let stream = || stream_of([Ok("one "), Ok("two")]);
    for (body, length) in [
        (stream as fn() -> Body, None),
        (|| Body::from("one two"), Some(7)),
    ] {
        let polls = Runs::default();
        let counted = polls.clone();
        let layer = unstorable(Unstorable::Complete).layer(backend());
        let (service, _) = serve(layer, move |_| {
            let counted = counted.clone();
            Response::new(body().inspect_frame(move |_| {
                counted.add();
            }))
        });
        let own = service.oneshot(request()).await.unwrap().into_body();
        assert_eq!(polls.count(), 0);
        assert_eq!(own.size_hint().exact(), length);
        assert_eq!(own.collect().await.unwrap().to_bytes(), "one two");
    }
}

#[tokio::test]
async fn a_stream_is_stored_if_streams_are_collected_and_it_is_short() {
    // One byte above the limit: what was read is sent, and then the rest.
    for (limit, second) in [
        (7, "200 one two, replayed"),
        (6, "500 response-unavailable"),
    ] {
        let operation = with(|builder| builder.collect_streams(true).max_response_body(limit));
        let (service, runs) = one_two(&operation, true);
        assert_eq!(twice(&service).await, ["200 one two", second]);
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn trailers_reach_their_client_and_the_response_is_not_stored() {
    let layer = unstorable(Unstorable::Complete).layer(backend());
    let (service, runs) = serve(layer, |_| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("14"));
        let trailers = std::future::ready(Some(Ok(trailers)));
        Response::new(Full::from("ok").with_trailers(trailers))
    });
    let own = service.clone().oneshot(request()).await;
    let collected = own.unwrap().into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["grpc-status"], "14");
    assert_eq!(collected.to_bytes(), "ok");
    let second = answer(&service, request()).await;
    assert_eq!(second, "500 response-unavailable");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_response_that_fails_half_way_reaches_its_client_as_it_is_and_is_a_failure_of_the_handler()
 {
    let operation = with(|builder| builder.collect_streams(true));
    let (service, runs) = serve(operation.layer(backend()), |run| {
        let end = match run {
            1 => Err("connection reset"),
            _ => Ok("b"),
        };
        Response::new(stream_of([Ok("a"), end]))
    });
    let own = service.clone().oneshot(request()).await;
    let mut own = own.unwrap().into_body();
    assert_eq!(own.size_hint().exact(), None);
    let first = own.frame().await.unwrap().unwrap().into_data();
    assert_eq!(first.unwrap(), "a");
    let end = own.frame().await.unwrap().unwrap_err().to_string();
    assert_eq!(end, "connection reset");
    assert!(own.frame().await.is_none());
    assert_eq!(twice(&service).await, ["200 ab", "200 ab, replayed"]);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused_and_its_key_is_free() {
    let layer = with(|builder| builder.max_request_body(4)).layer(backend());
    let echo = async |request: Request<Body>, _| Response::new(request.into_body());
    let (service, _) = serve_with(layer, echo);
    let requests = [
        of(post(), "12345"),
        of(post(), stream_of([Ok("one "), Ok("two")])),
        of(post(), stream_of([Ok("a"), Err("reset")])),
        of(post(), "1234"),
    ];
    let expected = [
        "413 body-too-large",
        "413 body-too-large",
        "400 request-unreadable",
        "200 1234",
    ];
    assert_eq!(answers(&service, requests).await, expected);
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_the_claim_to_its_lease() {
    let store = Arc::new(MemoryStore::new());
    let (service, runs) = hang(operation().layer(backend_over(&store)));
    drop(start(&service));
    assert_eq!((runs.count(), store.len()), (1, 1));
    let second = answer(&service, request()).await;
    assert_eq!(second, "409 in-progress, retry after 1");
    assert_eq!(runs.count(), 1, "the handler may have had its effect");
}

/// Returns the record id of [`post`].
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
    let (service, _) = serve(operation.layer(backend_over(&store)), with_headers);
    let own = pay(&service).await;
    assert_eq!(own.headers(), with_headers(1).headers());
    assert_eq!(own.headers()["set-cookie"], "session=secret");

    let replay = pay(&service).await;
    assert_eq!((replay.status(), replay.body()), (own.status(), own.body()));
    let record = store.record(&id()).unwrap();
    let text = record.data.value().unwrap().as_str();
    assert_eq!(
        text,
        r#"{"statusCode":201,"headers":{"content-type":"text/plain; charset=utf-8","location":"/payments/1","x-receipt":"17"},"multiValueHeaders":{"link":["<a>","<b>"]},"body":"paid","isBase64Encoded":false}"#
    );
    let mut headers = own.headers().clone();
    for unlisted in ["set-cookie", "x-request-id"] {
        headers.remove(unlisted);
    }
    headers.insert("content-length", 4.into());
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    assert_eq!(replay.headers(), &headers);
}

#[tokio::test]
async fn a_replay_of_head_names_no_length() {
    let head = with(|builder| builder.methods([Method::HEAD]));
    let (service, _) = serve(head.layer(backend()), |_| {
        let mut response = text(200, "");
        response.headers_mut().insert("content-length", 4.into());
        response
    });
    for length in [Some(4.into()), None::<HeaderValue>] {
        let response = send(&service, of(post().method(Method::HEAD), "")).await;
        assert_eq!(response.headers().get("content-length"), length.as_ref());
    }
}

#[tokio::test]
async fn a_policy_of_the_user_decides_on_statuses_and_the_body() {
    let done = "powertools_json(body).state == 'done'";
    let operation = with_settings(|settings| settings.store_when = Some(done.into()));
    let operation = built(operation.stored_statuses(|status| status == StatusCode::ACCEPTED));
    for (status, response, expected) in [
        (202, r#"{"state":"done"}"#, 1),
        (202, r#"{"state":"queued"}"#, 2),
        (200, r#"{"state":"done"}"#, 2),
        (500, r#"{"state":"done"}"#, 2),
    ] {
        let (service, runs) = serve(operation.layer(backend()), move |_| text(status, response));
        twice(&service).await;
        assert_eq!(runs.count(), expected, "{status} {response}");
    }
}

#[tokio::test]
async fn a_lock_runs_each_request_also_if_a_response_cannot_be_stored() {
    let own = "200 one two";
    for (policy, expected) in [
        (Unstorable::Complete, own),
        (Unstorable::Release, own),
        (Unstorable::Refuse, "500 response-unavailable"),
    ] {
        for is_stream in [true, false] {
            let lock = with_settings(|settings| settings.store_when = Some("`false`".into()));
            let lock = built(lock.on_unstorable(policy).max_response_body(4));
            let (service, runs) = one_two(&lock, is_stream);
            assert_eq!(twice(&service).await, [expected; 2], "{policy:?}");
            assert_eq!(runs.count(), 2, "{policy:?} {is_stream}");
        }
    }
}

#[tokio::test]
async fn a_server_error_is_a_failure_that_is_recorded_if_asked_for() {
    let recorded = Some("unreported: idempotency_http::reply::CallFailed");
    // A layer inside can have made a status that is not stored.
    let unstored = Some("unreported: response not stored");
    for (status, expected) in [(500, recorded), (408, recorded), (409, unstored)] {
        let operation = with_settings(|settings| settings.on_error = Some(OnError::Record));
        let operation = built(operation);
        let store = Arc::new(MemoryStore::new());
        let layer = operation.layer(backend_over(&store));
        let (service, _) = serve(layer, move |_| text(status, "failed"));
        let own = answer(&service, request()).await;
        assert_eq!(own, format!("{status} failed"));
        let record = store.record(&id());
        let failure = record.as_ref().and_then(|record| record.failure.value());
        assert_eq!(failure.map(String::as_str), expected, "{status}");
    }
}

/// The handler does not run. Without a fingerprint, the record may be that of a function in another language.
#[tokio::test]
async fn a_record_of_another_program_is_replayed_or_an_error() {
    let of_python = r#"{"statusCode": 201, "body": "{\"id\": 1}", "multiValueHeaders": {"Set-Cookie": ["session=1"]}}"#;
    for (stored, expected) in [
        (of_python, r#"201 {"id": 1}, replayed"#),
        (r#"{"id": "secret"}"#, "500 response-unavailable"),
    ] {
        let store = Arc::new(MemoryStore::new());
        let end = NOW.ceil_to_seconds().plus(Duration::from_secs(60));
        let record = Record {
            status: Field::Value(Status::Completed),
            expiration: Field::Value(end),
            data: Field::Value(Data::new(stored.to_owned())),
            ..Record::default()
        };
        store.insert(id(), record);
        let operation = with(HttpOperationBuilder::without_fingerprint);
        let (service, runs) = count(operation.layer(backend_over(&store)));
        let response = pay(&service).await;
        assert_eq!(seen(&response), expected);
        assert!(!response.headers().contains_key("set-cookie"));
        assert_eq!(runs.count(), 0);
    }
}
