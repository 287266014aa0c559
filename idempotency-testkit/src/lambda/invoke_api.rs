//! The Invoke API, for programs that invoke the function through an AWS client.

use std::io;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::runtime::Handle;

use super::local::Function;
use super::outcome::InvokeError;
use crate::wire::{self, HangUp, json};

/// Serves the Invoke API of the function on a free port, until the runtime ends. Returns its endpoint.
pub(super) fn start(runtime: &Handle, function: &Arc<Function>) -> io::Result<String> {
    let _context = runtime.enter();
    let (listener, address) = wire::bind()?;
    let function = Arc::clone(function);
    runtime.spawn(wire::serve(listener, move |request| {
        handle(Arc::clone(&function), request)
    }));
    Ok(format!("http://{address}"))
}

async fn handle(function: Arc<Function>, request: wire::Request) -> Result<wire::Response, HangUp> {
    let (parts, body) = request.into_parts();
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let ["2015-03-31", "functions", name, "invocations"] = path.as_slice() else {
        return Ok(refused(
            404,
            "UnknownOperationException",
            "no such route in the local Invoke API",
        ));
    };
    if parts.method != Method::POST {
        return Ok(refused(
            405,
            "MethodNotAllowedException",
            "an invocation is a POST",
        ));
    }
    if !is_name_of(name, &function.spec.name) {
        let message = format!(
            "Function not found: {name}: this Lambda has only `{}`",
            function.spec.name
        );
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
        Err(error) => (error_payload(&error), true),
    };
    let mut response = json(StatusCode::OK.as_u16(), "application/json", payload);
    let headers = response.headers_mut();
    let version = HeaderValue::from_str(&function.spec.version);
    if let Ok(version) = version {
        headers.insert(HeaderName::from_static("x-amz-executed-version"), version);
    }
    if error {
        let name = HeaderName::from_static("x-amz-function-error");
        headers.insert(name, HeaderValue::from_static("Unhandled"));
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

/// Returns the error of a function, as Lambda gives it to its caller.
fn error_payload(error: &InvokeError) -> String {
    let message = match error {
        InvokeError::Function { error_message, .. } => error_message.clone(),
        other => other.to_string(),
    };
    let error = serde_json::json!({ "errorType": error.error_type(), "errorMessage": message });
    error.to_string()
}

fn refused(status: u16, error_type: &'static str, message: &str) -> wire::Response {
    let body = serde_json::json!({ "Type": "User", "Message": message });
    let mut response = json(status, "application/json", body.to_string());
    let name = HeaderName::from_static("x-amzn-errortype");
    response
        .headers_mut()
        .insert(name, HeaderValue::from_static(error_type));
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
