//! The parts of a function's response that the output shows.

use idempotency_testkit::lambda::{InvokeError, Reply};
use serde_json::Value;

/// The header of a replay.
const REPLAYED: &str = "idempotent-replayed";

/// Returns true if an HTTP response says why the handler did not run.
pub(crate) fn is_refusal(reply: &Reply) -> bool {
    status(reply).is_some_and(|status| status >= 400) && !is_replayed(reply)
}

/// Returns true if an HTTP response says that the handler, which ran, has failed.
pub(crate) fn is_failure(reply: &Reply) -> bool {
    status(reply).is_some_and(|status| status >= 400)
}

fn status(reply: &Reply) -> Option<u64> {
    reply.json().ok()?["statusCode"].as_u64()
}

fn is_replayed(reply: &Reply) -> bool {
    let response = reply.json().unwrap_or_default();
    response["headers"][REPLAYED] == "true"
}

/// Returns what is stored of a response: its bytes, or, of an HTTP response, all but the header that a replay adds.
pub(crate) fn stored_part(reply: Reply) -> String {
    if status(&reply).is_none() {
        return reply.payload;
    }
    let mut response = reply.json().unwrap_or_default();
    for headers in ["headers", "multiValueHeaders"] {
        if let Some(headers) = response[headers].as_object_mut() {
            headers.remove(REPLAYED);
        }
    }
    response.to_string()
}

/// Summarises the response: the part that a customer would look for.
pub(crate) fn summary(outcome: &Result<Reply, InvokeError>) -> String {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(InvokeError::Exited { .. }) => return "none".to_owned(),
        Err(InvokeError::Function {
            error_type,
            error_message,
            ..
        }) if !error_type.starts_with("Idempotency") => {
            return format!("{error_type}: {error_message}");
        }
        Err(error) => return error.error_type().to_owned(),
    };
    let response = reply.json().unwrap_or_default();
    if let Some(status) = response["statusCode"].as_u64() {
        return format!("{status} {}", body(&response));
    }
    if let Some(parcel) = response["tracking"].as_str() {
        return parcel.to_owned();
    }
    match response["batchItemFailures"].as_array().map(Vec::len) {
        Some(0) => "none to repeat".to_owned(),
        Some(failures) => format!("{failures} to repeat"),
        None => "unknown form".to_owned(),
    }
}

/// Summarises the body of an HTTP response: an id, the handler's error, or the last part of a problem's type.
fn body(response: &Value) -> String {
    let text = response["body"].as_str().unwrap_or_default();
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let known = ["payment_id", "refund_id", "error"]
        .iter()
        .find_map(|field| body[field].as_str());
    let problem = || body["type"].as_str()?.rsplit(':').next();
    known.or_else(problem).unwrap_or(text).to_owned()
}
