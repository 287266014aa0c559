//! A strict reader of JSON that keeps what other readers drop.
//!
//! `serde_json` turns an integer beyond 64 bits into a float, so that two payloads could share a key. Its feature
//! `arbitrary_precision` would keep the digits, but changes `serde_json` for the user's whole program and must never be
//! enabled. It also refuses lone surrogates, which are legal in JSON, and forgets the order of members. Hence this one.

mod error;

use super::budget::Budget;
use super::text::push_code_point;
use super::{Integer, Json, List, Object, Text};
pub use error::{JsonError, JsonErrorKind};

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
    /// There is no bound of memory here: `[0,0,0]` takes about twelve times its length. The event of a call is read
    /// within a bound, by [`Operation::identify`](crate::operation::Operation::identify).
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
        Self::parse_within(text.as_bytes(), &mut Budget::unbounded())
    }

    /// Reads the bytes of a [`Text`] or a `str`, and charges what the values take.
    pub(crate) fn parse_within(bytes: &[u8], budget: &mut Budget) -> Result<Self, JsonError> {
        let mut reader = Reader {
            bytes,
            at: 0,
            depth: 0,
            budget,
        };
        reader
            .document()
            .map_err(|kind| JsonError::new(kind, bytes, reader.at))
    }
}

struct Reader<'a, 'b> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    budget: &'b mut Budget,
}

impl Reader<'_, '_> {
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
            members.push((name, value), self.budget)?;
            if !self.another(b'}')? {
                let members = members.finish(self.budget)?;
                return Ok(Json::Object(Object::charged(members, self.budget)?));
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
            let integer = Integer::from_digits(negative, ascii(first..whole_end));
            self.budget.allocate(integer.digits_beyond_64_bits())?;
            return Ok(Json::Int(integer));
        }
        ascii(start..self.at)
            .parse()
            .map(Json::Float)
            .map_err(|_| JsonErrorKind::ExpectedValue)
    }

    /// Reads a string twice: once for its length, so that nothing is moved while it grows, then for its characters.
    fn string(&mut self) -> Result<Text, JsonErrorKind> {
        let quote = self.at;
        let mut length = 0;
        self.characters(|run, escaped| length += run.len() + escaped.map_or(0, length_of))?;
        let mut text = self.budget.list(length)?;
        self.at = quote;
        self.characters(|run, escaped| {
            text.extend_from_slice(run);
            if let Some(code) = escaped {
                push_code_point(&mut text, code);
            }
        })?;
        Ok(Text::from_trusted(text))
    }

    /// Passes a string, and hands out its runs of plain bytes, each with the escape that follows it.
    fn characters(
        &mut self,
        mut take: impl FnMut(&[u8], Option<u32>),
    ) -> Result<(), JsonErrorKind> {
        let quote = self.at;
        self.at += 1;
        loop {
            let run = self.at;
            while matches!(self.peek(), Some(byte) if byte != b'"' && byte != b'\\' && byte >= 0x20)
            {
                self.at += 1;
            }
            let run = run..self.at;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    take(&self.bytes[run], None);
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    let code = self.escape()?;
                    take(&self.bytes[run], Some(code));
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

/// How many bytes [`push_code_point`] appends.
fn length_of(code: u32) -> usize {
    // A surrogate takes as many as the characters around it.
    char::from_u32(code).map_or(3, char::len_utf8)
}

#[cfg(test)]
mod tests;
