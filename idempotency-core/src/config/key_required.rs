//! What a payload must have of its key.

use std::fmt;
use std::str::FromStr;

use super::settings::truth_of;

/// What a payload must have of its key, so that a call is taken.
///
/// A key of several parts, such as `[user_id, order_id]`, is made from what is there: with one part null it is still a
/// key, as in Powertools for AWS Lambda (Python). Then calls that differ in the missing part alone share one record.
/// [`All`](Self::All) refuses them.
///
/// ```
/// use idempotency_core::config::KeyRequired;
///
/// assert_eq!(KeyRequired::from(true), KeyRequired::Any);
/// assert_eq!("all".parse(), Ok(KeyRequired::All));
/// assert_eq!("no".parse(), Ok(KeyRequired::No));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyRequired {
    /// Nothing: without a key the handler runs unprotected, with a warning.
    #[default]
    No,
    /// A key: a payload in which the expression finds nothing is refused.
    Any,
    /// Every part of the key: a payload that lacks one part of a multi-select is refused too.
    All,
}

/// `true` is [`KeyRequired::Any`], `false` is [`KeyRequired::No`].
impl From<bool> for KeyRequired {
    fn from(required: bool) -> Self {
        if required { Self::Any } else { Self::No }
    }
}

impl FromStr for KeyRequired {
    type Err = UnknownKeyRequired;

    /// Reads `all`, or a truth value, in either case of letters.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        truth_of(text).map(Self::from).ok_or(UnknownKeyRequired)
    }
}

/// A text that is no [`KeyRequired`].
///
/// ```
/// # use idempotency_core::config::KeyRequired;
/// let error = "some".parse::<KeyRequired>().unwrap_err();
/// assert_eq!(error.to_string(), "write `true`, `false` or `all`");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKeyRequired;

impl fmt::Display for UnknownKeyRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write `true`, `false` or `all`")
    }
}

impl std::error::Error for UnknownKeyRequired {}
