//! The event of a request, in the shape of API Gateway's payload format 2.0.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::COOKIE;
use http::request::Parts;
use serde_json::{Map, Value, json};

/// Returns the event as a JSON text. Without `body` the event has no body.
///
/// A header that is not UTF-8 is left out: with a replacement character, two values could become one key.
pub(super) fn text(parts: &Parts, body: Option<&[u8]>, context: Option<Value>) -> String {
    let mut event = Map::new();
    event.insert("version".to_owned(), "2.0".into());
    event.insert("rawPath".to_owned(), parts.uri.path().into());
    let query = parts.uri.query().unwrap_or_default();
    event.insert("rawQueryString".to_owned(), query.into());
    event.insert("headers".to_owned(), headers(parts).into());
    let cookies = cookies(parts);
    if !cookies.is_empty() {
        event.insert("cookies".to_owned(), cookies.into());
    }
    let parameters = parameters(query);
    if !parameters.is_empty() {
        event.insert("queryStringParameters".to_owned(), parameters.into());
    }
    event.insert("requestContext".to_owned(), request_context(parts, context));
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

/// Returns the headers with lower-case names. Values of one name are joined by commas.
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
    joined
}

fn cookies(parts: &Parts) -> Vec<String> {
    let headers = parts.headers.get_all(COOKIE).iter();
    let texts = headers.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let cookies = texts.flat_map(|text| text.split(';'));
    let cookies = cookies.map(|cookie| cookie.trim().to_owned());
    cookies.filter(|cookie| !cookie.is_empty()).collect()
}

/// Returns the decoded parameters of a query. Values of one name are joined by commas.
fn parameters(query: &str) -> Map<String, Value> {
    let mut values = BTreeMap::<String, String>::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value);
        match values.entry(decoded(name)) {
            std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(value)),
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                entry.get_mut().push(',');
                entry.get_mut().push_str(&value);
            }
        }
    }
    let pairs = values.into_iter();
    pairs.map(|(name, value)| (name, value.into())).collect()
}

/// Decodes `%XX` and `+`. A text that is not UTF-8 after that stays as it was sent.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high * 16 + low);
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Returns what the platform knows, with the method and the path of the request.
fn request_context(parts: &Parts, context: Option<Value>) -> Value {
    let mut context = match context {
        Some(Value::Object(context)) => context,
        _ => Map::new(),
    };
    if !context.contains_key("http") {
        let http = json!({"method": parts.method.as_str(), "path": parts.uri.path()});
        context.insert("http".to_owned(), http);
    }
    context.into()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn event(
        request: http::request::Builder,
        body: Option<&[u8]>,
        context: Option<Value>,
    ) -> Value {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        serde_json::from_str(&text(&parts, body, context)).unwrap()
    }

    #[test]
    fn an_event_has_the_shape_of_payload_format_2() {
        let request = Request::post("https://shop.example/a%20b?x=1&y=%2F+z&x=2&e")
            .header("X-Id", "1")
            .header("x-id", "2")
            .header("cookie", "a=1; b=2")
            .header("cookie", "c=3");
        assert_eq!(
            event(request, Some(b"{\"a\":1}"), None),
            json!({
                "version": "2.0",
                "rawPath": "/a%20b",
                "rawQueryString": "x=1&y=%2F+z&x=2&e",
                "headers": {"x-id": "1,2"},
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
        assert_eq!(
            (&binary["body"], &binary["isBase64Encoded"]),
            (&json!("/wA="), &json!(true))
        );
        let without = event(Request::post("/"), None, None);
        assert!(without.get("body").is_none() && without.get("isBase64Encoded").is_none());
    }

    #[test]
    fn a_header_that_is_not_text_is_left_out() {
        let value = HeaderValue::from_bytes(b"\xff").unwrap();
        let request = Request::post("/").header("x-a", value).header("x-b", "b");
        assert_eq!(event(request, None, None)["headers"], json!({"x-b": "b"}));
    }

    #[test]
    fn what_the_platform_knows_is_added_to_the_context() {
        let context = json!({"authorizer": {"sub": "u-1"}});
        let with = event(Request::post("/"), None, Some(context));
        assert_eq!(
            with["requestContext"],
            json!({"authorizer": {"sub": "u-1"}, "http": {"method": "POST", "path": "/"}})
        );
        let own = json!({"http": {"method": "POST", "sourceIp": "192.0.2.1"}});
        let with = event(Request::post("/"), None, Some(own.clone()));
        assert_eq!(with["requestContext"], own);
        let odd = event(Request::post("/"), None, Some(json!("text")));
        assert!(odd["requestContext"]["http"].is_object());
    }

    #[test]
    fn escapes_that_are_wrong_stay_as_they_were_sent() {
        for (sent, expected) in [
            ("%zz", "%zz"),
            ("%4", "%4"),
            ("%41", "A"),
            ("%ff", "%ff"),
            ("%c3%a9", "é"),
        ] {
            assert_eq!(decoded(sent), expected, "{sent}");
        }
    }
}
