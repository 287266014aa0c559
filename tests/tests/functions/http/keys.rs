//! `#[idempotent(http, ..)]`: the record ids of its keys, a handler with state, added headers, and its methods.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU16, Ordering};

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use aws_lambda_events::http::{HeaderMap, HeaderValue};
use idempotency_core::record::RecordId;
use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_lambda::{BoxError, Call, Context, LambdaEvent, Raw, idempotent};
use idempotency_testkit::events;
use idempotency_tests::Harness;
use serde::de::DeserializeOwned;

use super::functions::SUB;

type Request = LambdaEvent<ApiGatewayV2httpRequest>;
type RawRequest = LambdaEvent<Raw<ApiGatewayV2httpRequest>>;

fn paid() -> ApiGatewayV2httpResponse {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    response
}

#[idempotent(http, caller = SUB, key_prefix = "keys", shared_key_prefix = true)]
async fn typed(_event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(paid())
}

/// Its error type cannot hold an error of ours. With `http` that is allowed.
#[idempotent(http, caller = SUB, key_prefix = "keys", shared_key_prefix = true)]
async fn raw(_event: RawRequest) -> Result<ApiGatewayV2httpResponse, std::fmt::Error> {
    Ok(paid())
}

#[idempotent(
    http,
    shared_by_all_callers,
    key_header = "X-Request-Id",
    key_prefix = "keys",
    shared_key_prefix = true
)]
async fn shared(_event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(paid())
}

#[idempotent(
    key = "[requestContext.authorizer.jwt.claims.sub, header(@, 'Idempotency-Key')]",
    key_prefix = "keys",
    shared_key_prefix = true
)]
async fn plain(_event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(paid())
}

/// What a handler needs besides the event.
#[derive(Default)]
struct App {
    payments: AtomicU16,
}

#[idempotent(http, shared_by_all_callers, key_prefix = "keys.state")]
async fn with_state(app: &App, event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = paid();
    let before = app.payments.fetch_add(1, Ordering::Relaxed);
    response.body = Some(format!("payment {} of {}", before + 1, event.context.request_id).into());
    Ok(response)
}

/// Returns the CORS header that allows the origin of the request.
fn cors(request: &HeaderMap) -> HeaderMap {
    let origin = request.get("origin").cloned();
    let headers = origin.map(|origin| (ACCESS_CONTROL_ALLOW_ORIGIN, origin));
    headers.into_iter().collect()
}

#[idempotent(
    http,
    caller = SUB,
    key_prefix = "keys.cors",
    add_headers = cors,
    stored_headers = "x-receipt",
    on_unstorable = "refuse",
    fingerprint_also = "header(@, 'x-account')"
)]
async fn with_cors(event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = paid();
    response.headers = cors(&event.payload.headers);
    response
        .headers
        .insert("x-receipt", HeaderValue::from_static("17"));
    if event.payload.raw_path.as_deref() == Some("/large") {
        response.body = Some("x".repeat(1024 * 1024 + 1).into());
    }
    Ok(response)
}

#[idempotent(
    http,
    shared_by_all_callers,
    methods = "PUT, DELETE",
    key_prefix = "keys.put"
)]
async fn put(_event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(paid())
}

/// Ignores that its write is refused, if it stages one.
#[idempotent(http, shared_by_all_callers, key_prefix = "keys.staged")]
async fn staged(event: Request, call: Call) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = paid();
    let path = event.payload.raw_path.unwrap_or_default();
    if let Some(status) = path.strip_prefix("/staged/") {
        response.status_code = status.parse()?;
        let add = |writes: &mut MemoryWrites| {
            writes.push(LedgerEntry::add("shop", 5));
            Ok::<_, Infallible>(())
        };
        let _ = call.stage(add);
    }
    Ok(response)
}

#[idempotent(
    http,
    shared_by_all_callers,
    key_per_path = true,
    fingerprint_rfc8785 = "/context, /ext/token",
    key_prefix = "keys.agents"
)]
async fn for_agents(_event: Request) -> Result<ApiGatewayV2httpResponse, BoxError> {
    Ok(paid())
}

/// Returns an event of the program's type for a request with key `k-1`.
fn with_key<T: DeserializeOwned>(event: &events::AwsEvent) -> LambdaEvent<T> {
    let event = event.clone().header("Idempotency-Key", "k-1");
    LambdaEvent::new(event.parse().unwrap(), Context::default())
}

fn payment<T: DeserializeOwned>() -> LambdaEvent<T> {
    let event = events::api_gateway_v2("POST", "/payments");
    with_key(&event.header("X-Request-Id", "k-1").claim("sub", "u-1"))
}

