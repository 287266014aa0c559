//! The identity of a call: its key and validation hash, computed once, before the handler sees the event.

use std::sync::Arc;

use serde::Serialize;

use super::CompiledOperation;
use crate::config::KeyRequired;
use crate::error::{Error, ErrorKind};
use crate::event;
use crate::key::{Budget, EvaluationError, Expression, Json, JsonErrorKind};
use crate::outcome::Bypass;
use crate::record::RecordId;

/// Which record a call works on, and which payload it stands for; or that it runs unprotected.
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::operation::CompiledOperation;
/// let settings = Settings { key_prefix: Some("shop".into()), ..Settings::default() };
/// let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
/// let identity = operation.identify(r#"{"a": 1}"#, None).unwrap();
/// assert_eq!(identity.key().unwrap().as_str(), "shop#42b7b4f2921788ea14dac5566e6f06d0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(State);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Protected {
        id: RecordId,
        validation: Option<String>,
        /// Parts of the key that this payload does not have.
        missing: Vec<Arc<str>>,
    },
    Bypassed(Bypass),
}

impl Identity {
    /// The record's id, if the call is protected.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// # let settings = Settings { key_prefix: Some("shop".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// let identity = operation.identify(r#"{"a": 1}"#, Some("blue"))?;
    /// assert!(identity.key().unwrap().as_str().starts_with("shop#tenant=blue#"));
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn key(&self) -> Option<&RecordId> {
        self.protected().ok().map(|(id, _)| id)
    }

    /// The hash of the validated part, if the call is protected and the operation validates.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// # let (id, amount) = (Some("id".into()), Some("amount".into()));
    /// let settings = Settings { key: id, validate: amount, ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// let first = operation.identify(r#"{"id": 1, "amount": 10}"#, None)?;
    /// let other = operation.identify(r#"{"id": 1, "amount": 99}"#, None)?;
    /// assert_eq!(first.key(), other.key());
    /// assert_ne!(first.validation(), other.validation());
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn validation(&self) -> Option<&str> {
        self.protected().ok().and_then(|(_, validation)| validation)
    }

    /// Why the handler runs unprotected, if it does.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation, outcome::Bypass};
    /// let settings = Settings { key: Some("order_id".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// assert_eq!(operation.identify("{}", None)?.bypass(), Some(Bypass::NoKey));
    /// assert_eq!(operation.identify(r#"{"order_id": 7}"#, None)?.bypass(), None);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn bypass(&self) -> Option<Bypass> {
        self.protected().err()
    }

    /// Returns the parts of the key that the payload does not have, each as it is written in the `key` expression.
    ///
    /// The key is made without them, so that payloads which differ in such a part alone share one record. Under
    /// [`KeyRequired::All`] there is no identity with missing parts.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let settings = Settings { key: Some("[user_id, order_id]".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// let identity = operation.identify(r#"{"user_id": "u-1"}"#, None)?;
    /// assert_eq!(identity.missing_parts().collect::<Vec<_>>(), ["order_id"]);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn missing_parts(&self) -> impl Iterator<Item = &str> {
        let missing = match &self.0 {
            State::Protected { missing, .. } => missing.as_slice(),
            State::Bypassed(_) => &[],
        };
        missing.iter().map(|part| &**part)
    }

    pub(super) fn protected(&self) -> Result<(&RecordId, Option<&str>), Bypass> {
        match &self.0 {
            State::Protected { id, validation, .. } => Ok((id, validation.as_deref())),
            State::Bypassed(why) => Err(*why),
        }
    }
}

