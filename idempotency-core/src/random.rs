//! The random source of owner tokens and pauses.

use std::fmt;

/// A source of random bytes. The caller supplies it, so that simulations can be repeated.
///
/// In production this must be the operating system's generator: owner tokens must be unique, also among processes that were
/// restored from one snapshot.
///
/// # Examples
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
    /// Returns sixteen new random bytes.
    ///
    /// # Errors
    ///
    /// If the source fails. A call then ends before its handler runs.
    fn bytes(&self) -> Result<[u8; 16], RandomError>;
}

/// The random source failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct RandomError {
    message: String,
}

impl RandomError {
    /// Returns an error with the source's own message.
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
