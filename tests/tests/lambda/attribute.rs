//! Annotated functions: deadlines, hooks, stores, and which responses are stored.
//!
//! The function `header` on events of API Gateway (payload formats 1.0 and 2.0), load balancers and function URLs: the raw
//! events, and the events that `aws_lambda_events` writes.

use std::sync::Arc;

use aws_lambda_events::event::alb::AlbTargetGroupRequest;
use aws_lambda_events::event::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::event::lambda_function_urls::LambdaFunctionUrlRequest;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::record::Field;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Context, ErrorKind, KeyRequired, LambdaEvent, Payload, Raw, Replay, idempotent,
};
use idempotency_tests::{Harness, START, keyed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{event, only_record};

#[idempotent(payload = order_id, key_prefix = "reserve")]
async fn reserve(order_id: u32) -> Result<u32, BoxError> {
    Ok(order_id)
}

#[idempotent(key = "order_id", key_prefix = "place")]
async fn place(event: LambdaEvent<Value>) -> Result<u32, BoxError> {
    let (first, second) = tokio::join!(
        reserve(1),
        idempotency_lambda::in_current_invocation(reserve(2))
    );
    Ok(first? + second?)
}

#[tokio::test]
async fn nested_calls_take_the_deadline_of_the_invocation() {
    let harness = Harness::default();
    let three = harness.within(place(event(json!({ "order_id": 1 })))).await;
    assert_eq!(three.unwrap(), 3);
    for (_, record) in harness.puts() {
        let lease = Field::Value(EpochMillis::new(START + 30_000));
        assert_eq!(record.in_progress_expiration, lease);
    }
    assert_eq!(harness.store.inner().len(), 3);
}

fn mark(mut response: Value, replay: &Replay) -> Value {
    response["replayed_until"] = json!(replay.expires_at().map(|end| end.get()));
    response
}

#[idempotent(key = "order_id", on_replay = mark, store_when = "paid")]
async fn with_hook(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["paid"] }))
}

#[tokio::test]
async fn a_hook_sees_only_replayed_responses() {
    let harness = Harness::default();
    let call = || harness.within(with_hook(event(json!({ "order_id": 1, "paid": true }))));
    assert_eq!(call().await.unwrap(), json!({ "paid": true }));
    let until = START / 1_000 + 3_600;
    assert_eq!(
        call().await.unwrap(),
        json!({ "paid": true, "replayed_until": until })
    );
}

#[tokio::test]
async fn a_response_that_is_not_stored_frees_the_key() {
    let harness = Harness::default();
    for _ in 0..2 {
        let event = event(json!({ "order_id": 1, "paid": false }));
        let response = harness.within(with_hook(event)).await.unwrap();
        assert_eq!(response, json!({ "paid": false }));
    }
    assert!(harness.store.inner().is_empty());
}

#[derive(Serialize, Deserialize)]
struct Typed {
    amount: f64,
}

#[idempotent(key = "amount", key_prefix = "raw")]
async fn raw(event: LambdaEvent<Raw<Typed>>) -> Result<f64, BoxError> {
    Ok(event.payload.amount)
}

