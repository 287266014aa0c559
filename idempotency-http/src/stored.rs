//! A response as it is stored: status, allowed headers and the bytes of the body.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use idempotency_core::typed::read_by_name;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::is_never_stored;

/// A response as it is stored. Its JSON is a proxy response of API Gateway, so that functions in other languages can read it,
/// and so that this crate reads theirs.
///
/// Text is stored as text, everything else as base64. Both keep every byte. `Debug` shows the status and the length.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoredResponse {
    pub(crate) status: StatusCode,
    /// None of them is one that is never stored.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl StoredResponse {
    /// Returns the JSON text that is stored. `None` if it cannot be written.
    pub(crate) fn to_json(&self) -> Option<String> {
        let mut headers = Map::new();
        let mut multi_value_headers = Map::new();
        let mut latin1_headers = Map::new();
        for name in self.headers.keys() {
            let values = || self.headers.get_all(name).iter();
            let texts: Result<Vec<Value>, _> = values()
                .map(|value| std::str::from_utf8(value.as_bytes()).map(Value::from))
                .collect();
            let written = name.as_str().to_owned();
            let Ok(mut texts) = texts else {
                let text = |value: &HeaderValue| -> String {
                    value.as_bytes().iter().copied().map(char::from).collect()
                };
                let texts = values().map(|value| Value::from(text(value)));
                latin1_headers.insert(written, texts.collect());
                continue;
            };
            if texts.len() > 1 {
                multi_value_headers.insert(written, texts.into());
            } else if let Some(text) = texts.pop() {
                headers.insert(written, text);
            }
        }
        let text = std::str::from_utf8(&self.body).ok();
        let text = text.filter(|text| is_text(text));
        let written = ResponseJson {
            status_code: self.status.as_u16(),
            headers,
            multi_value_headers,
            latin1_headers,
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
    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        let mut json = serde_json::Deserializer::from_str(text);
        let (read, _) = read_by_name::<Read, _>(&mut json);
        let read = read?;
        json.end()?;
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
        for (name, values) in read.latin1_headers.unwrap_or_default() {
            let name = HeaderName::from_bytes(name.as_bytes());
            let (Ok(name), Value::Array(values)) = (name, values) else {
                continue;
            };
            for text in values.iter().filter_map(Value::as_str) {
                let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
                let value = bytes
                    .ok()
                    .and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
                if let Some(value) = value.filter(|_| !is_never_stored(&name)) {
                    headers.append(&name, value);
                }
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
    /// The headers with a value that is not UTF-8: a character for each byte. Other programs ignore them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    latin1_headers: Map<String, Value>,
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
    latin1_headers: Option<Map<String, Value>>,
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

    fn response(status: u16, name: &'static str, body: &'static str) -> StoredResponse {
        let value = HeaderValue::from_static("secret");
        StoredResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::from_iter([(HeaderName::from_static(name), value)]),
            body: body.into(),
        }
    }

    #[test]
    fn a_response_of_this_crate_and_of_another_program_is_read_and_the_stored_json_is_golden() {
        let rows = include_str!("stored.txt").lines();
        for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
            let cells: Vec<_> = row.splitn(3, " | ").collect();
            let [writer, text, expected] = cells[..] else {
                panic!("not three cells: {row}");
            };
            let read = StoredResponse::from_json(text).unwrap();
            let (status, headers, body) = (read.status.as_u16(), &read.headers, &read.body);
            assert_eq!(
                format!("{status} | {headers:?} | {body:?}"),
                expected,
                "{row}"
            );
            match writer {
                "this crate" => assert_eq!(read.to_json().unwrap(), text),
                other => assert_eq!(other, "another"),
            }
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
            let sent = response(status, "x-a", body).into_response();
            let found = sent.headers().get(CONTENT_LENGTH);
            assert_eq!(found.map(|length| length.to_str().unwrap()), length);
        }
    }

    #[test]
    fn a_header_that_is_not_utf_8_is_stored_byte_for_byte() {
        let mut headers = HeaderMap::new();
        for value in [&b"caf\xe9"[..], b"\xff", "é".as_bytes(), b"a"] {
            headers.append("x-a", HeaderValue::from_bytes(value).unwrap());
        }
        headers.append("x-b", HeaderValue::from_static("b"));
        let response = StoredResponse {
            status: StatusCode::OK,
            headers,
            body: Bytes::new(),
        };
        let text = response.to_json().unwrap();
        assert_eq!(StoredResponse::from_json(&text).unwrap(), response);
        let hostile = r#"{"statusCode":200,"latin1Headers":{"set-cookie":["a"],"x-a":["a\n","\u0100",1],"x-b":"a"}}"#;
        let read = StoredResponse::from_json(hostile).unwrap();
        assert!(read.headers.is_empty());
    }

    #[test]
    fn debug_shows_neither_headers_nor_body() {
        let response = response(200, "x-a", "secret");
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
                if !is_never_stored(&name) {
                    headers.extend(value.map(|value| (name, value)));
                }
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
            let body = Bytes::from(body);
            let response = StoredResponse { status, headers, body };
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
