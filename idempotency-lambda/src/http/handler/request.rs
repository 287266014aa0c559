//! The HTTP request inside an event, for each kind of event.

use std::collections::BTreeMap;
use std::fmt::Write;

use aws_lambda_events::alb::AlbTargetGroupRequest;
use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use idempotency_http::{HttpOperation, RequestEvent};
use serde::Serialize;

use crate::event::Payload;
use crate::raw::Raw;

/// An event that is an HTTP request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event of an HTTP request",
    label = "not an HTTP event",
    note = "take a `LambdaEvent` of `ApiGatewayV2httpRequest`, `ApiGatewayProxyRequest`, `AlbTargetGroupRequest` or `LambdaFunctionUrlRequest` (crate `aws_lambda_events`), or of `Raw<_>` of one of them",
    note = "for an axum `Router` or a service of `lambda_http` requests build a layer: `Operation::builder(..).http()`"
)]
pub trait HttpEvent: Payload {
    /// Returns the request: its method, path, query, headers and body.
    fn request(&self) -> Request<Vec<u8>>;

    /// Reads what the expressions of an operation look at in the event.
    fn read(&self, operation: &HttpOperation) -> RequestEvent;
}

impl HttpEvent for ApiGatewayV2httpRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.request_context.http.method,
            self.raw_path.as_deref(),
            self.raw_query_string.as_deref().unwrap_or_default(),
            self.headers.clone(),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for LambdaFunctionUrlRequest {
    fn request(&self) -> Request<Vec<u8>> {
        let method = self.request_context.http.method.as_deref();
        make(
            &method
                .and_then(|method| Method::from_bytes(method.as_bytes()).ok())
                .unwrap_or_default(),
            self.raw_path.as_deref(),
            self.raw_query_string.as_deref().unwrap_or_default(),
            self.headers.clone(),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for ApiGatewayProxyRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.http_method,
            self.path.as_deref(),
            // API Gateway has decoded them.
            &query(
                &self.multi_value_query_string_parameters,
                &self.query_string_parameters,
                encoded,
            ),
            merged(&self.multi_value_headers, &self.headers),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for AlbTargetGroupRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.http_method,
            self.path.as_deref(),
            // A load balancer leaves them as they were sent.
            &query(
                &self.multi_value_query_string_parameters,
                &self.query_string_parameters,
                str::to_owned,
            ),
            merged(&self.multi_value_headers, &self.headers),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl<T: HttpEvent> HttpEvent for Raw<T> {
    fn request(&self) -> Request<Vec<u8>> {
        T::request(self)
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event_of_text(self.text())
    }
}

fn make(
    method: &Method,
    path: Option<&str>,
    query: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Request<Vec<u8>> {
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri(path.unwrap_or("/"), query);
    *request.headers_mut() = headers;
    request
}

/// Returns the bytes of a body. A body that is not base64, although the event says so, is taken as it is.
fn body(text: Option<&str>, is_base64: bool) -> Vec<u8> {
    let text = text.unwrap_or_default();
    let decoded = is_base64.then(|| STANDARD.decode(text).ok()).flatten();
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Returns the query of these parameters, in the order of their names: the event has them in no order.
fn query(all: &impl Serialize, single: &impl Serialize, written: fn(&str) -> String) -> String {
    let parameters = match parameters(all) {
        all if all.is_empty() => parameters(single),
        all => all,
    };
    let mut query = Vec::new();
    for (name, values) in &parameters {
        let name = written(name);
        query.extend(
            values
                .iter()
                .map(|value| format!("{name}={}", written(value))),
        );
    }
    query.join("&")
}

/// Encodes what has a meaning in a query, so that `a=1%26b%3D2` and `a=1&b=2` stay two queries.
fn encoded(text: &str) -> String {
    let text = text.replace('%', "%25").replace('&', "%26");
    text.replace('=', "%3D").replace('+', "%2B")
}

/// Returns the parameters of a `QueryMap`, which has no other way to its names that cannot panic.
fn parameters(of: &impl Serialize) -> BTreeMap<String, Vec<String>> {
    let value = serde_json::to_value(of).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// Returns the URI of a path and a query, as the event has them.
///
/// An event can have them decoded. Bytes that a URI cannot have are encoded.
fn uri(path: &str, query: &str) -> Uri {
    let mut text = String::with_capacity(path.len() + query.len() + 2);
    if !path.starts_with('/') {
        text.push('/');
    }
    push(&mut text, path, b"?#");
    if !query.is_empty() {
        text.push('?');
        push(&mut text, query, b"#");
    }
    // A URI is too long from 65,535 bytes on. An event cannot have such a path: API Gateway and ALB refuse it.
    text.parse().unwrap_or_default()
}

/// Adds a text, and encodes the bytes that a URI cannot have here.
fn push(to: &mut String, text: &str, reserved: &[u8]) {
    for &byte in text.as_bytes() {
        let is_plain = byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
        if is_plain && !reserved.contains(&byte) {
            to.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

/// Returns the headers of both fields. A header that is in both has the values of the field with all values.
pub(super) fn merged(all: &HeaderMap, single: &HeaderMap) -> HeaderMap {
    let mut headers = all.clone();
    for (name, value) in single {
        if !all.contains_key(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// Returns one value for each header: several values are joined with commas, as HTTP allows for the headers that are stored.
pub(super) fn joined(headers: &HeaderMap) -> HeaderMap {
    let mut joined = HeaderMap::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let values: Vec<_> = values.collect();
        // It cannot fail, because each part is the value of a header.
        if let Ok(value) = HeaderValue::from_bytes(&values.join(&b", "[..])) {
            joined.insert(name, value);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_path_and_a_query_are_kept_as_they_are() {
        let uri = uri("/orders/7%2F8;a=(b)", "a=1&b=%20x+y");
        assert_eq!(uri, "/orders/7%2F8;a=(b)?a=1&b=%20x+y");
    }

    #[test]
    fn bytes_that_a_uri_cannot_have_are_encoded() {
        assert_eq!(
            uri("/a b/ü?#", "c=\"d\" e"),
            "/a%20b/%C3%BC%3F%23?c=%22d%22%20e"
        );
        assert_eq!(uri("", ""), "/");
    }

    #[test]
    fn two_paths_never_become_one() {
        assert_ne!(uri("/a?b", ""), uri("/a", "b"));
    }

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_header_in_both_fields_has_all_its_values_once() {
        let all = map(&[("idempotency-key", "a"), ("idempotency-key", "b")]);
        let single = map(&[("idempotency-key", "b"), ("host", "h")]);
        let merged = merged(&all, &single);
        let expected = [
            ("idempotency-key", "a"),
            ("idempotency-key", "b"),
            ("host", "h"),
        ];
        assert_eq!(merged, map(&expected));
    }

    #[test]
    fn several_values_are_joined_and_one_value_stays() {
        let joined = joined(&map(&[("vary", "a"), ("vary", "b"), ("location", "/x, y")]));
        assert_eq!(joined, map(&[("vary", "a, b"), ("location", "/x, y")]));
    }
}