#[tokio::test]
async fn the_key_of_a_raw_event_is_taken_from_its_text() {
    let harness = Harness::default();
    let payload = Raw::from_json(r#"{"amount": 10}"#).unwrap();
    let call = raw(LambdaEvent::new(payload, Context::default()));
    harness.within(call).await.unwrap();
    // md5 of `10`, not of `10.0`.
    assert_eq!(
        only_record(&harness).0.as_str(),
        "raw#d3d9446802a44259755d38e6d163e820"
    );
}

#[tokio::test]
async fn the_future_of_a_call_does_not_grow_with_what_its_handler_holds() {
    #[idempotent(payload = order, key_prefix = "small")]
    async fn small(order: u32) -> Result<u32, BoxError> {
        Ok(order)
    }
    #[idempotent(payload = order, key_prefix = "large")]
    async fn large(order: u32) -> Result<u32, BoxError> {
        let buffer = [0_u8; 16 * 1024];
        tokio::task::yield_now().await;
        Ok(order + u32::from(buffer[0]))
    }
    let harness = Harness::default();
    let call = harness.within(large(1));
    assert_eq!(size_of_val(&small(1)), size_of_val(&large(1)));
    assert!(size_of_val(&call) < 1_024, "{}", size_of_val(&call));
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn a_function_that_is_switched_off_runs_each_time_without_requests() {
    use idempotency_core::config::Variables;
    use idempotency_lambda::{Bypass, Deadline, Operation, OutcomeKind};
    let harness = Harness::default();
    let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    let off = Operation::builder("off")
        .variables(variables)
        .build()
        .unwrap();
    for run in 0..2 {
        let call = off.run(&json!(1), Deadline::Inherited, || async move {
            Ok::<_, BoxError>(run)
        });
        let outcome = harness.within(call).await.unwrap();
        assert_eq!(outcome.kind(), &OutcomeKind::Bypassed(Bypass::Disabled));
        assert_eq!(outcome.into_response(), run);
    }
    assert_eq!(harness.requests(), [0; 4]);
}

#[idempotent(payload = order, key_prefix = "own store", store = OWN.with(Arc::clone))]
async fn with_own_store(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

thread_local! {
    static OWN: Arc<idempotency_core::store::MemoryStore> = Arc::default();
}

#[tokio::test]
async fn the_store_of_an_attribute_is_used_if_no_test_sets_a_backend() {
    with_own_store(1).await.unwrap();
    assert_eq!(OWN.with(|store| store.len()), 1);
}

#[tokio::test]
async fn a_replayed_float_equals_the_original_float() {
    let harness = Harness::default();
    let charge = keyed(|of| of);
    for number in 0..500_u32 {
        // Fractions with long expansions. An imprecise parser gets one in ten wrong.
        let response = f64::from(number).mul_add(1.000_000_7, 0.1) / 3.0;
        for _ in 0..2 {
            let payload = json!({ "order_id": number });
            let outcome = harness
                .call_with(&charge, payload, async |_| Ok(response))
                .await
                .unwrap();
            assert_eq!(outcome.into_response().to_bits(), response.to_bits());
        }
    }
}

#[test]
fn an_empty_expression_does_not_switch_protection_off() {
    for operation in [
        idempotency_tests::operation().key(" "),
        idempotency_tests::operation().validate(""),
        idempotency_tests::operation().store_when(""),
    ] {
        let error = operation.build().unwrap_err();
        assert!(error.to_string().contains("leave it out"), "{error}");
    }
}

/// Returns an event of a REST API: names as the client wrote them; `headers` holds the last value of each.
fn format_1(name: &str, values: &[&str]) -> Value {
    json!({
        "version": "1.0", "resource": "/payments", "path": "/payments", "httpMethod": "POST",
        "headers": { "Accept": "*/*", name: values.last(), "Host": "api.example.com" },
        "multiValueHeaders": { "Accept": ["*/*"], name: values, "Host": ["api.example.com"] },
        "queryStringParameters": null, "multiValueQueryStringParameters": null, "pathParameters": null,
        "stageVariables": null, "body": "{\"order_id\":1}", "isBase64Encoded": false,
        "requestContext": {
            "accountId": "123456789012", "apiId": "a1", "httpMethod": "POST", "path": "/prod/payments",
            "protocol": "HTTP/1.1", "requestId": "r-1", "resourceId": "x", "resourcePath": "/payments", "stage": "prod",
            "identity": { "sourceIp": "192.0.2.1", "userAgent": "curl" }
        }
    })
}

/// Returns an event of an HTTP API: names in lower case; several values joined by a comma.
fn format_2(name: &str, values: &[&str]) -> Value {
    json!({
        "version": "2.0", "routeKey": "POST /payments", "rawPath": "/payments", "rawQueryString": "",
        "headers": { "accept": "*/*", name.to_ascii_lowercase(): values.join(","), "host": "api.example.com" },
        "body": "{\"order_id\":1}", "isBase64Encoded": false,
        "requestContext": {
            "accountId": "123456789012", "apiId": "a1", "domainName": "api.example.com", "domainPrefix": "api",
            "http": { "method": "POST", "path": "/payments", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1", "userAgent": "curl" },
            "requestId": "r-1", "routeKey": "POST /payments", "stage": "$default",
            "time": "21/Nov/2026:12:00:00 +0000", "timeEpoch": 1_795_262_400_000_u64
        }
    })
}

/// Returns an event of a load balancer. Without multi-value headers (`several`) it sends only the last value.
fn load_balancer(name: &str, values: &[&str], several: bool) -> Value {
    let name = name.to_ascii_lowercase();
    let mut event = json!({
        "requestContext": { "elb": { "targetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/t/1" } },
        "httpMethod": "POST", "path": "/payments", "body": "{\"order_id\":1}", "isBase64Encoded": false
    });
    if several {
        event["multiValueHeaders"] = json!({ "accept": ["*/*"], name: values });
        event["multiValueQueryStringParameters"] = json!({});
    } else {
        event["headers"] = json!({ "accept": "*/*", name: values.last() });
        event["queryStringParameters"] = json!({});
    }
    event
}

fn operation() -> CompiledOperation {
    let settings = Settings {
        key: Some("header(@, 'Idempotency-Key')".into()),
        key_required: Some(KeyRequired::All),
        key_prefix: Some("headers".into()),
        ..Settings::default()
    };
    CompiledOperation::new("headers", &settings, &Variables::default()).unwrap()
}

/// Returns the keys of the raw event and of the event that the type writes.
fn keys<T: DeserializeOwned + Serialize>(event: &Value) -> [String; 2] {
    let raw = Raw::<T>::from_json(event.to_string()).unwrap();
    let typed: T = serde_json::from_value(event.clone()).unwrap();
    let (raw, typed) = (
        raw.identity(&operation(), None).unwrap(),
        typed.identity(&operation(), None).unwrap(),
    );
    [raw, typed].map(|identity| identity.key().unwrap().as_str().to_owned())
}

#[test]
fn a_header_gives_the_same_key_from_every_source_and_in_every_case() {
    let expected = operation()
        .identify(r#"{"headers": {"idempotency-key": "k-1"}}"#, None)
        .unwrap();
    let expected = expected.key().unwrap().as_str();
    for name in ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"] {
        for key in [
            keys::<ApiGatewayProxyRequest>(&format_1(name, &["k-1"])),
            keys::<ApiGatewayV2httpRequest>(&format_2(name, &["k-1"])),
            keys::<LambdaFunctionUrlRequest>(&format_2(name, &["k-1"])),
            keys::<AlbTargetGroupRequest>(&load_balancer(name, &["k-1"], false)),
            keys::<AlbTargetGroupRequest>(&load_balancer(name, &["k-1"], true)),
        ]
        .concat()
        {
            assert_eq!(key, expected, "{name}");
        }
    }
}

#[test]
fn several_values_of_a_header_give_the_same_key_in_every_form_that_sends_them() {
    let values = ["k-1", "k-2"];
    let expected = operation()
        .identify(r#"{"headers": {"idempotency-key": "k-1,k-2"}}"#, None)
        .unwrap();
    let expected = expected.key().unwrap().as_str();
    for key in [
        keys::<ApiGatewayProxyRequest>(&format_1("Idempotency-Key", &values)),
        keys::<ApiGatewayV2httpRequest>(&format_2("Idempotency-Key", &values)),
        keys::<LambdaFunctionUrlRequest>(&format_2("Idempotency-Key", &values)),
        keys::<AlbTargetGroupRequest>(&load_balancer("Idempotency-Key", &values, true)),
    ]
    .concat()
    {
        assert_eq!(key, expected);
    }
}

#[test]
fn a_request_without_the_header_is_refused_if_the_key_is_required() {
    for event in [
        format_1("X-Other", &["k-1"]),
        format_2("X-Other", &["k-1"]),
        load_balancer("X-Other", &["k-1"], false),
        load_balancer("X-Other", &["k-1"], true),
    ] {
        let error = operation().identify(&event.to_string(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyMissing);
    }
}

#[idempotent(
    key = "[header(@, 'Idempotency-Key'), powertools_json(body).order_id]",
    key_required = "all"
)]
async fn handler(
    event: LambdaEvent<Raw<ApiGatewayProxyRequest>>,
) -> Result<u32, idempotency_lambda::BoxError> {
    Ok(u32::from(event.payload.body.is_some()))
}

#[tokio::test]
async fn the_attribute_takes_a_header_together_with_other_parts() {
    let harness = idempotency_tests::Harness::default();
    let call = |event: Value| {
        let event = Raw::from_json(event.to_string()).unwrap();
        let call = handler(LambdaEvent::new(event, Default::default()));
        harness.within(call)
    };
    assert_eq!(call(format_1("Idempotency-Key", &["k"])).await.unwrap(), 1);
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
    assert_eq!(call(format_1("idempotency-key", &["k"])).await.unwrap(), 1);
    assert_eq!(harness.requests(), [2, 1, 0, 0], "the second is a replay");
    let error = call(format_1("Other", &["k"])).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`header(@, 'Idempotency-Key')` of the key"),
        "{error}"
    );
}

#[test]
fn the_error_names_a_body_in_base64_as_the_cause() {
    let settings = Settings {
        key: Some("powertools_json(body).order_id".into()),
        ..Settings::default()
    };
    let operation = CompiledOperation::new("encoded", &settings, &Variables::default()).unwrap();
    // The base64 of `{"order_id":1}`, and of a text that is not JSON.
    for body in ["eyJvcmRlcl9pZCI6MX0=", "c2VjcmV0"] {
        let event = json!({ "body": body, "isBase64Encoded": true });
        let error = operation
            .identify_value(&event, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(
                "`powertools_json` failed: invalid JSON: expected a value at line 1, column 1"
            ),
            "{error}"
        );
        assert!(
            error.contains("powertools_json(powertools_base64("),
            "{error}"
        );
        assert!(!error.contains(body), "{error}");
    }
    let event = json!({ "body": "secret", "isBase64Encoded": false });
    let error = operation
        .identify_value(&event, None)
        .unwrap_err()
        .to_string();
    assert!(
        !error.contains("base64") && !error.contains("secret"),
        "{error}"
    );
}
