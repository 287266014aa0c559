//! The random source: owner tokens and pauses are made from it.

use std::fmt;

/// A source of random bytes; handed in, so that simulations replay.
///
/// Owner tokens come from here: in production it must be the operating system's generator, which also differs
/// between environments restored from one snapshot.
///
/// ```
/// use idempotency_core::random::{Random, RandomError};
///
/// struct Sevens;
/// impl Random for Sevens {
///     fn bytes(&self) -> Result<[u8; 16], RandomError> {
///         Ok([7; 16])
///     }
/// }
/// assert_eq!(Sevens.bytes().unwrap(), [7; 16]);
/// ```
pub trait Random: Send + Sync {
    /// Sixteen fresh random bytes.
    ///
    /// # Errors
    /// If the source has none to give; the handler has not run.
    fn bytes(&self) -> Result<[u8; 16], RandomError>;
}

/// The source of randomness failed.
///
/// ```
/// use idempotency_core::random::RandomError;
/// let error = RandomError::new("no entropy");
/// assert_eq!(error.to_string(), "the source of randomness failed: no entropy");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct RandomError {
    message: String,
}

impl RandomError {
    /// An error with the source's own words.
    ///
    /// ```
    /// # use idempotency_core::random::RandomError;
    /// assert!(RandomError::new("no entropy").to_string().contains("no entropy"));
    /// ```
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for RandomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the source of randomness failed: {}", self.message)
    }
}

impl std::error::Error for RandomError {}
