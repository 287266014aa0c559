//! The owner token: identifies the call that made a claim.

use std::fmt;

/// A token of one call: the same in all its tries and re-sends, never used for another call.
///
/// Completion and release have it as their condition. So a call whose claim was taken over cannot change the record of the
/// call that took over.
///
/// # Examples
///
/// ```
/// use idempotency_core::owner::OwnerToken;
/// let token = OwnerToken::from_bytes([7; 16]);
/// assert_eq!(token.as_str(), "07070707070707070707070707070707");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// Returns the token of 128 random bits, as 32 lower-case hex digits.
    pub fn from_bytes(random: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    /// Returns the token that was read from a record.
    pub fn from_record(text: String) -> Self {
        Self(text)
    }

    /// Returns the text that the record holds.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({})", self.0)
    }
}
