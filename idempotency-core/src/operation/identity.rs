//! The identity of a call: its key and validation digest, computed once, before the handler gets the event.

use std::sync::Arc;

use serde::Serialize;

use super::CompiledOperation;
use super::stored_event::{Kept, whole};
use super::texts::too_large;
use crate::config::KeyRequired;
use crate::error::{Error, ErrorKind};
use crate::event;
use crate::key::{Budget, EvaluationError, Json, JsonErrorKind};
use crate::outcome::Bypass;
use crate::record::{RecordId, StoredEvent};

/// The record of a call and the hash of its payload, or the reason why the call runs unprotected.
///
/// # Examples
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
pub(super) enum State {
    Protected {
        id: RecordId,
        validation: Option<String>,
        /// The parts of the key that this payload does not have.
        missing: Vec<Arc<str>>,
        /// What the record keeps of the event; `None` if the operation keeps nothing.
        kept: Option<Kept>,
    },
    Bypassed(Bypass),
}

impl Identity {
    /// Returns the id of the record, or `None` if the call is not protected.
    pub fn key(&self) -> Option<&RecordId> {
        self.protected().ok().map(|(id, _)| id)
    }

    /// Returns the validation digest, or `None` if the call is not protected or its operation does not validate.
    ///
    /// # Examples
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

    /// Returns why the handler runs unprotected, or `None` if it is protected.
    pub fn bypass(&self) -> Option<Bypass> {
        self.protected().err()
    }

    /// Returns the parts of the key that the payload does not have, as the `key` expression writes them.
    ///
    /// The key is made without them, so that payloads which differ only in such a part share one record. Under
    /// [`KeyRequired::All`] there is no identity with missing parts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// # let (key, any) = (Some("[user_id, order_id]".into()), Some(KeyRequired::Any));
    /// let settings = Settings { key, key_required: any, ..Settings::default() };
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

    /// Returns what the record keeps of the event.
    pub(super) fn event(&self) -> Option<&StoredEvent> {
        match &self.0 {
            State::Protected {
                kept: Some(Kept::Event(event)),
                ..
            } => Some(event),
            _ => None,
        }
    }

    /// Returns why the record keeps nothing of the event, although the operation says what to keep.
    pub(super) fn event_left_out(&self) -> Option<&'static str> {
        match &self.0 {
            State::Protected {
                kept: Some(Kept::LeftOut(why)),
                ..
            } => Some(why),
            _ => None,
        }
    }

    /// Returns the identity with what its record keeps of the event. An unprotected call has no record.
    fn keeping(mut self, event: Option<Kept>) -> Self {
        if let State::Protected { kept, .. } = &mut self.0 {
            *kept = event;
        }
        self
    }

    pub(super) fn state(&self) -> &State {
        &self.0
    }

    /// Returns the record's id and the validation digest, or the reason why the call is not protected.
    pub(super) fn protected(&self) -> Result<(&RecordId, Option<&str>), Bypass> {
        match &self.0 {
            State::Protected { id, validation, .. } => Ok((id, validation.as_deref())),
            State::Bypassed(why) => Err(*why),
        }
    }
}

