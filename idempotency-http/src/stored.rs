//! A response as it is stored: status, allowed headers and the bytes of the body.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::is_never_stored;

/// A response as it is stored. Its JSON is a proxy response of API Gateway, so that functions in other languages can read it,
/// and so that this crate reads theirs.
///
/// Text is stored as text, everything else as base64. Both keep every byte. `Debug` shows the status and the length.
///
/// # Examples
///
/// ```
/// use idempotency_http::StoredResponse;
///
/// let text = r#"{"statusCode":201,"headers":{"content-type":"text/plain"},"body":"paid","isBase64Encoded":false}"#;
/// let stored = StoredResponse::from_json(text)?;
/// assert_eq!((stored.status().as_u16(), stored.body().as_ref()), (201, b"paid".as_slice()));
/// assert_eq!(stored.to_json().unwrap(), text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    pub(crate) status: StatusCode,
    /// None of them is one that is never stored.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl StoredResponse {
    /// Returns a response of these parts.
    ///
    /// Headers that are never stored are left out: cookies, `content-length`, and those of one connection.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        let mut allowed = HeaderMap::new();
        for (name, value) in &headers {
            if !is_never_stored(name) {
                allowed.append(name, value.clone());
            }
        }
        Self {
            status,
            headers: allowed,
            body,
        }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the JSON text that is stored. `None` if a header is not UTF-8.
    pub fn to_json(&self) -> Option<String> {
        let mut headers = Map::new();
        let mut multi_value_headers = Map::new();
        for name in self.headers.keys() {
            let values = self.headers.get_all(name).iter();
            let values: Result<Vec<Value>, _> = values
                .map(|value| std::str::from_utf8(value.as_bytes()).map(Value::from))
                .collect();
            let mut values = values.ok()?;
            let name = name.as_str().to_owned();
            if values.len() > 1 {
                multi_value_headers.insert(name, values.into());
            } else if let Some(value) = values.pop() {
                headers.insert(name, value);
            }
        }
        let text = std::str::from_utf8(&self.body).ok();
        let text = text.filter(|text| is_text(text));
        let written = ResponseJson {
            status_code: self.status.as_u16(),
            headers,
            multi_value_headers,
            is_base64_encoded: text.is_none(),
            body: match text {
                Some(text) => Cow::Borrowed(text),
                None => Cow::Owned(STANDARD.encode(&self.body)),
            },
        };
        serde_json::to_string(&written).ok()
    }

    /// Reads a stored response, also one that a function in another language wrote.
    ///
    /// `headers`, `multiValueHeaders` and `body` may be missing or null, and other members are ignored.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, if it has no valid `statusCode`, or if its body is neither text nor base64.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        let read: Read = serde_json::from_str(text)?;
        let status = match &read.status_code {
            Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
            Value::String(code) => code.parse().ok(),
            _ => None,
        };
        let status = status.and_then(|code| StatusCode::from_u16(code).ok());
        // The messages must not quote the response.
        let status =
            status.ok_or_else(|| serde_json::Error::custom("`statusCode` is not a status"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in read.headers.unwrap_or_default() {
            add(&mut headers, &name, &[value]);
        }
        for (name, values) in read.multi_value_headers.unwrap_or_default() {
            if let Value::Array(values) = values {
                // API Gateway takes the list where both name a header.
                headers.remove(name.as_str());
                add(&mut headers, &name, &values);
            }
        }
        let body = read.body.unwrap_or_default();
        let body = if read.is_base64_encoded == Some(true) {
            let decoded = STANDARD.decode(body);
            let invalid = |_| serde_json::Error::custom("`body` is not base64");
            Bytes::from(decoded.map_err(invalid)?)
        } else {
            Bytes::from(body)
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// Returns true if every header is UTF-8, so that the response can be stored.
    pub(crate) fn has_text_headers(&self) -> bool {
        let mut values = self.headers.values();
        values.all(|value| std::str::from_utf8(value.as_bytes()).is_ok())
    }

    /// Returns the response that is sent, with a `content-length`.
    pub(crate) fn into_response(self) -> http::Response<Bytes> {
        let length = self.body.len();
        let has_length = self.status != StatusCode::NO_CONTENT
            && self.status != StatusCode::NOT_MODIFIED
            && !self.status.is_informational();
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if has_length {
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        response
    }
}

impl fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status.as_u16())
            .field("body_length", &self.body.len())
            .finish_non_exhaustive()
    }
}

