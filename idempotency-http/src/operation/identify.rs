//! Identifies the call of a request: key and caller become the record id, and the fingerprint becomes the validation digest.

use http::request::Parts;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::{EvaluationError, Expression, ParsedPayload, Selection, is_absent_key};
use idempotency_core::operation::{Identity, quoted};

use super::HttpOperation;
use super::caller::{CallerRule, caller_in};
use super::key::{self, KeyRule};
use crate::problem::{Problem, Reason};
use crate::received::ReceivedRequest;

/// What the head of a request says about its call.
pub(crate) enum Head {
    /// The request runs unprotected.
    Unprotected(Identity),
    /// The request is protected, or its body decides whether it is.
    Protected {
        /// The key as a JSON text; `None` if it is in the event, which can have the body.
        key: Option<String>,
        /// The caller as [`HttpOperation::caller`] returns it; `None` if it is not looked at yet.
        caller: Option<String>,
    },
}

/// The event of a request, read when the first expression needs it.
pub(crate) struct Event<'a> {
    operation: &'a HttpOperation,
    request: &'a ReceivedRequest<'a>,
    payload: Option<ParsedPayload>,
}

impl HttpOperation {
    /// Returns what the head of a request says about its call. The body of the request is not looked at.
    ///
    /// A request that runs unprotected is not read into memory. A request with a wrong key, or of an unknown caller, is refused before
    /// its body is read.
    pub(crate) fn head(&self, event: &mut Event<'_>) -> Result<Head, Box<Problem>> {
        if self.0.operation.is_disabled() {
            return self.without_key().map(Head::Unprotected);
        }
        let key = match &self.0.key {
            KeyRule::Header(name) => match self.key_of_header(event.request.parts, name)? {
                Some(key) => Some(json_string(&key)),
                None => return self.without_key().map(Head::Unprotected),
            },
            KeyRule::Expression(_) => None,
        };
        // Without a key the request may run unprotected, and then needs no caller.
        let is_protected = key.is_some() || self.0.key_required;
        let caller = if is_protected && !self.0.events.caller_in_body {
            Some(self.caller(event)?)
        } else {
            None
        };
        Ok(Head::Protected { key, caller })
    }

    /// Returns the identity of a request without a key, where none is required.
    fn without_key(&self) -> Result<Identity, Box<Problem>> {
        let identity = self.0.operation.identify("{}", None);
        identity.map_err(|error| Box::new(self.key_missing(error)))
    }

    /// Returns the identity of a request in memory: the record's id and the digest of the fingerprint. No handler runs.
    ///
    /// # Errors
    ///
    /// If the request would be refused: it has no key or a wrong one, or its caller is not known.
    #[doc(hidden)]
    pub fn identity(
        &self,
        request: &ReceivedRequest<'_>,
        tenant: Option<&str>,
    ) -> Result<Identity, Box<Problem>> {
        let mut event = Event::new(self, request);
        let head = self.head(&mut event)?;
        self.identity_of(head, &mut event, tenant)
    }

