//! A strict JSON reader that keeps every digit, lone surrogates and the order of members.
//!
//! `serde_json` is not enough here:
//!
//! - It turns an integer beyond 64 bits into a float, so two payloads could share a key. Its feature
//!   `arbitrary_precision` keeps the digits, but changes `serde_json` in the user's whole program. It must never be enabled.
//! - It refuses lone surrogates, which JSON allows.
//! - It drops the order of members.

use std::fmt;
use std::ops::Range;

use super::budget::{Budget, Exhausted, List};
use super::needs::{Elements, Needs, WINDOW};
use super::text::push_code_point;
use super::{Float, Integer, Json, Object, Text, scan};

type Result<T, E = JsonErrorKind> = std::result::Result<T, E>;

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

/// Reads one text: whole, or what an expression looks at. The rest is then checked with the same errors at the same places.
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
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T, JsonError> {
        self.only_value(read)
            .map_err(|kind| JsonError::new(kind, self.bytes, self.at))
    }

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

    /// Reads what is looked at in the next value.
    pub(super) fn select(&mut self, needs: &Needs) -> Result<Json> {
        match (needs, self.peek()) {
            (Needs::All, _) => self.value(),
            (Needs::Parts(parts), Some(b'{')) if parts.has_members() => self.object(needs),
            (Needs::Parts(parts), Some(b'[')) if parts.elements != Elements::None => {
                self.array(&parts.elements)
            }
            _ => self.skip(),
        }
    }

    /// Reads the next value whole.
    fn value(&mut self) -> Result<Json> {
        match self.peek() {
            Some(b'"') => Ok(Json::Str(self.string()?)),
            Some(b'{') => self.object(&Needs::All),
            Some(b'[') => self.array(Needs::All.elements()),
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

    /// Reads an array or an object, with `read` for each element or member.
    pub(super) fn nested(
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
                if !self.another(closing)? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an object: the members that are looked at.
    fn object(&mut self, needs: &Needs) -> Result<Json> {
        let mut members = List::new();
        self.nested(b'}', |reader| {
            // The name is read before its value, so that errors come in the order of the text.
            let found = reader.name(needs)?;
            reader.colon()?;
            let Some((name, needs)) = found else {
                return reader.skip().map(drop);
            };
            let value = reader.select(needs)?;
            Ok(members.push((name, value), reader.budget)?)
        })?;
        let members = members.finish(self.budget)?;
        Ok(Json::Object(Object::charged(members, self.budget)?))
    }

    /// Reads the name of a member, and returns it with what is looked at in the member. Skips the name of another member.
    fn name<'n>(&mut self, needs: &'n Needs) -> Result<Option<(Text, &'n Needs)>> {
        self.name_begins()?;
        let Needs::Parts(parts) = needs else {
            return Ok(Some((self.string()?, needs)));
        };
        let quote = self.at;
        let found = if !self.skip_string()? {
            parts.member(&self.bytes[quote + 1..self.at - 1])
        } else if self.at - quote - 2 > 6 * parts.longest_name() {
            // A character takes at most six bytes in the text. A longer name is none of those.
            None
        } else {
            let mut name = Vec::new();
            self.read_again(quote, |reader| reader.characters(&mut name))?;
            parts.member(&name)
        };
        let Some(needs) = found else {
            return Ok(None);
        };
        Ok(Some((self.read_again(quote, Self::string)?, needs)))
    }

    /// Goes back to `start`, reads there, and returns to the place before.
    fn read_again<T>(
        &mut self,
        start: usize,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let here = std::mem::replace(&mut self.at, start);
        let value = read(self)?;
        self.at = here;
        Ok(value)
    }

    /// Reads an array: up to the last element that is looked at, or from the first one if they are counted from the end.
    fn array(&mut self, wanted: &Elements) -> Result<Json> {
        let mut elements = List::new();
        let mut length = 0;
        if let Elements::Last(_) = wanted {
            let mut starts = [0; WINDOW];
            self.nested(b']', |reader| {
                starts[length % WINDOW] = reader.at;
                length += 1;
                reader.skip().map(drop)
            })?;
            for index in length.saturating_sub(WINDOW)..length {
                if let Some(needs) = wanted.at(index, length) {
                    let start = starts[index % WINDOW];
                    let element = self.read_again(start, |reader| reader.select(needs))?;
                    elements.push(element, self.budget)?;
                }
            }
        } else {
            self.nested(b']', |reader| {
                let Some(needs) = wanted.at(length, 0) else {
                    return reader.skip().map(drop);
                };
                length += 1;
                let element = reader.select(needs)?;
                Ok(elements.push(element, reader.budget)?)
            })?;
        }
        Ok(Json::Array(elements.finish(self.budget)?))
    }

    /// Checks that the name of a member begins here.
    pub(super) fn name_begins(&self) -> Result<()> {
        match self.peek() {
            Some(b'"') => Ok(()),
            _ => Err(JsonErrorKind::ExpectedName),
        }
    }

    /// Skips the colon behind a name, and the white space around it.
    pub(super) fn colon(&mut self) -> Result<()> {
        self.whitespace();
        if !self.take(":") {
            return Err(JsonErrorKind::ExpectedColon);
        }
        self.whitespace();
        Ok(())
    }

    /// Skips a comma and returns true, or skips the closing bracket and returns false.
    pub(super) fn another(&mut self, closing: u8) -> Result<bool> {
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

    /// Skips a value. Returns a value of the same type: null, true and false as they are, 0 for a number, and an empty string,
    /// array or object.
    pub(super) fn skip(&mut self) -> Result<Json> {
        match self.peek() {
            Some(b'"') => {
                self.skip_string()?;
                Ok(Json::Str(Text::default()))
            }
            Some(b'{') => {
                self.nested(b'}', |reader| {
                    reader.name_begins()?;
                    reader.skip_string()?;
                    reader.colon()?;
                    reader.skip().map(drop)
                })?;
                Ok(Json::Object(Object::default()))
            }
            Some(b'[') => {
                self.nested(b']', |reader| reader.skip().map(drop))?;
                Ok(Json::Array(Vec::new()))
            }
            Some(b'-') if self.bytes[self.at..].starts_with(b"-I") => self.value(),
            Some(b'-' | b'0'..=b'9') => {
                self.skip_number()?;
                Ok(Json::Int(0.into()))
            }
            // Words take no memory.
            _ => self.value(),
        }
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let whole = self.skip_number()?;
        // All bytes of a number are ASCII.
        let ascii =
            |range: Range<usize>| std::str::from_utf8(&self.bytes[range]).unwrap_or_default();
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
    pub(super) fn string(&mut self) -> Result<Text> {
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

    /// Skips a string. Returns true if it has an escape.
    pub(super) fn skip_string(&mut self) -> Result<bool> {
        let quote = self.at;
        let length = self.skip_characters()?;
        // A quote on each side, and each escape is longer than what it stands for.
        Ok(length + 2 != self.at - quote)
    }

    /// Skips the characters of a string up to a quote, a backslash, a control character or the end of the text.
    fn skip_plain(&mut self) {
        self.at += scan::plain(&self.bytes[self.at..]);
    }

    /// Skips a number. Returns the place of its digits if it is an integer.
    pub(super) fn skip_number(&mut self) -> Result<Option<Range<usize>>, JsonErrorKind> {
        let start = self.at;
        let _negative = self.take("-");
        let first = self.at;
        if self.take("0") {
            // No digit may follow a leading zero: it is then text after the value.
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
        if self.at > whole_end {
            return Ok(None);
        }
        if whole_end - first > MAX_DIGITS {
            self.at = start;
            return Err(JsonErrorKind::NumberTooLong);
        }
        Ok(Some(first..whole_end))
    }

    /// Skips digits. Returns how many.
    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// Skips a string. Returns how many bytes its characters take.
    fn skip_characters(&mut self) -> Result<usize> {
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
    pub(super) fn characters(&mut self, text: &mut Vec<u8>) -> Result<()> {
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
    fn long_escape(&mut self) -> Result<u32> {
        self.at += 1;
        if self.peek() != Some(b'u') {
            return Err(JsonErrorKind::InvalidEscape);
        }
        self.at += 1;
        self.unicode_escape()
    }

    /// Returns one character for two escapes that form a surrogate pair; any other surrogate stays alone.
    fn unicode_escape(&mut self) -> Result<u32> {
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

    fn hex(&mut self) -> Result<u32> {
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
    fn new(kind: JsonErrorKind, bytes: &[u8], at: usize) -> Self {
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

#[cfg(test)]
mod tests {
    use super::JsonErrorKind::{
        ByteOrderMark, ControlCharacter, ExpectedColon, ExpectedComma, ExpectedName, ExpectedValue,
        InvalidEscape, NumberTooLong, TooDeep, TooLarge, TrailingText, UnclosedString,
    };
    use super::*;

    fn canonical(text: &str) -> String {
        Json::parse(text).unwrap().to_canonical()
    }

    fn kind(text: &str) -> JsonErrorKind {
        Json::parse(text).unwrap_err().kind()
    }

    #[test]
    fn what_is_read_is_written() {
        for same in [
            "0",
            "-12",
            "10",
            "0.5",
            "-0.0",
            "123456789012345678901234567890",
            "[null, true, false]",
            "[NaN, Infinity, -Infinity]",
            r#""\ud83d\ude00""#,
            r#""\ud83d\ud83d\ude00""#,
            r#""\ude00x""#,
        ] {
            assert_eq!(canonical(same), same);
        }
        for (text, written) in [
            ("-0", "0"),
            ("1e2", "100.0"),
            ("1E+2", "100.0"),
            ("-1.5e-1", "-0.15"),
            (r#""\ud800\u0041""#, r#""\ud800A""#),
            (" [ Infinity ] ", "[Infinity]"),
            (" { } ", "{}"),
            (
                "\t{ \"b\" : [ ] , \"a\" : { \"c\" : 1 } }\r\n",
                r#"{"a": {"c": 1}, "b": []}"#,
            ),
        ] {
            assert_eq!(canonical(text), written, "{text}");
        }
        for digits in ["9".repeat(4300), format!("-{}", "9".repeat(4300))] {
            assert_eq!(canonical(&digits), digits);
            assert_eq!(kind(&format!("{digits}9")), NumberTooLong);
        }
        let text = Json::parse_text(&Text::from("[1]")).unwrap();
        assert_eq!(text.to_canonical(), "[1]");
    }

    #[test]
    fn members_with_one_name_become_one_with_the_last_value_at_the_first_place() {
        let Json::Object(members) = Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap() else {
            panic!()
        };
        let names: Vec<_> = members.keys().filter_map(Text::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(members.get(b"a").unwrap().to_canonical(), "3");
    }

    #[test]
    fn every_escape_is_its_character_and_surrogates_form_pairs_or_stay_single() {
        for (text, characters) in [
            (
                r#""\"\\\/\b\f\n\r\t\u0041\u00e9\uFFFF\u20aC""#,
                Some("\"\\/\u{8}\u{c}\n\r\tAé\u{ffff}€"),
            ),
            (r#""\ud83d\ude00""#, Some("😀")),
            (r#""\ud800\udc00""#, Some("\u{10000}")),
            (r#""\ud800\udfff""#, Some("\u{103ff}")),
            (r#""\ud801\udc00""#, Some("\u{10400}")),
            (r#""\udbff\udfff""#, Some("\u{10ffff}")),
            (r#""\ud800x""#, None),
            (r#""\ud800\n""#, None),
            (r#""\ud800\ue000""#, None),
            (r#""\udbff\udbff""#, None),
            (r#""\udfff\udc00""#, None),
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), characters, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_json_is_refused_where_it_stops_being_json() {
        let long = format!("[1, {}]", "9".repeat(4301));
        for (text, kind, line, column) in [
            ("", ExpectedValue, 1, 1),
            ("x", ExpectedValue, 1, 1),
            ("-", ExpectedValue, 1, 1),
            ("[-]", ExpectedValue, 1, 2),
            ("[1,]", ExpectedValue, 1, 4),
            ("nul", ExpectedValue, 1, 1),
            ("tru", ExpectedValue, 1, 1),
            ("fals", ExpectedValue, 1, 1),
            ("Na", ExpectedValue, 1, 1),
            ("Infinit", ExpectedValue, 1, 1),
            ("-Infinit", ExpectedValue, 1, 1),
            ("[1,\n2,\n x]", ExpectedValue, 3, 2),
            ("[\"é😀\", x]", ExpectedValue, 1, 8),
            ("[1,\n \"é\", secret]", ExpectedValue, 2, 7),
            ("{\"a\":\n 1,}", ExpectedName, 2, 4),
            ("{a:1}", ExpectedName, 1, 2),
            ("{\"a\" 1}", ExpectedColon, 1, 6),
            ("[1 2]", ExpectedComma, 1, 4),
            ("[1, 2 3]", ExpectedComma, 1, 7),
            ("1 2", TrailingText, 1, 3),
            ("\r\n\t 1 x", TrailingText, 2, 5),
            ("00", TrailingText, 1, 2),
            ("-01", TrailingText, 1, 3),
            ("0x1", TrailingText, 1, 2),
            ("1.", TrailingText, 1, 2),
            ("1.e5", TrailingText, 1, 2),
            ("1e", TrailingText, 1, 2),
            ("1e+", TrailingText, 1, 2),
            ("1e+x", TrailingText, 1, 2),
            ("1.2.3", TrailingText, 1, 4),
            ("\u{feff}{}", ByteOrderMark, 1, 1),
            ("\"a", UnclosedString, 1, 1),
            ("[\"a]", UnclosedString, 1, 2),
            ("\"a\nb\"", ControlCharacter, 1, 3),
            ("[\"a\tb\"]", ControlCharacter, 1, 4),
            ("[\"\\x\"]", InvalidEscape, 1, 4),
            ("\"\\u12\"", InvalidEscape, 1, 4),
            ("[\"\\u12g4\"]", InvalidEscape, 1, 5),
            ("\"\\ud800\\u00\"", InvalidEscape, 1, 10),
            ("\"\\", InvalidEscape, 1, 3),
            ("[\"\\", InvalidEscape, 1, 4),
            (&long, NumberTooLong, 1, 5),
        ] {
            let error = Json::parse(text).unwrap_err();
            assert_eq!(
                (error.kind(), error.line(), error.column()),
                (kind, line, column),
                "{text}"
            );
            let message = format!("invalid JSON: {kind} at line {line}, column {column}");
            assert_eq!(error.to_string(), message);
        }
        for (kind, message) in [
            (ExpectedValue, "expected a value"),
            (ExpectedName, "expected a member's name in double quotes"),
            (ExpectedColon, "expected ':'"),
            (ExpectedComma, "expected ',' or the closing bracket"),
            (TrailingText, "text after the value"),
        ] {
            assert_eq!(kind.to_string(), message);
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_never_a_stack_overflow() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth| format!("{}[]{}", open.repeat(depth), close.repeat(depth));
            assert!(Json::parse(&nested(127)).is_ok());
            assert_eq!(kind(&nested(128)), TooDeep);
            assert_eq!(kind(&open.repeat(1_000_000)), TooDeep);
        }
        // Values side by side do not add to the depth.
        let wide = canonical(&format!("[{}[]]", "[], {},".repeat(300)));
        assert_eq!(wide.matches('[').count(), 302);
    }

    #[test]
    fn reading_charges_what_the_values_take() {
        for text in [
            "null",
            "1.5",
            "9223372036854775808",
            r#""text""#,
            &format!(r#""{}""#, r"\n".repeat(29)),
            &format!(r#""{}""#, r"\u00e9".repeat(12)),
            &format!(r#""{}""#, r"\ud800x".repeat(7)),
            &format!(r#""{}""#, r"\ud83d\ude00".repeat(7)),
            "[]",
            "[1, 2, 3]",
            r#"["a", ["b", 9223372036854775808], {}]"#,
            r#"{"a": "text", "b": {"c": [1]}}"#,
        ] {
            let mut budget = Budget::new(10_000);
            let json = Json::parse_within(text.as_bytes(), &mut budget).unwrap();
            assert_eq!(budget.charged(), json.heap(), "{text}");
            let mut less = Budget::new(json.heap().saturating_sub(1));
            let refused = Json::parse_within(text.as_bytes(), &mut less);
            assert_eq!(refused.is_err(), json.heap() > 0, "{text}");
        }
        let error = Json::parse_within(b"\"text\"", &mut Budget::new(10)).unwrap_err();
        assert_eq!(error.kind(), TooLarge);
        let message = "values that take more memory than one event may use at line 1, column 7";
        assert_eq!(error.to_string(), message);
    }
}
