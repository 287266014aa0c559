//! The parts of a request's event that the expressions of an operation look at.

use std::sync::Arc;

use idempotency_core::key::{Expression, JsonError, ParsedPayload, PayloadReader};
use serde::Serialize;

use super::HttpOperation;
use super::caller::CallerRule;
use super::fingerprint::FingerprintRule;
use super::key::KeyRule;
use crate::received::ReceivedRequest;

/// How the event of a request is read.
pub(super) struct EventRule {
    /// `None` if no expression looks at the event.
    reader: Option<PayloadReader>,
    /// True if an expression can look at the body.
    needs_body: bool,
    /// True if the expression of the caller can read the body.
    pub(super) caller_in_body: bool,
}

/// The parts of a request's event that one operation looks at. [`HttpOperation::event`] makes it.
pub struct RequestEvent {
    operation: HttpOperation,
    /// `None` if the operation has no expressions.
    payload: Option<Result<ParsedPayload, JsonError>>,
}

impl EventRule {
    /// Returns the rule for these expressions.
    pub(super) fn of(key: &KeyRule, caller: &CallerRule, fingerprint: &FingerprintRule) -> Self {
        let key = match key {
            KeyRule::Expression(expression) => Some(expression),
            KeyRule::Header(_) => None,
        };
        let caller = match caller {
            CallerRule::Expression(expression) => Some(expression),
            _ => None,
        };
        let fingerprint = fingerprint.part().map(|(_, expression)| expression);
        let expressions: Vec<&Expression> =
            [key, caller, fingerprint].into_iter().flatten().collect();
        let needs_body = expressions
            .iter()
            .any(|expression| reads_body(expression.as_str()));
        let reader = PayloadReader::of(expressions.iter().copied());
        // An expression that decodes the body itself gets it as it was sent.
        let is_sent = expressions
            .iter()
            .any(|expression| expression.as_str().contains("ase64"));
        let reader = if needs_body && !is_sent {
            reader.decoding_body()
        } else {
            reader
        };
        Self {
            caller_in_body: caller.is_some_and(|caller| reads_body(caller.as_str())),
            needs_body,
            reader: (!expressions.is_empty()).then_some(reader),
        }
    }
}

impl HttpOperation {
    /// Takes from an event the parts that the expressions of this operation look at, as if its JSON text were read. Without
    /// expressions it takes nothing. A body that the platform sent as base64 is decoded, unless an expression names base64.
    ///
    /// An error is kept, and refuses the request when an expression needs the event.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_http::{HttpOperation, ReceivedRequest};
    ///
    /// let operation = HttpOperation::builder("shop::payments").caller("iam_caller(@)").build()?;
    /// let event = operation.event(&serde_json::json!({"requestContext": {}, "body": "long"}));
    /// let (parts, ()) = http::Request::post("/").body(())?.into_parts();
    /// let request = ReceivedRequest::new(&parts, b"long").with_event(&event);
    /// # let _ = request;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)]
    pub fn event<T: Serialize + ?Sized>(&self, event: &T) -> RequestEvent {
        self.read_event(|reader| reader.take(event, self.0.memory_limit))
    }

    /// Reads from the JSON text of an event the parts that the expressions of this operation look at, as [`event`](Self::event) does
    /// from a value.
    #[doc(hidden)]
    pub fn event_of_text(&self, text: &str) -> RequestEvent {
        self.read_event(|reader| reader.read(text, self.0.memory_limit))
    }

    fn read_event(
        &self,
        read: impl FnOnce(&PayloadReader) -> Result<ParsedPayload, JsonError>,
    ) -> RequestEvent {
        RequestEvent {
            operation: self.clone(),
            payload: self.0.events.reader.as_ref().map(read),
        }
    }

    /// Returns what the expressions look at in the event of a request.
    pub(super) fn event_of(
        &self,
        request: &ReceivedRequest<'_>,
    ) -> Result<ParsedPayload, JsonError> {
        let limit = self.0.memory_limit;
        match (request.event, &self.0.events.reader) {
            (None, Some(reader)) => {
                let target = self.target(request);
                let text = request.event_text(&target, self.0.events.needs_body);
                reader.read(&text, limit)
            }
            (
                Some(RequestEvent {
                    operation,
                    payload: Some(payload),
                }),
                _,
            ) if Arc::ptr_eq(&operation.0, &self.0) => payload.clone(),
            // Another operation has read the event, perhaps other parts of it. An empty text is no JSON, so the request is refused.
            _ => ParsedPayload::parse("", limit),
        }
    }
}

/// Returns true if an expression may read the body. If none may, the event is made without it: a body can have megabytes, and must become
/// base64 if it is not UTF-8.
///
/// A body is read by its name, by a wildcard, or through the whole event. An escape could hide the name.
fn reads_body(expression: &str) -> bool {
    let text = expression.replace("header(@", "header(");
    let text = text.replace("iam_caller(@", "iam_caller(");
    // `body` and `Body`: one search finds both.
    let names = ["ody", "isBase64"];
    names.iter().any(|name| text.contains(name)) || text.contains(['@', '*', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_no_body_if_no_expression_can_read_it() {
        for (expression, reads) in [
            ("requestContext.authorizer.jwt.claims.sub", false),
            ("header(@, 'x-user-id')", false),
            ("[iam_caller(@), requestContext.accountId]", false),
            ("[requestContext.accountId, header(@, 'x-user-id')]", false),
            ("body", true),
            ("powertools_json(body).id", true),
            ("\"body\"", true),
            (r#""\u0062\u006fdy""#, true),
            ("*", true),
            ("values(@)", true),
            ("@", true),
            ("powertools_base64(Body)", true),
            ("isBase64Encoded", true),
        ] {
            assert_eq!(reads_body(expression), reads, "{expression}");
        }
    }
}