    /// Returns the identity of a request with this head.
    pub(crate) fn identity_of(
        &self,
        head: Head,
        event: &mut Event<'_>,
        tenant: Option<&str>,
    ) -> Result<Identity, Box<Problem>> {
        let (key, caller) = match head {
            Head::Unprotected(identity) => return Ok(identity),
            Head::Protected { key, caller } => (key, caller),
        };
        let key = match (key, &self.0.key) {
            (None, KeyRule::Expression(expression)) => event.select_all("key", expression)?,
            (key, _) => key,
        };
        let Some(key) = key else {
            return self.without_key();
        };
        let caller = match caller {
            Some(caller) => caller,
            None => self.caller(event)?,
        };
        let part = match self.0.fingerprint.part() {
            Some((setting, part)) => Some(event.select_compared(setting, part)?),
            None => None,
        };
        let rule = &self.0.fingerprint;
        let target = self.target(event.request);
        let fingerprint = rule.of(event.request, &target, part, self.0.memory_limit);
        let mut payload = format!(r#"{{"idempotency_key":{key}{caller}"#);
        if self.0.key_per_path {
            payload.push_str(r#","path":"#);
            payload.push_str(&json_string(&target.path));
        }
        if let Some(fingerprint) = fingerprint {
            payload.push_str(r#","fingerprint":"#);
            payload.push_str(&fingerprint);
        }
        payload.push('}');
        let identity = self.0.operation.identify(&payload, tenant);
        identity.map_err(|error| Box::new(Problem::of_error(error)))
    }

    /// Returns the key in the header; `None` without the header.
    fn key_of_header(
        &self,
        parts: &Parts,
        name: &http::HeaderName,
    ) -> Result<Option<String>, Box<Problem>> {
        key::of_header(&parts.headers, name).map_err(|malformed| {
            let text = format!("the header `{name}` cannot be used: {}", malformed.text());
            let error = self.error_with(ErrorKind::InvalidPayload, text.as_str());
            Box::new(Problem::of_request(Reason::KeyMalformed, text, error))
        })
    }

    /// Returns the caller as a member of the payload, after others; an empty text if all callers share their keys.
    fn caller(&self, event: &mut Event<'_>) -> Result<String, Box<Problem>> {
        let parts = event.request.parts;
        let values = |name: &&String| parts.headers.get_all(name.as_str()).iter().count();
        let is_repeated = || self.0.caller_headers.iter().any(|name| values(&name) > 1);
        let caller = match &self.0.caller {
            CallerRule::Shared => return Ok(String::new()),
            CallerRule::Header(name) => caller_in(parts, name).map(|text| json_string(&text)),
            CallerRule::Function(function) => function(parts)
                .filter(|caller| !caller.is_empty())
                .map(|caller| json_string(&caller)),
            // As in `caller_in`: an event joins the values of a repeated header.
            CallerRule::Expression(_) if is_repeated() => None,
            CallerRule::Expression(expression) => {
                let selected = event.select("caller", expression)?;
                is_complete(&selected).then(|| selected.value.to_canonical())
            }
        };
        let Some(caller) = caller else {
            let detail = format!("the caller is not known: {}", self.0.caller.place());
            let error = self.error_with(ErrorKind::KeyMissing, detail);
            let text = "the client that sends the request is not known, and the request was not processed: \
                        authenticate, and send it again under the same key";
            let problem = Problem::of_request(Reason::CallerUnknown, text, error);
            return Err(Box::new(problem));
        };
        Ok(format!(r#","caller":{caller}"#))
    }

    /// Returns the problem of a request without a key.
    fn key_missing(&self, error: Error) -> Problem {
        match &self.0.key {
            KeyRule::Header(name) => {
                let text = format!(
                    "the request has no idempotency key: send it again with a unique value, such as a UUID in double \
                     quotes, in the header `{name}`"
                );
                let error = error.with_detail(format!("the request has no header `{name}`"));
                Problem::of_request(Reason::KeyMissing, text, error)
            }
            KeyRule::Expression(expression) => {
                let detail = format!("the `key` `{expression}` finds nothing in the request");
                Problem::of_error(error.with_detail(detail))
            }
        }
    }

    fn problem(&self, kind: ErrorKind, detail: String) -> Box<Problem> {
        Box::new(Problem::of_error(self.error_with(kind, detail)))
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.0.operation.key_prefix())
    }

    /// Returns an error with a text for the operator.
    pub(crate) fn error_with(&self, kind: ErrorKind, detail: impl Into<String>) -> Error {
        self.error(kind).with_detail(detail)
    }
}

impl<'a> Event<'a> {
    pub(crate) fn new(operation: &'a HttpOperation, request: &'a ReceivedRequest<'a>) -> Self {
        Self {
            operation,
            request,
            payload: None,
        }
    }

    /// Evaluates an expression on the event.
    fn select(
        &mut self,
        setting: &str,
        expression: &Expression,
    ) -> Result<Selection, Box<Problem>> {
        self.select_by(setting, expression, ParsedPayload::select)
    }

    fn select_by(
        &mut self,
        setting: &str,
        expression: &Expression,
        select: fn(&mut ParsedPayload, &Expression) -> Result<Selection, EvaluationError>,
    ) -> Result<Selection, Box<Problem>> {
        let operation = self.operation;
        let payload = match &mut self.payload {
            Some(payload) => payload,
            none => {
                let payload = operation.event_of(self.request).map_err(|error| {
                    let detail = format!("the request as an event: {error}");
                    operation.problem(ErrorKind::InvalidPayload, detail)
                })?;
                none.insert(payload)
            }
        };
        select(payload, expression).map_err(|error| {
            let detail = match error {
                EvaluationError::TooLarge => format!(
                    "`{setting}`: the event and what the expression makes of it take more than {} MiB of memory",
                    operation.0.memory_limit / (1024 * 1024)
                ),
                error => format!("`{setting}`: {error}"),
            };
            operation.problem(ErrorKind::ExpressionFailed, detail)
        })
    }

    /// Evaluates an expression of which every part is needed. Returns the JSON text; `None` if it finds nothing.
    fn select_all(
        &mut self,
        setting: &str,
        expression: &Expression,
    ) -> Result<Option<String>, Box<Problem>> {
        let selected = self.select(setting, expression)?;
        if is_absent_key(&selected.value) {
            return Ok(None);
        }
        if !is_complete(&selected) {
            let missing = quoted(&selected.missing);
            let detail = format!("the `{setting}` `{expression}` lacks {missing}");
            return Err(self.operation.problem(ErrorKind::KeyMissing, detail));
        }
        Ok(Some(selected.value.to_canonical()))
    }

    /// Evaluates an expression of which every part is compared. Returns the JSON text.
    fn select_compared(
        &mut self,
        setting: &str,
        expression: &Expression,
    ) -> Result<String, Box<Problem>> {
        let selected = self.select_by(setting, expression, ParsedPayload::select_compared)?;
        let Some(first) = selected.missing.first() else {
            return Ok(selected.value.to_canonical());
        };
        let detail = format!(
            "{} of `{setting}` selects nothing, so it is not compared: correct `{setting}`, or write a default where requests \
             without it are the same: `{first} || 'none'`",
            quoted(&selected.missing)
        );
        let error = self.operation.error_with(ErrorKind::KeyMissing, detail);
        let text = "the request lacks a part that is compared with its retries, and was not processed: send it again with every part";
        Err(Box::new(Problem::of_request(
            Reason::RequestUnreadable,
            text,
            error,
        )))
    }
}

/// Returns true if nothing is missing.
fn is_complete(selected: &Selection) -> bool {
    selected.missing.is_empty() && !is_absent_key(&selected.value)
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use http::Request;
    use idempotency_core::config::Variables;
    use idempotency_core::key::HashAlgorithm;

    use super::*;
    use crate::HttpOperationBuilder;

    fn built(set: impl FnOnce(HttpOperationBuilder) -> HttpOperationBuilder) -> HttpOperation {
        let builder = HttpOperation::builder("shop::pay").variables(Variables::default());
        set(builder).build().unwrap()
    }

    /// Returns an operation whose clients share their keys, which are taken from an expression.
    fn keyed_by(key: &'static str) -> HttpOperation {
        built(|builder| builder.shared_by_all_callers().key(key))
    }

    /// Returns the head of a POST with key `k-1` of this caller.
    fn head(caller: &str) -> Parts {
        let head = Request::post("/").header("idempotency-key", "k-1");
        let head = head.header("x-user-id", caller).body(());
        head.unwrap().into_parts().0
    }

    #[test]
    fn a_body_that_cannot_be_read_is_not_in_the_debug_output_of_its_problem() {
        let (operation, head) = (keyed_by("powertools_json(body).id"), head("u-1"));
        let refused = operation.identity(&ReceivedRequest::new(&head, b"secret {"), None);
        assert!(!format!("{:?}", refused.unwrap_err()).contains("secret"));
    }

    #[test]
    fn a_quote_in_a_caller_cannot_become_another_key() {
        let operation = built(|builder| builder.caller_header("x-user-id"));
        let key = |caller: &str| {
            let head = head(caller);
            let identity = operation.identity(&ReceivedRequest::new(&head, b""), None);
            identity.unwrap().key().cloned()
        };
        let honest = key("u-1");
        for caller in [
            r#"u-2","idempotency_key":"k-1","caller":"u-1"#,
            r#"u-1"]"#,
            r#"u-1\"#,
            "u-1, ",
            "u-1,u-1",
        ] {
            assert_ne!(key(caller), honest, "{caller}");
        }
    }

    #[test]
    fn a_key_beyond_the_limit_of_memory_is_refused() {
        let head = head("u-1");
        let large = format!(r#"{{"id": 1, "list": [{}0]}}"#, "0,".repeat(4_000_000));
        let identity = |key, body: &str| {
            let request = ReceivedRequest::new(&head, body.as_bytes());
            keyed_by(key).identity(&request, None)
        };
        let problem = identity("powertools_json(body)", &large).unwrap_err();
        assert_eq!(problem.reason(), Reason::RequestUnreadable);
        let error = problem.error().to_string();
        assert!(error.contains("more than 64 MiB"), "{error}");
        assert!(identity("powertools_json(body)", r#"{"id": 1}"#).is_ok());
        // What the expression does not look at takes no memory.
        assert!(identity("powertools_json(body).id", &large).is_ok());
    }

    #[test]
    fn a_part_of_the_fingerprint_that_selects_nothing_is_refused() {
        let head = head("u-1");
        let identity = |built: HttpOperation, body: &str| {
            let refused = built.identity(&ReceivedRequest::new(&head, body.as_bytes()), None);
            refused
                .map(drop)
                .map_err(|problem| (problem.reason(), problem.error().to_string()))
        };
        let with = |set: fn(HttpOperationBuilder) -> HttpOperationBuilder| {
            built(|builder| set(builder.shared_by_all_callers()))
        };
        for (operation, missing) in [
            (
                with(|it| it.fingerprint("powertools_json(body).amuont")),
                "powertools_json(body).amuont",
            ),
            (
                with(|it| it.fingerprint("powertools_json(body).[amount, curency]")),
                "curency",
            ),
            (
                with(|it| it.fingerprint_also("header(@, 'x-acount')")),
                "header(@, 'x-acount')",
            ),
            (
                with(|it| {
                    it.fingerprint("powertools_json(body).b")
                        .key_required(false)
                }),
                "powertools_json(body).b",
            ),
        ] {
            let (reason, error) = identity(operation, r#"{"amount": 1}"#).unwrap_err();
            assert_eq!(reason, Reason::RequestUnreadable);
            assert!(
                error.contains(&format!("`{missing}` of `fingerprint")),
                "{error}"
            );
        }
        for operation in [
            with(|it| it.fingerprint("powertools_json(body).[amount, note]")),
            with(|it| it.fingerprint_also("header(@, 'x-account') || 'none'")),
        ] {
            assert_eq!(identity(operation, r#"{"amount": 1, "note": ""}"#), Ok(()));
        }
    }

    #[test]
    fn a_ready_made_event_takes_the_place_of_the_request() {
        let operation = built(|builder| {
            let builder = builder.caller("requestContext.authorizer.claims.sub");
            builder.key("header(@, 'Order')").fingerprint("body")
        });
        let event = r#"{"headers":{"ORDER":"7"},"requestContext":{"authorizer":{"claims":{"sub":"a-1"}}},"body":"x"}"#;
        let event = operation.event_of_text(event);
        let head = head("u-1");
        let request = ReceivedRequest::new(&head, b"").with_event(&event);
        let identity = operation.identity(&request, None).unwrap();
        let md5 = |text| HashAlgorithm::Md5.hex(text);
        let key = format!("local.shop.pay#{}", md5(r#"["a-1", "7"]"#));
        assert_eq!(identity.key().unwrap().as_str(), key);
        let validation = md5(r#"["POST", "/", "x"]"#);
        assert_eq!(identity.validation(), Some(validation.as_str()));
    }

    #[test]
    fn an_expression_sees_the_body_that_the_platform_sent_as_base64_as_the_client_sent_it() {
        let head = head("u-1");
        let identity = |key: &'static str, body: &str, encoded: bool| {
            let operation = built(|builder| {
                let builder = builder.shared_by_all_callers().key(key);
                builder.fingerprint(key)
            });
            let event = serde_json::json!({"body": body, "isBase64Encoded": encoded});
            let events = [
                operation.event(&event),
                operation.event_of_text(&event.to_string()),
            ];
            let [of_value, of_text] = events.map(|event| {
                let request = ReceivedRequest::new(&head, b"").with_event(&event);
                operation.identity(&request, None).ok()
            });
            assert_eq!(of_value, of_text);
            of_value
        };
        const ENCODED: &str = "eyJpZCI6IDd9"; // {"id": 7}
        for key in ["powertools_json(body).id", "body"] {
            let sent = identity(key, r#"{"id": 7}"#, false);
            assert!(sent.is_some());
            assert_eq!(identity(key, ENCODED, true), sent, "{key}");
        }
        assert_eq!(identity("powertools_json(body).id", ENCODED, false), None);
        assert_eq!(identity("powertools_json(body).id", "/w==", true), None);
        // An expression that decodes the body itself gets it as it was sent.
        let own = "powertools_json(powertools_base64(body)).id";
        assert!(identity(own, ENCODED, true).is_some());
    }

    #[test]
    fn an_event_that_another_operation_read_is_refused() {
        let [operation, other] = [keyed_by("headers.a"), keyed_by("headers.a")];
        let event = other.event(&serde_json::json!({"headers": {"a": "1"}}));
        let head = head("u-1");
        let request = ReceivedRequest::new(&head, b"{}").with_event(&event);
        assert!(other.identity(&request, None).is_ok());
        let problem = operation.identity(&request, None).unwrap_err();
        assert_eq!(problem.reason(), Reason::RequestUnreadable);
    }
}
