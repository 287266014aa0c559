//! From a request to the identity of its call: key and caller become the record's id, the fingerprint its validation.

use http::request::Parts;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::key::{EvaluationError, Expression, ParsedPayload, Selection, is_absent_key};
use idempotency_core::operation::Identity;

use super::caller::{self, CallerRule};
use super::fingerprint::FingerprintRule;
use super::key::{self, KeyRule};
use super::{HttpOperation, fingerprint};
use crate::problem::{Problem, Reason};
use crate::received::ReceivedRequest;

/// What the head of a request says about its key.
pub(crate) enum Head<'a> {
    /// The request runs unprotected.
    Unprotected(Identity),
    /// The key, as a JSON text.
    Key(String),
    /// This expression selects the key from the event, which can have the body.
    InEvent(&'a Expression),
}

/// The event of a request, read when the first expression needs it.
struct Event<'a> {
    operation: &'a HttpOperation,
    request: &'a ReceivedRequest<'a>,
    payload: Option<ParsedPayload>,
}

impl HttpOperation {
    /// Returns what the head of a request says about its key.
    ///
    /// A request that runs unprotected is not read into memory, and a request with a wrong key is refused before its body is
    /// read.
    pub(crate) fn head(&self, parts: &Parts) -> Result<Head<'_>, Box<Problem>> {
        if self.0.operation.is_disabled() {
            return self.without_key().map(Head::Unprotected);
        }
        match &self.0.key {
            KeyRule::Header(name) => match self.key_of_header(parts, name)? {
                Some(key) => Ok(Head::Key(json_string(&key))),
                None => self.without_key().map(Head::Unprotected),
            },
            KeyRule::Expression(expression) => Ok(Head::InEvent(expression)),
        }
    }

    /// Returns the identity of a request without a key, where none is required.
    fn without_key(&self) -> Result<Identity, Box<Problem>> {
        let identity = self.0.operation.identify("{}", None);
        identity.map_err(|error| Box::new(self.key_missing(error)))
    }

    /// Returns the identity of a request.
    pub(crate) fn identity(
        &self,
        request: &ReceivedRequest<'_>,
        tenant: Option<&str>,
    ) -> Result<Identity, Box<Problem>> {
        self.identity_after(self.head(request.parts)?, request, tenant)
    }

    /// Returns the identity of a request with this head.
    pub(crate) fn identity_after(
        &self,
        head: Head<'_>,
        request: &ReceivedRequest<'_>,
        tenant: Option<&str>,
    ) -> Result<Identity, Box<Problem>> {
        let mut event = Event {
            operation: self,
            request,
            payload: None,
        };
        let key = match head {
            Head::Unprotected(identity) => return Ok(identity),
            Head::Key(key) => key,
            Head::InEvent(expression) => match event.select_all("key", expression)? {
                Some(key) => key,
                None => return self.without_key(),
            },
        };
        let mut payload = format!(r#"{{"idempotency_key":{key}"#);
        if let Some(caller) = self.caller(&mut event)? {
            payload.push_str(r#","caller":"#);
            payload.push_str(&caller);
        }
        let fingerprint = match &self.0.fingerprint {
            FingerprintRule::Request => Some(fingerprint::of(
                request.parts,
                request.body,
                self.0.memory_limit,
            )),
            FingerprintRule::Expression(expression) => Some(
                event
                    .select("fingerprint", expression)?
                    .value
                    .to_canonical(),
            ),
            FingerprintRule::None => None,
        };
        if let Some(fingerprint) = fingerprint {
            payload.push_str(r#","fingerprint":"#);
            payload.push_str(&fingerprint);
        }
        payload.push('}');
        let identity = self.0.operation.identify(&payload, tenant);
        identity.map_err(|error| Box::new(Problem::of_error(error, EPOCH)))
    }

    /// Returns the key in the header; `None` without the header.
    fn key_of_header(
        &self,
        parts: &Parts,
        name: &http::HeaderName,
    ) -> Result<Option<String>, Box<Problem>> {
        key::of_header(&parts.headers, name).map_err(|malformed| {
            let text = format!("the header `{name}` cannot be used: {}", malformed.text());
            let error = self
                .error(ErrorKind::InvalidPayload)
                .with_detail(text.as_str());
            Box::new(Problem::of_request(Reason::KeyMalformed, text, error))
        })
    }

    /// Returns the caller as a JSON text; `None` if all callers share their keys.
    fn caller(&self, event: &mut Event<'_>) -> Result<Option<String>, Box<Problem>> {
        let parts = event.request.parts;
        let caller = match &self.0.caller {
            CallerRule::Shared => return Ok(None),
            CallerRule::Header(name) => {
                caller::of_header(parts, name).map(|text| json_string(&text))
            }
            CallerRule::Function(function) => function(parts)
                .filter(|caller| !caller.is_empty())
                .map(|caller| json_string(&caller)),
            CallerRule::Expression(expression) => {
                let selected = event.select("caller", expression)?;
                complete(&selected).then(|| selected.value.to_canonical())
            }
        };
        match caller {
            Some(caller) => Ok(Some(caller)),
            None => {
                let detail = format!("the caller is not known: {}", self.0.caller.place());
                let error = self.error(ErrorKind::KeyMissing).with_detail(detail);
                let text = "the client that sends the request is not known, and the request was not processed: \
                            authenticate, and send it again under the same key";
                Err(Box::new(Problem::of_request(
                    Reason::CallerUnknown,
                    text,
                    error,
                )))
            }
        }
    }

    /// Returns the problem of a request without a key.
    fn key_missing(&self, error: Error) -> Problem {
        match &self.0.key {
            KeyRule::Header(name) => {
                let text = format!(
                    "the request has no idempotency key: send it again with a unique value, such as a UUID in double \
                     quotes, in the header `{name}`"
                );
                Problem::of_request(Reason::KeyMissing, text, error)
            }
            KeyRule::Expression(_) => Problem::of_error(error, EPOCH),
        }
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.0.operation.key_prefix())
    }
}

/// No error of an identification has a lease, so the time is not used.
const EPOCH: idempotency_core::time::EpochMillis = idempotency_core::time::EpochMillis::new(0);

impl Event<'_> {
    /// Evaluates an expression on the event.
    fn select(
        &mut self,
        setting: &str,
        expression: &Expression,
    ) -> Result<Selection, Box<Problem>> {
        let operation = self.operation;
        let payload = match &mut self.payload {
            Some(payload) => payload,
            none => {
                let payload = operation.event_of(self.request).map_err(|error| {
                    let error = operation
                        .error(ErrorKind::InvalidPayload)
                        .with_detail(format!("the request as an event: {error}"));
                    Box::new(Problem::of_error(error, EPOCH))
                })?;
                none.insert(payload)
            }
        };
        payload.select(expression).map_err(|error| {
            let detail = match error {
                EvaluationError::TooLarge => format!(
                    "`{setting}`: the event and what the expression makes of it take more than {} MiB of memory",
                    operation.0.memory_limit / (1024 * 1024)
                ),
                error => format!("`{setting}`: {error}"),
            };
            let error = operation
                .error(ErrorKind::ExpressionFailed)
                .with_detail(detail);
            Box::new(Problem::of_error(error, EPOCH))
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
        if !complete(&selected) {
            let missing: Vec<_> = selected
                .missing
                .iter()
                .map(|part| format!("`{part}`"))
                .collect();
            let detail = format!(
                "the `{setting}` `{expression}` lacks {}",
                missing.join(", ")
            );
            let error = self.operation.error(ErrorKind::KeyMissing);
            let error = error.with_detail(detail);
            return Err(Box::new(Problem::of_error(error, EPOCH)));
        }
        Ok(Some(selected.value.to_canonical()))
    }
}

/// Returns true if nothing is missing.
fn complete(selected: &Selection) -> bool {
    selected.missing.is_empty() && !is_absent_key(&selected.value)
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
