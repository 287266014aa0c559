//! The HTTP response inside the response of a handler, for each kind of event.

use aws_lambda_events::alb::AlbTargetGroupResponse;
use aws_lambda_events::apigw::{ApiGatewayProxyResponse, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::lambda_function_urls::LambdaFunctionUrlResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use idempotency_http::ViewError;

use super::request::{joined, merged};

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

/// Writes each kind of response: how its headers and its body are read, and how they are set for a response of this framework.
macro_rules! responses {
    ($($response:ty { headers: $headers:expr, body: $body:expr, set: $set:expr })+) => {
        $(impl HttpResponse for $response {
            fn to_http(&self) -> Result<Response<Vec<u8>>, ViewError> {
                let headers: fn(&Self) -> HeaderMap = $headers;
                let body: fn(&Self) -> Result<Vec<u8>, ViewError> = $body;
                make(self.status_code, headers(self), body(self)?)
            }

            fn from_http(response: Response<Vec<u8>>) -> Self {
                let set: fn(&mut Self, Parts, Option<String>) = $set;
                let (parts, body) = response.into_parts();
                let (body, is_base64_encoded) = text(body);
                let mut response = Self::default();
                response.status_code = i64::from(parts.status.as_u16());
                response.is_base64_encoded = is_base64_encoded;
                set(&mut response, parts, body);
                response
            }
        })+
    };
}

responses! {
    ApiGatewayV2httpResponse {
        headers: |sent| merged(&sent.multi_value_headers, &sent.headers),
        body: |sent| bytes(sent.body.as_ref(), sent.is_base64_encoded),
        set: |made, parts, body| {
            made.headers = joined(&parts.headers);
            made.body = body.map(Body::Text);
        }
    }
    LambdaFunctionUrlResponse {
        headers: |sent| sent.headers.clone(),
        body: |sent| decoded(sent.body.as_deref().unwrap_or_default(), sent.is_base64_encoded),
        set: |made, parts, body| {
            made.headers = joined(&parts.headers);
            made.body = body;
        }
    }
    ApiGatewayProxyResponse {
        headers: |sent| merged(&sent.multi_value_headers, &sent.headers),
        body: |sent| bytes(sent.body.as_ref(), sent.is_base64_encoded),
        set: |made, parts, body| {
            // API Gateway merges both fields, so a header in both would be sent twice.
            made.multi_value_headers = parts.headers;
            made.body = body.map(Body::Text);
        }
    }
    AlbTargetGroupResponse {
        headers: |sent| merged(&sent.multi_value_headers, &sent.headers),
        body: |sent| bytes(sent.body.as_ref(), sent.is_base64_encoded),
        set: |made, parts, body| {
            let reason = parts.status.canonical_reason().unwrap_or_default();
            made.status_description = Some(format!("{} {reason}", parts.status.as_u16()));
            // The target group's setting for multi-value headers decides which of the two fields is read.
            made.headers = joined(&parts.headers);
            made.multi_value_headers = parts.headers;
            made.body = body.map(Body::Text);
        }
    }
}

/// Why a response without a valid status is a failure. A response that is made by `default()` has the status 0.
const NO_STATUS: &str = "the handler returned a response without a valid status, so its client gets an error of the platform: set \
                         `status_code` to a number from 100 to 599";
/// Why a response with such a body cannot be stored.
const NOT_BASE64: &str = "the handler returned a body that is not base64 although `is_base64_encoded` is true, so its client may get an \
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
        // It is sent as base64. Without `is_base64_encoded`, the client gets the base64 text.
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
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde::Serialize;
    use serde_json::{Value, json};

    fn problem(body: &[u8]) -> Response<Vec<u8>> {
        let mut response = Response::new(body.to_vec());
        *response.status_mut() = StatusCode::CONFLICT;
        let headers = response.headers_mut();
        headers.insert("retry-after", HeaderValue::from_static("3"));
        headers.append("link", HeaderValue::from_static("<a>"));
        headers.append("link", HeaderValue::from_static("<b>"));
        response
    }

    /// Returns a response with this body as JSON, and the body that is read back.
    fn sent<R: HttpResponse + Serialize>(body: &[u8]) -> (Value, Vec<u8>) {
        let response = R::from_http(problem(body));
        let read = response.to_http().unwrap().into_body();
        (serde_json::to_value(&response).unwrap(), read)
    }

    #[test]
    fn each_kind_is_sent_in_the_form_that_its_platform_reads_and_read_back_byte_for_byte() {
        type Sent = fn(&[u8]) -> (Value, Vec<u8>);
        let joined = json!({ "retry-after": "3", "link": "<a>, <b>" });
        let all = json!({ "retry-after": ["3"], "link": ["<a>", "<b>"] });
        let v2: Sent = sent::<ApiGatewayV2httpResponse>;
        let alb: Sent = sent::<AlbTargetGroupResponse>;
        for (sent, headers, multi_value_headers) in [
            (v2, &joined, json!({})),
            (sent::<LambdaFunctionUrlResponse>, &joined, Value::Null),
            // API Gateway merges both fields: one of them is empty.
            (sent::<ApiGatewayProxyResponse>, &json!({}), all.clone()),
            // The target group's setting decides which one is read.
            (alb, &joined, all),
        ] {
            for (body, text, is_base64) in [
                (b"no".as_slice(), json!("no"), false),
                (b"\x00\xff", json!("AP8="), true),
                ("ü".as_bytes(), json!("ü"), false),
                (b"", Value::Null, false),
            ] {
                let (sent, read) = sent(body);
                assert_eq!(sent["statusCode"], 409, "{sent}");
                assert_eq!(sent["body"], text, "{sent}");
                assert_eq!(sent["isBase64Encoded"], is_base64, "{sent}");
                assert_eq!(&sent["headers"], headers);
                assert_eq!(sent["multiValueHeaders"], multi_value_headers);
                assert_eq!(read, body, "{sent}");
            }
        }
        assert_eq!(v2(b"").0["cookies"], json!([]));
        assert_eq!(alb(b"").0["statusDescription"], "409 Conflict");
    }

    #[test]
    fn a_binary_body_without_the_mark_is_the_base64_text_that_the_client_gets() {
        let mut response = ApiGatewayV2httpResponse::default();
        response.status_code = 200;
        response.body = Some(Body::Binary(vec![0, 255]));
        assert_eq!(response.to_http().unwrap().body(), b"AP8=");
        response.is_base64_encoded = true;
        assert_eq!(response.to_http().unwrap().body(), &[0, 255]);
    }

    #[test]
    fn a_response_that_the_platform_refuses_is_an_error_that_says_why() {
        let mut response = ApiGatewayProxyResponse::default();
        for invalid in [0, -1, 99, 600, 70_000] {
            response.status_code = invalid;
            let no_status = ViewError::NoResponse(NO_STATUS);
            assert_eq!(response.to_http().unwrap_err(), no_status, "{invalid}");
        }
        for valid in [100, 200, 599] {
            response.status_code = valid;
            assert!(response.to_http().is_ok(), "{valid}");
        }
        response.body = Some(Body::Text("?".to_owned()));
        response.is_base64_encoded = true;
        // A platform can be more tolerant: the client may have got it, so the run has not failed.
        let unreadable = ViewError::Unreadable(NOT_BASE64);
        assert_eq!(response.to_http().unwrap_err(), unreadable);
    }

    #[test]
    fn both_fields_for_headers_count() {
        let value = HeaderValue::from_static;
        let mut response = ApiGatewayProxyResponse::default();
        response.status_code = 200;
        response.headers.insert("a", value("1"));
        response.multi_value_headers.append("b", value("2"));
        let headers = response.to_http().unwrap().into_parts().0.headers;
        assert_eq!((&headers["a"], &headers["b"]), (&value("1"), &value("2")));
    }
}
