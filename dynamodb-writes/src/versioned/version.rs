//! The version of an item, its text form, and the attributes that hold it.

use std::fmt;
use std::str::FromStr;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::error::InvalidExpression;
use crate::item::Item;

/// The bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The token of one write: 128 random bits.
pub(super) type Token = [u8; TOKEN_BYTES];

/// The version of an item: a number that each write raises by one, and the random token of the write that made it.
///
/// The token tells an item from a later one with the same key: an item that was deleted and created again has the same numbers
/// and other tokens. Its text form, such as `3-0c8b6e3f0f6f4d0f9a4bd4c0a7d15c0e`, suits an `ETag`.
///
/// # Examples
///
/// ```
/// use dynamodb_writes::versioned::Version;
///
/// let version: Version = "3-0c8b6e3f0f6f4d0f9a4bd4c0a7d15c0e".parse()?;
/// assert_eq!(version.number(), 3);
/// // Without a token: for items of another program, which writes a number alone.
/// assert_eq!("3".parse::<Version>()?, Version::from_number(3));
/// # Ok::<(), dynamodb_writes::InvalidExpression>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    number: u64,
    token: Option<Token>,
}

impl Version {
    /// The version of an item that exists without a version attribute, or with the number 0 and no token. The first write through
    /// this module gives it version 1.
    pub const NONE: Self = Self::from_number(0);

    /// Returns the version with this number and without a token.
    ///
    /// A write that expects it cannot tell the item from one that was deleted and created again with the same number. Prefer
    /// [`Versioned::version`](super::Versioned::version).
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        let token = None;
        Self { number, token }
    }

    /// Returns the number; 0 for an item without a version attribute.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn new(number: u64, token: Option<Token>) -> Self {
        Self { number, token }
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.token
    }

    /// Returns true if a write that expects this version accepts `current`. Without a token only the numbers are compared.
    pub(super) fn matches(&self, current: &Self) -> bool {
        self.number == current.number && (self.token.is_none() || self.token == current.token)
    }

    /// Returns the number of the next version.
    pub(super) fn next(&self) -> Result<u64, InvalidExpression> {
        let next = self.number.checked_add(1);
        next.ok_or_else(|| {
            InvalidExpression::new("the version is the largest number and cannot be raised")
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        match self.token {
            Some(token) => write!(f, "-{:032x}", u128::from_be_bytes(token)),
            None => Ok(()),
        }
    }
}

impl FromStr for Version {
    type Err = InvalidExpression;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('-');
        let (number, token) = parts.map_or((text, None), |(number, token)| (number, Some(token)));
        let digits =
            |text: &str, radix| !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix));
        if !digits(number, 10) {
            return Err(no_version());
        }
        let number = number.parse().map_err(|_| no_version())?;
        let token = match token {
            Some(token) if token.len() == 2 * TOKEN_BYTES && digits(token, 16) => {
                let token = u128::from_str_radix(token, 16).map_err(|_| no_version())?;
                Some(token.to_be_bytes())
            }
            Some(_) => return Err(no_version()),
            None => None,
        };
        Ok(Self { number, token })
    }
}

/// Returns the error of a version attribute that is not a whole number of at most 64 bits, or of a text that is not the text form of a version.
fn no_version() -> InvalidExpression {
    InvalidExpression::new(
        "a version must be a whole number, or a number, a hyphen and 32 hex digits",
    )
}

/// The number of tokens that an item holds.
pub(super) const TOKENS_KEPT: u64 = 4;

/// The names of the attributes that hold the version.
///
/// `version` is the number. `version_w0` to `version_w3` hold the tokens of the last four writes, each at its number modulo four.
/// So a writer whose reply was lost finds its own token, even if up to three other writes followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    number: String,
}

impl Layout {
    pub(super) fn new(number: String) -> Self {
        Self { number }
    }

    /// Returns the name of the attribute of the number.
    pub(super) fn number_name(&self) -> &str {
        &self.number
    }

    /// Returns the name of the attribute with the token of this version.
    pub(super) fn token_name(&self, number: u64) -> String {
        format!("{}_w{}", self.number, number % TOKENS_KEPT)
    }

    /// Returns true if only this module may write the attribute.
    pub(super) fn is_ours(&self, attribute: &str) -> bool {
        attribute == self.number
            || (0..TOKENS_KEPT).any(|number| attribute == self.token_name(number))
    }

    /// Returns the version of an item.
    pub(super) fn version(&self, item: &Item) -> Result<Version, InvalidExpression> {
        let number = match item.get(&self.number) {
            None => return Ok(Version::NONE),
            Some(AttributeValue::N(number)) => number.parse().map_err(|_| no_version())?,
            Some(_) => return Err(no_version()),
        };
        Ok(Version::new(number, self.token_in(item, number)))
    }

    /// Returns the token in the attribute of this version. If [`TOKENS_KEPT`] or more versions followed, it is the token of a later one:
    /// compare it with the expected token, unless `number` is the current number.
    pub(super) fn token_in(&self, item: &Item, number: u64) -> Option<Token> {
        let token = item.get(&self.token_name(number))?.as_b().ok()?;
        token.as_ref().try_into().ok()
    }

    /// Returns the attributes that a write with this token sets for version `number`.
    pub(super) fn attributes(&self, number: u64, token: Token) -> [(String, AttributeValue); 2] {
        [
            (self.number.clone(), number_value(number)),
            (self.token_name(number), token_value(token)),
        ]
    }
}

pub(super) fn number_value(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(super) fn token_value(token: Token) -> AttributeValue {
    AttributeValue::B(Blob::new(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_back_from_its_text() {
        let versions = [
            Version::NONE,
            Version::from_number(7),
            Version::new(u64::MAX, Some([0; TOKEN_BYTES])),
            Version::new(3, Some([0xfe; TOKEN_BYTES])),
        ];
        for version in versions {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        let token = "0".repeat(31);
        for text in [
            "",
            "-",
            "+1",
            "1-",
            "1-+",
            &format!("1-{token}"),
            &format!("1-+{token}"),
            "1.5",
            "a",
        ] {
            assert_eq!(text.parse::<Version>(), Err(no_version()), "{text}");
        }
    }

    #[test]
    fn the_last_version_has_no_successor() {
        assert!(Version::from_number(u64::MAX).next().is_err());
    }

    #[test]
    fn a_version_is_read_from_the_attributes_that_it_is_written_to() {
        let layout = Layout::new("rev".to_owned());
        let item: Item = layout.attributes(6, [9; 16]).into_iter().collect();
        assert_eq!(layout.version(&item), Ok(Version::new(6, Some([9; 16]))));
        assert_eq!(layout.version(&Item::new()), Ok(Version::NONE));
        for wrong in [
            AttributeValue::S("6".into()),
            AttributeValue::N("6.5".into()),
            AttributeValue::N("-1".into()),
        ] {
            let item = Item::from([("rev".to_owned(), wrong)]);
            assert_eq!(layout.version(&item), Err(no_version()));
        }
    }

    #[test]
    fn only_the_number_and_its_tokens_are_ours() {
        let layout = Layout::new("version".to_owned());
        for ours in ["version", "version_w0", "version_w3"] {
            assert!(layout.is_ours(ours), "{ours}");
        }
        for other in ["version_w4", "version_w", "versions", "id"] {
            assert!(!layout.is_ours(other), "{other}");
        }
    }
}
