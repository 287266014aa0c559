//! The Runtime API that the process of the function calls, and the Invoke API that an AWS client calls.

use std::io;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::runtime::Handle;

use super::function::VERSION;
use super::invocation::InvokeError;
use super::local::Function;
use super::state::{Rejection, State, TakenEvent};
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
        let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
        Ok(match (&parts.method, route) {
            (&Method::GET, ["invocation", "next"]) => self.next().await,
            (&Method::POST, ["invocation", request_id, "response"]) => {
                self.response(request_id, &parts.headers, &body)
            }
            (&Method::POST, ["invocation", request_id, "error"]) => {
                let (error_type, message) = sent_error(&parts.headers, &body);
                let error = InvokeError::of_function(&error_type, message);
                acknowledge(self.state.finish(request_id, Err(error)))
            }
            (&Method::POST, ["init", "error"]) => {
                let (error_type, message) = sent_error(&parts.headers, &body);
                let error = InvokeError::of_init(&error_type, message);
                self.state.init_error(error);
                acknowledge(Ok(()))
            }
            _ => not_found(),
        })
    }

    async fn next(&self) -> wire::Response {
        let TakenEvent {
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
            let error_type = "Function.ResponseSizeTooLarge";
            let error = InvokeError::of_function(error_type, message.clone());
            return match self.state.finish(request_id, Err(error)) {
                Ok(()) => error_response(413, "RequestEntityTooLarge", &message),
                rejected => acknowledge(rejected),
            };
        }
        let payload = String::from_utf8_lossy(body).into_owned();
        acknowledge(self.state.finish(request_id, Ok(payload)))
    }
}

/// Returns the type and message of an error that the process sent.
fn sent_error(headers: &HeaderMap, body: &Bytes) -> (String, String) {
    let sent: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let header = || {
        headers
            .get("lambda-runtime-function-error-type")?
            .to_str()
            .ok()
    };
    let error_type = sent["errorType"].as_str().or_else(header);
    let message = sent["errorMessage"].as_str().unwrap_or_default();
    (
        error_type.unwrap_or("Unhandled").to_owned(),
        message.to_owned(),
    )
}

fn acknowledge(result: Result<(), Rejection>) -> wire::Response {
    match result {
        Ok(()) => json(202, JSON, r#"{"status":"OK"}"#.to_owned()),
        Err(Rejection::Unknown) => error_response(400, "InvalidRequestID", "Invalid request ID"),
        Err(Rejection::Second) => error_response(
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

/// Serves the Invoke API of the function on a free port, until the runtime ends. Returns its endpoint.
pub(super) fn serve_invoke_api(runtime: &Handle, function: &Arc<Function>) -> io::Result<String> {
    let _context = runtime.enter();
    let (listener, address) = wire::bind()?;
    let function = Arc::clone(function);
    runtime.spawn(wire::serve(listener, move |request| {
        invoke(Arc::clone(&function), request)
    }));
    Ok(format!("http://{address}"))
}

async fn invoke(function: Arc<Function>, request: wire::Request) -> Result<wire::Response, HangUp> {
    let (parts, body) = request.into_parts();
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let ["2015-03-31", "functions", name, "invocations"] = path.as_slice() else {
        let message = "no such route in the local Invoke API";
        return Ok(refused(404, "UnknownOperationException", message));
    };
    if parts.method != Method::POST {
        let message = "an invocation is a POST";
        return Ok(refused(405, "MethodNotAllowedException", message));
    }
    let known = &function.spec.name;
    if !is_name_of(name, known) {
        let message = format!("Function not found: {name}: this Lambda has only `{known}`");
        return Ok(refused(404, "ResourceNotFoundException", &message));
    }
    let kind = parts.headers.get("x-amz-invocation-type");
    if kind.is_some_and(|kind| kind != "RequestResponse") {
        let message = "the local Lambda has only invocations of the type RequestResponse";
        return Ok(refused(400, "InvalidParameterValueException", message));
    }
    let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
    let event = String::from_utf8_lossy(&body).into_owned();
    if serde_json::from_str::<serde_json::Value>(&event).is_err() {
        let message = "Could not parse request body into json";
        return Ok(refused(400, "InvalidRequestContentException", message));
    }
    let (payload, error) = match function.invoke(event).await {
        Ok(reply) => (reply.payload, false),
        Err(error) => {
            let (kind, message) = (&error.error_type, &error.error_message);
            let payload = serde_json::json!({ "errorType": kind, "errorMessage": message });
            (payload.to_string(), true)
        }
    };
    let mut response = json(200, JSON, payload);
    let headers = response.headers_mut();
    headers.insert("x-amz-executed-version", HeaderValue::from_static(VERSION));
    if error {
        headers.insert(
            "x-amz-function-error",
            HeaderValue::from_static("Unhandled"),
        );
    }
    Ok(response)
}

/// Returns true if this segment of a path names the function: its name or its ARN, with or without an alias.
fn is_name_of(segment: &str, name: &str) -> bool {
    let decoded = segment.replace("%3A", ":").replace("%3a", ":");
    let parts: Vec<&str> = decoded.split(':').collect();
    match parts.as_slice() {
        ["arn", _, "lambda", _, _, "function", named, ..] | [named] | [named, _] => *named == name,
        _ => false,
    }
}

fn refused(status: u16, error_type: &'static str, message: &str) -> wire::Response {
    let body = serde_json::json!({ "Type": "User", "Message": message });
    let mut response = json(status, JSON, body.to_string());
    let error_type = HeaderValue::from_static(error_type);
    response
        .headers_mut()
        .insert("x-amzn-errortype", error_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_its_name_and_its_arn() {
        for segment in [
            "charge",
            "charge%3Alive",
            "arn%3Aaws%3Alambda%3Aeu-central-1%3A123456789012%3Afunction%3Acharge",
            "arn%3aaws%3alambda%3aeu-central-1%3a123456789012%3afunction%3acharge%3alive",
        ] {
            assert!(is_name_of(segment, "charge"), "{segment}");
        }
        for segment in ["refund", "charge2", "arn%3Aaws%3Asqs%3Acharge", ""] {
            assert!(!is_name_of(segment, "charge"), "{segment}");
        }
    }
}
