//! A response as it is stored: status, allowed headers and the bytes of the body.

mod json;

use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, StatusCode};

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
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
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
        json::write(self)
    }

    /// Reads a stored response, also one that a function in another language wrote.
    ///
    /// `headers`, `multiValueHeaders` and `body` may be missing or null, and other members are ignored.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, if it has no valid `statusCode`, or if its body is neither text nor base64.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        json::read(text)
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

#[cfg(test)]
mod tests;
