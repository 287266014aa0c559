//! The identity of a call: its key and validation digest, computed once, before the handler gets the event.

use std::sync::Arc;

use serde::Serialize;

use super::CompiledOperation;
use super::stored_event::{EventCopy, whole};
use crate::config::KeyRequired;
use crate::error::{Error, ErrorKind};
use crate::key::{Budget, EvaluationError, Json, JsonErrorKind, LOST, Unfit};
use crate::outcome::Bypass;
use crate::record::{RecordId, StoredEvent};

/// The record of a call and the hash of its payload, or the reason why the call runs unprotected.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    protection: Protection,
    /// True if the call waits for a call in progress by default.
    waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    Protected {
        id: RecordId,
        validation: Option<String>,
        /// The parts of the key that this payload does not have.
        missing: Vec<Arc<str>>,
        /// What the record keeps of the event; `None` if the operation keeps nothing.
        kept: Option<EventCopy>,
    },
    Bypassed(Bypass),
}

impl Identity {
    fn of(protection: Protection) -> Self {
        Self {
            protection,
            waits: false,
        }
    }

    /// Returns the identity of a call whose source delivers again at once: it waits for a call in progress, unless a setting or a
    /// variable says what a duplicate does.
    #[must_use]
    pub fn waiting_by_default(mut self) -> Self {
        self.waits = true;
        self
    }

    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns the id of the record, or `None` if the call is not protected.
    pub fn key(&self) -> Option<&RecordId> {
        self.protected().ok().map(|(id, _)| id)
    }

    /// Returns the validation digest, or `None` if the call is not protected or its operation does not validate.
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
    pub fn missing_parts(&self) -> impl Iterator<Item = &str> {
        let missing = match &self.protection {
            Protection::Protected { missing, .. } => missing.as_slice(),
            Protection::Bypassed(_) => &[],
        };
        missing.iter().map(|part| &**part)
    }

    /// Returns what the record keeps of the event.
    pub(super) fn event(&self) -> Option<&StoredEvent> {
        match &self.protection {
            Protection::Protected {
                kept: Some(EventCopy::Event(event)),
                ..
            } => Some(event),
            _ => None,
        }
    }

