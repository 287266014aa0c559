//! HTTP requests, in the form of each source, and the events of a bus.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{filled, hex32, json_value, set_all, uuid};

const ACCOUNT: &str = "123456789012";
const CLIENT_IP: &str = "192.0.2.10";

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    ApiGatewayV1,
    ApiGatewayV2,
    FunctionUrl,
    Alb,
    /// A target group with `lambda.multi_value_headers.enabled`.
    AlbLists,
    EventBridge,
}

/// An event that is not a batch. [`api_gateway_v2`], [`api_gateway_v1`], [`alb`], [`function_url`] and [`event_bridge`] make it.
///
/// A method that the event's source does not know panics: AWS never sends such an event.
#[derive(Clone, Debug)]
#[must_use]
pub struct AwsEvent {
    source: Source,
    /// The event without headers and body.
    event: Value,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Body>,
    changes: Vec<(String, Value)>,
}

#[derive(Clone, Debug)]
enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

/// Starts a request through an HTTP API of API Gateway, in payload format 2.0. The path may have a query.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::api_gateway_v2("POST", "/payments?dry=1")
///     .header("Idempotency-Key", "k-1")
///     .json(&json!({"amount": 42}))
///     .to_value();
/// assert_eq!(event["headers"]["idempotency-key"], "k-1");
/// assert_eq!(event["queryStringParameters"], json!({"dry": "1"}));
/// ```
pub fn api_gateway_v2(method: impl AsRef<str>, path: impl AsRef<str>) -> AwsEvent {
    request(Source::ApiGatewayV2, method.as_ref(), path.as_ref())
}

/// Starts a request through a REST API of API Gateway, in payload format 1.0. The path may have a query.
///
/// Header names keep the case in which they are given.
pub fn api_gateway_v1(method: impl AsRef<str>, path: impl AsRef<str>) -> AwsEvent {
    request(Source::ApiGatewayV1, method.as_ref(), path.as_ref())
}

/// Starts a request to a function URL. The path may have a query.
///
/// Without [`iam_user`](AwsEvent::iam_user) the caller is anonymous.
pub fn function_url(method: impl AsRef<str>, path: impl AsRef<str>) -> AwsEvent {
    request(Source::FunctionUrl, method.as_ref(), path.as_ref())
}

/// Starts a request through an Application Load Balancer. The path may have a query.
///
/// As the load balancer does, the event has names and values of the query in their encoded form.
pub fn alb(method: impl AsRef<str>, path: impl AsRef<str>) -> AwsEvent {
    request(Source::Alb, method.as_ref(), path.as_ref())
}

/// Makes an event of an EventBridge bus, from its source, detail type and detail.
///
/// The id is computed from them: an event that is delivered again has the same id.
///
/// # Panics
///
/// If the detail cannot be written as JSON.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::event_bridge("shop.orders", "OrderPaid", &json!({"order_id": "o-1"})).to_value();
/// assert_eq!(event["detail-type"], "OrderPaid");
/// assert_eq!(event["detail"]["order_id"], "o-1");
/// ```
pub fn event_bridge<T: Serialize + ?Sized>(
    source: impl AsRef<str>,
    detail_type: impl AsRef<str>,
    detail: &T,
) -> AwsEvent {
    let (source, detail_type) = (source.as_ref(), detail_type.as_ref());
    let detail = json_value(detail);
    let id = uuid(&[source, detail_type, &detail.to_string()]);
    let values = [("source", source), ("type", detail_type), ("id", &id)];
    let mut event = filled(include_str!("templates/event_bridge.json"), &values);
    event["detail"] = detail;
    AwsEvent::new(Source::EventBridge, event, "")
}

