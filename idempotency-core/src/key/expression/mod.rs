//! JMESPath expressions: compiled once, evaluated on each event as the reference implementation would.

mod aggregate;
mod compare;
mod compile;
mod envelope;
mod error;
mod evaluate;
mod exact;
mod functions;
mod header;
mod missing;
mod number;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Budget, Json};
use compile::Node;
pub use error::{EvaluationError, ExpressionError};

/// A compiled JMESPath expression.
///
/// ```
/// use idempotency_core::key::{Expression, Json};
///
/// let expression = Expression::compile("powertools_json(body).[user_id, order_id]")?;
/// let event = Json::parse(r#"{"body": "{\"user_id\": \"u-1\", \"order_id\": 42}"}"#)?;
/// assert_eq!(expression.evaluate(&event)?.to_canonical(), r#"["u-1", 42]"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Expression {
    text: String,
    node: Node,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] for what could never be evaluated: wrong syntax, an unknown function, a wrong number of
    /// arguments. Its text shows the expression with a caret under the place.
    ///
    /// ```
    /// use idempotency_core::key::Expression;
    ///
    /// let error = Expression::compile("body.[id").unwrap_err();
    /// assert_eq!(error.offset(), 8);
    /// ```
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let node = compile::compile(text).map_err(|error| ExpressionError::new(text, error))?;
        Ok(Self {
            text: text.to_owned(),
            node,
        })
    }

    /// The expression's value on a payload.
    ///
    /// # Errors
    ///
    /// [`EvaluationError`] where a function cannot take what it is given, and where what the expression makes would take
    /// more than 256 MiB of memory. It names the function and the type, never the payload.
    ///
    /// ```
    /// use idempotency_core::key::{Expression, Json};
    ///
    /// let keys = Expression::compile("keys(@)")?;
    /// assert_eq!(keys.evaluate(&Json::parse(r#"{"b": 1, "a": 2}"#)?)?.to_canonical(), r#"["b", "a"]"#);
    /// assert_eq!(
    ///     keys.evaluate(&Json::Null).unwrap_err().to_string(),
    ///     "`keys` takes an object, not null",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn evaluate(&self, payload: &Json) -> Result<Json, EvaluationError> {
        self.select(payload).map(|selection| selection.value)
    }

    /// Returns the expression's value on a payload, and which parts of its multi-selects are missing there.
    ///
    /// # Errors
    ///
    /// As [`evaluate`](Self::evaluate).
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::key::{Expression, Json};
    ///
    /// let key = Expression::compile("[user_id, order.id]")?;
    /// let selection = key.select(&Json::parse(r#"{"order": {"id": 7}}"#)?)?;
    /// assert_eq!(selection.value.to_canonical(), "[null, 7]");
    /// assert_eq!(&*selection.missing[0], "user_id");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select(&self, payload: &Json) -> Result<Selection, EvaluationError> {
        self.select_within(payload, &mut Budget::of_one_evaluation())
    }

    /// As [`select`](Self::select), within what the payload has left of the budget.
    pub(crate) fn select_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<Selection, EvaluationError> {
        budget.renew_work();
        let (value, missing) = evaluate::evaluate(&self.node, payload, budget)?;
        Ok(Selection {
            value,
            missing: missing.into_names(&self.text),
        })
    }

    /// As [`evaluate`](Self::evaluate), within what the payload has left of the budget.
    pub(crate) fn evaluate_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<Json, EvaluationError> {
        self.select_within(payload, budget)
            .map(|selection| selection.value)
    }

    /// Returns the steps that an evaluation takes, about in nodes visited and bytes handled: for a fuzz target, which
    /// looks for expressions and payloads whose steps grow faster than they do.
    #[cfg(fuzzing)]
    #[doc(hidden)]
    #[must_use]
    pub fn steps(&self, payload: &Json) -> usize {
        let mut budget = Budget::of_one_evaluation();
        let _value = self.evaluate_within(payload, &mut budget);
        budget.worked()
    }

    /// Whether the expression's value on a payload counts as true: anything but null, `false` and what is empty.
    ///
    /// # Errors
    ///
    /// As [`evaluate`](Self::evaluate).
    ///
    /// ```
    /// use idempotency_core::key::{Expression, Json};
    ///
    /// let paid = Expression::compile("status == 'paid'")?;
    /// assert!(paid.holds(&Json::parse(r#"{"status": "paid"}"#)?)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holds(&self, payload: &Json) -> Result<bool, EvaluationError> {
        self.holds_within(payload, &mut Budget::of_one_evaluation())
    }

    /// As [`holds`](Self::holds), within what the payload has left of the budget.
    pub(crate) fn holds_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<bool, EvaluationError> {
        Ok(!compare::is_false(&self.evaluate_within(payload, budget)?))
    }

    /// Returns the name of a header that the expression looks up in `headers` by its exact name.
    pub(crate) fn header_by_exact_name(&self) -> Option<&str> {
        exact::header(&self.node)
    }

    /// The text that was compiled.
    ///
    /// ```
    /// # use idempotency_core::key::Expression;
    /// assert_eq!(Expression::compile("body.[a, b]").unwrap().as_str(), "body.[a, b]");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// What an [`Expression`] selects in a payload.
///
/// ```
/// use idempotency_core::key::{Expression, Json};
///
/// let selection = Expression::compile("{user: user_id, order: order_id}")?.select(&Json::parse("{}")?)?;
/// let missing: Vec<&str> = selection.missing.iter().map(|part| &**part).collect();
/// assert_eq!(missing, ["user_id", "order_id"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Selection {
    /// The value.
    pub value: Json,
    /// The parts of multi-selects (`[a, b]`, `{x: a}`) that are missing in the payload: whose own value would be no key
    /// (see [`is_absent_key`](super::is_absent_key)), or is what `to_string` or `to_array` makes of such a value. Each is named by its text in the expression; at most 8 are named.
    pub missing: Vec<Arc<str>>,
}

impl FromStr for Expression {
    type Err = ExpressionError;

    /// The same as [`Expression::compile`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::compile(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
