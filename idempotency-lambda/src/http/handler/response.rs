//! The HTTP response inside the response of a handler, for each kind of event.

use aws_lambda_events::alb::AlbTargetGroupResponse;
use aws_lambda_events::apigw::{ApiGatewayProxyResponse, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Response, StatusCode};

use super::headers::{joined, merged};

/// A response of a handler that is an HTTP response.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the response to an HTTP event",
    label = "not an HTTP response",
    note = "return `ApiGatewayV2httpResponse`, `ApiGatewayProxyResponse`, `AlbTargetGroupResponse` or `LambdaFunctionUrlResponse` (crate `aws_lambda_events`), as the event demands"
)]
pub trait HttpResponse: Sized {
    /// Returns the response that the client gets.
    ///
    /// `None` if the platform refuses it, because its status is no status or its body is not base64 although it says so. The
    /// client then gets a 5xx.
    fn to_http(&self) -> Option<Response<Vec<u8>>>;

    /// Returns the handler's response that is sent as this one.
    fn from_http(response: Response<Vec<u8>>) -> Self;
}

impl HttpResponse for ApiGatewayV2httpResponse {
    fn to_http(&self) -> Option<Response<Vec<u8>>> {
        let body = bytes(self.body.as_ref(), self.is_base64_encoded)?;
        let headers = merged(&self.multi_value_headers, &self.headers);
        make(self.status_code, headers, body)
    }

    fn from_http(response: Response<Vec<u8>>) -> Self {
        let (parts, body) = response.into_parts();
        let (body, is_base64_encoded) = text(body);
        let mut response = Self::default();
        response.status_code = i64::from(parts.status.as_u16());
        response.headers = joined(&parts.headers);
        response.body = body.map(Body::Text);
        response.is_base64_encoded = is_base64_encoded;
        response
    }
}

impl HttpResponse for LambdaFunctionUrlResponse {
    fn to_http(&self) -> Option<Response<Vec<u8>>> {
        let body = decoded(
            self.body.as_deref().unwrap_or_default(),
            self.is_base64_encoded,
        )?;
        make(self.status_code, self.headers.clone(), body)
    }

    fn from_http(response: Response<Vec<u8>>) -> Self {
        let (parts, body) = response.into_parts();
        let (body, is_base64_encoded) = text(body);
        let mut response = Self::default();
        response.status_code = i64::from(parts.status.as_u16());
        response.headers = joined(&parts.headers);
        response.body = body;
        response.is_base64_encoded = is_base64_encoded;
        response
    }
}

impl HttpResponse for ApiGatewayProxyResponse {
    fn to_http(&self) -> Option<Response<Vec<u8>>> {
        let body = bytes(self.body.as_ref(), self.is_base64_encoded)?;
        let headers = merged(&self.multi_value_headers, &self.headers);
        make(self.status_code, headers, body)
    }

    fn from_http(response: Response<Vec<u8>>) -> Self {
        let (parts, body) = response.into_parts();
        let (body, is_base64_encoded) = text(body);
        let mut response = Self::default();
        response.status_code = i64::from(parts.status.as_u16());
        // API Gateway merges both fields, so a header in both would be sent twice.
        response.multi_value_headers = parts.headers;
        response.body = body.map(Body::Text);
        response.is_base64_encoded = is_base64_encoded;
        response
    }
}

impl HttpResponse for AlbTargetGroupResponse {
    fn to_http(&self) -> Option<Response<Vec<u8>>> {
        let body = bytes(self.body.as_ref(), self.is_base64_encoded)?;
        let headers = merged(&self.multi_value_headers, &self.headers);
        make(self.status_code, headers, body)
    }

    fn from_http(response: Response<Vec<u8>>) -> Self {
        let (parts, body) = response.into_parts();
        let (body, is_base64_encoded) = text(body);
        let reason = parts.status.canonical_reason().unwrap_or_default();
        let mut response = Self::default();
        response.status_code = i64::from(parts.status.as_u16());
        response.status_description = Some(format!("{} {reason}", parts.status.as_u16()));
        // The target group's setting for multi-value headers decides which of the two fields is read.
        response.headers = joined(&parts.headers);
        response.multi_value_headers = parts.headers;
        response.body = body.map(Body::Text);
        response.is_base64_encoded = is_base64_encoded;
        response
    }
}

fn make(status: i64, headers: HeaderMap, body: Vec<u8>) -> Option<Response<Vec<u8>>> {
    let status = u16::try_from(status).ok()?;
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    *response.headers_mut() = headers;
    Some(response)
}

/// Returns the bytes that the client gets for a body.
fn bytes(body: Option<&Body>, is_base64: bool) -> Option<Vec<u8>> {
    match body {
        Some(Body::Text(text)) => decoded(text, is_base64),
        // It is sent as base64. Without the mark, the client gets the base64 text.
        Some(Body::Binary(binary)) if is_base64 => Some(binary.clone()),
        Some(Body::Binary(binary)) => Some(STANDARD.encode(binary).into_bytes()),
        _ => Some(Vec::new()),
    }
}

fn decoded(text: &str, is_base64: bool) -> Option<Vec<u8>> {
    if is_base64 {
        STANDARD.decode(text).ok()
    } else {
        Some(text.as_bytes().to_vec())
    }
}

/// Returns a body as text, and true if the text is base64. An empty body is none.
fn text(body: Vec<u8>) -> (Option<String>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    match String::from_utf8(body) {
        Ok(text) => (Some(text), false),
        Err(binary) => (Some(STANDARD.encode(binary.as_bytes())), true),
    }
}

#[cfg(test)]
mod tests;
