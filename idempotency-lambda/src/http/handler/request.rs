//! The HTTP request inside an event, for each kind of event.

use std::collections::BTreeMap;

use aws_lambda_events::alb::AlbTargetGroupRequest;
use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, Request};
use idempotency_http::{HttpOperation, RequestEvent};
use serde::Serialize;

use super::headers::merged;
use super::uri::uri;
use crate::event::Payload;
use crate::raw::Raw;

/// An event that is an HTTP request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event of an HTTP request",
    label = "not an HTTP event",
    note = "take a `LambdaEvent` of `ApiGatewayV2httpRequest`, `ApiGatewayProxyRequest`, `AlbTargetGroupRequest` or `LambdaFunctionUrlRequest` (crate `aws_lambda_events`), or of `Raw<_>` of one of them",
    note = "for an axum `Router` or a service of `lambda_http` requests build a layer: `Operation::builder(..).http()`"
)]
pub trait HttpEvent: Payload {
    /// Returns the request: its method, path, query, headers and body.
    fn request(&self) -> Request<Vec<u8>>;

    /// Reads what the expressions of an operation look at in the event.
    fn read(&self, operation: &HttpOperation) -> RequestEvent;
}

impl HttpEvent for ApiGatewayV2httpRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.request_context.http.method,
            self.raw_path.as_deref(),
            self.raw_query_string.as_deref().unwrap_or_default(),
            self.headers.clone(),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for LambdaFunctionUrlRequest {
    fn request(&self) -> Request<Vec<u8>> {
        let method = self.request_context.http.method.as_deref();
        make(
            &method
                .and_then(|method| Method::from_bytes(method.as_bytes()).ok())
                .unwrap_or_default(),
            self.raw_path.as_deref(),
            self.raw_query_string.as_deref().unwrap_or_default(),
            self.headers.clone(),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for ApiGatewayProxyRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.http_method,
            self.path.as_deref(),
            // API Gateway has decoded them.
            &query(
                &self.multi_value_query_string_parameters,
                &self.query_string_parameters,
                encoded,
            ),
            merged(&self.multi_value_headers, &self.headers),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl HttpEvent for AlbTargetGroupRequest {
    fn request(&self) -> Request<Vec<u8>> {
        make(
            &self.http_method,
            self.path.as_deref(),
            // A load balancer leaves them as they were sent.
            &query(
                &self.multi_value_query_string_parameters,
                &self.query_string_parameters,
                str::to_owned,
            ),
            merged(&self.multi_value_headers, &self.headers),
            body(self.body.as_deref(), self.is_base64_encoded),
        )
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event(self)
    }
}

impl<T: HttpEvent> HttpEvent for Raw<T> {
    fn request(&self) -> Request<Vec<u8>> {
        T::request(self)
    }

    fn read(&self, operation: &HttpOperation) -> RequestEvent {
        operation.event_of_text(self.text())
    }
}

fn make(
    method: &Method,
    path: Option<&str>,
    query: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Request<Vec<u8>> {
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri(path.unwrap_or("/"), query);
    *request.headers_mut() = headers;
    request
}

/// Returns the bytes of a body. A body that is not base64, although the event says so, is taken as it is.
fn body(text: Option<&str>, is_base64: bool) -> Vec<u8> {
    let text = text.unwrap_or_default();
    let decoded = is_base64.then(|| STANDARD.decode(text).ok()).flatten();
    decoded.unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Returns the query of these parameters, in the order of their names: the event has them in no order.
fn query(all: &impl Serialize, single: &impl Serialize, written: fn(&str) -> String) -> String {
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
    query.join("&")
}

/// Encodes what has a meaning in a query, so that `a=1%26b%3D2` and `a=1&b=2` stay two queries.
fn encoded(text: &str) -> String {
    let text = text.replace('%', "%25").replace('&', "%26");
    text.replace('=', "%3D").replace('+', "%2B")
}

/// Returns the parameters of a `QueryMap`, which has no other way to its names that cannot panic.
fn parameters(of: &impl Serialize) -> BTreeMap<String, Vec<String>> {
    let value = serde_json::to_value(of).unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
