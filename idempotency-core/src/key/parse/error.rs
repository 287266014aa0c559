//! The error of the JSON reader: where and why a text is not JSON.

use std::fmt;

use crate::key::Exhausted;

/// The reason why a text is not accepted as JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// A value is missing.
    ExpectedValue,
    /// The name of a member, in double quotes, is missing.
    ExpectedName,
    /// A colon is missing.
    ExpectedColon,
    /// A comma or the closing bracket is missing.
    ExpectedComma,
    /// Text follows the value.
    TrailingText,
    /// The text begins with a byte-order mark.
    ByteOrderMark,
    /// A string is not closed.
    UnclosedString,
    /// A control character in a string is not escaped.
    ControlCharacter,
    /// JSON has no such escape in a string.
    InvalidEscape,
    /// Arrays and objects are nested more than 128 levels deep.
    TooDeep,
    /// An integer has more than 4300 digits.
    NumberTooLong,
    /// The values take more memory than one event may use.
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
            Self::TooLarge => "values that take more memory than one event may use",
        })
    }
}

/// The error for a text that is not JSON: it says where and why, and never shows the text.
///
/// # Examples
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
            // Continuation bytes do not begin a character.
            column: before[line_start..]
                .iter()
                .filter(|&&byte| byte & 0xC0 != 0x80)
                .count()
                + 1,
        }
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> JsonErrorKind {
        self.kind
    }

    /// Returns the line, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column in characters, counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text that is too large can still be JSON.
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
