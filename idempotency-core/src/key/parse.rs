//! A strict reader of JSON that keeps what other readers drop.
//!
//! `serde_json` turns an integer beyond 64 bits into a float, so that two payloads could share a key. Its feature
//! `arbitrary_precision` would keep the digits, but changes `serde_json` for the user's whole program and must never be
//! enabled. It also refuses lone surrogates, which are legal in JSON, and forgets the order of members. Hence this one.

use std::fmt;

use super::text::push_code_point;
use super::{Integer, Json, Object, Text};

/// Arrays and objects inside one another: more are refused, since values are walked recursively.
const MAX_DEPTH: usize = 128;
/// As many digits as Python turns into an integer.
const MAX_DIGITS: usize = 4300;

impl Json {
    /// Reads a JSON text whole.
    ///
    /// Integers keep all their digits, lone surrogates are allowed in escapes, and of members with one name the last
    /// value stands at the first place. `NaN`, `Infinity` and `-Infinity` are read as floats.
    ///
    /// # Errors
    ///
    /// [`JsonError`] says where the text stops being JSON, never what stands there. A byte-order mark, text after the
    /// value, more than 128 levels of arrays and objects, and integers of more than 4300 digits are refused.
    ///
    /// ```
    /// use idempotency_core::key::{Json, JsonErrorKind};
    ///
    /// assert_eq!(Json::parse("[1, 1.0]")?.to_canonical(), "[1, 1.0]");
    /// let error = Json::parse("{\"a\":\n 1,}").unwrap_err();
    /// assert_eq!((error.line(), error.column()), (2, 4));
    /// # Ok::<(), idempotency_core::key::JsonError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::parse_bytes(text.as_bytes())
    }

    /// Reads the JSON inside a string, which may hold lone surrogates.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    ///
    /// ```
    /// # use idempotency_core::key::{Json, Text};
    /// assert_eq!(Json::parse_text(&Text::from("[1]"))?.to_canonical(), "[1]");
    /// # Ok::<(), idempotency_core::key::JsonError>(())
    /// ```
    pub fn parse_text(text: &Text) -> Result<Self, JsonError> {
        Self::parse_bytes(text.as_bytes())
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Self, JsonError> {
        let mut reader = Reader {
            bytes,
            at: 0,
            depth: 0,
        };
        reader
            .document()
            .map_err(|kind| JsonError::new(kind, bytes, reader.at))
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Json, JsonErrorKind> {
        if self.bytes.starts_with("\u{feff}".as_bytes()) {
            return Err(JsonErrorKind::ByteOrderMark);
        }
        self.whitespace();
        let value = self.value()?;
        self.whitespace();
        if self.at < self.bytes.len() {
            return Err(JsonErrorKind::TrailingText);
        }
        Ok(value)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self) -> Result<Json, JsonErrorKind> {
        match self.peek() {
            Some(b'"') => Ok(Json::Str(self.string()?)),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'n') if self.take("null") => Ok(Json::Null),
            Some(b't') if self.take("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.take("false") => Ok(Json::Bool(false)),
            Some(b'N') if self.take("NaN") => Ok(Json::Float(f64::NAN)),
            Some(b'I') if self.take("Infinity") => Ok(Json::Float(f64::INFINITY)),
            Some(b'-') if self.take("-Infinity") => Ok(Json::Float(f64::NEG_INFINITY)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(JsonErrorKind::ExpectedValue),
        }
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Json, JsonErrorKind>,
    ) -> Result<Json, JsonErrorKind> {
        if self.depth == MAX_DEPTH {
            return Err(JsonErrorKind::TooDeep);
        }
        self.depth += 1;
        self.at += 1;
        self.whitespace();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Json, JsonErrorKind> {
        let mut elements = Vec::new();
        if self.take("]") {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if !self.another(b']')? {
                return Ok(Json::Array(elements));
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonErrorKind> {
        let mut members = Object::new();
        if self.take("}") {
            return Ok(Json::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(JsonErrorKind::ExpectedName);
            }
            let name = self.string()?;
            self.whitespace();
            if !self.take(":") {
                return Err(JsonErrorKind::ExpectedColon);
            }
            self.whitespace();
            let value = self.value()?;
            members.insert(name, value);
            if !self.another(b'}')? {
                return Ok(Json::Object(members));
            }
        }
    }

    /// Passes a comma (there is another one) or the closing bracket (there is none).
    fn another(&mut self, closing: u8) -> Result<bool, JsonErrorKind> {
        self.whitespace();
        let found = self.peek();
        if found != Some(b',') && found != Some(closing) {
            return Err(JsonErrorKind::ExpectedComma);
        }
        self.at += 1;
        if found == Some(closing) {
            return Ok(false);
        }
        self.whitespace();
        Ok(true)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, JsonErrorKind> {
        let start = self.at;
        let negative = self.take("-");
        let first = self.at;
        if self.take("0") {
            // A zero stands alone: what follows is no longer part of the number.
        } else if self.digits() == 0 {
            self.at = start;
            return Err(JsonErrorKind::ExpectedValue);
        }
        let whole_end = self.at;
        if self.take(".") && self.digits() == 0 {
            self.at = whole_end;
        }
        let fraction_end = self.at;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _signed = self.take("+") || self.take("-");
            if self.digits() == 0 {
                self.at = fraction_end;
            }
        }
        // Every byte of a number is ASCII.
        let ascii = |range: std::ops::Range<usize>| {
            std::str::from_utf8(&self.bytes[range]).unwrap_or_default()
        };
        if self.at == whole_end {
            if whole_end - first > MAX_DIGITS {
                self.at = start;
                return Err(JsonErrorKind::NumberTooLong);
            }
            return Ok(Json::Int(Integer::from_digits(
                negative,
                ascii(first..whole_end),
            )));
        }
        ascii(start..self.at)
            .parse()
            .map(Json::Float)
            .map_err(|_| JsonErrorKind::ExpectedValue)
    }

    fn string(&mut self) -> Result<Text, JsonErrorKind> {
        let quote = self.at;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let run = self.at;
            while matches!(self.peek(), Some(byte) if byte != b'"' && byte != b'\\' && byte >= 0x20)
            {
                self.at += 1;
            }
            text.extend_from_slice(&self.bytes[run..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Text::from_trusted(text));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let code = self.escape()?;
                    push_code_point(&mut text, code);
                }
                Some(_) => return Err(JsonErrorKind::ControlCharacter),
                None => {
                    self.at = quote;
                    return Err(JsonErrorKind::UnclosedString);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<u32, JsonErrorKind> {
        let escaped = self.peek();
        self.at += 1;
        Ok(match escaped {
            Some(b'"') => 0x22,
            Some(b'\\') => 0x5C,
            Some(b'/') => 0x2F,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => 0x0A,
            Some(b'r') => 0x0D,
            Some(b't') => 0x09,
            Some(b'u') => return self.unicode_escape(),
            _ => {
                self.at -= 1;
                return Err(JsonErrorKind::InvalidEscape);
            }
        })
    }

    /// Two escapes that form a surrogate pair are one character; any other surrogate stays alone.
    fn unicode_escape(&mut self) -> Result<u32, JsonErrorKind> {
        let high = self.hex()?;
        if (0xD800..0xDC00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xDC00..0xE000).contains(&low) {
                return Ok(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
            }
            self.at = back;
        }
        Ok(high)
    }

    fn hex(&mut self) -> Result<u32, JsonErrorKind> {
        let mut code = 0;
        for offset in 0..4 {
            let digit = self
                .bytes
                .get(self.at + offset)
                .and_then(|&byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or(JsonErrorKind::InvalidEscape)?;
        }
        self.at += 4;
        Ok(code)
    }
}

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
    fn new(kind: JsonErrorKind, bytes: &[u8], at: usize) -> Self {
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
        write!(
            f,
            "invalid JSON: {} at line {}, column {}",
            self.kind, self.line, self.column
        )
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
mod tests;
