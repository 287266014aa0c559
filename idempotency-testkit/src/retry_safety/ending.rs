//! How a delivery ends for the sender of the event, and whether the sender delivers it again.

use idempotency_lambda::{BoxError, ErrorKind, diagnostic};
use serde::Serialize;
use serde_json::Value;

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// The function returned this response.
    Response(Value),
    /// The function returned an error: its name and its text.
    Failed { name: String, message: String },
    /// The function panicked.
    Panicked,
    /// The process was killed.
    Killed,
    /// The time of the invocation ended.
    TimedOut,
}

impl Ending {
    /// Returns the ending of a function that returned.
    pub(super) fn of<R: Serialize, E: Into<BoxError>>(result: Result<R, E>) -> Self {
        match result {
            Ok(response) => match serde_json::to_value(response) {
                Ok(response) => Self::Response(response),
                Err(error) => Self::Failed {
                    name: "NotSerializable".to_owned(),
                    message: error.to_string(),
                },
            },
            Err(error) => {
                let diagnostic = diagnostic(error);
                Self::Failed {
                    name: diagnostic.error_type,
                    message: diagnostic.error_message,
                }
            }
        }
    }

    /// Returns the response if it is final: the sender does not deliver the event again.
    pub(super) fn final_response(&self) -> Option<&Value> {
        match self {
            Self::Response(response) if is_final(response) => Some(response),
            _ => None,
        }
    }

    /// Returns true if the framework holds the key until an operator decides.
    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::Failed { name, .. } => name == ErrorKind::Unresolved.name(),
            Self::Response(response) => {
                problem(response).is_some_and(|kind| kind == "urn:idempotency:outcome-unknown")
            }
            Self::Panicked | Self::Killed | Self::TimedOut => false,
        }
    }

    /// Returns true if the event was refused because its key was used for another payload.
    pub(super) fn is_mismatch(&self) -> bool {
        match self {
            Self::Failed { name, .. } => name == ErrorKind::PayloadMismatch.name(),
            Self::Response(response) => {
                problem(response).is_some_and(|kind| kind == "urn:idempotency:key-reused")
            }
            Self::Panicked | Self::Killed | Self::TimedOut => false,
        }
    }

    /// Returns what a report says of the delivery.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Response(response) => match status(response) {
                Some(status) if !is_final(response) => format!("status {status}"),
                Some(status) => format!("response with status {status}"),
                None if !is_final(response) => "records were returned to their source".to_owned(),
                None => "response".to_owned(),
            },
            Self::Failed { name, .. } => format!("error {name}"),
            Self::Panicked => "panic".to_owned(),
            Self::Killed => "killed".to_owned(),
            Self::TimedOut => "its time ended".to_owned(),
        }
    }
}

/// Returns false for a response after which the event, or a part of it, is delivered again: a partial batch response that names
/// records, and a status that asks for a retry.
fn is_final(response: &Value) -> bool {
    let returned = response["batchItemFailures"].as_array();
    if returned.is_some_and(|returned| !returned.is_empty()) {
        return false;
    }
    !status(response).is_some_and(|status| matches!(status, 409 | 425 | 429) || status >= 500)
}

/// Returns the status of an HTTP response.
fn status(response: &Value) -> Option<u64> {
    response["statusCode"].as_u64()
}

/// Returns the type of the problem, if the response is one of this framework.
fn problem(response: &Value) -> Option<String> {
    status(response)?;
    let body: Value = serde_json::from_str(response["body"].as_str()?).ok()?;
    let kind = body["type"].as_str()?;
    kind.starts_with("urn:idempotency:")
        .then(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_response_that_asks_for_a_retry_is_not_final() {
        let is_final = |response: Value| Ending::Response(response).final_response().is_some();
        assert!(is_final(json!({ "paid": true })));
        assert!(is_final(json!({ "statusCode": 201 })));
        assert!(is_final(json!({ "statusCode": 402 })));
        assert!(is_final(json!({ "batchItemFailures": [] })));
        for status in [409, 425, 429, 500, 503] {
            assert!(!is_final(json!({ "statusCode": status })), "{status}");
        }
        let returned = json!([{ "itemIdentifier": "m-1" }]);
        assert!(!is_final(json!({ "batchItemFailures": returned })));
    }

    #[test]
    fn a_problem_of_the_framework_is_recognised_in_an_http_response() {
        let problem = |kind: &str| {
            let body = json!({ "type": kind }).to_string();
            Ending::Response(json!({ "statusCode": 500, "body": body }))
        };
        assert!(problem("urn:idempotency:outcome-unknown").is_held());
        assert!(!problem("urn:idempotency:in-progress").is_held());
        assert!(problem("urn:idempotency:key-reused").is_mismatch());
        assert!(!Ending::Response(json!({ "paid": true })).is_held());
    }

    #[test]
    fn an_error_of_the_framework_has_its_stable_name() {
        let error = idempotency_lambda::Error::new(ErrorKind::Unresolved, "charge");
        assert!(Ending::of(Err::<(), _>(error)).is_held());
        let own = Ending::of(Err::<(), BoxError>("declined".into()));
        assert!(!own.is_held());
        assert_eq!(own.final_response(), None);
    }
}
