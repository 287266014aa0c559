//! A request in memory, and its form as an event for expressions.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{COOKIE, HOST};
use http::request::Parts;
use serde_json::{Map, Value, json};

use crate::operation::{RequestEvent, Target};

/// A request whose body is in memory, as key, caller and fingerprint are taken from it.
/// [`HttpCall`](crate::HttpCall) has an example.
#[derive(Clone, Copy)]
pub struct ReceivedRequest<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) body: &'a [u8],
    /// Path and query as the platform has received them; `None` if it does not tell.
    pub(crate) path: Option<&'a str>,
    pub(crate) query: Option<&'a str>,
    context: Option<&'a (dyn Fn() -> Option<Value> + Send + Sync)>,
    /// The event that was read for this request, if there is one.
    pub(crate) event: Option<&'a RequestEvent>,
}

impl<'a> ReceivedRequest<'a> {
    /// Returns a request of this head and this body.
    pub fn new(parts: &'a Parts, body: &'a [u8]) -> Self {
        Self {
            parts,
            body,
            path: None,
            query: None,
            context: None,
            event: None,
        }
    }

    /// Adds the path that the client sent, for a platform that knows it: the URI of the head can have another one.
    #[must_use]
    pub fn with_path(mut self, path: &'a str) -> Self {
        self.path = Some(path);
        self
    }

    /// Adds the query that the client sent, without `?`, for a platform that knows it.
    #[must_use]
    pub fn with_query(mut self, query: &'a str) -> Self {
        self.query = Some(query);
        self
    }

    /// Adds what the platform knows about the request: the member `requestContext` of its event.
    ///
    /// The function is called only if an expression needs the event.
    #[must_use]
    pub fn with_request_context(
        mut self,
        context: &'a (dyn Fn() -> Option<Value> + Send + Sync),
    ) -> Self {
        self.context = Some(context);
        self
    }

    /// Makes expressions see this event, instead of one that is made from the request. The operation that read it must be the one
    /// that the request is for: another one refuses the request.
    #[doc(hidden)]
    #[must_use]
    pub fn with_event(mut self, event: &'a RequestEvent) -> Self {
        self.event = Some(event);
        self
    }

    /// Returns the JSON text of an event that is made from the request. Without `with_body` it has no body.
    pub(crate) fn event_text(&self, target: &Target<'_>, with_body: bool) -> String {
        let context = self.context.and_then(|context| context());
        event_text(self.parts, target, with_body.then_some(self.body), context)
    }
}

// The event of a request, in the shape of API Gateway's payload format 2.0.

/// Returns the event as a JSON text. Without `body` the event has no body.
///
/// What is not UTF-8 is left out: with a replacement character, two values could become one key.
fn event_text(
    parts: &Parts,
    target: &Target<'_>,
    body: Option<&[u8]>,
    context: Option<Value>,
) -> String {
    let mut event = Map::new();
    event.insert("version".to_owned(), "2.0".into());
    let (path, query) = (&*target.path, &*target.query);
    event.insert("rawPath".to_owned(), path.into());
    event.insert("rawQueryString".to_owned(), query.into());
    event.insert("headers".to_owned(), headers(parts).into());
    let cookies = cookies(parts);
    if !cookies.is_empty() {
        event.insert("cookies".to_owned(), cookies.into());
    }
    if let Some(parameters) = parameters(query).filter(|parameters| !parameters.is_empty()) {
        event.insert("queryStringParameters".to_owned(), parameters.into());
    }
    let context = request_context(parts, path, context);
    event.insert("requestContext".to_owned(), context);
    if let Some(body) = body {
        let (text, is_base64) = match std::str::from_utf8(body) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (STANDARD.encode(body), true),
        };
        event.insert("body".to_owned(), text.into());
        event.insert("isBase64Encoded".to_owned(), is_base64.into());
    }
    Value::Object(event).to_string()
}

/// Returns the headers with lower-case names. Values of one name are joined by commas. A request of HTTP/2 has its host in the URI alone.
fn headers(parts: &Parts) -> Map<String, Value> {
    let mut joined = Map::new();
    for name in parts.headers.keys().filter(|name| **name != COOKIE) {
        let values: Result<Vec<_>, _> = parts
            .headers
            .get_all(name)
            .iter()
            .map(|value| std::str::from_utf8(value.as_bytes()))
            .collect();
        if let Ok(values) = values {
            joined.insert(name.as_str().to_owned(), values.join(",").into());
        }
    }
    if let (None, Some(authority)) = (parts.headers.get(HOST), parts.uri.authority()) {
        let host = authority.as_str().rsplit('@').next();
        joined.insert(HOST.as_str().to_owned(), host.into());
    }
    joined
}

fn cookies(parts: &Parts) -> Vec<String> {
    let headers = parts.headers.get_all(COOKIE).iter();
    let texts = headers.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let cookies = texts.flat_map(|text| text.split(';'));
    let cookies = cookies.map(|cookie| cookie.trim_matches([' ', '\t']).to_owned());
    cookies.filter(|cookie| !cookie.is_empty()).collect()
}

