//! The configuration of an operation: settings of the attribute or builder, then environment variables, then defaults.

use std::fmt;
use std::str::FromStr;

use idempotency_expression::{refuse_condition, visible};

mod settings;
mod value;
mod variables;

use crate::key::Expression;

pub use crate::key::HashAlgorithm;
#[doc(hidden)]
pub use idempotency_expression::HostVariables;
#[doc(hidden)]
pub use settings::Settings;
pub(crate) use value::truth;
#[doc(hidden)]
pub use variables::{UnknownVariable, Variables};

/// The error for an invalid setting or variable: its name, its value and what is accepted.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::{Settings, Variables};
/// let variables = Variables::from_iter([("IDEMPOTENCY_HASH".to_owned(), "md6".to_owned())]);
/// let error = Settings::default().hash(&variables).unwrap_err();
/// assert!(error.to_string().starts_with("IDEMPOTENCY_HASH is `md6`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationError {
    message: String,
}

#[doc(hidden)]
impl ConfigurationError {
    /// Returns an error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// Returns an error about the value of a setting or variable, with what to write instead. The value is in one line, without
    /// characters that control a terminal.
    pub fn value(name: &str, value: &str, remedy: impl fmt::Display) -> Self {
        let value = visible(value);
        Self::new(format!("{name} is `{value}`: {remedy}"))
    }

    /// Returns true if the error is about an environment variable, and not about an attribute or a builder.
    pub fn is_about_variable(&self) -> bool {
        ["IDEMPOTENCY_", "POWERTOOLS_"]
            .iter()
            .any(|prefix| self.message.starts_with(prefix))
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigurationError {}

/// How much of the key a payload must have: nothing, at least one part, or every part.
///
/// A key of several parts, such as `[user_id, order_id]`, is still a key if one part is null, as in Powertools for AWS
/// Lambda (Python). Calls that would differ only in the missing part then share one record. [`All`](Self::All), the
/// default, refuses such calls.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::KeyRequired;
///
/// assert_eq!(KeyRequired::default(), KeyRequired::All);
/// assert_eq!(KeyRequired::from(true), KeyRequired::Any);
/// assert_eq!("all".parse(), Ok(KeyRequired::All));
/// assert_eq!("no".parse(), Ok(KeyRequired::No));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyRequired {
    /// A key is not required: without one, the handler runs unprotected, with a warning.
    No,
    /// A key is required: a payload in which the expression finds none is refused.
    Any,
    /// Every part of the key is required: a payload that lacks a part of a multi-select is also refused.
    #[default]
    All,
}

/// Converts `true` to [`KeyRequired::Any`] and `false` to [`KeyRequired::No`].
impl From<bool> for KeyRequired {
    fn from(required: bool) -> Self {
        if required { Self::Any } else { Self::No }
    }
}

#[doc(hidden)]
impl FromStr for KeyRequired {
    type Err = UnknownKeyRequired;

    /// Parses `all` or a truth value, in upper or lower case.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownKeyRequired`] for any other text.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        value::truth_of(text)
            .map(Self::from)
            .ok_or(UnknownKeyRequired)
    }
}

/// The error for a text that is not a [`KeyRequired`]. Its text lists what is accepted.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKeyRequired;

impl fmt::Display for UnknownKeyRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write `true`, `false` or `all`")
    }
}

impl std::error::Error for UnknownKeyRequired {}

/// Compiles the expression of a setting.
///
/// # Errors
///
/// If it is empty, which would switch validation off or make the whole payload the key, or if it is no expression.
#[doc(hidden)]
pub fn compile(setting: &str, text: &str) -> Result<Expression, ConfigurationError> {
    if text.trim().is_empty() {
        let remedy = "leave it out, or write an expression";
        return Err(ConfigurationError::value(setting, text, remedy));
    }
    let compiled = Expression::compile(text);
    let compiled = compiled.map_err(|error| error.to_string());
    let of_condition = refuse_condition(text).filter(|_| setting == "store_when");
    let checked = match of_condition {
        Some(error) => compiled.and(Err(error.render(text))),
        None => compiled,
    };
    checked.map_err(|error| ConfigurationError::new(format!("`{setting}`: {error}")))
}
