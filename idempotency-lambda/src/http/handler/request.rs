//! The HTTP request inside an event, for each kind of event.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use aws_lambda_events::alb::AlbTargetGroupRequest;
use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use idempotency_http::{HttpOperation, RequestEvent};
use serde::Serialize;

use crate::event::Payload;
use crate::raw::Raw;

/// The request inside an event, with path and query as the event has them.
#[derive(Debug)]
pub struct EventRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// An event that is an HTTP request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event of an HTTP request",
    label = "not an HTTP event",
    note = "take a `LambdaEvent` of `ApiGatewayV2httpRequest`, `ApiGatewayProxyRequest`, `AlbTargetGroupRequest` or `LambdaFunctionUrlRequest` (crate `aws_lambda_events`), or of `Raw<_>` of one of them",
    note = "events of VPC Lattice (`VpcLatticeRequestV2`) are not supported: put a load balancer or an API in front of the function",
    note = "for an axum `Router` or a service of `lambda_http` requests build a layer: `Operation::builder(..).http()`"
)]
pub trait HttpEvent: Payload {
    /// Returns the request: its method, path, query, headers and body.
    fn request(&self) -> EventRequest;

    /// Reads what the expressions of an operation look at in the event.
    fn read(&self, operation: &HttpOperation) -> RequestEvent;
}

/// Writes the request of each kind of event, from the fields in which the kinds differ.
macro_rules! requests {
    ($($event:ty { path: $path:ident, method: $method:expr, query: $query:expr, headers: $headers:expr })+) => {
        $(impl HttpEvent for $event {
            fn request(&self) -> EventRequest {
                let method: fn(&Self) -> Method = $method;
                let query: fn(&Self) -> Cow<'_, str> = $query;
                let headers: fn(&Self) -> HeaderMap = $headers;
                EventRequest {
                    method: method(self),
                    path: self.$path.as_deref().unwrap_or("/").to_owned(),
                    query: query(self).into_owned(),
                    headers: headers(self),
                    body: body(self.body.as_deref(), self.is_base64_encoded),
                }
            }

            fn read(&self, operation: &HttpOperation) -> RequestEvent {
                operation.event(self)
            }
        })+
    };
}

requests! {
    ApiGatewayV2httpRequest {
        path: raw_path,
        method: |event| event.request_context.http.method.clone(),
        query: |event| event.raw_query_string.as_deref().unwrap_or_default().into(),
        headers: |event| event.headers.clone()
    }
    LambdaFunctionUrlRequest {
        path: raw_path,
        method: |event| {
            let name = event.request_context.http.method.as_deref().unwrap_or_default();
            // An event without a method is protected: GET, the default of the type, is not.
            Method::from_bytes(name.as_bytes()).unwrap_or(Method::POST)
        },
        query: |event| event.raw_query_string.as_deref().unwrap_or_default().into(),
        headers: |event| event.headers.clone()
    }
    ApiGatewayProxyRequest {
        path: path,
        method: |event| event.http_method.clone(),
        // API Gateway has decoded the parameters.
        query: |event| {
            let all = &event.multi_value_query_string_parameters;
            query(all, &event.query_string_parameters, encoded)
        },
        headers: |event| merged(&event.multi_value_headers, &event.headers)
    }
    AlbTargetGroupRequest {
        path: path,
        method: |event| event.http_method.clone(),
        // A load balancer leaves the parameters as they were sent.
        query: |event| {
            let all = &event.multi_value_query_string_parameters;
            query(all, &event.query_string_parameters, str::to_owned)
        },
        headers: |event| merged(&event.multi_value_headers, &event.headers)
    }
}

impl<T: HttpEvent> HttpEvent for Raw<T> {
    fn request(&self) -> EventRequest {
        T::request(self)
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event_of_text(self.text())
    }
}

/// Returns the bytes of a body. A body that is not base64, although the event says so, is taken as it is.
fn body(text: Option<&str>, is_base64: bool) -> Vec<u8> {
    let text = text.unwrap_or_default();
    let decoded = is_base64.then(|| STANDARD.decode(text).ok()).flatten();
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Returns the query of these parameters, in the order of their names: the event has them in no order.
fn query(
    all: &impl Serialize,
    single: &impl Serialize,
    written: fn(&str) -> String,
) -> Cow<'static, str> {
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
    query.join("&").into()
}

