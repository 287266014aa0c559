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

impl KeyRule {
    /// Returns what the key, or that of a lock, should not have, such as a value that is new with each request.
    pub(super) fn advice(&self, is_lock: bool) -> Option<String> {
        let (setting, why) = match self {
            Self::Header(name) => {
                let header = Expression::compile(&format!("header(@, '{name}')")).ok()?;
                ("key_header", header.advice_as_key(is_lock)?)
            }
            Self::Expression(expression) => ("key", expression.advice_as_key(is_lock)?),
        };
        Some(format!("`{setting}`: {why}"))
    }
}

/// Why a header is not a key. The texts are for the client and contain no part of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyError {
    Repeated,
    Empty,
    TooLong,
    Syntax,
}

impl KeyError {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Repeated => "it is sent more than once, or as a list: send one key",
            Self::Empty => "it is empty: send a key, such as a UUID",
            Self::TooLong => "it has more than 255 bytes: send a shorter key, such as a UUID",
            Self::Syntax => {
                "it is not a quoted string of printable ASCII characters: send a key such as a UUID, in double quotes"
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
) -> Result<Option<String>, KeyError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(KeyError::Repeated);
    }
    let key = parsed(value.as_bytes().trim_ascii())?;
    match key.len() {
        0 => Err(KeyError::Empty),
        length if length > LONGEST => Err(KeyError::TooLong),
        _ => Ok(Some(key)),
    }
}

fn parsed(value: &[u8]) -> Result<String, KeyError> {
    match value {
        [] => Err(KeyError::Empty),
        [b'"', quoted @ ..] => unquoted(quoted),
        bare if bare.contains(&b',') => Err(KeyError::Repeated),
        bare => {
            let is_key = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\;".contains(byte);
            if !bare.iter().all(is_key) {
                return Err(KeyError::Syntax);
            }
            Ok(bare.iter().copied().map(char::from).collect())
        }
    }
}

/// Reads a quoted string after its first quote, to the end of the value.
fn unquoted(quoted: &[u8]) -> Result<String, KeyError> {
    let mut key = String::new();
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let after = bytes.as_slice().trim_ascii_start();
                return match after.first() {
                    None => Ok(key),
                    Some(b',') => Err(KeyError::Repeated),
                    Some(_) => Err(KeyError::Syntax),
                };
            }
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(*escaped)),
                _ => return Err(KeyError::Syntax),
            },
            0x20..=0x7E => key.push(char::from(*byte)),
            _ => return Err(KeyError::Syntax),
        }
    }
    Err(KeyError::Syntax)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::KeyError::{Empty, Repeated, Syntax, TooLong};
    use super::*;

    fn key(values: &[&[u8]]) -> Result<Option<String>, KeyError> {
        let name = HeaderName::from_static("idempotency-key");
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_bytes(value).unwrap());
        }
        of_header(&headers, &name)
    }

    #[test]
    fn a_quoted_string_and_a_bare_value_are_one_key() {
        let longest = "k".repeat(255);
        for (value, expected) in [
            (r#""8e03978e-40d5-43dd""#, "8e03978e-40d5-43dd"),
            ("8e03978e-40d5-43dd", "8e03978e-40d5-43dd"),
            ("  \"8e03978e-40d5\"  ", "8e03978e-40d5"),
            ("\t8e03978e-40d5 ", "8e03978e-40d5"),
            // Escapes, spaces and separators are part of a quoted key.
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("\"a, b; c\"", "a, b; c"),
            ("\" \"", " "),
            ("a+b/c=", "a+b/c="),
            ("~!#$%&'()*", "~!#$%&'()*"),
            // The limit counts the key, and not its quotes and escapes.
            (&longest, &longest),
            (&format!("\"{longest}\""), &longest),
            (&format!("\"{}\"", "\\\"".repeat(255)), &"\"".repeat(255)),
        ] {
            assert_eq!(key(&[value.as_bytes()]), Ok(Some(expected.to_owned())));
        }
        assert_eq!(key(&[]), Ok(None));
    }

    #[test]
    fn what_is_not_one_key_is_refused_with_what_to_send() {
        let longer = [b'k'; 256];
        for (values, malformed) in [
            (&[&b""[..]][..], Empty),
            (&[b"  "], Empty),
            (&[b"\"\""], Empty),
            (&[b"\"a"], Syntax),
            (&[b"a\""], Syntax),
            (&[b"\"a\\n\""], Syntax),
            (&[b"\"a\\"], Syntax),
            (&[b"\"a\" b"], Syntax),
            (&[b"\"a\";p=1"], Syntax),
            (&[b"a;p=1"], Syntax),
            (&[b"a b"], Syntax),
            (&[b"a\\b"], Syntax),
            (&[b"\"a\tb\""], Syntax),
            (&[b"\xc3\xa9"], Syntax),
            (&[b"\"\xc3\xa9\""], Syntax),
            (&[b"\"a\", \"b\""], Repeated),
            (&[b"a,b"], Repeated),
            (&[b","], Repeated),
            (&[b"a", b"a"], Repeated),
            (&[b"a", b""], Repeated),
            (&[&longer], TooLong),
            (&[&[b"\"", &longer[..], b"\""].concat()], TooLong),
        ] {
            assert_eq!(key(values), Err(malformed), "{values:?}");
            assert!(malformed.text().contains("send "), "{malformed:?}");
        }
    }

    proptest! {
        #[test]
        fn every_key_is_read_back_from_its_quoted_form(expected in "[ -~]{1,255}") {
            let escaped = expected.replace('\\', "\\\\").replace('"', "\\\"");
            let quoted = format!("\"{escaped}\"");
            prop_assert_eq!(key(&[quoted.as_bytes()]), Ok(Some(expected)));
        }

        #[test]
        fn no_value_of_a_header_panics_and_every_key_is_printable_ascii_of_the_right_length(
            value in prop::collection::vec(prop_oneof![0x20_u8..=0x7E, 0x80_u8..=0xFF], 0..300),
        ) {
            if let Ok(Some(key)) = key(&[&value]) {
                prop_assert!((1..=255).contains(&key.len()));
                prop_assert!(key.bytes().all(|byte| (0x20..=0x7E).contains(&byte)));
            }
        }
    }
}
