//! The identity of a call: its key and validation hash, computed once, before the handler sees the event.

use serde::Serialize;

use super::Operation;
use crate::error::{Error, ErrorKind};
use crate::event;
use crate::key::{Json, is_absent_key};
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

    pub(super) fn protected(&self) -> Result<(&RecordId, Option<&str>), Bypass> {
        match &self.0 {
            State::Protected { id, validation } => Ok((id, validation.as_deref())),
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
    /// If the text is not JSON, an expression fails on it, or it has no key and one is required. The handler has not
    /// run. Its outcome event is emitted, since the call ends here.
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
        let Some(digest) = self.key_digest(&payload)? else {
            if self.key_required {
                return Err(self.error(ErrorKind::KeyMissing));
            }
            return Ok(Identity(State::Bypassed(Bypass::NoKey)));
        };
        let validation = match &self.validate {
            None => None,
            Some(expression) => {
                let part = expression
                    .evaluate(&payload)
                    .map_err(|error| self.failed("validate", &error))?;
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

    fn key_digest(&self, payload: &Json) -> Result<Option<String>, Error> {
        let extracted;
        let material = match &self.key {
            None => payload,
            Some(expression) => {
                extracted = expression
                    .evaluate(payload)
                    .map_err(|error| self.failed("key", &error))?;
                &extracted
            }
        };
        Ok((!is_absent_key(material)).then(|| self.hash.hex(&material.to_canonical())))
    }

    fn failed(&self, setting: &str, error: &dyn std::fmt::Display) -> Error {
        self.error(ErrorKind::ExpressionFailed)
            .with_detail(format!("`{setting}`: {error}"))
    }
}
