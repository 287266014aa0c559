use http::Request;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;

use super::*;
use crate::HttpOperationBuilder;

fn builder() -> HttpOperationBuilder {
    HttpOperation::builder("shop::pay").variables(Variables::default())
}

#[test]
fn the_key_is_the_list_of_the_caller_and_the_key() {
    let request = Request::post("/")
        .header("idempotency-key", "\"k-1\"")
        .header("x-user-id", "u-1");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let request = ReceivedRequest::new(&parts, b"");
    let scoped = builder().caller_header("x-user-id").build().unwrap();
    let shared = builder().shared_by_all_callers().build().unwrap();
    let hash = |text: &str| idempotency_core::key::HashAlgorithm::Md5.hex(text);
    for (operation, text) in [(&scoped, r#"["u-1", "k-1"]"#), (&shared, r#""k-1""#)] {
        let identity = operation.identity(&request, None).unwrap();
        let id = format!("local.shop.pay#{}", hash(text));
        assert_eq!(identity.key().unwrap().as_str(), id);
    }
    let tenant = scoped.identity(&request, Some("acme")).unwrap();
    assert_ne!(tenant.key(), scoped.identity(&request, None).unwrap().key());
}

#[test]
fn a_quote_in_a_caller_cannot_become_another_key() {
    let identity = |caller: &str, key: &str| {
        let request = Request::post("/")
            .header("idempotency-key", key)
            .header("x-user-id", caller);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let operation = builder().caller_header("x-user-id").build().unwrap();
        operation
            .identity(&ReceivedRequest::new(&parts, b""), None)
            .unwrap()
    };
    let honest = identity("u-1", "k-1");
    for caller in [
        r#"u-2","idempotency_key":"k-1","caller":"u-1"#,
        r#"u-1"]"#,
        r#"u-1\"#,
        "u-1, ",
        "u-1,u-1",
    ] {
        assert_ne!(identity(caller, "k-1").key(), honest.key(), "{caller}");
    }
}

#[test]
fn a_key_beyond_the_limit_of_memory_is_refused() {
    let with_key = |key: &'static str| builder().shared_by_all_callers().key(key).build().unwrap();
    let operation = with_key("powertools_json(body)");
    let (parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    let large = format!(r#"{{"id": 1, "list": [{}0]}}"#, "0,".repeat(4_000_000));
    let refused = operation.identity(&ReceivedRequest::new(&parts, large.as_bytes()), None);
    let problem = refused.unwrap_err();
    assert_eq!(problem.reason(), Reason::RequestUnreadable);
    assert!(
        problem.error().to_string().contains("more than 64 MiB"),
        "{}",
        problem.error()
    );
    let small = ReceivedRequest::new(&parts, br#"{"id": 1}"#);
    assert!(operation.identity(&small, None).is_ok());
    // What the expression does not look at takes no memory.
    let part = with_key("powertools_json(body).id");
    let large = ReceivedRequest::new(&parts, large.as_bytes());
    assert!(part.identity(&large, None).is_ok());
}

#[test]
fn a_key_that_lacks_a_part_is_missing() {
    let operation = builder()
        .shared_by_all_callers()
        .key("[header(@, 'x-order'), header(@, 'x-item')]")
        .build()
        .unwrap();
    let missing = |request: http::request::Builder| {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let refused = operation.identity(&ReceivedRequest::new(&parts, b""), None);
        refused.err().map(|problem| problem.reason())
    };
    let order = || Request::post("/").header("x-order", "7");
    assert_eq!(missing(order()), Some(Reason::KeyMissing));
    assert_eq!(missing(Request::post("/")), Some(Reason::KeyMissing));
    assert_eq!(missing(order().header("x-item", "a")), None);
}

#[test]
fn an_expression_that_fails_is_a_request_that_cannot_be_read() {
    let operation = builder()
        .shared_by_all_callers()
        .key("powertools_json(body).id")
        .build()
        .unwrap();
    let (parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    let refused = operation.identity(&ReceivedRequest::new(&parts, b"secret {"), None);
    let problem = refused.unwrap_err();
    assert_eq!(problem.reason(), Reason::RequestUnreadable);
    assert!(!format!("{problem:?}").contains("secret"));
}

#[test]
fn a_ready_made_event_takes_the_place_of_the_request() {
    let operation = builder()
        .caller("requestContext.accountId")
        .key("header(@, 'Order')")
        .fingerprint("body")
        .build()
        .unwrap();
    let (parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    let event = r#"{"headers":{"ORDER":"7"},"requestContext":{"accountId":"a-1"},"body":"x"}"#;
    let event = operation.event_of_text(event);
    let request = ReceivedRequest::new(&parts, b"").with_event(&event);
    let identity = operation.identity(&request, None).unwrap();
    let hash = |text: &str| idempotency_core::key::HashAlgorithm::Md5.hex(text);
    let id = format!("local.shop.pay#{}", hash(r#"["a-1", "7"]"#));
    assert_eq!(identity.key().unwrap().as_str(), id);
    assert_eq!(
        identity.validation(),
        Some(hash(r#"["POST", "/", "x"]"#).as_str())
    );
}

#[test]
fn an_event_that_another_operation_read_is_refused() {
    let by_account = || {
        builder()
            .caller("requestContext.accountId")
            .build()
            .unwrap()
    };
    let (operation, other) = (by_account(), by_account());
    let (mut parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    let event = other.event(&serde_json::json!({"requestContext": {"accountId": "a-1"}}));
    parts
        .headers
        .insert("idempotency-key", "k-1".parse().unwrap());
    let request = ReceivedRequest::new(&parts, b"{}").with_event(&event);
    assert!(other.identity(&request, None).is_ok());
    let problem = operation.identity(&request, None).unwrap_err();
    assert_eq!(problem.reason(), Reason::RequestUnreadable);
}

#[test]
fn a_function_that_compares_method_path_and_part_has_the_same_fingerprint() {
    let operation = builder()
        .shared_by_all_callers()
        .key_prefix("payments")
        .fingerprint("powertools_json(body).amount");
    let request = Request::post("/pay").header("idempotency-key", "k-1");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let request = ReceivedRequest::new(&parts, br#"{"amount": 1}"#);
    let layer = operation.build().unwrap().identity(&request, None).unwrap();
    let settings = Settings {
        key: Some("header(@, 'idempotency-key')".into()),
        key_prefix: Some("payments".into()),
        validate: Some(
            "[requestContext.http.method, rawPath, powertools_json(body).amount]".into(),
        ),
        ..Settings::new()
    };
    let event = r#"{"rawPath":"/pay","headers":{"idempotency-key":"k-1"},"body":"{\"amount\": 1}",
        "requestContext":{"http":{"method":"POST"}}}"#;
    let plain = CompiledOperation::new("shop::pay", &settings, &Variables::default()).unwrap();
    let plain = plain.identify(event, None).unwrap();
    assert_eq!(layer.key(), plain.key());
    assert_eq!(layer.validation(), plain.validation());
}
