//! The JSON of a stored response: the proxy response of API Gateway.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::StoredResponse;

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

/// Returns the JSON text; `None` if a header is not UTF-8.
pub(super) fn write(response: &StoredResponse) -> Option<String> {
    let mut headers = Map::new();
    let mut multi_value_headers = Map::new();
    for name in response.headers.keys() {
        let values = response.headers.get_all(name).iter();
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
    let text = std::str::from_utf8(&response.body).ok();
    let written = ResponseJson {
        status_code: response.status.as_u16(),
        headers,
        multi_value_headers,
        is_base64_encoded: !text.is_some_and(is_text),
        body: match text {
            Some(text) if is_text(text) => Cow::Borrowed(text),
            _ => Cow::Owned(STANDARD.encode(&response.body)),
        },
    };
    serde_json::to_string(&written).ok()
}

/// Returns false for a body with control characters: base64 takes less room than their escapes.
fn is_text(body: &str) -> bool {
    !body
        .bytes()
        .any(|byte| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r'))
}

pub(super) fn read(text: &str) -> serde_json::Result<StoredResponse> {
    let read: Read = serde_json::from_str(text)?;
    let status = match &read.status_code {
        Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
        Value::String(code) => code.parse().ok(),
        _ => None,
    };
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    // The messages must not quote the response.
    let status = status.ok_or_else(|| serde_json::Error::custom("`statusCode` is not a status"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in read.headers.unwrap_or_default() {
        add(&mut headers, &name, &[value]);
    }
    for (name, values) in read.multi_value_headers.unwrap_or_default() {
        if let (Value::Array(values), Ok(name)) = (values, HeaderName::from_bytes(name.as_bytes()))
        {
            // API Gateway takes the list where both name a header.
            headers.remove(&name);
            add(&mut headers, name.as_str(), &values);
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
    Ok(StoredResponse::new(status, headers, body))
}

/// Adds a header. A value that no header can have is left out.
fn add(headers: &mut HeaderMap, name: &str, values: &[Value]) {
    let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
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
