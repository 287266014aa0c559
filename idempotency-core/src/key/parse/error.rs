//! Where and why a text is not JSON.

use std::fmt;

use crate::key::Exhausted;

/// What is wrong with a JSON text.
///
/// ```
/// use idempotency_core::key::{Json, JsonErrorKind};
/// assert_eq!(Json::parse("{a: 1}").unwrap_err().kind(), JsonErrorKind::ExpectedName);
/// assert_eq!(Json::parse("1 2").unwrap_err().kind(), JsonErrorKind::TrailingText);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// A value should stand here.
    ExpectedValue,
    /// The name of a member, in double quotes, should stand here.
    ExpectedName,
    /// A colon should stand here.
    ExpectedColon,
    /// A comma or the closing bracket should stand here.
    ExpectedComma,
    /// Text follows the value.
    TrailingText,
    /// The text begins with a byte-order mark.
    ByteOrderMark,
    /// A string is not closed.
    UnclosedString,
    /// A control character stands in a string without being escaped.
    ControlCharacter,
    /// An escape in a string is not one of JSON's.
    InvalidEscape,
    /// Arrays and objects are nested more than 128 levels deep.
    TooDeep,
    /// An integer has more than 4300 digits.
    NumberTooLong,
    /// The values take more memory than one event may.
    TooLarge,
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedValue => "expected a value",
            Self::ExpectedName => "expected a member's name in double quotes",
            Self::ExpectedColon => "expected ':'",
            Self::ExpectedComma => "expected ',' or the closing bracket",
            Self::TrailingText => "text after the value",
            Self::ByteOrderMark => "a byte-order mark at the beginning",
            Self::UnclosedString => "a string that is not closed",
            Self::ControlCharacter => "a control character in a string that is not escaped",
            Self::InvalidEscape => "an invalid escape in a string",
            Self::TooDeep => "more than 128 levels of arrays and objects",
            Self::NumberTooLong => "an integer of more than 4300 digits",
            Self::TooLarge => "values that take more memory than one event may",
        })
    }
}

/// Where and why a text is not JSON; never what stands in it.
///
/// ```
/// use idempotency_core::key::Json;
/// let error = Json::parse(r#"{"card": 4242"#).unwrap_err();
/// assert!(!error.to_string().contains("4242"), "the payload is never shown");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JsonError {
    kind: JsonErrorKind,
    line: usize,
    column: usize,
}

impl JsonError {
    pub(super) fn new(kind: JsonErrorKind, bytes: &[u8], at: usize) -> Self {
        let before = &bytes[..at.min(bytes.len())];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        Self {
            kind,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            // Continuation bytes begin no character.
            column: before[line_start..]
                .iter()
                .filter(|&&byte| byte & 0xC0 != 0x80)
                .count()
                + 1,
        }
    }

    /// What is wrong.
    ///
    /// ```
    /// # use idempotency_core::key::{Json, JsonErrorKind};
    /// assert_eq!(Json::parse(r#"["a]"#).unwrap_err().kind(), JsonErrorKind::UnclosedString);
    /// ```
    #[must_use]
    pub fn kind(&self) -> JsonErrorKind {
        self.kind
    }

    /// The line, from 1.
    ///
    /// ```
    /// # use idempotency_core::key::Json;
    /// assert_eq!(Json::parse("[1,\n2,\n x]").unwrap_err().line(), 3);
    /// ```
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column in characters, from 1.
    ///
    /// ```
    /// # use idempotency_core::key::Json;
    /// assert_eq!(Json::parse("[1,\n2,\n x]").unwrap_err().column(), 2);
    /// ```
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is too large is JSON all the same.
        let wrong = if self.kind == JsonErrorKind::TooLarge {
            ""
        } else {
            "invalid JSON: "
        };
        write!(
            f,
            "{wrong}{} at line {}, column {}",
            self.kind, self.line, self.column
        )
    }
}

impl std::error::Error for JsonError {}

impl From<Exhausted> for JsonErrorKind {
    fn from(_: Exhausted) -> Self {
        Self::TooLarge
    }
}
