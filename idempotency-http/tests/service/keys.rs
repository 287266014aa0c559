//! The key and the fingerprint, as a client meets them.
//!
//! The caller: a key belongs to one client.

use axum::body::Body;
use http::request::{Builder, Parts};
use http::{Method, Request};
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::record::RecordId;
use idempotency_http::{HttpOperation, ReceivedRequest};
use serde_json::{Value, json};

use crate::*;

fn with_keys(values: &[&[u8]]) -> Request<Body> {
    let head = values.iter().fold(without_key(), |head, value| {
        head.header("idempotency-key", *value)
    });
    of(head, "{}")
}

#[tokio::test]
async fn a_request_without_a_key_or_with_a_wrong_one_is_refused_before_the_handler() {
    let (service, runs) = count(operation().layer(backend()));
    let long = [b'k'; 256];
    for (values, expected) in [
        (&[][..], "400 key-missing"),
        (&[&b""[..]], "400 key-malformed"),
        (&[b"\"\""], "400 key-malformed"),
        (&[&long], "400 key-malformed"),
        (&[b"a", b"b"], "400 key-malformed"),
        (&[b"a, b"], "400 key-malformed"),
        (&[b"\"a\", \"b\""], "400 key-malformed"),
        (&[b"\xc3\xa9"], "400 key-malformed"),
        (&[b"\"open"], "400 key-malformed"),
    ] {
        let response = send(&service, with_keys(values)).await;
        assert_eq!(seen(&response), expected, "{values:?}");
        assert!(text_of(&response).contains("`idempotency-key`"));
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn the_quoted_and_the_bare_form_of_a_key_are_one_key() {
    let (service, _) = count(operation().layer(backend()));
    let forms = [with_keys(&[b"\"k-1\""]), with_keys(&[b"k-1"])];
    let expected = ["200 1", "200 1, replayed"];
    assert_eq!(answers(&service, forms).await, expected);
}

fn patch(head: Builder) -> Builder {
    head.method(Method::PATCH)
}

/// Sends the first request and its duplicate. Each other request has the same key, and is refused.
async fn compares(
    operation: HttpOperation,
    first: Request<Body>,
    duplicate: Request<Body>,
    others: impl IntoIterator<Item = Request<Body>>,
) {
    let (service, runs) = count(operation.layer(backend()));
    let same = answers(&service, [first, duplicate]).await;
    assert_eq!(same, ["200 1", "200 1, replayed"]);
    for other in others {
        let shown = format!("{other:?}");
        let answer = answer(&service, other).await;
        assert_eq!(answer, "422 key-reused", "{shown}");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused_with_422() {
    let json = |uri: &str| post().uri(uri).header("content-type", "application/json");
    let pay = || json("/payments?a=1");
    let body = r#"{"amount":1,"to":"x"}"#;
    compares(
        operation(),
        of(pay(), body),
        // White space and the order of members do not matter.
        of(pay(), r#"{ "to": "x", "amount": 1 }"#),
        [
            of(pay(), r#"{"amount":2,"to":"x"}"#),
            of(json("/payments?a=2"), body),
            of(json("/refunds?a=1"), body),
            of(patch(pay()), body),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_own_fingerprint_replaces_query_and_body_and_never_method_and_path() {
    let to = |uri: &str| post().uri(uri);
    compares(
        with(|builder| builder.fingerprint("powertools_json(body).amount")),
        of(to("/a?t=1"), r#"{"amount":1,"note":"x"}"#),
        of(to("/a?t=2"), r#"{"amount":1,"note":"y"}"#),
        [
            of(to("/a"), r#"{"amount":2}"#),
            of(to("/b"), r#"{"amount":1}"#),
            of(patch(to("/a")), r#"{"amount":1}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_part_can_be_added_to_the_fingerprint() {
    let to = |uri: &str, account: &str| {
        let head = post().uri(uri).header("host", "pay.example");
        head.header("x-account", account)
    };
    compares(
        with(|builder| builder.fingerprint_also("[header(@, 'host'), header(@, 'x-account')]")),
        of(to("/a", "1"), "{}"),
        of(to("/a", "1"), "{}"),
        [
            of(to("/a", "2"), "{}"),
            of(to("/a", ""), "{}"),
            of(to("/b", "1"), "{}"),
            of(to("/a?b=1", "1"), "{}"),
            of(to("/a", "1"), "{ }"),
        ],
    )
    .await;
}

#[tokio::test]
async fn without_a_fingerprint_the_key_alone_decides() {
    let operation = with(|builder| builder.without_fingerprint());
    let other = of(patch(post().uri("/refunds?a=1")), "other");
    compares(operation, request(), other, []).await;
}

#[tokio::test]
async fn a_key_that_is_not_required_may_be_missing_but_not_wrong() {
    let anonymous = || of(Request::post("/payments"), "{}");
    let (service, _) = count(with(|builder| builder.key_required(false)).layer(backend()));
    let requests = [
        with_keys(&[]),
        with_keys(&[]),
        anonymous(),
        with_keys(&[b"a,b"]),
        with_keys(&[b"k-1"]),
        with_keys(&[b"k-1"]),
    ];
    let expected = [
        "200 1",
        "200 2",
        "200 3",
        "400 key-malformed",
        "200 4",
        "200 4, replayed",
    ];
    assert_eq!(answers(&service, requests).await, expected);
    // Also where only the body shows that there is no key.
    let in_body = with(|builder| {
        let builder = builder.key("powertools_json(body).id");
        builder.key_required(false)
    });
    let (service, _) = count(in_body.layer(backend()));
    assert_eq!(answer(&service, anonymous()).await, "200 1");
}

#[tokio::test]
async fn another_header_and_an_expression_are_keys_too() {
    for operation in [
        with(|builder| builder.key_header("x-request")),
        with(|builder| builder.key("header(@, 'X-Request')")),
        with(|builder| builder.key("powertools_json(body).id")),
    ] {
        let (service, _) = count(operation.layer(backend()));
        let request = || of(without_key().header("x-request", "r-1"), r#"{"id":"r-1"}"#);
        let requests = [request(), request(), of(without_key(), "{}")];
        let expected = ["200 1", "200 1, replayed", "400 key-missing"];
        let answers = answers(&service, requests).await;
        assert_eq!(answers, expected, "{operation:?}");
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
    let identity = operation.identify(event, None).unwrap();
    identity.key().unwrap().clone()
}

#[tokio::test]
async fn the_layer_and_an_attribute_with_the_same_parts_have_one_record() {
    let claims = r#"{"authorizer":{"jwt":{"claims":{"sub":"u-1"}}}}"#;
    let event = format!(
        r#"{{"headers":{{"Idempotency-Key":"k-1"}},"requestContext":{claims},"body":"{{}}"}}"#
    );
    let context = || serde_json::from_str(claims).ok();
    let head = Request::post("/").header("idempotency-key", "k-1");
    let (parts, _) = of(head, "").into_parts();
    let received = ReceivedRequest::new(&parts, b"{}").with_request_context(&context);
    let builder = || builder().key_prefix("payments");
    let sub = "requestContext.authorizer.jwt.claims.sub";
    let in_header = "[requestContext.authorizer.jwt.claims.sub, header(@, 'Idempotency-Key')]";
    for (operation, key) in [
        (builder().caller(sub), in_header),
        (builder().caller_from(|_| Some("u-1".to_owned())), in_header),
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
        let operation = built(operation);
        let call = operation.call(Ok(place(backend())), &received);
        assert_eq!(call.key(), Some(&of_attribute(key, &event)), "{key}");
    }
}

/// A request of a client, with a key and a body that are the same for every client.
fn of_client(client: &str) -> Request<Body> {
    let head = Request::post("/payments").header("idempotency-key", "\"k-1\"");
    of(head.header("x-user-id", client), "{}")
}

/// Without the caller in the key, one client reads the response of another: this is the attack.
#[tokio::test]
async fn each_client_has_its_own_response_unless_all_callers_share_their_keys() {
    for (builder, of_b) in [
        (builder().shared_by_all_callers(), "200 1, replayed"),
        (builder().caller_header("x-user-id"), "200 2"),
        (builder().caller("header(@, 'x-user-id')"), "200 2"),
        (
            builder().caller_from(|parts| {
                let value = parts.headers.get("x-user-id")?;
                value.to_str().ok().map(str::to_owned)
            }),
            "200 2",
        ),
    ] {
        let operation = built(builder);
        let (service, _) = count(operation.layer(backend()));
        let requests = [of_client("a"), of_client("b")];
        let answers = answers(&service, requests).await;
        assert_eq!(answers, ["200 1", of_b], "{operation:?}");
    }
}

#[tokio::test]
async fn a_request_of_an_unknown_caller_is_refused_before_its_body_is_read() {
    for builder in [
        builder().caller_header("x-user-id"),
        builder().caller("header(@, 'x-user-id')"),
        builder().caller("[requestContext.http.method, header(@, 'x-user-id')]"),
        builder().caller("requestContext.authorizer.jwt.claims.sub"),
        builder().caller("iam_caller(@)"),
        builder()
            .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
            .key("powertools_json(body).id"),
        builder().caller_from(|_| None),
        builder().caller_from(|_| None).fingerprint("body"),
        builder().caller_from(|_| Some(String::new())),
    ] {
        let operation = built(builder);
        let (service, runs) = count(operation.layer(backend()));
        let reads = Runs::default();
        let counted = reads.clone();
        let chunks = futures_util::stream::repeat_with(move || {
            counted.add();
            Ok::<_, Infallible>("x".repeat(64 * 1024))
        });
        let head = Request::post("/payments").header("idempotency-key", "k-1");
        let answer = answer(&service, of(head, Body::from_stream(chunks))).await;
        assert_eq!(answer, "403 caller-unknown", "{operation:?}");
        assert_eq!((reads.count(), runs.count()), (0, 0), "{operation:?}");
    }
}

#[tokio::test]
async fn a_caller_header_that_is_empty_or_repeated_names_no_caller() {
    let (service, runs) = count(operation().layer(backend()));
    for values in [&[""][..], &["  "], &["u-1", "u-2"], &["u-1", "u-1"]] {
        let head = Request::post("/payments").header("idempotency-key", "k-1");
        let with_callers = |head: Builder, value: &&str| head.header("x-user-id", *value);
        let request = of(values.iter().fold(head, with_callers), "{}");
        let answer = answer(&service, request).await;
        assert_eq!(answer, "403 caller-unknown", "{values:?}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_caller_in_an_extension_is_found() {
    #[derive(Clone)]
    struct User(&'static str);

    let caller = |parts: &Parts| Some(parts.extensions.get::<User>()?.0.to_owned());
    let (service, _) = count(built(builder().caller_from(caller)).layer(backend()));
    let by = |user| {
        let mut request = of_client("the header is not read");
        request.extensions_mut().insert(User(user));
        request
    };
    let answers = answers(&service, [by("a"), by("b"), by("a")]).await;
    assert_eq!(answers, ["200 1", "200 2", "200 1, replayed"]);
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