impl CompiledOperation {
    /// Computes the identity of a call from its payload's JSON text, as it was sent.
    ///
    /// If the invocation has a tenant, the tenant is a part of the key.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, if an expression fails on it, if it has no key and one is required, or if it lacks a part of
    /// its key and all parts are required. Also if its values, together with the results of the expressions, take more memory
    /// than [`Settings::memory_limit`](crate::config::Settings::memory_limit) allows. The handler has not run. The outcome
    /// event is emitted, because the call ends here.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, error::ErrorKind, operation::CompiledOperation};
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// let identity = operation.identify(r#"{"b": 2, "a": 1}"#, None)?;
    /// assert_eq!(identity, operation.identify(r#"{"a":1,"b":2}"#, None)?);
    /// assert_eq!(operation.identify("{", None).unwrap_err().kind(), ErrorKind::InvalidPayload);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn identify(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        self.identity_of(payload, tenant).map_err(event::refused)
    }

    fn identity_of(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity(State::Bypassed(Bypass::Disabled)));
        }
        self.identify_within(payload, tenant, Budget::new(self.memory_limit))
    }

    /// Computes the identity from the text: only what the expressions look at becomes a value.
    fn identify_within(
        &self,
        text: &str,
        tenant: Option<&str>,
        mut budget: Budget,
    ) -> Result<Identity, Error> {
        let by_values = self
            .keeps
            .as_ref()
            .is_some_and(|keeps| keeps.needs().is_some());
        if !by_values && let Some(digest) = self.selector.digest_of_whole(text, budget.limit()) {
            return Ok(Identity(State::Protected {
                id: RecordId::of(self.key_prefix(), tenant, &digest),
                validation: None,
                missing: Vec::new(),
                kept: self.keeps.as_ref().map(|_| whole(text)),
            }));
        }
        let needs = self.selector.needs();
        let payload = needs.read(text.as_bytes(), &mut budget).map_err(|error| {
            let detail = match error.kind() {
                JsonErrorKind::TooLarge => too_large("the payload's values take", &budget),
                _ => error.to_string(),
            };
            self.error(ErrorKind::InvalidPayload).with_detail(detail)
        })?;
        let identity = self
            .identity_from(&payload, tenant, &mut budget)
            .map_err(|refusal| match refusal {
                Refusal::Refused(error) => error,
                Refusal::Failed(setting, error) => self.failed(setting, &error, text, &budget),
            })?;
        let Some(keeps) = &self.keeps else {
            return Ok(identity);
        };
        let kept = keeps.of_text(text, &payload, &mut budget);
        Ok(identity.keeping(Some(kept)))
    }

    /// Computes the identity from what the expressions look at.
    fn identity_from(
        &self,
        payload: &Json,
        tenant: Option<&str>,
        budget: &mut Budget,
    ) -> Result<Identity, Refusal> {
        let mark = budget.mark();
        let key = self
            .selector
            .key_within(payload, budget)
            .map_err(|error| Refusal::Failed("key", error))?;
        let key = key.map(|key| (key.digest(), key.into_missing()));
        // The value of the key is dropped, so its memory is free again.
        budget.restore(&mark);
        let Some((digest, missing)) = key else {
            if self.key_required == KeyRequired::No {
                return Ok(Identity(State::Bypassed(Bypass::NoKey)));
            }
            let error = self.error(ErrorKind::KeyMissing);
            return Err(Refusal::Refused(error.with_detail(self.no_key())));
        };
        if self.key_required == KeyRequired::All && !missing.is_empty() {
            let error = self.error(ErrorKind::KeyMissing);
            return Err(Refusal::Refused(error.with_detail(format!(
                "{}: send it (where calls without it are the same call, write a default: `{} || 'none'`)",
                self.lacks(&missing),
                missing[0]
            ))));
        }
        let validation = self
            .selector
            .validation_within(payload, budget)
            .map_err(|error| Refusal::Failed("validate", error))?;
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
            kept: None,
        }))
    }

    /// Computes the identity of a call from its payload as a value.
    ///
    /// It is the identity of the value's JSON text. But only what the expressions look at is serialized: a part that cannot be
    /// written as JSON is noticed only if an expression looks at it. A value is serialized a second time, as text, if the first
    /// time fails.
    ///
    /// # Errors
    ///
    /// As [`identify`](Self::identify), and if what the expressions look at cannot be written as JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, operation::CompiledOperation};
    /// # let operation = CompiledOperation::new("shop::place", &Settings::default(), &Variables::default()).unwrap();
    /// let identity = operation.identify_value(&("u-1", 42), None)?;
    /// assert_eq!(identity, operation.identify(r#"["u-1", 42]"#, None)?);
    /// # Ok::<(), idempotency_core::error::Error>(())
    /// ```
    pub fn identify_value<T: Serialize + ?Sized>(
        &self,
        payload: &T,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity(State::Bypassed(Bypass::Disabled)));
        }
        if let Some(identity) = self.identify_parts(payload, tenant) {
            return Ok(identity);
        }
        // The message of serde may quote the payload.
        let text = serde_json::to_string(payload).map_err(|_| {
            event::refused(self.error(ErrorKind::InvalidPayload).with_detail(format!(
                "a `{}` cannot be written as JSON: map keys must be strings or numbers",
                std::any::type_name::<T>()
            )))
        })?;
        // The text is made here, so its memory counts.
        let mut budget = Budget::new(self.memory_limit);
        if budget.allocate(text.capacity()).is_err() {
            let detail = too_large("the payload's text takes", &budget);
            let error = self.error(ErrorKind::InvalidPayload).with_detail(detail);
            return Err(event::refused(error));
        }
        self.identify_within(&text, tenant, budget)
            .map_err(event::refused)
    }

    /// Computes the identity from what the expressions look at in a value; `None` if the value must be written as text. So it
    /// must after each failure and each refusal, because the text then has the error.
    fn identify_parts<T: Serialize + ?Sized>(
        &self,
        payload: &T,
        tenant: Option<&str>,
    ) -> Option<Identity> {
        let mut budget = Budget::new(self.memory_limit);
        let parts = self.selector.needs().take(payload, &mut budget).ok()?;
        let identity = self.identity_from(&parts, tenant, &mut budget).ok()?;
        let Some(keeps) = &self.keeps else {
            return Some(identity);
        };
        let kept = keeps.of_value(payload, &parts, &mut budget);
        Some(identity.keeping(Some(kept)))
    }
}

/// The reason why a payload has no identity.
enum Refusal {
    Refused(Error),
    /// The expression of this setting failed.
    Failed(&'static str, EvaluationError),
}

#[cfg(test)]
mod tests;
