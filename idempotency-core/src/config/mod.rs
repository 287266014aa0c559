//! The configuration of an operation: settings of the attribute or builder, then environment variables, then defaults.

mod key_required;
mod settings;
mod value;
mod variables;

pub use crate::key::HashAlgorithm;
pub use key_required::{KeyRequired, UnknownKeyRequired};
pub use settings::Settings;
pub use variables::{UnknownVariable, Variables};

use std::fmt;

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

    /// Returns an error about the value of a setting or variable, with what to write instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::config::ConfigurationError;
    /// let error = ConfigurationError::value("IDEMPOTENCY_LEASE", "soon", "write a duration such as `15m`");
    /// assert_eq!(error.to_string(), "IDEMPOTENCY_LEASE is `soon`: write a duration such as `15m`");
    /// ```
    pub fn value(name: &str, value: &str, remedy: impl fmt::Display) -> Self {
        Self::new(format!("{name} is `{value}`: {remedy}"))
    }

    /// Returns true if the error is about an environment variable, and not about an attribute or a builder.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::config::ConfigurationError;
    /// assert!(ConfigurationError::value("IDEMPOTENCY_HASH", "md6", "write `md5`").is_about_variable());
    /// assert!(!ConfigurationError::value("lease", "0s", "write at least `1ms`").is_about_variable());
    /// ```
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
