//! The key and the fingerprint, as a client meets them.
//!
//! The caller: a key belongs to one client.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::record::RecordId;
use idempotency_http::{Backend, HttpOperation, ReceivedRequest};
use serde_json::{Value, json};
use tower_layer::Layer;

use crate::*;

fn with_key(values: &[&[u8]]) -> Request<Body> {
    let mut request = Request::post("/payments").header("x-user-id", "u-1");
    for value in values {
        request = request.header("idempotency-key", *value);
    }
    request.body(body("{}")).unwrap()
}

#[tokio::test]
async fn a_request_without_a_key_or_with_a_wrong_one_is_refused_before_the_handler() {
    let (service, runs) = serve(operation().layer(backend()), |_| text(200, "paid"));
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
    let (service, _) = serve(operation().layer(backend()), |run| {
        text(200, run.to_string())
    });
    let quoted = send(&service, with_key(&[b"\"k-1\""])).await;
    let bare = send(&service, with_key(&[b"k-1"])).await;
    assert_eq!((quoted.body(), bare.body()), (&"1".into(), &"1".into()));
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused_with_422() {
    let (service, runs) = serve(operation().layer(backend()), |_| text(200, "paid"));
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
    let operation = with(|builder| builder.fingerprint("powertools_json(body).amount"));
    let (service, runs) = serve(operation.layer(backend()), |run| text(200, run.to_string()));
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
    let operation =
        with(|builder| builder.fingerprint_also("[header(@, 'host'), header(@, 'x-account')]"));
    let (service, runs) = serve(operation.layer(backend()), |_| text(200, "paid"));
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
    let service = with(|builder| builder.key_required(false))
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
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
        let operation = builder.caller_header("x-user-id").build().unwrap();
        let (service, _) = serve(operation.layer(backend()), |run| text(200, run.to_string()));
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
        let call = operation.call(Ok(place(backend())), &received);
        assert_eq!(call.key(), Some(&of_attribute(key, &event)), "{key}");
    }
}

#[tokio::test]
async fn without_a_fingerprint_the_key_alone_decides() {
    let operation = with(|builder| builder.without_fingerprint());
    let (service, _) = serve(operation.layer(backend()), |_| text(200, "paid"));
    pay(&service).await;
    let other = post().uri("/refunds").body(body("other")).unwrap();
    assert!(is_replayed(&send(&service, other).await));
}

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
    let (service, _) = serve(operation.layer(backend), |run| {
        text(200, format!("card of client {run}"))
    });
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
        let operation = builder.build().unwrap();
        let (service, runs) = serve(operation.layer(backend()), |_| text(200, "paid"));
        let request = Request::post("/payments").header("idempotency-key", "k-1");
        let response = send(&service, request.body(body("{}")).unwrap()).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{operation:?}");
        assert_eq!(problem(&response), "urn:idempotency:caller-unknown");
        assert_eq!(runs.count(), 0);
    }
}

