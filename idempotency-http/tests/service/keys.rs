//! The caller: a key belongs to one client. The record of a request is that of an attribute with the same parts.

use axum::body::Body;
use http::Request;
use http::request::Parts;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::record::RecordId;
use idempotency_http::ReceivedRequest;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::*;

#[tokio::test]
async fn two_operations_with_one_prefix_and_other_rules_do_not_replay_each_other() {
    let (one, another) = (backend(), backend());
    let app =
        |operation: HttpOperation, backend: &Backend| count(operation.layer(backend.clone())).0;
    let first = app(with(|builder| builder.without_fingerprint()), &one);
    let by_account = || builder().caller_header("x-account").without_fingerprint();
    let to_other = || of(post().header("x-account", "u-1"), "{}");
    assert_eq!(answer(&first, request()).await, "200 1");
    let other = app(built(by_account()), &one);
    assert_eq!(answer(&other, to_other()).await, "500 misconfigured");
    // The same rules, a prefix of its own, and another backend.
    let same = app(with(|builder| builder.without_fingerprint()), &one);
    assert_eq!(answer(&same, request()).await, "200 1, replayed");
    for other in [
        app(built(by_account().key_prefix("refunds")), &one),
        app(built(by_account()), &another),
    ] {
        assert_eq!(answer(&other, to_other()).await, "200 1");
    }
}

#[tokio::test]
async fn two_operations_with_a_copied_prefix_replay_each_other_only_if_both_allow_it() {
    let backend = backend();
    for (shares, other) in [(false, "500 misconfigured"), (true, "200 1, replayed")] {
        let app = |path: &str| {
            let settings = Settings {
                key_prefix: Some(format!("shared-{shares}").into()),
                shared_key_prefix: Some(shares),
                ..Settings::new()
            };
            let builder = HttpOperation::builder(path).variables(Variables::default());
            let builder = builder.settings(settings).caller_header("x-user-id");
            count(built(builder.without_fingerprint()).layer(backend.clone())).0
        };
        assert_eq!(answer(&app("shop::payments"), request()).await, "200 1");
        assert_eq!(answer(&app("shop::refunds"), request()).await, other);
        // The same one, built again.
        let again = answer(&app("shop::payments"), request()).await;
        assert_eq!(again, "200 1, replayed");
    }
}

