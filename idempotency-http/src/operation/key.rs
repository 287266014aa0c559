//! The idempotency key of a request: the value of a header, or what an expression selects.

use http::{HeaderMap, HeaderName};
use idempotency_core::key::Expression;

/// The longest key in bytes, without quotes and escapes.
const LONGEST: usize = 255;

/// Where the key is.
#[derive(Clone, Debug)]
pub(super) enum KeyRule {
    /// In a header, by `draft-ietf-httpapi-idempotency-key-header`.
    Header(HeaderName),
    /// In the event.
    Expression(Expression),
}

/// Why a header is not a key. The texts are for the client and contain no part of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    Repeated,
    Empty,
    TooLong,
    Syntax,
}

impl Malformed {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Repeated => "it is sent more than once, or as a list: send one key",
            Self::Empty => "it is empty: send a key, such as a UUID",
            Self::TooLong => "it has more than 255 bytes: send a shorter key, such as a UUID",
            Self::Syntax => {
                "it is not a quoted string of visible ASCII characters: send a key such as a UUID, in double quotes"
            }
        }
    }
}

/// Returns the key in a header; `None` without the header.
///
/// The value is a quoted string, in which `\"` and `\\` are the only escapes. A value without quotes is accepted if it could
/// not be read in another way: visible ASCII without quotes, backslashes, commas and semicolons. Both forms are one key.
pub(super) fn of_header(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<String>, Malformed> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Malformed::Repeated);
    }
    let key = parsed(value.as_bytes().trim_ascii())?;
    match key.len() {
        0 => Err(Malformed::Empty),
        length if length > LONGEST => Err(Malformed::TooLong),
        _ => Ok(Some(key)),
    }
}

fn parsed(value: &[u8]) -> Result<String, Malformed> {
    match value {
        [] => Err(Malformed::Empty),
        [b'"', quoted @ ..] => unquoted(quoted),
        bare if bare.contains(&b',') => Err(Malformed::Repeated),
        bare => {
            let is_key = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\;".contains(byte);
            if !bare.iter().all(is_key) {
                return Err(Malformed::Syntax);
            }
            Ok(bare.iter().copied().map(char::from).collect())
        }
    }
}

/// Reads a quoted string after its first quote, to the end of the value.
fn unquoted(quoted: &[u8]) -> Result<String, Malformed> {
    let mut key = String::new();
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let after = bytes.as_slice().trim_ascii_start();
                return match after.first() {
                    None => Ok(key),
                    Some(b',') => Err(Malformed::Repeated),
                    Some(_) => Err(Malformed::Syntax),
                };
            }
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(*escaped)),
                _ => return Err(Malformed::Syntax),
            },
            0x20..=0x7E => key.push(char::from(*byte)),
            _ => return Err(Malformed::Syntax),
        }
    }
    Err(Malformed::Syntax)
}

#[cfg(test)]
mod tests;
