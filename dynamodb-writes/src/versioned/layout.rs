//! Which attributes of an item hold its version.
//!
//! `version` is the number. `version_w0` to `version_w3` hold the tokens of the last four writes, each at its number modulo four.
//! So a writer whose reply was lost finds its own token, even if up to three other writes followed.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::version::{InvalidVersion, Token, Version, token_of};
use crate::send::Item;

/// The number of tokens that an item holds.
pub(super) const TOKENS: u64 = 4;

/// The names of the attributes that hold the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    number: String,
}

impl Default for Layout {
    fn default() -> Self {
        Self::new("version".to_owned())
    }
}

impl Layout {
    pub(super) fn new(number: String) -> Self {
        Self { number }
    }

    /// Returns the name of the attribute of the number.
    pub(super) fn number(&self) -> &str {
        &self.number
    }

    /// Returns the name of the attribute with the token of this version.
    pub(super) fn token(&self, number: u64) -> String {
        format!("{}_w{}", self.number, number % TOKENS)
    }

    /// Returns true if only this module may write the attribute.
    pub(super) fn is_ours(&self, attribute: &str) -> bool {
        attribute == self.number || (0..TOKENS).any(|number| attribute == self.token(number))
    }

    /// Returns the version of an item.
    pub(super) fn version(&self, item: &Item) -> Result<Version, InvalidVersion> {
        let number = match item.get(&self.number) {
            None => return Ok(Version::NONE),
            Some(AttributeValue::N(number)) => number.parse().map_err(|_| InvalidVersion(()))?,
            Some(_) => return Err(InvalidVersion(())),
        };
        Ok(Version::new(number, self.token_in(item, number)))
    }

    /// Returns the token of this version, if the item still holds it. The caller must know that it is not older than
    /// [`TOKENS`] versions.
    pub(super) fn token_in(&self, item: &Item, number: u64) -> Option<Token> {
        token_of(item.get(&self.token(number)))
    }

    /// Returns the attributes of a version that this token makes.
    pub(super) fn attributes(&self, number: u64, token: Token) -> [(String, AttributeValue); 2] {
        [
            (self.number.clone(), value(number)),
            (self.token(number), blob(token)),
        ]
    }
}

pub(super) fn value(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(super) fn blob(token: Token) -> AttributeValue {
    AttributeValue::B(Blob::new(token))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(layout.version(&item), Err(InvalidVersion(())));
        }
    }

    #[test]
    fn only_the_number_and_its_tokens_are_ours() {
        let layout = Layout::default();
        for ours in ["version", "version_w0", "version_w3"] {
            assert!(layout.is_ours(ours), "{ours}");
        }
        for other in ["version_w4", "version_w", "versions", "id"] {
            assert!(!layout.is_ours(other), "{other}");
        }
    }
}
