//! The owner token: tells which call made a claim.

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
