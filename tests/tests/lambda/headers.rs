//! The function `header` on events of API Gateway (payload formats 1.0 and 2.0), load balancers and function URLs: the raw
//! events, and the events that `aws_lambda_events` writes.

use aws_lambda_events::event::alb::AlbTargetGroupRequest;
use aws_lambda_events::event::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::event::lambda_function_urls::LambdaFunctionUrlRequest;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use idempotency_lambda::{ErrorKind, KeyRequired, LambdaEvent, Payload, Raw, idempotent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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
        idempotency_lambda::with_backend(harness.backend.clone(), call)
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
