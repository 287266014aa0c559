//! The HTTP response inside the response of a handler, for each kind of event.

use aws_lambda_events::alb::AlbTargetGroupResponse;
use aws_lambda_events::apigw::{ApiGatewayProxyResponse, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Response, StatusCode};
use idempotency_http::ViewError;

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
    /// # Errors
    ///
    /// If the platform refuses it, and why. The client then gets a 5xx.
    fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError>;

    /// Returns the handler's response that is sent as this one.
    fn from_http(response: Response<Vec<u8>>) -> Self;
}

impl HttpResponse for ApiGatewayV2httpResponse {
    fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError> {
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
    fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError> {
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
    fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError> {
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
    fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError> {
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

/// Why a response without a valid status is a failure. A response that is made by `default()` has the status 0.
const NO_STATUS: &str = "the handler returned a response without a valid status, so its client gets an error of the platform: set \
                         `status_code` to a number from 100 to 599";
/// Why a response with such a body is a failure.
const NOT_BASE64: &str = "the handler returned a body that is not base64 although `is_base64_encoded` is true, so its client gets an \
                          error of the platform";

fn make(status: i64, headers: HeaderMap, body: Vec<u8>) -> Result<Response<Vec<u8>>, ViewError> {
    let status = u16::try_from(status).ok().filter(|status| *status < 600);
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let mut response = Response::new(body);
    *response.status_mut() = status.ok_or(ViewError::NoResponse(NO_STATUS))?;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns the bytes that the client gets for a body.
fn bytes(body: Option<&Body>, is_base64: bool) -> Result<Vec<u8>, ViewError> {
    match body {
        Some(Body::Text(text)) => decoded(text, is_base64),
        // It is sent as base64. Without the mark, the client gets the base64 text.
        Some(Body::Binary(binary)) if is_base64 => Ok(binary.clone()),
        Some(Body::Binary(binary)) => Ok(STANDARD.encode(binary).into_bytes()),
        _ => Ok(Vec::new()),
    }
}

fn decoded(text: &str, is_base64: bool) -> Result<Vec<u8>, ViewError> {
    if is_base64 {
        let decoded = STANDARD.decode(text);
        decoded.map_err(|_| ViewError::Unreadable(NOT_BASE64))
    } else {
        Ok(text.as_bytes().to_vec())
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
