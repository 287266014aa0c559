//! The identity of a call: its key and validation hash, computed once, before the handler sees the event.

use std::sync::Arc;

use serde::Serialize;

use super::Operation;
use crate::config::KeyRequired;
use crate::error::{Error, ErrorKind};
use crate::event;
use crate::key::{EvaluationError, Expression, Json, is_absent_key};
use crate::outcome::Bypass;
use crate::record::RecordId;

/// Which record a call works on, and which payload it stands for; or that it runs unprotected.
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::operation::Operation;
/// let settings = Settings { key_prefix: Some("shop".to_owned()), ..Settings::default() };
/// let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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
    /// # use idempotency_core::{config::*, operation::Operation};
    /// # let settings = Settings { key_prefix: Some("shop".to_owned()), ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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
    /// # use idempotency_core::{config::*, operation::Operation};
    /// # let (id, amount) = (Some("id".to_owned()), Some("amount".to_owned()));
    /// let settings = Settings { key: id, validate: amount, ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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
    /// # use idempotency_core::{config::*, operation::Operation, outcome::Bypass};
    /// let settings = Settings { key: Some("order_id".to_owned()), ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let settings = Settings { key: Some("[user_id, order_id]".to_owned()), ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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

impl Operation {
    /// The identity of a call from its payload's JSON text, as it was sent.
    ///
    /// A tenant, where the invocation has one, gets keys of its own.
    ///
    /// ```
    /// # use idempotency_core::{config::*, error::ErrorKind, operation::Operation};
    /// # let operation = Operation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// let identity = operation.identify(r#"{"b": 2, "a": 1}"#, None)?;
    /// assert_eq!(identity, operation.identify(r#"{"a":1,"b":2}"#, None)?);
    /// assert_eq!(operation.identify("{", None).unwrap_err().kind(), ErrorKind::InvalidPayload);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not JSON, an expression fails on it, or it has no key and one is required, or lacks a part of its
    /// key and all are required. The handler has not run. Its outcome event is
    /// emitted, since the call ends here.
    pub fn identify(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        self.identity_of(payload, tenant).map_err(event::refused)
    }

    fn identity_of(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity(State::Bypassed(Bypass::Disabled)));
        }
        let payload = Json::parse(payload).map_err(|error| {
            self.error(ErrorKind::InvalidPayload)
                .with_detail(error.to_string())
        })?;
        let selection;
        let (material, missing) = match &self.key {
            None => (&payload, Vec::new()),
            Some(expression) => {
                selection = expression
                    .select(&payload)
                    .map_err(|error| self.failed("key", &error, &payload))?;
                (&selection.value, selection.missing)
            }
        };
        if is_absent_key(material) {
            if self.key_required == KeyRequired::No {
                return Ok(Identity(State::Bypassed(Bypass::NoKey)));
            }
            let error = self.error(ErrorKind::KeyMissing);
            return Err(error.with_detail(self.no_key()));
        }
        if self.key_required == KeyRequired::All && !missing.is_empty() {
            let error = self.error(ErrorKind::KeyMissing);
            return Err(error.with_detail(format!(
                "{}: send it (where calls without it are the same call, write a default: `{} || 'none'`)",
                self.lacks(&missing),
                missing[0]
            )));
        }
        let digest = self.hash.hex(&material.to_canonical());
        let validation = match &self.validate {
            None => None,
            Some(expression) => {
                let part = expression
                    .evaluate(&payload)
                    .map_err(|error| self.failed("validate", &error, &payload))?;
                if part == Json::Null {
                    tracing::warn!(
                        operation = self.key_prefix(),
                        "`validate` finds nothing in this payload, so nothing is validated"
                    );
                }
                Some(self.hash.hex(&part.to_canonical()))
            }
        };
        Ok(Identity(State::Protected {
            id: RecordId::of(self.key_prefix(), tenant, &digest),
            validation,
            missing,
        }))
    }

    /// The identity of a call from its payload as a value.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation};
    /// # let operation = Operation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
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
        self.identify(&text, tenant)
    }

    /// Returns what a developer must know of a call that runs all the same: that it has no key, or lacks a part of it.
    ///
    /// The outcome event of [`run`](Self::run) gives the same text as its `cause`. It names the key's expression, never the payload.
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let settings = Settings { key: Some("order_id".to_owned()), ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
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
        match &self.key {
            Some(expression) => format!("the key expression `{expression}` finds nothing in it"),
            None => "the whole payload is the key, and it is empty".to_owned(),
        }
    }

    fn lacks(&self, missing: &[Arc<str>]) -> String {
        let parts: Vec<_> = missing.iter().map(|part| format!("`{part}`")).collect();
        let key = self.key.as_ref().map_or("", Expression::as_str);
        let (parts, are) = (
            parts.join(", "),
            if missing.len() == 1 { "is" } else { "are" },
        );
        format!("{parts} of the key `{key}` {are} missing, null or empty")
    }

    fn failed(&self, setting: &str, error: &EvaluationError, payload: &Json) -> Error {
        let mut detail = format!("`{setting}`: {error}");
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
    /// # use idempotency_core::{config::*, operation::Operation};
    /// let settings = Settings { key: Some(r#"headers."idempotency-key""#.to_owned()), ..Settings::default() };
    /// # let operation = Operation::new("shop::place", &settings, &Variables::default()).unwrap();
    /// assert!(operation.advice()[0].contains("write `header(@, 'idempotency-key')`"));
    /// ```
    pub fn advice(&self) -> Vec<String> {
        let settings = [("key", &self.key), ("validate", &self.validate)];
        let exact = settings.into_iter().filter_map(|(setting, expression)| {
            Some((setting, expression.as_ref()?.header_by_exact_name()?))
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
