//! The Runtime API that the process of the function calls.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};

use super::state::{Rejected, Sent, State, Taken};
use crate::wire::{self, HangUp, json};

const JSON: &str = "application/json";

/// Lambda's limit on a response that is not streamed, in bytes.
const LARGEST_RESPONSE: usize = 6_291_556;

pub(super) struct Api {
    pub(super) state: Arc<State>,
    pub(super) function_arn: String,
}

impl Api {
    pub(super) async fn handle(
        self: Arc<Self>,
        request: wire::Request,
    ) -> Result<wire::Response, HangUp> {
        let (parts, body) = request.into_parts();
        let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
        let ["2018-06-01", "runtime", route @ ..] = path.as_slice() else {
            return Ok(not_found());
        };
        match (&parts.method, route) {
            (&Method::GET, ["invocation", "next"]) => Ok(self.next().await),
            (&Method::POST, ["invocation", request_id, "response"]) => {
                let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
                Ok(self.response(request_id, &parts.headers, &body))
            }
            (&Method::POST, ["invocation", request_id, "error"]) => {
                let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
                let (error_type, message) = error(&parts.headers, &body);
                Ok(acknowledge(
                    self.state
                        .finish(request_id, Sent::Error(error_type, message)),
                ))
            }
            (&Method::POST, ["init", "error"]) => {
                let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
                let (error_type, message) = error(&parts.headers, &body);
                self.state.init_error(error_type, message);
                Ok(acknowledge(Ok(())))
            }
            _ => Ok(not_found()),
        }
    }

    async fn next(&self) -> wire::Response {
        let Taken {
            request_id,
            run,
            payload,
            headers,
            deadline_ms,
            enforce_in,
        } = self.state.next().await;
        if let Some(left) = enforce_in {
            let state = Arc::clone(&self.state);
            let request_id = request_id.clone();
            tokio::spawn(async move {
                tokio::time::sleep(left).await;
                state.deadline_passed(&request_id, run);
            });
        }
        let mut response = wire::Response::new(Full::new(Bytes::from(payload)));
        let all = response.headers_mut();
        all.extend(headers);
        all.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        all.insert("lambda-runtime-deadline-ms", HeaderValue::from(deadline_ms));
        for (name, value) in [
            ("lambda-runtime-aws-request-id", &request_id),
            ("lambda-runtime-invoked-function-arn", &self.function_arn),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                all.insert(name, value);
            }
        }
        response
    }

    fn response(&self, request_id: &str, headers: &HeaderMap, body: &Bytes) -> wire::Response {
        let streams = headers
            .get("lambda-runtime-function-response-mode")
            .is_some_and(|mode| mode == "streaming");
        if body.len() > LARGEST_RESPONSE && !streams {
            let message = format!(
                "Response payload size exceeded maximum allowed payload size ({LARGEST_RESPONSE} bytes)."
            );
            let sent = Sent::Error("Function.ResponseSizeTooLarge".to_owned(), message.clone());
            return match self.state.finish(request_id, sent) {
                Ok(()) => error_response(413, "RequestEntityTooLarge", &message),
                rejected => acknowledge(rejected),
            };
        }
        let payload = String::from_utf8_lossy(body).into_owned();
        acknowledge(self.state.finish(request_id, Sent::Payload(payload)))
    }
}

/// Returns the type and message of an error that the process sent.
fn error(headers: &HeaderMap, body: &Bytes) -> (String, String) {
    let sent: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let field = |name: &str| sent[name].as_str().map(str::to_owned);
    let header = || {
        let header = headers.get("lambda-runtime-function-error-type")?;
        header.to_str().ok().map(str::to_owned)
    };
    (
        field("errorType")
            .or_else(header)
            .unwrap_or_else(|| "Unhandled".to_owned()),
        field("errorMessage").unwrap_or_default(),
    )
}

fn acknowledge(result: Result<(), Rejected>) -> wire::Response {
    match result {
        Ok(()) => json(
            StatusCode::ACCEPTED.as_u16(),
            JSON,
            r#"{"status":"OK"}"#.to_owned(),
        ),
        Err(Rejected::Unknown) => error_response(400, "InvalidRequestID", "Invalid request ID"),
        Err(Rejected::Second) => error_response(
            403,
            "InvalidStateTransition",
            "State transition from InvocationResponse to InvocationResponse failed for runtime",
        ),
    }
}

fn not_found() -> wire::Response {
    error_response(404, "NotFound", "no such route in the local Runtime API")
}

fn error_response(status: u16, error_type: &str, message: &str) -> wire::Response {
    let body = serde_json::json!({ "errorType": error_type, "errorMessage": message });
    json(status, JSON, body.to_string())
}
