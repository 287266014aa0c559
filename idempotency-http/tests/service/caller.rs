//! The caller: a key belongs to one client.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use idempotency_http::{Backend, HttpOperation};
use tower_layer::Layer;

use crate::common::*;

/// A request of a client, with a key and a body that are the same for every client.
fn of_client(client: &str) -> Request<Body> {
    Request::post("/payments")
        .header("idempotency-key", "\"k-1\"")
        .header("x-user-id", client)
        .body(body("{}"))
        .unwrap()
}

/// Sends the request of client A, then the same request of client B. Returns B's response.
async fn attack(operation: HttpOperation, backend: Backend) -> Response<bytes::Bytes> {
    let runs = Runs::default();
    let service = operation
        .layer(backend)
        .layer(app(&runs, |run| text(200, format!("card of client {run}"))));
    let own = send(&service, of_client("a")).await;
    assert_eq!(own.body(), "card of client 1");
    send(&service, of_client("b")).await
}

#[tokio::test]
async fn without_the_caller_in_the_key_one_client_reads_the_response_of_another() {
    let shared = builder().shared_by_all_callers().build().unwrap();
    let read = attack(shared, backend()).await;
    assert_eq!(read.body(), "card of client 1", "this is the attack");
    assert!(is_replayed(&read));
}

#[tokio::test]
async fn with_the_caller_in_the_key_each_client_has_its_own_response() {
    for operation in [
        builder().caller_header("x-user-id").build(),
        builder().caller("header(@, 'x-user-id')").build(),
        builder()
            .caller_from(|parts| {
                let value = parts.headers.get("x-user-id")?;
                value.to_str().ok().map(str::to_owned)
            })
            .build(),
    ] {
        let own = attack(operation.unwrap(), backend()).await;
        assert_eq!(own.body(), "card of client 2");
        assert!(!is_replayed(&own));
    }
}

#[tokio::test]
async fn a_request_of_an_unknown_caller_is_refused_and_never_shares_a_key() {
    let unknown = [
        builder().caller_header("x-user-id"),
        builder().caller("header(@, 'x-user-id')"),
        builder().caller("[requestContext.http.method, header(@, 'x-user-id')]"),
        builder().caller("requestContext.authorizer.jwt.claims.sub"),
        builder().caller_from(|_| None),
        builder().caller_from(|_| Some(String::new())),
    ];
    for builder in unknown {
        let runs = Runs::default();
        let operation = builder.build().unwrap();
        let service = operation
            .layer(backend())
            .layer(app(&runs, |_| text(200, "paid")));
        let request = Request::post("/payments").header("idempotency-key", "k-1");
        let response = send(&service, request.body(body("{}")).unwrap()).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{operation:?}");
        assert_eq!(problem(&response), "urn:idempotency:caller-unknown");
        assert_eq!(runs.count(), 0);
    }
}

#[tokio::test]
async fn a_caller_header_that_is_empty_or_repeated_names_no_caller() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |_| text(200, "paid")));
    for values in [&[""][..], &["  "], &["u-1", "u-2"], &["u-1", "u-1"]] {
        let mut request = Request::post("/payments").header("idempotency-key", "k-1");
        for value in values {
            request = request.header("x-user-id", *value);
        }
        let response = send(&service, request.body(body("{}")).unwrap()).await;
        assert_eq!(
            problem(&response),
            "urn:idempotency:caller-unknown",
            "{values:?}"
        );
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_caller_in_an_extension_is_found() {
    #[derive(Clone)]
    struct User(&'static str);

    let operation = builder()
        .caller_from(|parts| Some(parts.extensions.get::<User>()?.0.to_owned()))
        .build()
        .unwrap();
    let runs = Runs::default();
    let service = operation
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
    let of = |user| {
        let mut request = of_client("the header is not read");
        request.extensions_mut().insert(User(user));
        request
    };
    let responses = [
        send(&service, of("a")).await,
        send(&service, of("b")).await,
        send(&service, of("a")).await,
    ];
    let bodies = responses.map(|response| response.into_body());
    assert_eq!(bodies, ["1", "2", "1"]);
}
