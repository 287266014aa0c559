//! A strict JSON reader that keeps every digit, lone surrogates and the order of members.
//!
//! `serde_json` is not enough here:
//!
//! - It turns an integer beyond 64 bits into a float, so two payloads could share a key. Its feature
//!   `arbitrary_precision` keeps the digits, but changes `serde_json` in the user's whole program. It must never be enabled.
//! - It refuses lone surrogates, which JSON allows.
//! - It drops the order of members.

mod error;
mod skip;

use super::budget::Budget;
use super::text::push_code_point;
use super::{Float, Integer, Json, List, Object, Text};
pub use error::{JsonError, JsonErrorKind};

/// The most levels of arrays and objects. Values are visited recursively, so deeper ones are refused.
pub(super) const MAX_DEPTH: usize = 128;
/// The most digits that Python converts to an integer.
const MAX_DIGITS: usize = 4300;

impl Json {
    /// Parses a JSON text.
    ///
    /// Numbers keep all their digits, and escapes may be lone surrogates. If several members have one name, the object has
    /// the last value at the place of the first. `NaN`, `Infinity` and `-Infinity` are parsed as floats.
    ///
    /// There is no limit of memory: `[0,0,0]` takes about twelve times its length. The event of a call is parsed within a
    /// limit, by [`CompiledOperation::identify`](crate::operation::CompiledOperation::identify).
    ///
    /// # Errors
    ///
    /// Returns [`JsonError`] if the text is not JSON. The error has the place, never a part of the text. It also refuses a
    /// byte-order mark, text after the value, more than 128 levels of arrays and objects, and integers of more than 4300
    /// digits.
    ///
    /// # Examples
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
        Self::parse_within(text.as_bytes(), &mut Budget::unbounded())
    }

    /// Parses the JSON inside a string, which may hold lone surrogates.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`parse`](Self::parse).
    pub fn parse_text(text: &Text) -> Result<Self, JsonError> {
        Self::parse_within(text.as_bytes(), &mut Budget::unbounded())
    }

    /// Parses the bytes of a [`Text`] or a `str`, and charges the memory of the values.
    pub(crate) fn parse_within(bytes: &[u8], budget: &mut Budget) -> Result<Self, JsonError> {
        Reader::new(bytes, 0, budget).document(Reader::value)
    }
}

/// Reads one text. A second way to read, which keeps only what an expression looks at, is in [`select`](super::select).
pub(super) struct Reader<'a, 'b> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    depth: usize,
    pub(super) budget: &'b mut Budget,
}

impl<'a, 'b> Reader<'a, 'b> {
    /// Creates a reader of the bytes of a [`Text`] or a `str`, which stand inside this many arrays and objects.
    pub(super) fn new(bytes: &'a [u8], depth: usize, budget: &'b mut Budget) -> Self {
        Self {
            bytes,
            at: 0,
            depth,
            budget,
        }
    }

    /// Reads the whole text with `read`, which reads one value.
    pub(super) fn document<T>(
        mut self,
        read: impl FnOnce(&mut Self) -> Result<T, JsonErrorKind>,
    ) -> Result<T, JsonError> {
        self.only_value(read)
            .map_err(|kind| JsonError::new(kind, self.bytes, self.at))
    }

