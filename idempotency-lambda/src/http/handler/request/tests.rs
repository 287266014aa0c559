//! Tests of the request inside each kind of event.

use super::*;
use idempotency_core::config::Variables;
use idempotency_http::{MemoryStore, Place, ReceivedRequest, backend};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn request<T: HttpEvent + DeserializeOwned>(event: Value) -> Request<Vec<u8>> {
    serde_json::from_value::<T>(event).unwrap().request()
}

/// Returns method, URI, all values of the key's header, and body.
fn seen(request: &Request<Vec<u8>>) -> (String, String, Vec<&str>, &[u8]) {
    let values = request.headers().get_all("idempotency-key").iter();
    (
        request.method().to_string(),
        request.uri().to_string(),
        values.map(|value| value.to_str().unwrap()).collect(),
        request.body(),
    )
}

fn v2() -> Value {
    json!({
        "version": "2.0", "routeKey": "POST /payments", "rawPath": "/payments", "rawQueryString": "b=2&a=1",
        "headers": { "idempotency-key": "\"k-1\"" }, "isBase64Encoded": false, "body": "{}",
        "requestContext": { "accountId": "1", "apiId": "a", "timeEpoch": 1, "stage": "$default",
            "http": { "method": "POST", "path": "/payments", "protocol": "HTTP/1.1", "sourceIp": "1.1.1.1", "userAgent": "t" } }
    })
}

fn v1() -> Value {
    json!({
        "httpMethod": "POST", "path": "/payments", "resource": "/payments", "isBase64Encoded": false, "body": "{}",
        "headers": { "Idempotency-Key": "b", "Host": "h" },
        "multiValueHeaders": { "Idempotency-Key": ["a", "b"], "Host": ["h"] },
        "queryStringParameters": { "b": "3", "a": "x y" },
        "multiValueQueryStringParameters": { "b": ["2", "3"], "a": ["x y"] },
        "requestContext": { "httpMethod": "POST", "stage": "prod" }
    })
}

#[test]
fn payload_format_2_and_function_urls_have_one_form() {
    for request in [
        request::<ApiGatewayV2httpRequest>(v2()),
        request::<LambdaFunctionUrlRequest>(v2()),
    ] {
        let expected = ("POST".to_owned(), "/payments?b=2&a=1".to_owned());
        let (method, uri, keys, body) = seen(&request);
        assert_eq!((method, uri), expected);
        assert_eq!((keys, body), (vec!["\"k-1\""], b"{}".as_slice()));
    }
}

#[test]
fn payload_format_1_has_every_value_of_a_repeated_header_and_parameter() {
    let request = request::<ApiGatewayProxyRequest>(v1());
    let (method, uri, keys, _) = seen(&request);
    assert_eq!((method.as_str(), keys), ("POST", vec!["a", "b"]));
    assert_eq!(uri, "/payments?a=x%20y&b=2&b=3");
}

#[test]
fn parameters_that_api_gateway_has_decoded_stay_apart() {
    let with = |parameters: Value| {
        let mut event = v1();
        event["multiValueQueryStringParameters"] = parameters;
        request::<ApiGatewayProxyRequest>(event).uri().to_string()
    };
    assert_eq!(with(json!({"a": ["1&b=2"]})), "/payments?a=1%26b%3D2");
    assert_eq!(with(json!({"a": ["1"], "b": ["2"]})), "/payments?a=1&b=2");
    assert_ne!(with(json!({"a": ["%26"]})), with(json!({"a": ["&"]})));
    assert_ne!(with(json!({"a": ["+"]})), with(json!({"a": [" "]})));
}

#[test]
fn a_load_balancer_sends_either_single_or_multiple_values() {
    let context = json!({ "elb": { "targetGroupArn": "arn" } });
    let event = |fields: Value| {
        let mut event = json!({ "httpMethod": "POST", "path": "/p", "body": "", "isBase64Encoded": false, "requestContext": context });
        event
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        request::<AlbTargetGroupRequest>(event)
    };
    let single = event(
        json!({ "headers": { "idempotency-key": "b" }, "queryStringParameters": { "q": "%20" } }),
    );
    assert_eq!(seen(&single).1, "/p?q=%20");
    assert_eq!(seen(&single).2, ["b"]);
    let multiple = event(json!({
        "multiValueHeaders": { "idempotency-key": ["a", "b"] }, "multiValueQueryStringParameters": { "q": ["1", "2"] }
    }));
    assert_eq!(seen(&multiple).1, "/p?q=1&q=2");
    assert_eq!(seen(&multiple).2, ["a", "b"]);
}

#[test]
fn a_binary_body_is_decoded_and_a_broken_one_is_taken_as_it_is() {
    for (text, bytes) in [("AP8=", [0, 255].as_slice()), ("?", b"?")] {
        let mut event = v2();
        event["body"] = text.into();
        event["isBase64Encoded"] = true.into();
        assert_eq!(request::<ApiGatewayV2httpRequest>(event).body(), bytes);
    }
}

/// Returns the key of a request whose caller is what this expression finds in the event.
fn key_by_caller(caller: &str, event: &impl HttpEvent) -> Option<String> {
    let operation = HttpOperation::builder("shop::pay")
        .variables(Variables::default())
        .key("requestContext.stage")
        .caller(caller)
        .build()
        .unwrap();
    let place = Place {
        backend: backend(MemoryStore::new()),
        deadline: None,
        tenant: None,
    };
    let read = event.read(&operation);
    let (parts, body) = event.request().into_parts();
    let request = ReceivedRequest::new(&parts, &body).with_event(&read);
    let call = operation.call(Ok(place), &request);
    call.key().map(ToString::to_string)
}

#[test]
fn a_raw_event_gives_expressions_the_text_that_was_sent() {
    let raw = Raw::<ApiGatewayProxyRequest>::from_json(v1().to_string()).unwrap();
    assert_eq!(raw.request().method(), Method::POST);
    let (sent, lower) = ("headers.\"Idempotency-Key\"", "headers.\"idempotency-key\"");
    assert!(key_by_caller(sent, &raw).is_some());
    assert_eq!(key_by_caller(lower, &raw), None);
    // The type writes the names of headers in lower case. `header(@, ..)` finds both.
    let any_case = "header(@, 'Idempotency-Key')";
    let by_header = key_by_caller(any_case, &raw);
    let typed = raw.into_inner();
    assert_eq!(key_by_caller(sent, &typed), None);
    assert!(key_by_caller(lower, &typed).is_some());
    assert!(by_header.is_some());
    assert_eq!(key_by_caller(any_case, &typed), by_header);
}
