//! Reads JSON text without making values. `idempotency-core` makes values with it, and this crate checks the literals of expressions
//! with it. So a literal that is accepted at compile time is also accepted when the program starts.

use std::fmt;

use crate::scan;
use crate::text::push_code_point;

/// The most levels of arrays and objects. Values are visited recursively, so deeper ones are refused.
pub const MAX_DEPTH: usize = 128;
/// The most digits that Python converts to an integer.
const MAX_DIGITS: usize = 4300;

type Result<T, E = JsonErrorKind> = std::result::Result<T, E>;

/// Reads one text from its beginning to its end.
#[derive(Clone, Copy)]
pub struct Scanner<'a> {
    /// The bytes of a [`Text`](crate::Text) or a `str`.
    pub bytes: &'a [u8],
    /// The place of the next byte.
    pub at: usize,
    /// In how many arrays and objects the place is.
    depth: usize,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner of a text that stands inside this many arrays and objects.
    #[inline]
    pub fn new(bytes: &'a [u8], depth: usize) -> Self {
        Self {
            bytes,
            at: 0,
            depth,
        }
    }

    /// Reads the whole text with `read`, which reads one value.
    #[inline]
    pub fn document<T>(
        mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T, JsonError> {
        self.only_value(read)
            .map_err(|kind| JsonError::new(kind, self.bytes, self.at))
    }

    #[inline]
    fn only_value<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
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

    /// Returns the next byte.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips `word` if the text continues with it. Returns true if it did.
    #[inline]
    fn take(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    /// Skips a value and checks it. After an error, the scanner is at the place of the error.
    pub fn skip(&mut self) -> Result<()> {
        match self.peek() {
            Some(b'"') => self.skip_string().map(drop),
            Some(b'{') => self.nested(b'}', |text| {
                text.skip_name()?;
                text.skip_colon()?;
                text.skip()
            }),
            Some(b'[') => self.nested(b']', Self::skip),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => self.skip_number().map(drop),
            Some(b'n') if self.take("null") => Ok(()),
            Some(b't') if self.take("true") => Ok(()),
            Some(b'f') if self.take("false") => Ok(()),
            _ => Err(JsonErrorKind::ExpectedValue),
        }
    }

    /// Reads an array or an object, with `read` for each element or member.
    #[inline]
    pub fn nested(
        &mut self,
        closing: u8,
        mut read: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if self.depth >= MAX_DEPTH {
            return Err(JsonErrorKind::TooDeep);
        }
        self.depth += 1;
        self.at += 1;
        self.whitespace();
        if self.peek() == Some(closing) {
            self.at += 1;
        } else {
            loop {
                read(self)?;
                self.whitespace();
                let found = self.peek();
                if found != Some(b',') && found != Some(closing) {
                    return Err(JsonErrorKind::ExpectedComma);
                }
                self.at += 1;
                if found == Some(closing) {
                    break;
                }
                self.whitespace();
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Skips the name of a member. Returns how many bytes its characters take.
    #[inline]
    pub fn skip_name(&mut self) -> Result<usize> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            _ => Err(JsonErrorKind::ExpectedName),
        }
    }

    /// Skips the colon behind a name, and the white space around it.
    #[inline]
    pub fn skip_colon(&mut self) -> Result<()> {
        self.whitespace();
        if !self.take(":") {
            return Err(JsonErrorKind::ExpectedColon);
        }
        self.whitespace();
        Ok(())
    }

    /// Skips a number. Returns true if it is an integer.
    #[inline]
    pub fn skip_number(&mut self) -> Result<bool> {
        let start = self.at;
        let _negative = self.take("-");
        let first = self.at;
        if self.take("0") {
            // No digit may follow a leading zero: it is then text after the value.
        } else if self.digits() == 0 {
            self.at = start;
            let is_word = self.take("NaN") || self.take("Infinity") || self.take("-Infinity");
            return is_word.then_some(false).ok_or(JsonErrorKind::ExpectedValue);
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
        if self.at > whole_end {
            return Ok(false);
        }
        if whole_end - first > MAX_DIGITS {
            self.at = start;
            return Err(JsonErrorKind::NumberTooLong);
        }
        Ok(true)
    }

    /// Skips digits. Returns how many.
    #[inline]
    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// Skips a string. Returns how many bytes its characters take: fewer than they take in the text if it has an escape.
    #[inline]
    pub fn skip_string(&mut self) -> Result<usize> {
        let quote = self.at;
        self.at += 1;
        // The bytes of escapes beyond what they stand for.
        let mut spare = 0;
        loop {
            self.at += scan::plain(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    let length = self.at - quote - 1 - spare;
                    self.at += 1;
                    return Ok(length);
                }
                Some(b'\\') => {
                    if self.short_escape().is_some() {
                        self.at += 2;
                        spare += 1;
                        continue;
                    }
                    let backslash = self.at;
                    let code = self.long_escape()?;
                    // A surrogate takes three bytes, as the code points next to it do.
                    let length = char::from_u32(code).map_or(3, char::len_utf8);
                    spare += self.at - backslash - length;
                }
                Some(_) => return Err(JsonErrorKind::ControlCharacter),
                None => {
                    self.at = quote;
                    return Err(JsonErrorKind::UnclosedString);
                }
            }
        }
    }

    /// Appends the characters of the string that begins with this quote, and that was skipped before.
    #[inline]
    pub fn characters(&self, quote: usize, characters: &mut Vec<u8>) {
        let mut text = Self {
            at: quote + 1,
            ..*self
        };
        loop {
            let run = text.at;
            text.at += scan::plain(&text.bytes[run..]);
            characters.extend_from_slice(&text.bytes[run..text.at]);
            if text.peek() != Some(b'\\') {
                return;
            }
            if let Some(byte) = text.short_escape() {
                text.at += 2;
                characters.push(byte);
            } else if let Ok(code) = text.long_escape() {
                push_code_point(characters, code);
            }
        }
    }

    /// Returns the byte that the next escape stands for, if it is one of a single letter.
    #[inline]
    fn short_escape(&self) -> Option<u8> {
        Some(match self.bytes.get(self.at + 1)? {
            same @ (b'"' | b'\\' | b'/') => *same,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return None,
        })
    }

    /// Skips an escape of four hexadecimal digits. Returns one character for two escapes that form a surrogate pair; any other
    /// surrogate stays alone.
    fn long_escape(&mut self) -> Result<u32> {
        self.at += 1;
        if self.peek() != Some(b'u') {
            return Err(JsonErrorKind::InvalidEscape);
        }
        let high = self.hex()?;
        if (0xD800..0xDC00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 1;
            let low = self.hex()?;
            if (0xDC00..0xE000).contains(&low) {
                return Ok(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
            }
            self.at = back;
        }
        Ok(high)
    }

    /// Reads the four hexadecimal digits behind a `u`.
    fn hex(&mut self) -> Result<u32> {
        self.at += 1;
        let digits = self.bytes[self.at..].iter().take(4);
        let code = digits.map_while(|&byte| char::from(byte).to_digit(16));
        let (count, code) = code.fold((0, 0), |(count, code), digit| {
            (count + 1, code * 16 + digit)
        });
        if count < 4 {
            return Err(JsonErrorKind::InvalidEscape);
        }
        self.at += 4;
        Ok(code)
    }
}

/// Writes the enum of the reasons, and their texts.
macro_rules! reasons {
    ($($kind:ident $text:literal;)+) => {
        /// The reason why a text is not accepted as JSON.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum JsonErrorKind {
            $(#[doc = $text] $kind),+
        }

        impl fmt::Display for JsonErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$kind => $text),+
                })
            }
        }
    };
}

