//! JMESPath expressions: compiled once, evaluated on each event as the reference implementation would.

mod aggregate;
mod compare;
mod compile;
mod envelope;
mod error;
mod evaluate;
mod functions;
mod number;

use std::fmt;
use std::str::FromStr;

use super::Json;
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
    /// [`EvaluationError`] where a function cannot take what it is given, and where the result would grow beyond any
    /// event. It names the function and the type, never the payload.
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
        evaluate::evaluate(&self.node, payload)
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
        Ok(!compare::is_false(&self.evaluate(payload)?))
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
mod tests;