    /// Returns why the record keeps nothing of the event, although the operation says what to keep.
    pub(super) fn event_left_out(&self) -> Option<&'static str> {
        match &self.protection {
            Protection::Protected {
                kept: Some(EventCopy::LeftOut(why)),
                ..
            } => Some(why),
            _ => None,
        }
    }

    /// Returns the identity with what its record keeps of the event. An unprotected call has no record.
    fn keeping(mut self, event: Option<EventCopy>) -> Self {
        if let Protection::Protected { kept, .. } = &mut self.protection {
            *kept = event;
        }
        self
    }

    pub(super) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Returns the record's id and the validation digest, or the reason why the call is not protected.
    pub(super) fn protected(&self) -> Result<(&RecordId, Option<&str>), Bypass> {
        match &self.protection {
            Protection::Protected { id, validation, .. } => Ok((id, validation.as_deref())),
            Protection::Bypassed(why) => Err(*why),
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
    /// than [`Settings::memory_limit`](crate::config::Settings::memory_limit) allows. The handler has not run. The
    /// entry point emits the outcome event ([`refused`](crate::event::refused)): code that only looks at a key makes no call.
    pub fn identify(&self, payload: &str, tenant: Option<&str>) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity::of(Protection::Bypassed(Bypass::Disabled)));
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
            return Ok(Identity::of(Protection::Protected {
                id: RecordId::of(self.key_prefix(), tenant, &digest),
                validation: None,
                missing: Vec::new(),
                kept: self.keeps.as_ref().map(|_| whole(text)),
            }));
        }
        let needs = self.selector.needs();
        let payload = needs.read(text.as_bytes(), &mut budget).map_err(|error| {
            let detail = match error.kind() {
                JsonErrorKind::TooLarge => self.too_large("the payload's values take", &budget),
                _ => error.to_string(),
            };
            self.error(ErrorKind::InvalidPayload).with_detail(detail)
        })?;
        let identity = self
            .identity_from(&payload, tenant, &mut budget)
            .map_err(|refusal| match refusal {
                Refusal::Refused(error) => error,
                Refusal::Failed(setting, error) => {
                    self.expression_error(setting, &error, text, &budget)
                }
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
        let before = budget.clone();
        let key = self
            .selector
            .key_within(payload, budget)
            .map_err(|error| Refusal::Failed("key", error))?;
        let key = key.map(|key| (key.digest(), key.into_missing()));
        // The value of the key is dropped, so its memory is free again.
        *budget = before;
        let Some((digest, missing)) = key else {
            if self.key_required == KeyRequired::No {
                return Ok(Identity::of(Protection::Bypassed(Bypass::NoKey)));
            }
            let error = self.error(ErrorKind::KeyMissing);
            return Err(Refusal::Refused(error.with_detail(self.why_no_key())));
        };
        if self.key_required == KeyRequired::All && !missing.is_empty() {
            let error = self.error(ErrorKind::KeyMissing);
            return Err(Refusal::Refused(error.with_detail(format!(
                "{}: send it (where calls without it are the same call, write a default: `{} || 'none'`)",
                self.missing_parts_text(&missing),
                missing[0]
            ))));
        }
        let validation = self
            .selector
            .validation_within(payload, budget)
            .map_err(|error| Refusal::Failed("validate", error))?;
        if let Some(part) = &validation
            && let Some(why) = self.why_not_compared(part)
        {
            let refused = match self.key_required {
                KeyRequired::All => true,
                KeyRequired::Any => part.of_nothing,
                KeyRequired::No => false,
            };
            if refused {
                let error = self.error(ErrorKind::KeyMissing).with_detail(why);
                return Err(Refusal::Refused(error));
            }
            tracing::warn!(operation = self.key_prefix(), "{why}");
        }
        Ok(Identity::of(Protection::Protected {
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
    pub fn identify_value<T: Serialize + ?Sized>(
        &self,
        payload: &T,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        if self.is_disabled() {
            return Ok(Identity::of(Protection::Bypassed(Bypass::Disabled)));
        }
        // If this fails or refuses the value, the value is written as text below. The error is then that of the text.
        let mut budget = Budget::new(self.memory_limit);
        let taken = self.selector.needs().take(payload, &mut budget);
        if taken == Err(Unfit::Number) {
            return Err(self.error(ErrorKind::InvalidPayload).with_detail(LOST));
        }
        if let Ok(parts) = taken
            && let Ok(identity) = self.identity_from(&parts, tenant, &mut budget)
        {
            let Some(keeps) = &self.keeps else {
                return Ok(identity);
            };
            let kept = keeps.of_value(payload, &parts, &mut budget);
            return Ok(identity.keeping(Some(kept)));
        }
        // The message of serde may quote the payload.
        let text = serde_json::to_string(payload).map_err(|_| {
            self.error(ErrorKind::InvalidPayload).with_detail(format!(
                "a `{}` cannot be written as JSON: map keys must be strings or numbers",
                std::any::type_name::<T>()
            ))
        })?;
        // The text is made here, so its memory counts.
        let mut budget = Budget::new(self.memory_limit);
        if budget.allocate(text.capacity()).is_err() {
            let detail = self.too_large("the payload's text takes", &budget);
            return Err(self.error(ErrorKind::InvalidPayload).with_detail(detail));
        }
        self.identify_within(&text, tenant, budget)
    }
}

/// The reason why a payload has no identity.
enum Refusal {
    Refused(Error),
    /// The expression of this setting failed.
    Failed(&'static str, EvaluationError),
}

/// The identity of a call, its errors, and what a developer must know of it.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::example::shared::{check_each, operation, variable};
    use crate::protocol::policy::Steps;

    fn keyed(key: &'static str) -> CompiledOperation {
        operation(|it| it.key = Some(key.into()))
    }

    /// Returns the kind and the detail of the error on a payload.
    fn refused(operation: &CompiledOperation, payload: &str) -> (ErrorKind, String) {
        let error = operation.identify(payload, None).unwrap_err();
        assert!(!error.handler_ran());
        (error.kind(), error.detail().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_protected_call_has_a_key_and_no_reason_to_run_unprotected() {
        let identity = operation(|_| ()).identify(r#"{"a": 1}"#, Some("blue"));
        let identity = identity.unwrap();
        let key = "shop#tenant=blue#42b7b4f2921788ea14dac5566e6f06d0";
        assert_eq!(identity.key().unwrap().as_str(), key);
        assert_eq!((identity.bypass(), identity.validation()), (None, None));
        assert_eq!(identity.missing_parts().count(), 0);
    }

    #[test]
    fn a_validated_part_has_its_own_digest() {
        let operation = operation(|it| {
            it.key = Some("id".into());
            it.validate = Some("amount".into());
        });
        let identify = |payload| operation.identify(payload, None).unwrap();
        let identity = identify(r#"{"id": 1, "amount": {"a": 1}}"#);
        let digest = "42b7b4f2921788ea14dac5566e6f06d0";
        assert_eq!(identity.validation(), Some(digest));
        let other = identify(r#"{"id": 1, "amount": 2}"#);
        assert_eq!(identity.key(), other.key());
        assert_ne!(identity.validation(), other.validation());
    }

    #[test]
    fn with_steps_the_whole_payload_is_validated_unless_a_part_is() {
        let payload = r#"{"id": 1, "amount": 2}"#;
        let digest = |steps, key: Option<&'static str>, validate: Option<&'static str>| {
            let operation = operation(|it| {
                it.steps = Some(steps);
                it.key = key.map(Into::into);
                it.validate = validate.map(Into::into);
            });
            let identity = operation.identify(payload, None).unwrap();
            let of_value: serde_json::Value = serde_json::from_str(payload).unwrap();
            let of_value = operation.identify_value(&of_value, None).unwrap();
            assert_eq!(identity, of_value);
            identity.validation().map(str::to_owned)
        };
        let key = Some("id");
        let whole = digest(Steps::Off, key, Some("@"));
        for steps in [Steps::Keep, Steps::Forget] {
            assert_eq!(digest(steps, key, None), whole);
            assert_ne!(digest(steps, key, Some("amount")), whole);
            assert_eq!(digest(steps, None, None), None, "the payload is the key");
        }
        assert_eq!(digest(Steps::Off, key, None), None);
    }

    /// Returns the operation with the settings `name=value` of a row.
    fn described(words: &str) -> CompiledOperation {
        operation(|it| {
            for word in words.split_whitespace() {
                match word.split_once('=').expect("a name and a value") {
                    ("key", key) => it.key = Some(key.to_owned().into()),
                    ("validate", part) => it.validate = Some(part.to_owned().into()),
                    ("required", what) => it.key_required = Some(what.parse().unwrap()),
                    _ => panic!("`{word}` is no setting of these rows"),
                }
            }
        })
    }

    #[test]
    fn a_payload_has_the_key_that_is_required_or_is_refused_with_the_reason() {
        check_each(include_str!("payloads.txt"), |row| {
            let (words, payload) = row.split_once(" | ").unwrap_or(("", row));
            let operation = described(words);
            match operation.identify(payload, None) {
                Ok(identity) => match operation.warning(&identity) {
                    Some(warning) => format!("a warning: {warning}"),
                    None => "a key".to_owned(),
                },
                Err(_) => {
                    let (kind, detail) = refused(&operation, payload);
                    format!("{kind:?}: {detail}")
                }
            }
        });
    }

    #[test]
    fn a_call_without_a_key_is_bypassed_and_one_without_a_part_names_it() {
        let operation = described("key=order_id required=false");
        let identity = operation.identify("{}", None).unwrap();
        assert_eq!(identity.bypass(), Some(Bypass::NoKey));
        assert_eq!((identity.key(), identity.validation()), (None, None));
        let operation = described("key=[user_id,order_id,item] required=true");
        let payload = r#"{"user_id": 1, "item": 2}"#;
        let identity = operation.identify(payload, None).unwrap();
        assert!(identity.missing_parts().eq(["order_id"]));
    }

    #[test]
    fn a_payload_beyond_the_limit_of_memory_is_refused_with_the_limit() {
        let mut operation = keyed("[@, @, @, @, @, @, @, @]");
        operation.memory_limit = 3 * 1024 * 1024;
        let numbers = |count: usize| format!("[{}0]", "0,".repeat(count));
        let text = operation.identify_value(&"x".repeat(3 * 1024 * 1024), None);
        let text = text.unwrap_err();
        let text = (text.kind(), text.detail().unwrap().to_owned());
        let made = "`key`: the payload and what the expression makes of it take";
        for ((kind, detail), expected, what) in [
            (
                refused(&operation, &numbers(200_000)),
                ErrorKind::InvalidPayload,
                "the payload's values take",
            ),
            (
                refused(&operation, &numbers(20_000)),
                ErrorKind::ExpressionFailed,
                made,
            ),
            (text, ErrorKind::InvalidPayload, "the payload's text takes"),
        ] {
            let limit = " more than 3 MiB of memory, the limit in this process: send less";
            let starts = detail.starts_with(&format!("{what}{limit}"));
            assert!(kind == expected && starts, "{kind:?} {detail}");
        }
    }

    #[test]
    fn the_memory_of_the_key_is_given_back_before_the_validated_part() {
        let mut operation = described("key=[@,@] validate=[@,@]");
        operation.memory_limit = 2 * 1024 * 1024;
        let payload = format!("[{}0]", "0,".repeat(16_000));
        assert!(operation.identify(&payload, None).is_ok());
    }

    #[test]
    fn a_value_has_the_identity_of_its_json() {
        let operation = operation(|_| ());
        let identity = operation.identify_value(&("u-1", 42), Some("blue"));
        let of_text = operation.identify(r#"["u-1", 42]"#, Some("blue"));
        assert_eq!(identity.unwrap(), of_text.unwrap());
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        let error = operation.identify_value(&unwritable, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPayload);
        let detail = error.detail().unwrap();
        assert!(detail.contains("cannot be written as JSON"), "{detail}");
    }

    #[test]
    fn nothing_is_read_if_protection_is_switched_off() {
        let variables = variable("IDEMPOTENCY_DISABLED", "1");
        let operation = CompiledOperation::new("a", &Settings::default(), &variables).unwrap();
        for identity in [
            operation.identify("{", None),
            operation.identify_value(&1, None),
        ] {
            let identity = identity.unwrap();
            assert_eq!(identity.bypass(), Some(Bypass::Disabled));
            assert_eq!(operation.warning(&identity), None);
        }
    }

    #[test]
    fn a_key_that_changes_in_a_retry_or_that_joins_texts_is_advised_against() {
        for (part, why) in [
            (
                "requestContext.identity.userArn",
                "`identity.userArn` is not one client",
            ),
            (
                "requestContext.requestId",
                "`requestContext.requestId` is new with each request",
            ),
            ("join('|', [a, b])", "`join` makes one text of several"),
        ] {
            let key = format!("[{part}, powertools_json(body).id]");
            let advice = operation(|it| it.key = Some(key.into())).advice();
            let start = format!("shop: `key`: {why}");
            assert!(advice[0].starts_with(&start), "{advice:?}");
        }
        let caller = keyed("[iam_caller(@), powertools_json(body).id]");
        assert!(caller.advice().is_empty());
    }

    #[test]
    fn a_literal_as_the_key_is_advised_against_except_of_a_lock() {
        for (store_when, advised) in [(None, true), (Some("`false`"), false)] {
            let advice = operation(|it| {
                it.key = Some("'order_id'".into());
                it.store_when = store_when.map(Into::into);
            })
            .advice();
            let literal = advice
                .iter()
                .any(|it| it.contains("`key`: it takes nothing"));
            assert_eq!(literal, advised, "{advice:?}");
        }
    }

    #[test]
    fn a_header_looked_up_by_its_exact_name_is_advised_against() {
        let operation = described(r#"key=headers."idempotency-key" validate=headers."X-Amount""#);
        let advice = |setting: &str, name: &str| {
            format!(
                "shop: `{setting}` looks up the header `{name}` by its exact name, which an event may spell in another case: \
             write `header(@, '{name}')`"
            )
        };
        let (key, validate) = (
            advice("key", "idempotency-key"),
            advice("validate", "X-Amount"),
        );
        assert_eq!(operation.advice(), [key, validate]);
        let other = keyed("header(@, 'idempotency-key')");
        assert!(other.advice().is_empty());
    }

    #[test]
    fn a_value_in_which_numbers_became_one_float_is_refused() {
        let operation = described("key=id validate=amount");
        for (text, expected) in [
            (r#"{"id": 12345678901234567890617, "amount": 1}"#, false),
            (r#"{"id": 1, "amount": -12345678901234567890}"#, false),
            (
                r#"{"id": 18446744073709551615, "amount": 1.5, "x": 1e99}"#,
                true,
            ),
        ] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let identity = operation.identify_value(&value, None);
            assert_eq!(identity.is_ok(), expected, "{text}");
            if let Err(error) = identity {
                assert_eq!(error.kind(), ErrorKind::InvalidPayload);
            }
            assert!(
                operation.identify(text, None).is_ok(),
                "each digit of a text counts"
            );
        }
    }

    #[test]
    fn a_value_without_a_key_has_the_error_of_its_text() {
        use serde_json::json;
        let required = keyed("id");
        let deep = (0..129).fold(json!(1), |deep, _| json!([deep]));
        for (payload, expected) in [
            (json!({}), Some(ErrorKind::KeyMissing)),
            (json!({ "other": deep }), Some(ErrorKind::InvalidPayload)),
            (deep.clone(), Some(ErrorKind::InvalidPayload)),
            (json!({ "id": 7, "other": deep }), None),
        ] {
            let error = required.identify_value(&payload, None).err();
            assert_eq!(error.map(|error| error.kind()), expected);
        }
    }
}