fn request(source: Source, method: &str, path: &str) -> AwsEvent {
    let template = match source {
        Source::ApiGatewayV1 => include_str!("templates/api_gateway_v1.json"),
        Source::ApiGatewayV2 => include_str!("templates/api_gateway_v2.json"),
        Source::FunctionUrl => include_str!("templates/function_url.json"),
        Source::Alb | Source::AlbLists => include_str!("templates/alb.json"),
        Source::EventBridge => include_str!("templates/event_bridge.json"),
    };
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs: Vec<_> = pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    let raw = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    let raw = raw.collect::<Vec<_>>().join("&");
    let mut event = filled(
        template,
        &[("method", method), ("path", path), ("query", &raw)],
    );
    // The load balancer leaves names and values encoded.
    let form = |text: &String| match source {
        Source::Alb => encode(text),
        _ => text.clone(),
    };
    let mut lists = Vec::new();
    for (name, value) in &pairs {
        add(&mut lists, &form(name), form(value), |name, other| {
            name == other
        });
    }
    match source {
        Source::ApiGatewayV1 if !pairs.is_empty() => {
            event["queryStringParameters"] = last_of_each(&lists);
            event["multiValueQueryStringParameters"] = lists_of_each(&lists);
        }
        Source::ApiGatewayV2 | Source::FunctionUrl if !pairs.is_empty() => {
            event["queryStringParameters"] = joined(&lists);
        }
        Source::Alb => {
            event["queryStringParameters"] = last_of_each(&lists);
            event["multiValueQueryStringParameters"] = lists_of_each(&lists);
        }
        _ => {}
    }
    AwsEvent::new(source, event, path)
}

impl AwsEvent {
    fn new(source: Source, event: Value, path: &str) -> Self {
        Self {
            source,
            event,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            changes: Vec::new(),
        }
    }

    /// Adds a header. A name that is added again has several values.
    ///
    /// It replaces a header that the event has by itself, such as `User-Agent`.
    ///
    /// # Panics
    ///
    /// If the event is not an HTTP request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.expect("header", self.source != Source::EventBridge);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body to a text.
    ///
    /// # Panics
    ///
    /// If the event is not an HTTP request.
    pub fn body(mut self, text: impl Into<String>) -> Self {
        self.expect("body", self.source != Source::EventBridge);
        self.body = Some(Body::Text(text.into()));
        self
    }

