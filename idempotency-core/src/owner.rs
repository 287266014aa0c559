//! The owner token: what makes a claim ours, and the randomness it is made of.

use std::fmt;

/// A token unique to one call, the same in all its tries and re-sends, never used again.
///
/// Completion and release carry it as their condition, so a late owner cannot touch what the next one wrote.
///
/// ```
/// use idempotency_core::owner::OwnerToken;
/// let token = OwnerToken::from_bytes([7; 16]);
/// assert_eq!(token.as_str(), "07070707070707070707070707070707");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// A token of 128 random bits, written as 32 lower-case hex digits.
    ///
    /// ```
    /// # use idempotency_core::owner::OwnerToken;
    /// assert_ne!(OwnerToken::from_bytes([1; 16]), OwnerToken::from_bytes([2; 16]));
    /// ```
    pub fn from_bytes(random: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    /// A token as it was read from a record.
    ///
    /// ```
    /// # use idempotency_core::owner::OwnerToken;
    /// assert_eq!(OwnerToken::from_record("ab".to_owned()).as_str(), "ab");
    /// ```
    pub fn from_record(text: String) -> Self {
        Self(text)
    }

    /// The token as it is stored.
    ///
    /// ```
    /// # use idempotency_core::owner::OwnerToken;
    /// assert_eq!(OwnerToken::from_bytes([0; 16]).as_str().len(), 32);
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({})", self.0)
    }
}

/// A source of random bytes; handed in, so that simulations replay.
///
/// Owner tokens come from here: in production it must be the operating system's generator, which also differs
/// between environments restored from one snapshot.
///
/// ```
/// use idempotency_core::owner::{Random, RandomError};
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
/// use idempotency_core::owner::RandomError;
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
    /// # use idempotency_core::owner::RandomError;
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
