//! The texts about a payload and its key: warnings, advice and the details of errors.
//!
//! This file and `identity` refer to each other: the errors of `identity` take their details from here, and the warnings are
//! about an [`Identity`].

use std::sync::Arc;

use super::identity::Protection;
use super::{CompiledOperation, Identity};
use crate::config::HostVariables;
use crate::error::{Error, ErrorKind};
use crate::key::{Budget, EvaluationError, Expression, Json, Needs, Validation};
use crate::outcome::Bypass;

impl CompiledOperation {
    /// Returns the warning for a call without a key or without a part of it, or `None` if its key is complete.
    ///
    /// The handler runs all the same. The outcome event of [`run`](Self::run) has the same text as its `cause`. The text names
    /// the key's expression, never the payload.
    pub fn warning(&self, identity: &Identity) -> Option<String> {
        match identity.protection() {
            Protection::Bypassed(Bypass::NoKey) => Some(format!(
                "the payload has no idempotency key: the handler runs unprotected; {} (`key_required = true` refuses \
                 such a payload)",
                self.why_no_key()
            )),
            Protection::Protected { missing, .. } if !missing.is_empty() => Some(format!(
                "a part of the idempotency key is missing: {}, so that calls which differ in it alone share one \
                 response (`key_required = \"all\"` refuses such a payload)",
                self.missing_parts_text(missing)
            )),
            _ => None,
        }
    }

    /// Returns why the payload has no key.
    pub(super) fn why_no_key(&self) -> String {
        match self.selector.key_expression() {
            Some(expression) => format!("the key expression `{expression}` finds nothing in it"),
            None => "the whole payload is the key, and it is empty".to_owned(),
        }
    }

    /// Returns which parts of the key are missing.
    pub(super) fn missing_parts_text(&self, missing: &[Arc<str>]) -> String {
        let key = self
            .selector
            .key_expression()
            .map_or("", Expression::as_str);
        let parts = quoted(missing);
        let are = if missing.len() == 1 { "is" } else { "are" };
        format!("{parts} of the key `{key}` {are} missing, null or empty")
    }

    /// Returns why a part of this payload is not compared; `None` if each is.
    pub(super) fn why_not_compared(&self, part: &Validation) -> Option<String> {
        let expression = self.selector.validate_expression()?.as_str();
        let (parts, default) = match part.missing.first() {
            Some(first) => (quoted(&part.missing), &**first),
            None if part.of_nothing => (format!("`{expression}`"), expression),
            None => return None,
        };
        Some(format!(
            "{parts} of `validate` selects nothing, so it is not compared: correct `validate`, or send the part (where payloads without \
             it are the same, write a default: `{default} || 'none'`)"
        ))
    }

    /// Returns the error of an expression that failed on the payload with this text.
    pub(super) fn expression_error(
        &self,
        setting: &str,
        error: &EvaluationError,
        text: &str,
        budget: &Budget,
    ) -> Error {
        let mut detail = if *error == EvaluationError::TooLarge {
            let what = "the payload and what the expression makes of it take";
            format!("`{setting}`: {}", self.too_large(what, budget))
        } else {
            format!("`{setting}`: {error}")
        };
        let unreadable = matches!(
            error,
            EvaluationError::Json {
                is_base64: false,
                ..
            }
        );
        if unreadable && is_encoded(text, budget.limit()) {
            detail += "; the event has `isBase64Encoded: true`: write `powertools_json(powertools_base64(body))`";
        }
        self.error(ErrorKind::ExpressionFailed).with_detail(detail)
    }

    /// Returns the detail of an error about a payload that takes too much memory.
    pub(super) fn too_large(&self, what: &str, budget: &Budget) -> String {
        let limit = budget.limit() / (1024 * 1024);
        let text =
            format!("{what} more than {limit} MiB of memory, the limit in this process: send less");
        match self.host {
            Some(HostVariables { memory, .. }) => format!(
                "{text}, or give it more memory (the limit is a quarter of {memory}, between 32 and 256 MiB; 64 MiB without it)"
            ),
            None => text,
        }
    }

    /// Returns advice on expressions that can be used but should be changed. It is given once, at the start.
    pub fn advice(&self) -> Vec<String> {
        let settings = [
            ("key", self.selector.key_expression()),
            ("validate", self.selector.validate_expression()),
        ];
        let exact = settings.into_iter().filter_map(|(setting, expression)| {
            Some((setting, expression?.header_by_exact_name()?))
        });
        let exact = exact.map(|(setting, name)| {
            format!(
                "`{setting}` looks up the header `{name}` by its exact name, which an event may spell in another \
                 case: write `header(@, '{name}')`"
            )
        });
        let key = self.selector.key_expression();
        let wrong = key.and_then(|key| key.advice_as_key(self.is_lock()));
        let advice = exact.chain(wrong.map(|why| format!("`key`: {why}")));
        advice
            .map(|advice| format!("{}: {advice}", self.key_prefix()))
            .collect()
    }
}

/// Returns the names in backticks.
pub fn quoted(names: &[Arc<str>]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns true if the event with this text says that its body is base64.
fn is_encoded(text: &str, limit: usize) -> bool {
    const MARK: &str = "isBase64Encoded";
    let needs = Needs::member(MARK.into(), Needs::Kind);
    needs
        .read(text.as_bytes(), &mut Budget::new(limit))
        .is_ok_and(|event| event.member(MARK) == Some(&Json::Bool(true)))
}
