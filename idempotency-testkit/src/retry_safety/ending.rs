//! How a delivery ended for the sender of the event, whether the sender delivers the event again, and how two responses differ.

use std::error::Error;

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
                let error: BoxError = error.into();
                let message = chain(&*error);
                let name = diagnostic(error).error_type;
                Self::Failed { name, message }
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
        self.is_refusal(ErrorKind::Unresolved, "urn:idempotency:outcome-unknown")
    }

    /// Returns true if the steps of the key may not be undone. Over HTTP other calls end so too.
    pub(super) fn is_not_undone(&self) -> bool {
        self.is_refusal(ErrorKind::StepNotUndone, "urn:idempotency:not-confirmed")
    }

    /// Returns true if the event was refused because its key was used for another payload.
    pub(super) fn is_mismatch(&self) -> bool {
        self.is_refusal(ErrorKind::PayloadMismatch, "urn:idempotency:key-reused")
    }

    /// Returns true if the framework refused the call with this error, or over HTTP with this type of a problem.
    fn is_refusal(&self, error: ErrorKind, kind: &str) -> bool {
        match self {
            Self::Failed { name, .. } => name == error.name(),
            Self::Response(response) => problem(response).as_deref() == Some(kind),
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

/// Returns the text of an error and of its causes. The errors of the SDK say in a cause what went wrong.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
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
pub(super) fn status(response: &Value) -> Option<u64> {
    response["statusCode"].as_u64()
}

/// Returns the type of the problem, if the response has one.
fn problem(response: &Value) -> Option<String> {
    status(response)?;
    let body: Value = serde_json::from_str(response["body"].as_str()?).ok()?;
    body["type"].as_str().map(str::to_owned)
}

/// The header that a replay has in addition.
const REPLAYED: &str = "idempotent-replayed";

/// Returns the response in the form in which it is compared: the JSON text in a body as JSON, and without the parts at `ignored`
/// (JSON pointers).
pub(super) fn comparable(response: &Value, ignored: &[String]) -> Value {
    let mut response = response.clone();
    if response["statusCode"].is_u64() {
        for headers in ["headers", "multiValueHeaders"] {
            if let Some(headers) = response[headers].as_object_mut() {
                headers.retain(|name, _| !name.eq_ignore_ascii_case(REPLAYED));
            }
        }
        let body = response["body"].as_str();
        if let Some(body) = body.and_then(|body| serde_json::from_str(body).ok()) {
            response["body"] = body;
        }
    }
    for pointer in ignored {
        remove(&mut response, pointer);
    }
    response
}

/// Returns true if two stored responses are the same in all parts that are compared.
pub(super) fn are_equal(a: &str, b: &str, ignored: &[String]) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (read(a), read(b)) {
        (Some(a), Some(b)) => comparable(&a, ignored) == comparable(&b, ignored),
        _ => a == b,
    }
}

/// Returns the place, as a JSON pointer, of the first difference.
pub(super) fn first_difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let below = match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => first_difference(a, b)?,
                    _ => String::new(),
                };
                // As RFC 6901 writes a name in a pointer.
                let name = name.replace('~', "~0").replace('/', "~1");
                Some(format!("/{name}{below}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(index, (a, b))| {
                let below = first_difference(a, b)?;
                Some(format!("/{index}{below}"))
            })
        }
        _ => (a != b).then(String::new),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(elements)) => {
            let index = name.parse().ok().filter(|index| *index < elements.len());
            if let Some(index) = index {
                let _: Value = elements.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn the_place_of_a_difference_is_the_member_that_is_ignored() {
        for mut more in [json!({ "a/b": 1, "c~d": 2 }), json!({ "a": null })] {
            while let Some(place) = first_difference(&more, &json!({})) {
                remove(&mut more, &place);
            }
            assert_eq!(more, json!({}));
        }
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

    fn replayed(body: &str) -> Value {
        json!({ "statusCode": 201, "headers": { "Idempotent-Replayed": "true" }, "body": body })
    }

    #[test]
    fn a_replay_differs_from_the_first_response_in_its_header_alone() {
        let first = json!({ "statusCode": 201, "headers": {}, "body": "{\"id\":1}" });
        let same = comparable(&replayed("{ \"id\": 1 }"), &[]);
        assert_eq!(comparable(&first, &[]), same);
        let other = comparable(&replayed("{\"id\":2}"), &[]);
        assert_eq!(
            first_difference(&comparable(&first, &[]), &other).as_deref(),
            Some("/body/id")
        );
    }

    #[test]
    fn an_ignored_part_is_not_compared_also_inside_a_body() {
        let ignored = ["/body/at".to_owned(), "/at".to_owned()];
        let a = comparable(&replayed("{\"id\":1,\"at\":1}"), &ignored);
        let b = comparable(&replayed("{\"id\":1,\"at\":2}"), &ignored);
        assert_eq!(a, b);
        assert!(are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":2,"id":1}"#,
            &ignored
        ));
        assert!(!are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":1,"id":2}"#,
            &ignored
        ));
        assert!(!are_equal("no JSON", "another", &ignored));
    }

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let difference = |a: Value, b: Value| first_difference(&a, &b);
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 2 }] })
            ),
            None
        );
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 3 }] })
            )
            .as_deref(),
            Some("/a/1/b")
        );
        assert_eq!(
            difference(json!({}), json!({ "a": 1 })).as_deref(),
            Some("/a")
        );
        assert_eq!(difference(json!(1), json!(2)).as_deref(), Some(""));
    }
}