impl CompiledOperation {
    /// The identity of a call from its payload's JSON text, as it was sent.
    ///
    /// A tenant, where the invocation has one, gets keys of its own.
    ///
    /// ```
    /// # use idempotency_core::{config::*, error::ErrorKind, operation::CompiledOperation};
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// let identity = operation.identify(r#"{"b": 2, "a": 1}"#, None)?;
    /// assert_eq!(identity, operation.identify(r#"{"a":1,"b":2}"#, None)?);
    /// assert_eq!(operation.identify("{", None).unwrap_err().kind(), ErrorKind::InvalidPayload);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not JSON, an expression fails on it, or it has no key and one is required, or lacks a part of its
    /// key and all are required; and if its values, with what the expressions make of them, take more memory than
    /// [`Settings::memory_limit`](crate::config::Settings::memory_limit) allows. The handler has not run. The outcome
    /// event is emitted, since the call ends here.
    pub fn identify(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        self.identity_of(payload, tenant).map_err(event::refused)
    }

    fn identity_of(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity(State::Bypassed(Bypass::Disabled)));
        }
        self.identify_within(payload, tenant, Budget::new(self.memory_limit))
    }

    fn identify_within(
        &self,
        payload: &str,
        tenant: Option<&str>,
        mut budget: Budget,
    ) -> Result<Identity, Error> {
        let payload = Json::parse_within(payload.as_bytes(), &mut budget).map_err(|error| {
            let detail = match error.kind() {
                JsonErrorKind::TooLarge => too_large("the payload's values take", &budget),
                _ => error.to_string(),
            };
            self.error(ErrorKind::InvalidPayload).with_detail(detail)
        })?;
        let mark = budget.mark();
        let key = self
            .selector
            .key_within(&payload, &mut budget)
            .map_err(|error| self.failed("key", &error, &payload, &budget))?;
        let key = key.map(|key| (key.digest(), key.into_missing()));
        // The value of the key is dropped, so its memory is free again.
        budget.restore(&mark);
        let Some((digest, missing)) = key else {
            if self.key_required == KeyRequired::No {
                return Ok(Identity(State::Bypassed(Bypass::NoKey)));
            }
            let error = self.error(ErrorKind::KeyMissing);
            return Err(error.with_detail(self.no_key()));
        };
        if self.key_required == KeyRequired::All && !missing.is_empty() {
            let error = self.error(ErrorKind::KeyMissing);
            return Err(error.with_detail(format!(
                "{}: send it (where calls without it are the same call, write a default: `{} || 'none'`)",
                self.lacks(&missing),
                missing[0]
            )));
        }
        let validation = self
            .selector
            .validation_within(&payload, &mut budget)
            .map_err(|error| self.failed("validate", &error, &payload, &budget))?;
        if validation.as_ref().is_some_and(|part| part.of_null) {
            tracing::warn!(
                operation = self.key_prefix(),
                "`validate` finds nothing in this payload, so nothing is validated"
            );
        }
        Ok(Identity(State::Protected {
            id: RecordId::of(self.key_prefix(), tenant, &digest),
            validation: validation.map(|part| part.hash),
            missing,
        }))
    }

    /// The identity of a call from its payload as a value.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// let identity = operation.identify_value(&("u-1", 42), None)?;
    /// assert_eq!(identity, operation.identify(r#"["u-1", 42]"#, None)?);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`identify`](Self::identify), and if the value cannot be written as JSON.
    pub fn identify_value<T: Serialize + ?Sized>(
        &self,
        payload: &T,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity(State::Bypassed(Bypass::Disabled)));
        }
        // serde's own message may quote the payload.
        let text = serde_json::to_string(payload).map_err(|_| {
            event::refused(self.error(ErrorKind::InvalidPayload).with_detail(format!(
                "a `{}` cannot be written as JSON: map keys must be strings or numbers",
                std::any::type_name::<T>()
            )))
        })?;
        // The text is made here, so it counts.
        let mut budget = Budget::new(self.memory_limit);
        if budget.allocate(text.capacity()).is_err() {
            let detail = too_large("the payload's text takes", &budget);
            let error = self.error(ErrorKind::InvalidPayload).with_detail(detail);
            return Err(event::refused(error));
        }
        self.identify_within(&text, tenant, budget)
            .map_err(event::refused)
    }

    /// Returns what a developer must know of a call that runs all the same: that it has no key, or lacks a part of it.
    ///
    /// The outcome event of [`run`](Self::run) gives the same text as its `cause`. It names the key's expression, never the payload.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let settings = Settings { key: Some("order_id".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// let unprotected = operation.identify("{}", None)?;
    /// assert!(operation.warning(&unprotected).unwrap().contains("`key_required = true`"));
    /// let protected = operation.identify(r#"{"order_id": 7}"#, None)?;
    /// assert_eq!(operation.warning(&protected), None);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn warning(&self, identity: &Identity) -> Option<String> {
        match &identity.0 {
            State::Bypassed(Bypass::NoKey) => Some(format!(
                "the payload has no idempotency key: the handler runs unprotected; {} (`key_required = true` refuses \
                 such a payload)",
                self.no_key()
            )),
            State::Protected { missing, .. } if !missing.is_empty() => Some(format!(
                "a part of the idempotency key is missing: {}, so that calls which differ in it alone share one \
                 response (`key_required = \"all\"` refuses such a payload)",
                self.lacks(missing)
            )),
            _ => None,
        }
    }

    fn no_key(&self) -> String {
        match self.selector.key_expression() {
            Some(expression) => format!("the key expression `{expression}` finds nothing in it"),
            None => "the whole payload is the key, and it is empty".to_owned(),
        }
    }

    fn lacks(&self, missing: &[Arc<str>]) -> String {
        let parts: Vec<_> = missing.iter().map(|part| format!("`{part}`")).collect();
        let key = self
            .selector
            .key_expression()
            .map_or("", Expression::as_str);
        let (parts, are) = (
            parts.join(", "),
            if missing.len() == 1 { "is" } else { "are" },
        );
        format!("{parts} of the key `{key}` {are} missing, null or empty")
    }

    fn failed(
        &self,
        setting: &str,
        error: &EvaluationError,
        payload: &Json,
        budget: &Budget,
    ) -> Error {
        let mut detail = if *error == EvaluationError::TooLarge {
            let what = "the payload and what the expression makes of it take";
            format!("`{setting}`: {}", too_large(what, budget))
        } else {
            format!("`{setting}`: {error}")
        };
        let encoded = payload.member("isBase64Encoded") == Some(&Json::Bool(true));
        if encoded
            && matches!(
                error,
                EvaluationError::Json {
                    is_base64: false,
                    ..
                }
            )
        {
            detail += "; the event has `isBase64Encoded: true`: write `powertools_json(powertools_base64(body))`";
        }
        self.error(ErrorKind::ExpressionFailed).with_detail(detail)
    }

    /// Returns what a developer should change in the expressions although they can be used. It is said once, at the start.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// let settings = Settings { key: Some(r#"headers."idempotency-key""#.into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// assert!(operation.advice()[0].contains("write `header(@, 'idempotency-key')`"));
    /// ```
    pub fn advice(&self) -> Vec<String> {
        let settings = [
            ("key", self.selector.key_expression()),
            ("validate", self.selector.validate_expression()),
        ];
        let exact = settings.into_iter().filter_map(|(setting, expression)| {
            Some((setting, expression?.header_by_exact_name()?))
        });
        exact
            .map(|(setting, name)| {
                format!(
                    "{}: `{setting}` looks up the header `{name}` by its exact name, which an event may spell in another \
                     case: write `header(@, '{name}')`",
                    self.key_prefix()
                )
            })
            .collect()
    }
}

fn too_large(what: &str, budget: &Budget) -> String {
    format!(
        "{what} more than {} MiB of memory, the limit in a function of this size: send less, or give the function more \
         memory (the limit is a quarter of AWS_LAMBDA_FUNCTION_MEMORY_SIZE, between 32 and 256 MiB; 64 MiB without it)",
        budget.limit() / (1024 * 1024)
    )
}

#[cfg(test)]
mod tests;
