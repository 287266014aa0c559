//! Tokens for effects in other services: the same in every run of a key.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::hex;
use crate::record::RecordId;

/// The version of a token's text. Another way to make tokens needs another version, because a provider that has seen the token of
/// a first run must see the same one in the rerun.
const OF_KEY: &str = "idempotency token 1";

/// The same, for a run without a key.
const OF_RANDOM: &str = "idempotency random token 1";

/// A further part, for the undo of a step. A part of the name would make it the token of a step that has this name.
const OF_UNDO: &[u8] = b"undo";

/// A token of a key for one effect: the text of a UUID, 36 characters. [`Call::token`](super::Call::token) makes it.
///
/// It is a hash, so it can be logged and shown.
///
/// # Examples
///
/// ```
/// # use idempotency_core::operation::{Call, Token};
/// # let call = Call::unprotected(&idempotency_core::example::backend())?;
/// let token: Token = call.token("charge");
/// let header = format!("Idempotency-Key: {token}");
/// assert!(header.ends_with(token.as_str()));
/// assert_ne!(token, call.token("refund"));
/// # Ok::<(), idempotency_core::random::RandomError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(String);

impl Token {
    /// Returns the token of a key for the effect with this name, or for the undo of a step with this name (`undoes`).
    pub(super) fn of_key(id: &RecordId, name: &str, undoes: bool) -> Self {
        let parts = [OF_KEY.as_bytes(), id.as_str().as_bytes(), name.as_bytes()];
        Self::of(parts.into_iter().chain(undoes.then_some(OF_UNDO)))
    }

    /// Returns the token of a run without a key.
    pub(super) fn of_random(random: &[u8; 16], name: &str, undoes: bool) -> Self {
        let parts = [OF_RANDOM.as_bytes(), random, name.as_bytes()];
        Self::of(parts.into_iter().chain(undoes.then_some(OF_UNDO)))
    }

    /// Returns a UUID of version 8 of the first 128 bits of the SHA-256 of these parts; version and variant replace six of the bits.
    /// The length of each part comes before it, so that no two lists of parts have one text.
    fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut bytes = [0; 16];
        for (byte, of_hash) in bytes.iter_mut().zip(hash.finalize()) {
            *byte = of_hash;
        }
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = hex::of(&bytes);
        for at in [20, 16, 12, 8] {
            text.insert(at, '-');
        }
        Self(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Token {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str, name: &str) -> String {
        Token::of_key(&RecordId::new(id), name, false).into()
    }

    /// A provider remembers the tokens of the last release. A change of one of these texts charges twice.
    #[test]
    fn the_tokens_of_a_release_are_those_of_every_release() {
        const SHOP: &str = "shop#42b7b4f2921788ea14dac5566e6f06d0";
        const BLUE: &str = "shop#tenant=blue#42b7b4f2921788ea14dac5566e6f06d0";
        for (id, name, expected) in [
            (SHOP, "charge", "c932cecf-85ee-8713-8204-6e97f58dc68c"),
            (SHOP, "refund", "e87c8474-51a8-8bd5-a0ac-580e16b5537b"),
            (BLUE, "charge", "6b4a28ce-54c4-818c-9606-3cb6f857799a"),
            ("bücher#00", "größe", "d9dcc05e-ecc1-83ca-8562-4f2cda3f61b3"),
            ("", "", "53131224-dd6e-8319-9990-47cf8922e536"),
        ] {
            assert_eq!(token(id, name), expected, "{id} {name}");
        }
        let random = Token::of_random(&[7; 16], "charge", false);
        assert_eq!(random.as_str(), "2c551dfe-37cd-8423-93fc-e952aec832c6");
    }

    #[test]
    fn a_token_is_a_uuid_of_version_8() {
        for name in 0..64 {
            let token = token("shop#42", &name.to_string());
            let groups: Vec<_> = token.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12], "{token}");
            assert_eq!(token.as_bytes()[14], b'8', "{token}");
            assert!(b"89ab".contains(&token.as_bytes()[19]), "{token}");
            let hex = |letter: char| matches!(letter, '0'..='9' | 'a'..='f' | '-');
            assert!(token.chars().all(hex), "{token}");
        }
    }

    #[test]
    fn the_undo_of_a_step_has_a_token_that_no_name_has() {
        let id = RecordId::new("shop#42b7b4f2921788ea14dac5566e6f06d0");
        let undo = Token::of_key(&id, "charge", true);
        assert_eq!(undo.as_str(), "cca171ee-5740-8037-9ecc-9b7cc4871547");
        for name in ["charge", "undo charge", "chargeundo", "charge undo"] {
            assert_ne!(undo, Token::of_key(&id, name, false), "{name}");
        }
        let random = |undoes| Token::of_random(&[7; 16], "charge", undoes);
        assert_ne!(random(true), random(false));
    }

    #[test]
    fn no_part_of_one_text_can_move_into_the_other() {
        for ((id, name), (other_id, other_name)) in [
            (("shop#1", "2charge"), ("shop#12", "charge")),
            (("shop#1", ""), ("", "shop#1")),
            (("a", "b"), ("ab", "")),
        ] {
            assert_ne!(token(id, name), token(other_id, other_name));
        }
    }

    #[test]
    fn every_form_of_a_token_is_its_text() {
        let token = Token::of_random(&[1; 16], "charge", false);
        assert_eq!(token.to_string(), token.as_str());
        assert_eq!(token.as_ref(), token.as_str());
        assert_eq!(format!("{token:?}"), format!("Token({token})"));
    }
}