#[test]
fn the_layer_and_an_attribute_with_the_same_parts_have_one_record_and_one_fingerprint() {
    let context = r#"{"authorizer":{"jwt":{"claims":{"sub":"u-1"}}},"http":{"method":"POST"}}"#;
    let body = r#"{"amount": 1}"#;
    let event = format!(
        r#"{{"headers":{{"Idempotency-Key":"k-1"}},"rawPath":"/pay","requestContext":{context},"body":{}}}"#,
        json!(body)
    );
    let context = || serde_json::from_str(context).ok();
    let head = Request::post("/pay").header("idempotency-key", "k-1");
    let (parts, _) = of(head, "").into_parts();
    let received = ReceivedRequest::new(&parts, body.as_bytes()).with_request_context(&context);
    let builder = || builder().key_prefix("payments");
    let sub = "requestContext.authorizer.jwt.claims.sub";
    let in_header = "[requestContext.authorizer.jwt.claims.sub, header(@, 'Idempotency-Key')]";
    let in_body =
        "[requestContext.authorizer.jwt.claims.sub, [header(@, 'Idempotency-Key'), body]]";
    let with_body = builder()
        .caller(sub)
        .key("[header(@, 'idempotency-key'), body]");
    let by_function = builder().caller_from(|_| Some("u-1".to_owned()));
    let shared = builder().shared_by_all_callers();
    for (builder, key) in [
        (builder().caller(sub), in_header),
        (by_function, in_header),
        (with_body, in_body),
        (shared, "header(@, 'Idempotency-Key')"),
    ] {
        let part = "powertools_json(body).amount";
        let layer = built(builder.fingerprint(part));
        let layer = layer.identity(&received, None).unwrap();
        let settings = Settings {
            key: Some(key.into()),
            key_prefix: Some("payments".into()),
            validate: Some(format!("[requestContext.http.method, rawPath, {part}]").into()),
            ..Settings::new()
        };
        let attribute = CompiledOperation::new("shop::pay", &settings, &Variables::default());
        let attribute = attribute.unwrap().identify(&event, None).unwrap();
        assert!(layer.key().is_some() && layer.validation().is_some());
        assert_eq!(layer.key(), attribute.key(), "{key}");
        assert_eq!(layer.validation(), attribute.validation(), "{key}");
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

/// Returns the records of a request with this user in a header, by each rule that can take it from there; `None` if it is refused.
fn records_of_user(user: &[u8]) -> [Option<RecordId>; 4] {
    let of_parts = |parts: &Parts| {
        let user = parts.headers.get("x-user-id")?.as_bytes().to_vec();
        String::from_utf8(user).ok()
    };
    [
        builder().caller_header("x-user-id"),
        builder().caller("header(@, 'X-User-Id')"),
        builder().caller("headers.\"x-user-id\""),
        builder().caller_from(of_parts),
    ]
    .map(|rules| {
        let request = Request::post("/payments").header("idempotency-key", "k-1");
        let (parts, _) = of(request.header("x-user-id", user), "").into_parts();
        let identity = built(rules).identity(&ReceivedRequest::new(&parts, b"{}"), None);
        identity.ok()?.key().cloned()
    })
}

#[test]
fn a_header_without_a_value_that_can_be_read_is_no_caller() {
    for user in [&b""[..], b" ", b"\t ", b",", b" , ", b"\xff", b"bob\xa0"] {
        let [by_header, by_function, ..] = records_of_user(user);
        assert_eq!((by_header, by_function), (None, None), "{user:?}");
    }
}

proptest! {
    #[test]
    fn two_users_never_become_one_and_one_user_is_one_by_each_rule(
        user in "[a-c]{1,2}",
        before in "[ \t\u{a0}\u{85}\u{3000}\u{2003}\u{2028}\u{feff},]{0,1}",
        after in "[ \t\u{a0}\u{85}\u{3000}\u{2003}\u{2028}\u{feff},]{0,2}",
        other in "[a-cA-C \u{a0},]{1,3}",
    ) {
        let blanks = format!("{before}{user}{after}");
        let records = [&user, &blanks, &other].map(|user| (user, records_of_user(user.as_bytes())));
        for (user, [first, rest @ ..]) in &records {
            prop_assert!(first.is_some() || user.trim_matches([' ', ',']).is_empty());
            if let Some(record) = first {
                prop_assert!(rest.iter().all(|other| other.as_ref() == Some(record)), "{:?}", user);
            }
        }
        for (one, of_one) in &records {
            for (other, of_other) in &records {
                let is_same = of_one[0].is_some() && of_one[0] == of_other[0];
                prop_assert!(!is_same || one == other, "{:?} {:?}", one, other);
            }
        }
    }
}

/// Returns the record of a request with key `k-1` and this `requestContext`; `None` if the request is refused.
fn record(caller: &str, context: &Value) -> Option<RecordId> {
    let operation = built(builder().caller(caller));
    let request = Request::post("/payments").header("idempotency-key", "k-1");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let key = |request: ReceivedRequest<'_>| {
        let identity = operation.identity(&request, None).ok()?;
        identity.key().cloned()
    };
    let request = ReceivedRequest::new(&parts, b"{}");
    let event = operation.event(&json!({"requestContext": context}));
    let of_event = key(request.with_event(&event));
    let context = || Some(context.clone());
    assert_eq!(key(request.with_request_context(&context)), of_event);
    of_event
}

#[tokio::test]
async fn a_repeated_header_is_no_caller_in_each_form_that_takes_it_from_the_request() {
    for builder in [
        builder().caller_header("X-User-Id"),
        builder().caller("header(@, 'X-User-Id')"),
        builder().caller("headers.\"x-user-id\""),
        builder().caller("[header(@, 'x-tenant'), header(@, 'x-user-id')]"),
    ] {
        let (service, runs) = count(built(builder).layer(backend()));
        let head = || {
            let head = Request::post("/payments").header("idempotency-key", "k-1");
            head.header("x-tenant", "t-1").header("x-user-id", "u-1")
        };
        // A proxy that adds its header, and leaves the client's.
        for second in ["u-2", "u-1", ""] {
            let answer = answer(&service, of(head().header("x-user-id", second), "")).await;
            assert_eq!((&*answer, runs.count()), ("403 caller-unknown", 0));
        }
        let other = head().header("x-other", "1").header("x-other", "2");
        answer(&service, of(other, "")).await;
        assert_eq!(runs.count(), 1);
    }
}

#[test]
fn what_clients_share_or_what_changes_in_a_retry_is_refused_as_a_caller() {
    for (caller, why) in [
        ("requestContext.accountId", "is the same for all clients"),
        ("to_string(@)", "holds all that the client sent"),
        ("requestContext.requestId", "is new with each request"),
        ("header(@, 'cookie')", "changes while a client retries"),
        (
            "join('|', requestContext.authorizer.lambda.[a, b])",
            "`join` makes one text",
        ),
    ] {
        let error = builder().caller(caller).build().unwrap_err().to_string();
        assert!(error.contains(" is wrong: `caller`: "), "{error}");
        assert!(error.contains(why), "{error}");
    }
    for name in ["Cookie", "x-forwarded-for", "host", "X-Amzn-Trace-Id"] {
        let error = builder().caller_header(name).build().unwrap_err();
        let error = error.to_string();
        let start = format!("`caller_header`: `headers.{}` ", name.to_lowercase());
        assert!(error.contains(&start), "{error}");
    }
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

/// A recommended caller, and the `requestContext` of requests.
#[derive(Deserialize)]
struct Recommended {
    caller: String,
    client: Value,
    /// The context of the same client, later or through another API.
    same: Vec<Value>,
    others: Vec<Value>,
    /// A part of the caller is missing. The other part must not become the caller.
    #[serde(default)]
    refused: Vec<Value>,
}

#[test]
fn another_client_cannot_have_the_value_of_a_recommended_caller() {
    let rows = include_str!("callers.json");
    let rows: Vec<Recommended> = serde_json::from_str(rows).unwrap();
    for row in rows {
        let record = |context| record(&row.caller, context);
        let own = record(&row.client);
        assert!(own.is_some(), "{}", row.client);
        for same in &row.same {
            assert_eq!(record(same), own, "{same}");
        }
        for other in &row.others {
            let other_record = record(other);
            assert!(other_record.is_some() && other_record != own, "{other}");
        }
        for refused in row.refused.iter().chain([&json!({})]) {
            assert_eq!(record(refused), None, "{} {refused}", row.caller);
        }
    }
}