reasons! {
    ExpectedValue "expected a value";
    ExpectedName "expected a member's name in double quotes";
    ExpectedColon "expected ':'";
    ExpectedComma "expected ',' or the closing bracket";
    TrailingText "text after the value";
    ByteOrderMark "a byte-order mark at the beginning";
    UnclosedString "a string that is not closed";
    ControlCharacter "a control character in a string that is not escaped";
    InvalidEscape "an invalid escape in a string";
    TooDeep "more than 128 levels of arrays and objects";
    NumberTooLong "an integer of more than 4300 digits";
    TooLarge "values that take more memory than one event may use";
    NumberLost "a number that other numbers became too, such as an integer beyond 64 bits: take the event as `Raw<_>`";
}

/// The error for a text that is not JSON: it says where and why, and never shows the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JsonError {
    kind: JsonErrorKind,
    line: usize,
    column: usize,
}

impl JsonError {
    fn new(kind: JsonErrorKind, bytes: &[u8], at: usize) -> Self {
        let before = &bytes[..at.min(bytes.len())];
        let is_end = |byte: &u8| *byte == b'\n';
        // Continuation bytes do not begin a character.
        let characters = |line: &[u8]| line.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        Self {
            kind,
            line: before.split(is_end).count(),
            column: before.rsplit(is_end).next().map_or(0, characters) + 1,
        }
    }

    /// Returns the error of a value that was not read from a text: it has no place.
    pub fn of_value(kind: JsonErrorKind) -> Self {
        Self {
            kind,
            line: 0,
            column: 0,
        }
    }

    /// Returns the reason.
    pub fn kind(&self) -> JsonErrorKind {
        self.kind
    }

    /// Returns the line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column in characters, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, line, column } = self;
        match kind {
            JsonErrorKind::NumberLost => write!(f, "{kind}"),
            // A text that is too large can still be JSON.
            JsonErrorKind::TooLarge => write!(f, "{kind} at line {line}, column {column}"),
            _ => write!(f, "invalid JSON: {kind} at line {line}, column {column}"),
        }
    }
}

impl std::error::Error for JsonError {}