    /// Sets the body to JSON, and the content type unless the request has one.
    ///
    /// # Panics
    ///
    /// If the event is not an HTTP request, or the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let request = self.body(json_value(value).to_string());
        if request.has_header("content-type") {
            return request;
        }
        request.header("Content-Type", "application/json")
    }

    /// Sets the body to bytes. The event has them in base64.
    ///
    /// # Panics
    ///
    /// If the event is not an HTTP request.
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.expect("bytes", self.source != Source::EventBridge);
        self.body = Some(Body::Bytes(bytes.into()));
        self
    }

    /// Adds a claim of the caller's token: of a JWT authorizer, or of a Cognito user pool in payload format 1.0.
    ///
    /// # Panics
    ///
    /// If the request is not one through API Gateway.
    pub fn claim(mut self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        let authorizer = &mut self.event["requestContext"]["authorizer"];
        let claims = match self.source {
            Source::ApiGatewayV1 => &mut authorizer["claims"],
            Source::ApiGatewayV2 => {
                if authorizer["jwt"].is_null() {
                    *authorizer = json!({"jwt": {"claims": {}, "scopes": null}});
                }
                &mut authorizer["jwt"]["claims"]
            }
            other => panic!("{other:?} has no claims"),
        };
        claims[name.as_ref()] = value.into().into();
        self
    }

    /// Sets the IAM user that signed the request.
    ///
    /// # Panics
    ///
    /// If the request is not one through API Gateway or to a function URL.
    pub fn iam_user(mut self, name: impl AsRef<str>) -> Self {
        let arn = format!("arn:aws:iam::{ACCOUNT}:user/{}", name.as_ref());
        let context = &mut self.event["requestContext"];
        let (key, id) = ("AKIAIOSFODNN7EXAMPLE", "AIDACKCEVSQ6C2EXAMPLE");
        let organisation = match self.source {
            Source::ApiGatewayV1 => {
                let identity = &mut context["identity"];
                let signed = [("accessKey", key), ("accountId", ACCOUNT), ("caller", id)];
                for (field, value) in signed.into_iter().chain([("user", id), ("userArn", &arn)]) {
                    identity[field] = value.into();
                }
                return self;
            }
            Source::ApiGatewayV2 => json!("o-a1b2c3d4e5"),
            Source::FunctionUrl => {
                context["accountId"] = ACCOUNT.into();
                context["authentication"] = Value::Null;
                Value::Null
            }
            other => panic!("{other:?} has no IAM user"),
        };
        context["authorizer"] = json!({"iam": {
            "accessKey": key,
            "accountId": ACCOUNT,
            "callerId": id,
            "cognitoIdentity": null,
            "principalOrgId": organisation,
            "userArn": arn,
            "userId": id,
        }});
        self
    }

    /// Writes the event as for a target group with `lambda.multi_value_headers.enabled`.
    ///
    /// It has `multiValueHeaders` and `multiValueQueryStringParameters` instead of the fields with one value.
    ///
    /// # Panics
    ///
    /// If the request is not one through a load balancer.
    pub fn multi_value_headers(mut self) -> Self {
        let is_alb = matches!(self.source, Source::Alb | Source::AlbLists);
        self.expect("multi_value_headers", is_alb);
        self.source = Source::AlbLists;
        self
    }

    /// Sets the field at a JSON pointer, such as `/requestContext/stage`, after all other methods.
    ///
    /// Missing objects on the way are created. The event panics when it is written if a list has no such item.
    pub fn with(mut self, pointer: impl Into<String>, value: impl Into<Value>) -> Self {
        self.changes.push((pointer.into(), value.into()));
        self
    }

    /// Returns the event as a JSON value.
    pub fn to_value(&self) -> Value {
        let mut event = self.event.clone();
        if self.source != Source::EventBridge {
            self.write_headers(&mut event);
            self.write_body(&mut event);
        }
        set_all(&mut event, &self.changes);
        event
    }

    /// Reads the event as a handler of this type receives it.
    ///
    /// # Errors
    ///
    /// If the event does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.to_string())
    }

    fn expect(&self, method: &str, is_known: bool) {
        assert!(is_known, "an event of {:?} has no `{method}`", self.source);
    }

    fn has_header(&self, name: &str) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|other| other.eq_ignore_ascii_case(name))
    }

    /// Writes the headers of the client, and those that every event has.
    fn write_headers(&self, event: &mut Value) {
        let host = match self.source {
            Source::Alb | Source::AlbLists => {
                json!("shop-1334523864.eu-central-1.elb.amazonaws.com")
            }
            _ => event["requestContext"]["domainName"].clone(),
        };
        let length = match &self.body {
            None => String::new(),
            Some(Body::Text(text)) => text.len().to_string(),
            Some(Body::Bytes(bytes)) => bytes.len().to_string(),
        };
        let trace = format!("Root=1-67f64901-{}", &hex32(&[&self.path])[..24]);
        let added = [
            ("Accept", "*/*"),
            ("Content-Length", &length),
            ("Host", host.as_str().unwrap_or_default()),
            ("User-Agent", "shop-checkout/1.4"),
            ("X-Amzn-Trace-Id", &trace),
            ("X-Forwarded-For", CLIENT_IP),
            ("X-Forwarded-Port", "443"),
            ("X-Forwarded-Proto", "https"),
        ];
        let missing = |(name, value): &(&str, &str)| !self.has_header(name) && !value.is_empty();
        let added = added.into_iter().filter(missing);
        let given = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let mut headers = Vec::new();
        for (name, value) in given.chain(added) {
            let name = match self.source {
                Source::ApiGatewayV1 => name.to_owned(),
                _ => name.to_ascii_lowercase(),
            };
            add(
                &mut headers,
                &name,
                value.to_owned(),
                str::eq_ignore_ascii_case,
            );
        }
        let agent = headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
        let agent = agent
            .map(|(_, values)| values.join(","))
            .unwrap_or_default();
        match self.source {
            Source::ApiGatewayV1 => {
                event["requestContext"]["identity"]["userAgent"] = agent.into();
                event["headers"] = last_of_each(&headers);
                event["multiValueHeaders"] = lists_of_each(&headers);
            }
            Source::ApiGatewayV2 | Source::FunctionUrl => {
                event["requestContext"]["http"]["userAgent"] = agent.into();
                // Cookies have a list of their own.
                if let Some(at) = headers.iter().position(|(name, _)| name == "cookie") {
                    let (_, values) = headers.remove(at);
                    let cookies = values.iter().flat_map(|value| value.split("; "));
                    event["cookies"] = cookies.collect();
                }
                event["headers"] = joined(&headers);
            }
            source => {
                let unused = if source == Source::AlbLists {
                    event["multiValueHeaders"] = lists_of_each(&headers);
                    "queryStringParameters"
                } else {
                    event["headers"] = last_of_each(&headers);
                    "multiValueQueryStringParameters"
                };
                event.as_object_mut().and_then(|event| event.remove(unused));
            }
        }
    }

    fn write_body(&self, event: &mut Value) {
        match &self.body {
            None => {}
            Some(Body::Text(text)) => event["body"] = text.as_str().into(),
            Some(Body::Bytes(bytes)) => {
                event["body"] = STANDARD.encode(bytes).into();
                event["isBase64Encoded"] = true.into();
            }
        }
    }
}