/// Returns the ids of the records that were claimed while a future ran.
async fn claimed<T, E: std::fmt::Debug>(
    future: impl Future<Output = Result<T, E>>,
) -> Vec<RecordId> {
    let harness = Harness::default();
    harness.within(future).await.unwrap();
    harness.puts().into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn a_plain_function_with_caller_and_header_as_its_key_has_the_same_record() {
    let typed = claimed(typed(payment())).await;
    assert_eq!(typed.len(), 1);
    assert_eq!(typed, claimed(raw(payment())).await);
    assert_eq!(typed, claimed(plain(payment())).await);
}

#[tokio::test]
async fn without_a_caller_the_key_alone_is_hashed() {
    let digest = idempotency_lambda::HashAlgorithm::Md5.hex("\"k-1\"");
    let id = RecordId::new(format!("keys#{digest}"));
    assert_eq!(claimed(shared(payment())).await, [id]);
}

#[tokio::test]
async fn a_handler_with_state_runs_once_for_a_key() {
    let (harness, app) = (Harness::default(), App::default());
    for _ in 0..2 {
        let call = with_state(&app, payment());
        let response = harness.within(call).await.unwrap();
        assert_eq!(response.body, Some("payment 1 of ".to_owned().into()));
    }
    assert_eq!(app.payments.into_inner(), 1);
}

#[tokio::test]
async fn headers_that_the_function_adds_are_in_replays_and_refusals_too() {
    let harness = Harness::default();
    for (path, user, account, origin, status) in [
        ("/pay", Some("u-1"), "a", "https://shop.example", 200),
        ("/pay", Some("u-1"), "a", "https://shop.example", 200),
        ("/pay", Some("u-1"), "a", "https://admin.example", 200),
        ("/pay", Some("u-1"), "b", "https://shop.example", 422),
        ("/pay", None, "a", "https://shop.example", 403),
        ("/large", Some("u-2"), "a", "https://shop.example", 500),
        ("/large", Some("u-2"), "a", "https://shop.example", 500),
    ] {
        let event = events::api_gateway_v2("POST", path);
        let event = event.header("Origin", origin).header("X-Account", account);
        let event = match user {
            Some(user) => event.claim("sub", user),
            None => event,
        };
        let call = harness.within(with_cors(with_key(&event)));
        let response = call.await.unwrap();
        assert_eq!(response.status_code, status, "{path} {user:?} {account}");
        assert_eq!(
            response.headers[ACCESS_CONTROL_ALLOW_ORIGIN], origin,
            "{status}"
        );
        assert_eq!(response.headers.contains_key("x-receipt"), status == 200);
    }
}

#[tokio::test]
async fn an_attribute_names_the_methods_that_are_protected() {
    for (method, claims) in [("PUT", 1), ("DELETE", 1), ("POST", 0)] {
        let event = with_key(&events::api_gateway_v2(method, "/payments"));
        assert_eq!(claimed(put(event)).await.len(), claims, "{method}");
    }
}

#[tokio::test]
async fn a_refused_write_is_no_success_of_a_method_that_is_not_protected() {
    for (method, path, status) in [
        ("PUT", "/staged/200", 500),
        ("PUT", "/staged/404", 500),
        ("PUT", "/staged/503", 503),
        ("PUT", "/staged/429", 429),
        ("PUT", "/none", 200),
        ("POST", "/staged/200", 200),
    ] {
        let harness = Harness::default();
        let event = with_key(&events::api_gateway_v2(method, path));
        let response = harness.within(staged(event)).await.unwrap();
        assert_eq!(response.status_code, status, "{method} {path}");
        let is_ours = response.headers.contains_key(CONTENT_TYPE);
        assert_eq!(is_ours, status == 500, "{method} {path}");
    }
}

#[tokio::test]
async fn an_attribute_gives_each_path_its_keys_and_compares_bodies_by_value_without_some_members() {
    let harness = Harness::default();
    for (path, body, status, records) in [
        (
            "/a",
            r#"{"n": 1, "context": 1, "ext": {"token": 1}}"#,
            200,
            1,
        ),
        ("/a", r#"{"ext": {"token": 2}, "n": 1.0}"#, 200, 1),
        ("/a", r#"{"n": 1, "context": 1, "ext": {}}"#, 200, 1),
        ("/a", r#"{"n": 1}"#, 422, 1),
        ("/a", r#"{"n": 2, "ext": {"token": 1}}"#, 422, 1),
        ("/b", r#"{"n": 2, "ext": {"token": 1}}"#, 200, 2),
        ("/b", r#"{"n": 2, "ext": {}}"#, 200, 2),
    ] {
        let event = events::api_gateway_v2("POST", path).body(body);
        let event = event.header("Content-Type", "application/json");
        let call = harness.within(for_agents(with_key(&event)));
        assert_eq!(call.await.unwrap().status_code, status, "{path} {body}");
        let ids: BTreeSet<_> = harness.puts().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), records, "{path} {body}");
    }
}
