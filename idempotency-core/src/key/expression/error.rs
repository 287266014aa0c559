//! Why an expression cannot be compiled or evaluated.

use std::fmt;

use idempotency_expression::{Function, SyntaxError};

use crate::key::{Exhausted, JsonError};

/// An expression that could never be evaluated.
///
/// ```
/// use idempotency_core::key::Expression;
/// let error = Expression::compile("body.[id").unwrap_err();
/// let text = error.to_string();
/// assert!(text.ends_with(&format!("body.[id\n        ^ {}", error.message())), "{text}");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    expression: String,
    error: SyntaxError,
}

impl ExpressionError {
    pub(super) fn new(expression: &str, error: SyntaxError) -> Self {
        Self {
            expression: expression.to_owned(),
            error,
        }
    }

    /// The place, in bytes from the beginning of the expression.
    ///
    /// ```
    /// # use idempotency_core::key::Expression;
    /// assert_eq!(Expression::compile("body.[id").unwrap_err().offset(), 8);
    /// ```
    #[must_use]
    pub fn offset(&self) -> usize {
        self.error.offset
    }

    /// What is wrong there, in one line.
    ///
    /// ```
    /// # use idempotency_core::key::Expression;
    /// let error = Expression::compile("lenght(body)").unwrap_err();
    /// assert_eq!(error.message(), "unknown function `lenght`; did you mean `length`?");
    /// ```
    #[must_use]
    pub fn message(&self) -> &str {
        &self.error.message
    }
}

/// What is wrong, then the expression with a caret under the place.
impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid JMESPath expression: {}\n{}",
            self.error.message,
            self.error.render(&self.expression)
        )
    }
}

impl std::error::Error for ExpressionError {}

/// A payload on which an expression has no value.
///
/// It names functions and types, never the payload.
///
/// ```
/// use idempotency_core::key::{EvaluationError, Expression, Json};
/// let error = Expression::compile("keys(@)").unwrap().evaluate(&Json::Null).unwrap_err();
/// assert!(matches!(error, EvaluationError::Argument { function: "keys", given: "null", .. }));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EvaluationError {
    /// An argument has a type that the function does not take.
    Argument {
        /// The function's name.
        function: &'static str,
        /// What it takes.
        takes: &'static str,
        /// The type it was given.
        given: &'static str,
    },
    /// A number was compared with a string.
    Incomparable,
    /// A function could not make a value of its argument.
    Failed {
        /// The function's name.
        function: &'static str,
        /// What is wrong with the argument.
        reason: &'static str,
    },
    /// The text given to `powertools_json` is not JSON.
    Json {
        /// Where and why; never what stands there.
        error: JsonError,
        /// Whether the text is JSON in base64, as of a body with `isBase64Encoded: true`.
        is_base64: bool,
    },
    /// The payload and what the expression makes of it would take more memory than one event may.
    TooLarge,
    /// The expression would take more steps than one over an event can need.
    TooLong,
}

impl From<Exhausted> for EvaluationError {
    fn from(what: Exhausted) -> Self {
        match what {
            Exhausted::Memory => Self::TooLarge,
            Exhausted::Work => Self::TooLong,
        }
    }
}

impl EvaluationError {
    pub(super) fn argument(function: Function, takes: &'static str, given: &'static str) -> Self {
        Self::Argument {
            function: function.name(),
            takes,
            given,
        }
    }

    pub(super) fn failed(function: Function, reason: &'static str) -> Self {
        Self::Failed {
            function: function.name(),
            reason,
        }
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument {
                function,
                takes,
                given,
            } => write!(f, "`{function}` takes {takes}, not {given}"),
            Self::Incomparable => f.write_str("a number cannot be compared with a string"),
            Self::Failed { function, reason } => write!(f, "`{function}` failed: {reason}"),
            Self::Json { error, is_base64 } => {
                write!(f, "`powertools_json` failed: {error}")?;
                if *is_base64 {
                    f.write_str("; the text is base64: open it first, `powertools_json(powertools_base64(..))`")?;
                }
                Ok(())
            }
            Self::TooLarge => {
                f.write_str("the values take more memory than one event may: select less")
            }
            Self::TooLong => {
                f.write_str("the expression takes too many steps on this payload: select less")
            }
        }
    }
}

impl std::error::Error for EvaluationError {}