#[tokio::test]
async fn a_caller_header_that_is_empty_or_repeated_names_no_caller() {
    let (service, runs) = serve(operation().layer(backend()), |_| text(200, "paid"));
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
    let (service, _) = serve(operation.layer(backend()), |run| text(200, run.to_string()));
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

/// Returns the record of a request with key `k-1` and this `requestContext`; `None` if the request is refused.
fn record(caller: &str, context: &Value) -> Option<RecordId> {
    let operation = builder().caller(caller).build().unwrap();
    let request = Request::post("/payments").header("idempotency-key", "k-1");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let place = place(backend());
    let event = operation.event(&json!({"requestContext": context}));
    let request = ReceivedRequest::new(&parts, b"{}").with_event(&event);
    let of_event = operation.call(Ok(place.clone()), &request).key().cloned();
    let context = || Some(context.clone());
    let request = ReceivedRequest::new(&parts, b"{}").with_request_context(&context);
    assert_eq!(operation.call(Ok(place), &request).key(), of_event.as_ref());
    of_event
}

#[test]
fn the_id_of_an_iam_session_is_refused_as_a_caller_with_what_to_write() {
    for caller in [
        "requestContext.authorizer.iam.userArn",
        "requestContext.identity.userArn",
        "requestContext.authorizer.iam.userId",
        "[requestContext.accountId, requestContext.identity.caller]",
    ] {
        let error = builder().caller(caller).build().unwrap_err().to_string();
        assert!(error.contains(" is wrong: `caller`: "), "{error}");
        assert!(error.ends_with("write `iam_caller(@)`"), "{error}");
    }
}

#[test]
fn users_of_an_identity_pool_share_no_key_and_the_sessions_of_a_role_are_one_caller() {
    let rest = |arn: &str, identity: Option<&str>| json!({"identity": {"userArn": arn, "cognitoIdentityId": identity}});
    let http = |arn: &str, identity: Option<&str>| {
        let identity = identity.map(|id| json!({"identityId": id, "amr": ["authenticated"]}));
        json!({"authorizer": {"iam": {"userArn": arn, "cognitoIdentity": identity}}})
    };
    let role = |session: &str| format!("arn:aws:sts::123456789012:assumed-role/App/{session}");
    let pool = role("CognitoIdentityCredentials");
    let of = |context: Value| record("iam_caller(@)", &context);
    for event in [&rest as &dyn Fn(&str, Option<&str>) -> Value, &http] {
        let ann = of(event(&pool, Some("eu-central-1:ann")));
        assert!(ann.is_some());
        assert_ne!(ann, of(event(&pool, Some("eu-central-1:bob"))));
        assert_eq!(of(event(&pool, None)), None);
        let pod = of(event(&role("pod-1"), None));
        assert!(pod.is_some());
        assert_eq!(pod, of(event(&role("pod-2"), None)));
        let other = role("pod-1").replace("123456789012", "210987654321");
        assert_ne!(pod, of(event(&other, None)));
    }
    // A client is the same caller through an HTTP API and a REST API.
    assert_eq!(of(rest(&role("a"), None)), of(http(&role("b"), None)));
}

#[test]
fn another_client_cannot_have_the_value_of_a_recommended_caller() {
    let certificate = |issuer: &str, subject: &str, serial: &str| json!({"issuerDN": issuer, "subjectDN": subject, "serialNumber": serial});
    let jwt = |claims: Value| json!({"authorizer": {"jwt": {"claims": claims}}});
    let cognito = |claims: Value| json!({"authorizer": {"claims": claims}});
    let mutual = |of: Value| json!({"authentication": {"clientCert": of}});
    let mutual_rest = |of: Value| json!({"identity": {"clientCert": of}});
    // The caller, a client, the same client later, and another client: `None` is a request that is refused.
    let (ours, theirs) = ("https://login.shop", "https://login.partner");
    let cases: [(&str, Value, Value, &[Value]); 6] = [
        (
            "requestContext.authorizer.jwt.claims.[iss, sub]",
            jwt(json!({"iss": ours, "sub": "1", "exp": "1"})),
            jwt(json!({"iss": ours, "sub": "1", "exp": "2"})),
            &[
                jwt(json!({"iss": ours, "sub": "2"})),
                jwt(json!({"iss": theirs, "sub": "1"})),
            ],
        ),
        (
            "requestContext.authorizer.claims.[iss, sub]",
            cognito(json!({"iss": ours, "sub": "1", "auth_time": "1"})),
            cognito(json!({"iss": ours, "sub": "1", "auth_time": "2"})),
            &[cognito(json!({"iss": theirs, "sub": "1"}))],
        ),
        (
            "requestContext.authentication.clientCert.[issuerDN, subjectDN]",
            mutual(certificate("CN=ours", "CN=till-1", "1")),
            mutual(certificate("CN=ours", "CN=till-1", "2")),
            &[
                mutual(certificate("CN=ours", "CN=till-2", "1")),
                mutual(certificate("CN=theirs", "CN=till-1", "1")),
            ],
        ),
        (
            "requestContext.identity.clientCert.[issuerDN, subjectDN]",
            mutual_rest(certificate("CN=ours", "CN=till-1", "1")),
            mutual_rest(certificate("CN=ours", "CN=till-1", "2")),
            &[mutual_rest(certificate("CN=theirs", "CN=till-1", "1"))],
        ),
        (
            "[requestContext.identity.apiKeyId, requestContext.authorizer.user]",
            json!({"identity": {"apiKeyId": "app"}, "authorizer": {"user": "1"}}),
            json!({"identity": {"apiKeyId": "app", "sourceIp": "::1"}, "authorizer": {"user": "1"}}),
            &[json!({"identity": {"apiKeyId": "app"}, "authorizer": {"user": "2"}})],
        ),
        (
            "requestContext.authorizer.lambda.[tenant, user]",
            json!({"authorizer": {"lambda": {"tenant": "a", "user": "1"}}}),
            json!({"authorizer": {"lambda": {"tenant": "a", "user": "1", "at": 2}}}),
            &[json!({"authorizer": {"lambda": {"tenant": "b", "user": "1"}}})],
        ),
    ];
    for (caller, client, later, others) in cases {
        let own = record(caller, &client);
        assert!(own.is_some(), "{caller}");
        assert_eq!(own, record(caller, &later), "{caller}");
        for other in others {
            assert_ne!(own, record(caller, other), "{caller} {other}");
        }
        assert_eq!(record(caller, &json!({})), None, "{caller}");
    }
    // A part that is missing does not make the other part the caller.
    for claims in [
        json!({"sub": "1"}),
        json!({"iss": ours}),
        json!({"iss": ours, "sub": ""}),
    ] {
        let caller = "requestContext.authorizer.jwt.claims.[iss, sub]";
        assert_eq!(record(caller, &jwt(claims)), None);
    }
}

#[tokio::test]
async fn a_request_without_a_caller_is_refused_before_its_body_is_read() {
    for builder in [
        builder().caller_header("x-user-id"),
        builder().caller("header(@, 'x-user-id')"),
        builder().caller("iam_caller(@)"),
        builder()
            .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
            .key("powertools_json(body).id"),
        builder().caller_from(|_| None).fingerprint("body"),
    ] {
        let operation = builder.build().unwrap();
        let (service, runs) = serve(operation.layer(backend()), |_| text(200, "paid"));
        let reads = Runs::default();
        let counted = reads.clone();
        let chunks = futures_util::stream::repeat_with(move || {
            counted.add();
            Ok::<_, std::convert::Infallible>("x".repeat(64 * 1024))
        });
        let request = Request::post("/payments").header("idempotency-key", "k-1");
        let request = request.body(Body::from_stream(chunks)).unwrap();
        let response = send(&service, request).await;
        assert_eq!(problem(&response), "urn:idempotency:caller-unknown");
        assert_eq!((reads.count(), runs.count()), (0, 0), "{operation:?}");
    }
}
