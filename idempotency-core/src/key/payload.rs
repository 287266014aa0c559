//! A payload that is read once, for entry points that evaluate expressions of their own before the call is identified.

use std::fmt;

use super::{Budget, EvaluationError, Expression, Json, JsonError, Needs, Selection};

/// A JSON value and the memory that is left for the results of expressions on it.
///
/// The value and all results together take at most the limit, so that a hostile payload cannot exhaust the process.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// use idempotency_core::key::{Expression, ParsedPayload};
///
/// let limit = Settings::memory_limit(&Variables::default());
/// let mut payload = ParsedPayload::parse(r#"{"order": {"id": 7}}"#, limit)?;
/// let selected = payload.select(&Expression::compile("order.id")?)?;
/// assert_eq!(selected.value.to_canonical(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParsedPayload {
    json: Json,
    budget: Budget,
}

impl ParsedPayload {
    /// Reads a JSON text. Its values and the results of [`select`](Self::select) take at most `memory_limit` bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Json::parse`], and [`JsonErrorKind::TooLarge`](super::JsonErrorKind::TooLarge) if the values take
    /// more memory than the limit.
    pub fn parse(text: &str, memory_limit: usize) -> Result<Self, JsonError> {
        let mut budget = Budget::new(memory_limit);
        let json = Json::parse_within(text.as_bytes(), &mut budget)?;
        Ok(Self { json, budget })
    }

    /// Reads what these expressions look at from a JSON text. They have the same results as on the whole value, and only what they
    /// look at takes memory.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::key::{Expression, ParsedPayload};
    /// let id = Expression::compile("order.id")?;
    /// let mut payload = ParsedPayload::parse_for([&id], r#"{"note": "long", "order": {"id": 7}}"#, 1024)?;
    /// assert_eq!(payload.select(&id)?.value.to_canonical(), "7");
    /// assert_eq!(payload.json().to_canonical(), r#"{"order": {"id": 7}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse_for<'e>(
        expressions: impl IntoIterator<Item = &'e Expression>,
        text: &str,
        memory_limit: usize,
    ) -> Result<Self, JsonError> {
        let needs = expressions
            .into_iter()
            .map(|expression| expression.needs().clone())
            .fold(Needs::Kind, Needs::and);
        let mut budget = Budget::new(memory_limit);
        let json = needs.read(text.as_bytes(), &mut budget)?;
        Ok(Self { json, budget })
    }

    /// Returns the value.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Evaluates an expression on the value.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression fails on this value, or if its result takes more memory than is left.
    pub fn select(&mut self, expression: &Expression) -> Result<Selection, EvaluationError> {
        expression.select_within(&self.json, &mut self.budget)
    }
}

impl fmt::Debug for ParsedPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParsedPayload({})", self.json.type_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::JsonErrorKind;

    #[test]
    fn a_text_that_is_not_json_is_refused() {
        let error = ParsedPayload::parse("{\"a\":", 1024).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::ExpectedValue);
    }

    #[test]
    fn values_and_results_share_one_limit() {
        let text = format!("[{}]", vec!["\"0123456789\""; 100].join(","));
        assert_eq!(
            ParsedPayload::parse(&text, 1024).unwrap_err().kind(),
            JsonErrorKind::TooLarge
        );
        let mut payload = ParsedPayload::parse(&text, 16 * 1024).unwrap();
        let all = Expression::compile("[@, @, @, @]").unwrap();
        assert_eq!(payload.select(&all).unwrap_err(), EvaluationError::TooLarge);
        let first = Expression::compile("[0]").unwrap();
        assert_eq!(
            payload.select(&first).unwrap().value.as_str(),
            Some("0123456789")
        );
    }

    #[test]
    fn debug_shows_the_type_alone() {
        let payload = ParsedPayload::parse("[\"secret\"]", 1024).unwrap();
        assert_eq!(format!("{payload:?}"), "ParsedPayload(array)");
        assert_eq!(payload.json().type_name(), "array");
    }
}
