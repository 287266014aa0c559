//! The key and the fingerprint, as a client meets them.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, StatusCode};
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::record::RecordId;
use idempotency_core::store::MemoryStore;
use idempotency_http::{Place, ReceivedRequest};
use tower_layer::Layer;

use crate::common::*;

fn with_key(values: &[&[u8]]) -> Request<Body> {
    let mut request = Request::post("/payments").header("x-user-id", "u-1");
    for value in values {
        request = request.header("idempotency-key", *value);
    }
    request.body(body("{}")).unwrap()
}

#[tokio::test]
async fn a_request_without_a_key_or_with_a_wrong_one_is_refused_before_the_handler() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |_| text(200, "paid")));
    let long = [b'k'; 256];
    for (values, uri) in [
        (&[][..], "urn:idempotency:key-missing"),
        (&[&b""[..]], "urn:idempotency:key-malformed"),
        (&[b"\"\""], "urn:idempotency:key-malformed"),
        (&[&long], "urn:idempotency:key-malformed"),
        (&[b"a", b"b"], "urn:idempotency:key-malformed"),
        (&[b"a, b"], "urn:idempotency:key-malformed"),
        (&[b"\"a\", \"b\""], "urn:idempotency:key-malformed"),
        (&[b"\xc3\xa9"], "urn:idempotency:key-malformed"),
        (&[b"\"open"], "urn:idempotency:key-malformed"),
    ] {
        let response = send(&service, with_key(values)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{values:?}");
        assert_eq!(problem(&response), uri, "{values:?}");
        let text = String::from_utf8(response.body().to_vec()).unwrap();
        assert!(text.contains("`idempotency-key`"), "{text}");
        assert!(!response.headers().contains_key("retry-after"));
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn the_quoted_and_the_bare_form_of_a_key_are_one_key() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
    let quoted = send(&service, with_key(&[b"\"k-1\""])).await;
    let bare = send(&service, with_key(&[b"k-1"])).await;
    assert_eq!((quoted.body(), bare.body()), (&"1".into(), &"1".into()));
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused_with_422() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |_| text(200, "paid")));
    let json = |uri: &str, body: &'static str| {
        let request = post().uri(uri).header("content-type", "application/json");
        request.body(Body::from(body)).unwrap()
    };
    send(&service, json("/payments?a=1", r#"{"amount":1,"to":"x"}"#)).await;
    let same = send(
        &service,
        json("/payments?a=1", r#"{ "to": "x", "amount": 1 }"#),
    )
    .await;
    assert!(
        is_replayed(&same),
        "white space and the order of members do not matter"
    );
    for (uri, body) in [
        ("/payments?a=1", r#"{"amount":2,"to":"x"}"#),
        ("/payments?a=2", r#"{"amount":1,"to":"x"}"#),
        ("/refunds?a=1", r#"{"amount":1,"to":"x"}"#),
    ] {
        let response = send(&service, json(uri, body)).await;
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(problem(&response), "urn:idempotency:key-reused");
    }
    let mut patch = json("/payments?a=1", r#"{"amount":1,"to":"x"}"#);
    *patch.method_mut() = http::Method::PATCH;
    assert_eq!(send(&service, patch).await.status(), 422);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn an_own_fingerprint_replaces_query_and_body_and_never_method_and_path() {
    let runs = Runs::default();
    let operation = builder()
        .caller_header("x-user-id")
        .fingerprint("powertools_json(body).amount")
        .build()
        .unwrap();
    let service = operation
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
    let request = |uri: &str, body: &'static str| post().uri(uri).body(Body::from(body)).unwrap();
    send(&service, request("/a?t=1", r#"{"amount":1,"note":"x"}"#)).await;
    let replay = send(&service, request("/a?t=2", r#"{"amount":1,"note":"y"}"#)).await;
    assert!(is_replayed(&replay));
    let mut patch = request("/a", r#"{"amount":1}"#);
    *patch.method_mut() = http::Method::PATCH;
    for other in [
        request("/a", r#"{"amount":2}"#),
        request("/b", r#"{"amount":1}"#),
        patch,
    ] {
        let response = send(&service, other).await;
        assert_eq!(problem(&response), "urn:idempotency:key-reused");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_part_can_be_added_to_the_fingerprint() {
    let runs = Runs::default();
    let operation = builder()
        .caller_header("x-user-id")
        .fingerprint_also("[header(@, 'host'), header(@, 'x-account')]")
        .build()
        .unwrap();
    let service = operation
        .layer(backend())
        .layer(app(&runs, |_| text(200, "paid")));
    let request = |uri: &str, account: &str, body: &'static str| {
        let request = post().uri(uri).header("host", "pay.example");
        request
            .header("x-account", account)
            .body(Body::from(body))
            .unwrap()
    };
    send(&service, request("/a", "1", "{}")).await;
    assert!(is_replayed(&send(&service, request("/a", "1", "{}")).await));
    for (uri, account, body) in [
        ("/a", "2", "{}"),
        ("/a", "", "{}"),
        ("/b", "1", "{}"),
        ("/a?b=1", "1", "{}"),
        ("/a", "1", "{ }"),
    ] {
        let response = send(&service, request(uri, account, body)).await;
        assert_eq!(problem(&response), "urn:idempotency:key-reused");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_key_that_is_not_required_may_be_missing_but_not_wrong() {
    let runs = Runs::default();
    let operation = builder().caller_header("x-user-id").key_required(false);
    let service = operation.build().unwrap().layer(backend());
    let service = service.layer(app(&runs, |run| text(200, run.to_string())));
    for run in ["1", "2"] {
        let response = send(&service, with_key(&[])).await;
        assert_eq!(response.body(), run);
        assert!(!is_replayed(&response));
    }
    let anonymous = || Request::post("/payments").body(body("{}")).unwrap();
    assert_eq!(send(&service, anonymous()).await.body(), "3");
    // Also where only the body shows that there is no key.
    let in_body = builder()
        .key("powertools_json(body).id")
        .key_required(false);
    let in_body = in_body.caller_header("x-user-id").build().unwrap();
    let in_body = in_body
        .layer(backend())
        .layer(app(&Runs::default(), |_| text(200, "paid")));
    assert_eq!(send(&in_body, anonymous()).await.status(), 200);
    assert_eq!(send(&service, with_key(&[b"a,b"])).await.status(), 400);
    for _ in 0..2 {
        assert_eq!(send(&service, with_key(&[b"k-1"])).await.body(), "4");
    }
}

#[tokio::test]
async fn another_header_and_an_expression_are_keys_too() {
    for builder in [
        builder().key_header("x-request"),
        builder().key("header(@, 'X-Request')"),
        builder().key("powertools_json(body).id"),
    ] {
        let runs = Runs::default();
        let operation = builder.caller_header("x-user-id").build().unwrap();
        let service = operation
            .layer(backend())
            .layer(app(&runs, |run| text(200, run.to_string())));
        let request = || {
            let request = Request::post("/").header("x-user-id", "u-1");
            request
                .header("x-request", "r-1")
                .body(body(r#"{"id":"r-1"}"#))
                .unwrap()
        };
        assert_eq!(send(&service, request()).await.body(), "1");
        assert!(is_replayed(&send(&service, request()).await));
        let without = Request::post("/").header("x-user-id", "u-1");
        let response = send(&service, without.body(body("{}")).unwrap()).await;
        assert_eq!(
            problem(&response),
            "urn:idempotency:key-missing",
            "{operation:?}"
        );
    }
}

/// Returns the id of the record that an attribute with this `key` makes from an event of API Gateway.
fn of_attribute(key: &'static str, event: &str) -> RecordId {
    let settings = Settings {
        key: Some(key.into()),
        key_prefix: Some("payments".into()),
        ..Settings::new()
    };
    let operation = CompiledOperation::new("shop::pay", &settings, &Variables::default()).unwrap();
    operation
        .identify(event, None)
        .unwrap()
        .key()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn the_layer_and_an_attribute_with_the_same_parts_have_one_record() {
    let claims = r#"{"authorizer":{"jwt":{"claims":{"sub":"u-1"}}}}"#;
    let event = format!(
        r#"{{"headers":{{"Idempotency-Key":"k-1"}},"requestContext":{claims},"body":"{{}}"}}"#
    );
    let context = || serde_json::from_str(claims).ok();
    let (parts, ()) = Request::post("/")
        .header("idempotency-key", "k-1")
        .body(())
        .unwrap()
        .into_parts();
    let place = || Place {
        backend: backend_over(&Arc::new(MemoryStore::new())),
        deadline: None,
        tenant: None,
    };
    let builder = || builder().key_prefix("payments");
    let sub = "requestContext.authorizer.jwt.claims.sub";
    let received = ReceivedRequest::new(&parts, b"{}").with_request_context(&context);
    for (operation, key) in [
        (
            builder().caller(sub),
            "[requestContext.authorizer.jwt.claims.sub, header(@, 'Idempotency-Key')]",
        ),
        (
            builder().caller_from(|_| Some("u-1".to_owned())),
            "[requestContext.authorizer.jwt.claims.sub, header(@, 'Idempotency-Key')]",
        ),
        (
            builder()
                .caller(sub)
                .key("[header(@, 'idempotency-key'), body]"),
            "[requestContext.authorizer.jwt.claims.sub, [header(@, 'Idempotency-Key'), body]]",
        ),
        (
            builder().shared_by_all_callers(),
            "header(@, 'Idempotency-Key')",
        ),
    ] {
        let operation = operation.build().unwrap();
        let call = operation.call(Ok(place()), &received);
        assert_eq!(call.key(), Some(&of_attribute(key, &event)), "{key}");
    }
}

#[tokio::test]
async fn without_a_fingerprint_the_key_alone_decides() {
    let operation = builder().caller_header("x-user-id").without_fingerprint();
    let runs = Runs::default();
    let service = operation
        .build()
        .unwrap()
        .layer(backend())
        .layer(app(&runs, |_| text(200, "paid")));
    send(&service, post().body(body("{}")).unwrap()).await;
    let other = post().uri("/refunds").body(body("other")).unwrap();
    assert!(is_replayed(&send(&service, other).await));
}
