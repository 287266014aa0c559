//! What is stored of a response, and what a duplicate gets.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use idempotency_core::config::Settings;
use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::OnError;
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use idempotency_core::store::MemoryStore;
use idempotency_http::HttpOperation;
use tower_layer::Layer;

use crate::common::*;

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
    let operation = builder().caller_header("x-user-id");
    let operation = operation.stored_headers(["X-Receipt"]).build().unwrap();
    let service = operation
        .layer(backend_over(&store))
        .layer(app(&Runs::default(), with_headers));
    let own = send(&service, post().body(body("{}")).unwrap()).await;
    let expected = with_headers(1);
    assert_eq!(own.headers(), expected.headers());
    assert_eq!(own.headers()["set-cookie"], "session=secret");

    let replay = send(&service, post().body(body("{}")).unwrap()).await;
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
        let response = send(&service, post().body(body("{}")).unwrap()).await;
        assert_eq!(response.body()[..], bytes[..]);
        assert_eq!(is_replayed(&response), replayed);
    }
}

#[tokio::test]
async fn a_replay_of_head_names_no_length() {
    let head = builder().caller_header("x-user-id").methods([Method::HEAD]);
    let service = head.build().unwrap().layer(backend());
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
        let runs = Runs::default();
        let service = operation()
            .layer(backend())
            .layer(app(&runs, move |_| text(status, "")));
        for _ in 0..2 {
            let response = send(&service, post().body(body("{}")).unwrap()).await;
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
    let operation = builder()
        .settings(settings)
        .caller_header("x-user-id")
        .stored_statuses(|status| status == StatusCode::ACCEPTED)
        .build()
        .unwrap();
    for (status, response, is_stored) in [
        (202, r#"{"state":"done"}"#, true),
        (202, r#"{"state":"queued"}"#, false),
        (200, r#"{"state":"done"}"#, false),
        (500, r#"{"state":"done"}"#, false),
    ] {
        let runs = Runs::default();
        let service = operation
            .layer(backend())
            .layer(app(&runs, move |_| text(status, response)));
        for _ in 0..2 {
            send(&service, post().body(body("{}")).unwrap()).await;
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
        let own = send(&service, post().body(body("{}")).unwrap()).await;
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
        let request = post().body(body("{}")).unwrap();
        let error = service.clone().oneshot(request).await.err();
        assert_eq!(error, Some("the database is down"));
    }
    assert_eq!(runs.count(), 2);
}

/// Returns an operation for records that have no fingerprint.
fn unvalidated() -> HttpOperation {
    let operation = builder().caller_header("x-user-id").without_fingerprint();
    operation.build().unwrap()
}

#[tokio::test]
async fn a_response_that_a_function_in_python_stored_is_replayed() {
    let store = Arc::new(MemoryStore::new());
    let text = r#"{"statusCode": 201, "body": "{\"id\": 1}", "isBase64Encoded": false, "multiValueHeaders": {"Content-Type": ["application/json"], "Set-Cookie": ["session=1"]}}"#;
    let record = Record {
        status: Field::Value(Status::Completed),
        expiration: Field::Value(
            NOW.ceil_to_seconds()
                .plus(std::time::Duration::from_secs(60)),
        ),
        data: Field::Value(Data::new(text.to_owned())),
        ..Record::default()
    };
    store.insert(id(), record);
    let runs = Runs::default();
    let service = unvalidated()
        .layer(backend_over(&store))
        .layer(app(&runs, |_| -> Response<Body> { Response::default() }));
    let replay = send(&service, post().body(body("{}")).unwrap()).await;
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
    let store = Arc::new(MemoryStore::new());
    let record = Record {
        status: Field::Value(Status::Completed),
        expiration: Field::Value(
            NOW.ceil_to_seconds()
                .plus(std::time::Duration::from_secs(60)),
        ),
        data: Field::Value(Data::new(r#"{"id": "secret"}"#.to_owned())),
        ..Record::default()
    };
    store.insert(id(), record);
    let runs = Runs::default();
    let service = unvalidated()
        .layer(backend_over(&store))
        .layer(app(&runs, |_| -> Response<Body> { Response::default() }));
    let response = send(&service, post().body(body("{}")).unwrap()).await;
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
    let panicked =
        tokio::spawn(async move { send(&first, post().body(body("{}")).unwrap()).await });
    assert!(panicked.await.unwrap_err().is_panic());
    let second = send(&service, post().body(body("{}")).unwrap()).await;
    assert_eq!((second.body(), runs.count()), (&"paid".into(), 2));
}