    fn only_value<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, JsonErrorKind>,
    ) -> Result<T, JsonErrorKind> {
        if self.bytes.starts_with("\u{feff}".as_bytes()) {
            return Err(JsonErrorKind::ByteOrderMark);
        }
        self.whitespace();
        let value = read(self)?;
        self.whitespace();
        if self.at < self.bytes.len() {
            return Err(JsonErrorKind::TrailingText);
        }
        Ok(value)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips `word` if the text continues with it. Returns true if it did.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn value(&mut self) -> Result<Json, JsonErrorKind> {
        match self.peek() {
            Some(b'"') => Ok(Json::Str(self.string()?)),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'n') if self.take("null") => Ok(Json::Null),
            Some(b't') if self.take("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.take("false") => Ok(Json::Bool(false)),
            Some(b'N') if self.take("NaN") => Ok(Json::Float(f64::NAN.into())),
            Some(b'I') if self.take("Infinity") => Ok(Json::Float(f64::INFINITY.into())),
            Some(b'-') if self.take("-Infinity") => Ok(Json::Float(f64::NEG_INFINITY.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(JsonErrorKind::ExpectedValue),
        }
    }

    /// Reads an array or an object with `read`, which begins behind its opening bracket.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, JsonErrorKind>,
    ) -> Result<T, JsonErrorKind> {
        if self.depth >= MAX_DEPTH {
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
        let mut elements = List::new();
        if self.take("]") {
            return Ok(Json::Array(Vec::new()));
        }
        loop {
            let element = self.value()?;
            elements.push(element, self.budget)?;
            if !self.another(b']')? {
                return Ok(Json::Array(elements.finish(self.budget)?));
            }
        }
    }

    fn object(&mut self) -> Result<Json, JsonErrorKind> {
        let mut members = List::new();
        if self.take("}") {
            return Ok(Json::Object(Object::default()));
        }
        loop {
            self.name_begins()?;
            let name = self.string()?;
            self.colon()?;
            let value = self.value()?;
            members.push((name, value), self.budget)?;
            if !self.another(b'}')? {
                let members = members.finish(self.budget)?;
                return Ok(Json::Object(Object::charged(members, self.budget)?));
            }
        }
    }

    /// Checks that the name of a member begins here.
    pub(super) fn name_begins(&self) -> Result<(), JsonErrorKind> {
        match self.peek() {
            Some(b'"') => Ok(()),
            _ => Err(JsonErrorKind::ExpectedName),
        }
    }

    /// Skips the colon behind a name, and the white space around it.
    pub(super) fn colon(&mut self) -> Result<(), JsonErrorKind> {
        self.whitespace();
        if !self.take(":") {
            return Err(JsonErrorKind::ExpectedColon);
        }
        self.whitespace();
        Ok(())
    }

    /// Skips a comma and returns true, or skips the closing bracket and returns false.
    pub(super) fn another(&mut self, closing: u8) -> Result<bool, JsonErrorKind> {
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

    fn number(&mut self) -> Result<Json, JsonErrorKind> {
        let start = self.at;
        let whole = self.skip_number()?;
        // All bytes of a number are ASCII.
        let ascii = |range: std::ops::Range<usize>| {
            std::str::from_utf8(&self.bytes[range]).unwrap_or_default()
        };
        if let Some(digits) = whole {
            let integer = Integer::from_digits(digits.start > start, ascii(digits));
            self.budget.allocate(integer.digits_beyond_64_bits())?;
            return Ok(Json::Int(integer));
        }
        let float = Float::parse(ascii(start..self.at)).ok_or(JsonErrorKind::ExpectedValue)?;
        self.budget.allocate(float.digits_beyond_64_bits())?;
        Ok(Json::Float(float))
    }

    /// Reads a string. The first pass finds its length, so that the second fills a block of the right size.
    pub(super) fn string(&mut self) -> Result<Text, JsonErrorKind> {
        let quote = self.at;
        let length = self.skip_characters()?;
        let within = &self.bytes[quote + 1..self.at - 1];
        let mut text = self.budget.list(length)?;
        if length == within.len() {
            // Without escapes: each escape is longer than what it stands for.
            text.extend_from_slice(within);
        } else {
            let behind = std::mem::replace(&mut self.at, quote);
            self.characters(&mut text)?;
            self.at = behind;
        }
        Ok(Text::from_trusted(text))
    }

    /// Skips a string. Returns how many bytes its characters take.
    pub(super) fn skip_characters(&mut self) -> Result<usize, JsonErrorKind> {
        let quote = self.at;
        self.at += 1;
        // The bytes of escapes beyond what they stand for.
        let mut spare = 0;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    let length = self.at - quote - 1 - spare;
                    self.at += 1;
                    return Ok(length);
                }
                Some(b'\\') => {
                    let escaped = self.bytes.get(self.at + 1).copied();
                    if escaped.and_then(short_escape).is_some() {
                        self.at += 2;
                        spare += 1;
                    } else {
                        let backslash = self.at;
                        let code = self.long_escape()?;
                        spare += self.at - backslash - length_of(code);
                    }
                }
                Some(_) => return Err(JsonErrorKind::ControlCharacter),
                None => {
                    self.at = quote;
                    return Err(JsonErrorKind::UnclosedString);
                }
            }
        }
    }

    /// Appends the characters of a string that was skipped before.
    pub(super) fn characters(&mut self, text: &mut Vec<u8>) -> Result<(), JsonErrorKind> {
        self.at += 1;
        loop {
            let run = self.at;
            self.skip_plain();
            text.extend_from_slice(&self.bytes[run..self.at]);
            if self.peek() != Some(b'\\') {
                return Ok(());
            }
            let escaped = self.bytes.get(self.at + 1).copied();
            if let Some(byte) = escaped.and_then(short_escape) {
                self.at += 2;
                text.push(byte);
            } else {
                push_code_point(text, self.long_escape()?);
            }
        }
    }

    /// Reads an escape of four hexadecimal digits.
    fn long_escape(&mut self) -> Result<u32, JsonErrorKind> {
        self.at += 1;
        if self.peek() != Some(b'u') {
            return Err(JsonErrorKind::InvalidEscape);
        }
        self.at += 1;
        self.unicode_escape()
    }

    /// Returns one character for two escapes that form a surrogate pair; any other surrogate stays alone.
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

/// Returns the byte that an escape of one letter stands for.
fn short_escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' | b'/' => letter,
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// Returns how many bytes [`push_code_point`] appends.
fn length_of(code: u32) -> usize {
    // A surrogate takes three bytes, as the code points next to it do.
    char::from_u32(code).map_or(3, char::len_utf8)
}

#[cfg(test)]
mod tests;