/// Writes the event as JSON text.
impl fmt::Display for AwsEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

/// The values of each name, in the order in which they were added.
type Lists = Vec<(String, Vec<String>)>;

fn add(lists: &mut Lists, name: &str, value: String, is_same: fn(&str, &str) -> bool) {
    match lists.iter_mut().find(|(other, _)| is_same(other, name)) {
        Some((_, values)) => values.push(value),
        None => lists.push((name.to_owned(), vec![value])),
    }
}

/// Returns the last value of each name, which is what the fields with one value hold.
fn last_of_each(lists: &Lists) -> Value {
    of_each(lists, |values| json!(values.last()))
}

fn lists_of_each(lists: &Lists) -> Value {
    of_each(lists, |values| json!(values))
}

/// Returns the values of each name joined by commas, as payload format 2.0 has them.
fn joined(lists: &Lists) -> Value {
    of_each(lists, |values| values.join(",").into())
}

fn of_each(lists: &Lists, value: fn(&[String]) -> Value) -> Value {
    let fields = lists
        .iter()
        .map(|(name, values)| (name.clone(), value(values)));
    Value::Object(fields.collect())
}

/// Encodes a text for a query.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// Decodes a part of a query. A `%` without two digits stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        let (decoded, length) = match (first, byte) {
            (b'%', Some(byte)) => (byte, 2),
            (b'+', _) => (b' ', 0),
            (other, _) => (other, 0),
        };
        bytes.push(decoded);
        rest = &tail[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_encoded_again() {
        let event = api_gateway_v2("GET", "/a?x=1+%C3%A9&y&x=%").to_value();
        assert_eq!(event["rawPath"], "/a");
        assert_eq!(event["rawQueryString"], "x=1%20%C3%A9&y=&x=%25");
        assert_eq!(
            event["queryStringParameters"],
            json!({"x": "1 é,%", "y": ""})
        );
    }

    #[test]
    #[should_panic(expected = "an event of EventBridge has no `header`")]
    fn a_header_of_an_event_of_a_bus_is_refused() {
        let _ = event_bridge("a", "b", &1).header("X-A", "1");
    }
}