// The JSON of a stored response: the proxy response of API Gateway.

/// The members in the order in which they are stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseJson<'a> {
    status_code: u16,
    headers: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    multi_value_headers: Map<String, Value>,
    body: Cow<'a, str>,
    is_base64_encoded: bool,
}

/// The members as other programs write them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    status_code: Value,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    multi_value_headers: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: Option<bool>,
}

/// Returns false for a body with control characters: base64 takes less room than their escapes.
fn is_text(body: &str) -> bool {
    !body
        .bytes()
        .any(|byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r'))
}

/// Adds a header, unless it is one that is never stored. A value that no header can have is left out.
fn add(headers: &mut HeaderMap, name: &str, values: &[Value]) {
    let name = HeaderName::from_bytes(name.as_bytes()).ok();
    let Some(name) = name.filter(|name| !is_never_stored(name)) else {
        return;
    };
    for value in values {
        let text = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Number(number) => Cow::Owned(number.to_string()),
            Value::Bool(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(&name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    /// Returns a response with these headers, such as `etag: "e"`, with a line for each.
    fn response(status: u16, headers: &str, body: &[u8]) -> StoredResponse {
        let mut map = HeaderMap::new();
        for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        StoredResponse::new(status, map, Bytes::copy_from_slice(body))
    }

    /// The stored format. Records of these texts exist: they must be readable, and the texts must stay the same.
    #[test]
    fn the_stored_json_is_golden() {
        for (response, text) in [
            (
                response(
                    201,
                    "content-type: application/json\nlocation: /p/1",
                    br#"{"id":1}"#,
                ),
                r#"{"statusCode":201,"headers":{"content-type":"application/json","location":"/p/1"},"body":"{\"id\":1}","isBase64Encoded":false}"#,
            ),
            (
                response(204, "", b""),
                r#"{"statusCode":204,"headers":{},"body":"","isBase64Encoded":false}"#,
            ),
            (
                response(200, "content-type: image/png", b"\x89PNG\r\n\x1a\n\xff"),
                r#"{"statusCode":200,"headers":{"content-type":"image/png"},"body":"iVBORw0KGgr/","isBase64Encoded":true}"#,
            ),
            (
                response(200, "link: <a>\nlink: <b>\netag: \"e\"", "é\n".as_bytes()),
                r#"{"statusCode":200,"headers":{"etag":"\"e\""},"multiValueHeaders":{"link":["<a>","<b>"]},"body":"é\n","isBase64Encoded":false}"#,
            ),
            (
                response(200, "", b"a\0b"),
                r#"{"statusCode":200,"headers":{},"body":"YQBi","isBase64Encoded":true}"#,
            ),
        ] {
            assert_eq!(response.to_json().unwrap(), text);
            assert_eq!(StoredResponse::from_json(text).unwrap(), response);
        }
    }

    #[test]
    fn responses_of_other_programs_are_read() {
        for (text, expected) in [
            // Powertools for AWS Lambda (Python), with an event handler.
            (
                r#"{"statusCode": 200, "body": "{\"id\":1}", "isBase64Encoded": false, "multiValueHeaders": {"Content-Type": ["application/json"]}}"#,
                response(200, "content-type: application/json", br#"{"id":1}"#),
            ),
            // A handler that returns what API Gateway needs and no more.
            (r#"{"statusCode": 204}"#, response(204, "", b"")),
            (
                r#"{"statusCode": "201", "headers": null, "multiValueHeaders": null, "body": null, "isBase64Encoded": null}"#,
                response(201, "", b""),
            ),
            // Payload format 2.0, with a cookie that must not be set again.
            (
                r#"{"cookies": ["session=1"], "isBase64Encoded": true, "statusCode": 200, "headers": {"X-Count": 5, "x-ok": true, "x-null": null, "Set-Cookie": "session=1"}, "body": "/w=="}"#,
                response(200, "x-count: 5\nx-ok: true", b"\xff"),
            ),
            // A load balancer's response, and headers that no response can have.
            (
                r#"{"statusCode": 200, "statusDescription": "200 OK", "headers": {"a b": "1", "x-a": "1\n2", "x-b": ["1"]}, "body": "ok"}"#,
                response(200, "", b"ok"),
            ),
            // The list wins where both name a header, as in API Gateway.
            (
                r#"{"statusCode": 200, "headers": {"Link": "<b>"}, "multiValueHeaders": {"link": ["<a>", "<b>"]}}"#,
                response(200, "link: <a>\nlink: <b>", b""),
            ),
        ] {
            let read = StoredResponse::from_json(text).ok();
            assert_eq!(read, Some(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_response_is_an_error_without_a_part_of_it() {
        for text in [
            "null",
            "[]",
            "\"secret\"",
            "{}",
            r#"{"secret": 1}"#,
            r#"{"statusCode": "secret"}"#,
            r#"{"statusCode": 99}"#,
            r#"{"statusCode": 1000}"#,
            r#"{"statusCode": -1}"#,
            r#"{"statusCode": 200.5}"#,
            r#"{"statusCode": null}"#,
            r#"{"statusCode": 200, "body": "secret!", "isBase64Encoded": true}"#,
        ] {
            let error = StoredResponse::from_json(text).unwrap_err().to_string();
            // serde's own messages of types quote the text; the engine drops them.
            if text.starts_with('{') {
                assert!(!error.contains("secret"), "{error}");
            }
        }
    }

    #[test]
    fn a_sent_response_has_its_length_unless_its_status_has_none() {
        for (status, body, length) in [
            (200, "", Some("0")),
            (200, "four", Some("4")),
            (204, "", None),
            (304, "", None),
        ] {
            let stored = response(status, "content-length: 99", body.as_bytes());
            let sent = stored.into_response();
            let found = sent.headers().get(CONTENT_LENGTH);
            assert_eq!(found.map(|length| length.to_str().unwrap()), length);
        }
    }

    #[test]
    fn a_header_that_is_not_text_cannot_be_stored() {
        let not_text = HeaderValue::from_bytes(b"\xff").unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-a"), not_text)]);
        let response = StoredResponse::new(StatusCode::OK, headers, Bytes::new());
        assert!(!response.has_text_headers());
        assert_eq!(response.to_json(), None);
    }

    #[test]
    fn debug_shows_neither_headers_nor_body() {
        let response = response(200, "x-a: secret", b"secret");
        let shown = "StoredResponse { status: 200, body_length: 6, .. }";
        assert_eq!(format!("{response:?}"), shown);
    }

    fn any_headers() -> impl Strategy<Value = HeaderMap> {
        let header = ("[a-z][a-z0-9-]{0,12}", "[ -~é\u{1F600}]{0,20}");
        prop::collection::vec(header, 0..6).prop_map(|pairs| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                let name: HeaderName = name.parse().unwrap();
                let value = HeaderValue::from_bytes(value.as_bytes());
                headers.extend(value.map(|value| (name, value)));
            }
            headers
        })
    }

    fn any_body() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            ".{0,100}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn every_response_is_read_back_and_sent_byte_for_byte(
            status in prop_oneof![100_u16..=999, prop::sample::select(&[200, 204, 302, 404][..])],
            headers in any_headers(),
            body in any_body(),
        ) {
            let status = StatusCode::from_u16(status).unwrap();
            let response = StoredResponse::new(status, headers, body.into());
            let text = response.to_json().unwrap();
            let read = StoredResponse::from_json(&text).unwrap();
            prop_assert_eq!(&read, &response);
            let (mut sent, body) = read.into_response().into_parts();
            sent.headers.remove(CONTENT_LENGTH);
            prop_assert_eq!((sent.status, sent.headers), (status, response.headers));
            prop_assert_eq!(body, response.body);
        }
    }
}