/// Returns the decoded parameters of a query; `None` if one of them cannot be decoded. Values of one name are joined by commas.
fn parameters(query: &str) -> Option<Map<String, Value>> {
    let mut joined = BTreeMap::<String, String>::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        match joined.get_mut(&name) {
            Some(values) => {
                values.push(',');
                values.push_str(&value);
            }
            None => drop(joined.insert(name, value)),
        }
    }
    let pairs = joined.into_iter();
    Some(pairs.map(|(name, value)| (name, value.into())).collect())
}

/// Decodes `%XX` and `+`. Returns `None` if an escape is wrong, or if the text is not UTF-8 after that: if it stayed as it was sent, `%ff`
/// would become the same text as `%25ff`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => {
                bytes.push(digit(*high)? * 16 + digit(*low)?);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// Returns what the platform knows, with the method and the path of the request.
fn request_context(parts: &Parts, path: &str, context: Option<Value>) -> Value {
    let mut context = match context {
        Some(Value::Object(context)) => context,
        _ => Map::new(),
    };
    if !context.contains_key("http") {
        let http = json!({"method": parts.method.as_str(), "path": path});
        context.insert("http".to_owned(), http);
    }
    context.into()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn event(head: http::request::Builder, body: Option<&[u8]>, context: Option<Value>) -> Value {
        let (parts, ()) = head.body(()).unwrap().into_parts();
        let target = Target::of_uri(&parts.uri);
        serde_json::from_str(&event_text(&parts, &target, body, context)).unwrap()
    }

    #[test]
    fn an_event_has_the_shape_of_payload_format_2() {
        // A header that is not text is left out.
        let request = Request::post("https://shop.example/a%20b?x=1&y=%2F+z&x=2&e")
            .header("X-Id", "1")
            .header("x-id", "2")
            .header("x-a", HeaderValue::from_bytes(b"\xff").unwrap())
            .header("cookie", "a=1; b=2")
            .header("cookie", "c=3");
        assert_eq!(
            event(request, Some(b"{\"a\":1}"), None),
            json!({
                "version": "2.0",
                "rawPath": "/a%20b",
                "rawQueryString": "x=1&y=%2F+z&x=2&e",
                "headers": {"host": "shop.example", "x-id": "1,2"},
                "cookies": ["a=1", "b=2", "c=3"],
                "queryStringParameters": {"x": "1,2", "y": "/ z", "e": ""},
                "requestContext": {"http": {"method": "POST", "path": "/a%20b"}},
                "body": "{\"a\":1}",
                "isBase64Encoded": false,
            })
        );
    }

    #[test]
    fn a_body_that_is_not_text_is_base64_and_one_that_is_not_needed_is_left_out() {
        let binary = event(Request::post("/"), Some(b"\xff\x00"), None);
        assert_eq!(binary["body"], "/wA=");
        assert_eq!(binary["isBase64Encoded"], true);
        let without = event(Request::post("/"), None, None);
        assert!(without.get("body").is_none() && without.get("isBase64Encoded").is_none());
    }

    #[test]
    fn what_the_platform_knows_is_added_to_the_context() {
        let http = json!({"method": "POST", "path": "/"});
        let own = json!({"http": {"method": "POST", "sourceIp": "192.0.2.1"}});
        for (known, expected) in [
            (
                json!({"authorizer": {"sub": "u-1"}}),
                json!({"authorizer": {"sub": "u-1"}, "http": http}),
            ),
            (own.clone(), own),
            (json!("text"), json!({"http": http})),
        ] {
            let event = event(Request::post("/"), None, Some(known));
            assert_eq!(event["requestContext"], expected);
        }
    }

    #[test]
    fn parameters_of_which_one_cannot_be_decoded_are_left_out() {
        for (sent, expected) in [
            ("%zz", None),
            ("%4", None),
            ("%+1", None),
            ("%ff", None),
            ("%25ff", Some("%ff")),
            ("%41+%2B", Some("A +")),
            ("%c3%a9", Some("é")),
        ] {
            assert_eq!(decoded(sent).as_deref(), expected, "{sent}");
            let event = event(Request::post(format!("/?a=1&b={sent}")), None, None);
            let parameters = expected.map(|value| json!({"a": "1", "b": value}));
            assert_eq!(event.get("queryStringParameters"), parameters.as_ref());
        }
    }

    #[test]
    fn a_cookie_loses_only_the_blanks_that_http_allows_around_it() {
        let cookie = |value: &str| {
            let event = event(Request::post("/").header("cookie", value), None, None);
            event["cookies"].clone()
        };
        assert_eq!(cookie("a=1;b=2 ;\tc=3"), json!(["a=1", "b=2", "c=3"]));
        assert_eq!(cookie("a=1\u{a0}; b=2"), json!(["a=1\u{a0}", "b=2"]));
    }
}
