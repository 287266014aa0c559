//! The errors of compiling and evaluating an expression.

use std::fmt;

use idempotency_expression::{Function, SyntaxError};

use crate::key::{BudgetError, Json, JsonError};

pub(super) type Result<T, E = EvaluationError> = std::result::Result<T, E>;

/// The error for a text that is not a valid expression.
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

    /// Returns the place of the mistake, in bytes from the beginning of the expression.
    pub fn offset(&self) -> usize {
        self.error.offset
    }

    /// Returns what is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.error.message
    }
}

/// Shows what is wrong, then the expression with a caret under the place.
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

/// The error for a payload on which an expression has no value.
///
/// It names functions and types, and never shows the payload.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EvaluationError {
    /// An argument has a type that the function does not take.
    Argument {
        /// The function's name.
        function: &'static str,
        /// The types that the function takes.
        takes: &'static str,
        /// The type of the argument.
        given: &'static str,
    },
    /// A number was compared with a string.
    Incomparable,
    /// A function has no value for its argument.
    Failed {
        /// The function's name.
        function: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// The argument of `powertools_json` is not JSON.
    Json {
        /// Where and why the text is not JSON.
        error: JsonError,
        /// True if the text is JSON in base64, like the body of an event with `isBase64Encoded: true`.
        is_base64: bool,
    },
    /// The values take more memory than one event may use.
    TooLarge,
    /// The expression takes more steps than it may.
    TooLong,
}

impl From<BudgetError> for EvaluationError {
    fn from(limit: BudgetError) -> Self {
        match limit {
            BudgetError::Memory => Self::TooLarge,
            BudgetError::Work => Self::TooLong,
        }
    }
}

impl EvaluationError {
    pub(super) fn argument(function: Function, takes: &'static str, given: &Json) -> Self {
        Self::Argument {
            function: function.name(),
            takes,
            given: match given {
                Json::Null => "null",
                Json::Bool(_) => "a boolean",
                Json::Int(_) | Json::Float(_) => "a number",
                Json::Str(_) => "a string",
                Json::Array(_) => "an array",
                Json::Object(_) => "an object",
            },
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
                    f.write_str("; the text is base64: decode it first, `powertools_json(powertools_base64(..))`")?;
                }
                Ok(())
            }
            Self::TooLarge => {
                f.write_str("the values take more memory than one event may use: select less")
            }
            Self::TooLong => {
                f.write_str("the expression takes too many steps on this payload: select less")
            }
        }
    }
}

impl std::error::Error for EvaluationError {}