/// Encodes a parameter that API Gateway has decoded, so that `a=1%26b%3D2` and `a=1&b=2` stay two queries.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_graphic() && !b"\"#%&+<=>\\^`{|}".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Returns the parameters of a `QueryMap`. They are read through JSON, because each other way to the names can panic.
fn parameters(of: &impl Serialize) -> BTreeMap<String, Vec<String>> {
    let value = serde_json::to_value(of).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
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
    use super::super::PreparedHttp;
    use super::*;
    use crate::invocation::Deadline;
    use idempotency_core::config::Variables;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Returns an event of `events.json` with these members instead of its own.
    fn event(name: &str, members: Value) -> Value {
        let mut events: Value = serde_json::from_str(include_str!("events.json")).unwrap();
        let mut event = events[name].take();
        let own = event.as_object_mut().unwrap();
        own.extend(members.as_object().unwrap().clone());
        event
    }

    fn request<T: HttpEvent + DeserializeOwned>(event: Value) -> EventRequest {
        serde_json::from_value::<T>(event).unwrap().request()
    }

    #[test]
    fn each_kind_of_event_has_its_path_its_query_its_body_and_every_value_of_a_header() {
        type Read = fn(Value) -> EventRequest;
        let rows = include_str!("requests.txt").lines();
        for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
            let cells: Vec<_> = row.split(" | ").collect();
            let [kind, members, line, keys, body] = cells[..] else {
                panic!("not five cells: {row}");
            };
            let (kind, request): (_, Read) = match kind {
                "url" => ("v2", request::<LambdaFunctionUrlRequest>),
                "v2" => (kind, request::<ApiGatewayV2httpRequest>),
                "v1" => (kind, request::<ApiGatewayProxyRequest>),
                _ => (kind, request::<AlbTargetGroupRequest>),
            };
            let request = request(event(kind, serde_json::from_str(members).unwrap()));
            let found = [request.method.as_str(), &request.path, &request.query];
            assert_eq!(
                format!("{} {}?{}", found[0], found[1], found[2]),
                line,
                "{row}"
            );
            let values = request.headers.get_all("idempotency-key").iter();
            let values: Vec<_> = values.map(|value| value.to_str().unwrap()).collect();
            assert_eq!(format!("{values:?}"), keys, "{row}");
            assert_eq!(request.body.escape_ascii().to_string(), body, "{row}");
        }
    }

    #[test]
    fn no_type_takes_an_event_of_vpc_lattice_for_its_own() {
        fn fits<T: DeserializeOwned>(event: &Value) -> bool {
            serde_json::from_str::<T>(&event.to_string()).is_ok()
        }
        let context = json!({ "serviceNetworkArn": "arn:aws:vpc-lattice:eu-central-1:1:servicenetwork/sn-1", "timeEpoch": "1724875399456789" });
        for event in [
            json!({ "version": "2.0", "path": "/pay", "method": "POST", "headers": { "a": ["b"] }, "body": "{}", "requestContext": context }),
            json!({ "raw_path": "/pay", "method": "POST", "headers": { "a": "b" }, "body": "{}", "is_base64_encoded": false }),
        ] {
            assert!(!fits::<ApiGatewayV2httpRequest>(&event), "{event}");
            assert!(!fits::<ApiGatewayProxyRequest>(&event), "{event}");
            assert!(!fits::<AlbTargetGroupRequest>(&event), "{event}");
            assert!(!fits::<LambdaFunctionUrlRequest>(&event), "{event}");
            assert!(
                lambda_http::request::from_str(&event.to_string()).is_err(),
                "{event}"
            );
        }
    }

    /// Returns the key of a request whose caller is what this expression finds in the event.
    fn key_by_caller(caller: &str, event: &impl HttpEvent) -> Option<String> {
        let operation = HttpOperation::builder("shop::pay")
            .variables(Variables::default())
            .key("body")
            .caller(caller)
            .build()
            .unwrap();
        let read = event.read(&operation);
        let request = PreparedHttp::of(event.request(), Some(read), Deadline::default());
        let identity = operation.identity(&request.request(), None).ok()?;
        identity.key().map(ToString::to_string)
    }

    #[test]
    fn a_raw_event_gives_expressions_the_text_that_was_sent() {
        let user = json!({ "headers": { "X-User": "u-1" }, "multiValueHeaders": {} });
        let sent = event("v1", user).to_string();
        let raw = serde_json::from_str::<Raw<ApiGatewayProxyRequest>>(&sent).unwrap();
        assert_eq!(raw.request().method, Method::POST);
        let typed = raw.clone().into_inner();
        // The type writes the names of headers in lower case. `header(@, ..)` finds both.
        for (caller, is_in_raw, is_in_typed) in [
            ("headers.\"X-User\"", true, false),
            ("headers.\"x-user\"", false, true),
            ("header(@, 'X-User')", true, true),
        ] {
            let (of_raw, of_typed) = (key_by_caller(caller, &raw), key_by_caller(caller, &typed));
            assert_eq!(of_raw.is_some(), is_in_raw, "{caller}");
            assert_eq!(of_typed.is_some(), is_in_typed, "{caller}");
            assert!(!is_in_raw || !is_in_typed || of_raw == of_typed, "{caller}");
        }
    }

    #[test]
    fn a_repeated_header_of_an_event_is_no_caller() {
        for (user, is_known) in [(json!(["u-1"]), true), (json!(["u-1", "u-2"]), false)] {
            let headers =
                json!({ "headers": { "x-user": "u-1" }, "multiValueHeaders": { "x-user": user } });
            let sent = event("v1", headers).to_string();
            let raw = serde_json::from_str::<Raw<ApiGatewayProxyRequest>>(&sent).unwrap();
            for caller in [
                "header(@, 'X-User')",
                "multiValueHeaders.\"x-user\"",
                "headers.\"x-user\"",
            ] {
                assert_eq!(key_by_caller(caller, &raw).is_some(), is_known, "{caller}");
            }
        }
    }

    #[test]
    fn a_user_of_an_identity_pool_is_one_caller_through_an_http_api_and_a_rest_api() {
        let arn = "arn:aws:sts::123456789012:assumed-role/PoolUser/CognitoIdentityCredentials";
        let key = |id: Option<&str>| {
            let pool = id.map(|id| json!({ "amr": [], "identityId": id, "identityPoolId": "p" }));
            let iam = json!({ "iam": { "userArn": arn, "cognitoIdentity": pool } });
            let identity = json!({ "userArn": arn, "cognitoIdentityId": id });
            let (mut http, mut rest) = (event("v2", json!({})), event("v1", json!({})));
            http["requestContext"]["authorizer"] = iam;
            rest["requestContext"]["identity"] = identity;
            let http: ApiGatewayV2httpRequest = serde_json::from_value(http).unwrap();
            let rest: ApiGatewayProxyRequest = serde_json::from_value(rest).unwrap();
            let key = key_by_caller("iam_caller(@)", &http);
            assert_eq!(key, key_by_caller("iam_caller(@)", &rest), "{id:?}");
            key
        };
        let ann = key(Some("eu-central-1:ann"));
        assert!(ann.is_some());
        assert_ne!(key(Some("eu-central-1:bob")), ann);
        // The ARN alone is that of all users of the pool.
        assert_eq!(key(None), None);
    }

    fn by_user<T: HttpEvent + DeserializeOwned>(event: Value) -> Option<String> {
        let event: T = serde_json::from_str(&event.to_string()).unwrap();
        key_by_caller("header(@, 'X-User')", &event)
    }

    #[test]
    fn two_users_of_a_header_never_become_one_in_any_kind_of_event() {
        type Key = fn(Value) -> Option<String>;
        let blanks = [
            "", " ", "\t", "\u{a0}", "\u{85}", "\u{3000}", "\u{2028}", ",",
        ];
        let users = blanks.map(|blank| [format!("bob{blank}"), format!("{blank}bob")]);
        let users = users.into_iter().flatten().chain(["Bob".to_owned()]);
        let users: BTreeSet<_> = users.collect();
        let all: [(&str, Key); 5] = [
            ("v1", by_user::<ApiGatewayProxyRequest>),
            ("v2", by_user::<ApiGatewayV2httpRequest>),
            ("v2", by_user::<Raw<ApiGatewayV2httpRequest>>),
            ("v2", by_user::<LambdaFunctionUrlRequest>),
            ("alb", by_user::<AlbTargetGroupRequest>),
        ];
        for (kind, key) in all {
            let keys: BTreeSet<_> = users
                .iter()
                .map(|user| {
                    let single = json!({ "headers": { "x-user": user } });
                    let all = json!({ "multiValueHeaders": { "x-user": [user] } });
                    key(event(kind, if kind == "v1" { all } else { single })).unwrap()
                })
                .collect();
            assert_eq!(keys.len(), users.len(), "{kind}");
        }
    }

    #[test]
    fn two_paths_or_queries_of_events_never_become_one_fingerprint() {
        let operation = HttpOperation::builder("shop::pay").variables(Variables::default());
        let operation = operation.shared_by_all_callers().build().unwrap();
        let validation = |path: &str, query: &str| {
            let members = json!({ "rawPath": path, "rawQueryString": query });
            let event: ApiGatewayV2httpRequest =
                serde_json::from_value(event("v2", members)).unwrap();
            let read = event.read(&operation);
            let request = PreparedHttp::of(event.request(), Some(read), Deadline::default());
            let identity = operation.identity(&request.request(), None).unwrap();
            identity.validation().map(str::to_owned).unwrap()
        };
        let long = "/".repeat(70_000);
        for (one, other) in [
            (("/a b", ""), ("/a%20b", "")),
            (("/a", ""), ("a", "")),
            (("/", ""), ("", "")),
            (("/a/../b", ""), ("/b", "")),
            (("/a?b", ""), ("/a", "b")),
            (("/a", "b=|"), ("/a", "b=%7C")),
            ((&long, ""), (&long[1..], "")),
        ] {
            assert_eq!(validation(one.0, one.1), validation(one.0, one.1));
            assert_ne!(
                validation(one.0, one.1),
                validation(other.0, other.1),
                "{other:?}"
            );
        }
        // The stored fingerprint of an ordinary request is golden.
        assert_eq!(
            validation("/payments", "b=2&a=1"),
            "28584dfa595c5c9db5626404f47ba3c5"
        );
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
        let all = map(&[("key", "a"), ("key", "b")]);
        let merged = merged(&all, &map(&[("key", "b"), ("host", "h")]));
        assert_eq!(merged, map(&[("key", "a"), ("key", "b"), ("host", "h")]));
    }

    #[test]
    fn several_values_are_joined_and_one_value_stays() {
        let joined = joined(&map(&[("vary", "a"), ("vary", "b"), ("location", "/x, y")]));
        assert_eq!(joined, map(&[("vary", "a, b"), ("location", "/x, y")]));
    }
}
