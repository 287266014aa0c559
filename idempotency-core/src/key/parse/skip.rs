//! Skips values: checks them as the reader does, with the same errors at the same places, and keeps nothing.

use std::ops::Range;

use super::{JsonErrorKind, MAX_DIGITS, Reader};
use crate::key::{Json, Text, scan};

impl Reader<'_, '_> {
    /// Skips a value. Returns a value of the same type: null, true and false as they are, 0 for a number, and an empty string,
    /// array or object.
    pub(in crate::key) fn skip(&mut self) -> Result<Json, JsonErrorKind> {
        match self.peek() {
            Some(b'"') => {
                self.skip_string()?;
                Ok(Json::Str(Text::default()))
            }
            Some(b'{') => self.nested(Self::skip_members),
            Some(b'[') => self.nested(Self::skip_elements),
            Some(b'0'..=b'9') => {
                self.skip_number()?;
                Ok(Json::Int(0.into()))
            }
            Some(b'-') if !self.bytes[self.at..].starts_with(b"-I") => {
                self.skip_number()?;
                Ok(Json::Int(0.into()))
            }
            // Words take no memory.
            _ => self.value(),
        }
    }

    fn skip_members(&mut self) -> Result<Json, JsonErrorKind> {
        if self.take("}") {
            return Ok(Json::Object(Default::default()));
        }
        loop {
            self.name_begins()?;
            self.skip_string()?;
            self.colon()?;
            self.skip()?;
            if !self.another(b'}')? {
                return Ok(Json::Object(Default::default()));
            }
        }
    }

    fn skip_elements(&mut self) -> Result<Json, JsonErrorKind> {
        if self.take("]") {
            return Ok(Json::Array(Vec::new()));
        }
        loop {
            self.skip()?;
            if !self.another(b']')? {
                return Ok(Json::Array(Vec::new()));
            }
        }
    }

    /// Skips a string. Returns true if it has an escape.
    pub(in crate::key) fn skip_string(&mut self) -> Result<bool, JsonErrorKind> {
        let quote = self.at;
        let length = self.skip_characters()?;
        // A quote on each side, and each escape is longer than what it stands for.
        Ok(length + 2 != self.at - quote)
    }

    /// Skips the characters of a string up to a quote, a backslash, a control character or the end of the text.
    pub(super) fn skip_plain(&mut self) {
        self.at += scan::plain(&self.bytes[self.at..]);
    }

    /// Skips a number. Returns the place of its digits if it is an integer.
    pub(in crate::key) fn skip_number(&mut self) -> Result<Option<Range<usize>>, JsonErrorKind> {
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
}
