//! Checks the text between quotes and backticks, with as much of JSON as it takes to refuse a wrong literal.

use crate::{Literal, Name};

/// Decodes the text between the double quotes of a JSON string. Returns `None` if it is not one.
pub(crate) fn decode(inside: &str) -> Option<Name> {
    let mut units: Vec<u16> = Vec::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' | '\0'..='\u{1f}' => return None,
            '\\' => units.push(match characters.next()? {
                same @ ('"' | '\\' | '/') => same as u16,
                'b' => 0x08,
                'f' => 0x0C,
                'n' => 0x0A,
                'r' => 0x0D,
                't' => 0x09,
                'u' => {
                    let mut unit = 0;
                    for _ in 0..4 {
                        unit = unit * 16 + u16::try_from(characters.next()?.to_digit(16)?).ok()?;
                    }
                    unit
                }
                _ => return None,
            }),
            plain => units.extend_from_slice(plain.encode_utf16(&mut [0; 2])),
        }
    }
    let mut bytes = Vec::with_capacity(inside.len());
    for character in char::decode_utf16(units) {
        match character {
            Ok(character) => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
            Err(lone) => {
                let [high, low] = lone.unpaired_surrogate().to_be_bytes();
                bytes.extend([0xED, 0x80 | (high & 0xF) << 2 | low >> 6, 0x80 | low & 0x3F]);
            }
        }
    }
    Some(Name(bytes.into()))
}

/// Returns the literal of a text between backticks: JSON, or else a word. Returns `None` if it is neither.
pub(crate) fn between_backticks(text: String) -> Option<Literal> {
    let bytes = text.as_bytes();
    match (Scan { text: bytes, at: 0 }).document() {
        Some(()) => Some(Literal::Json(text)),
        None => decode(text.trim_start_matches(is_python_space)).map(Literal::Word),
    }
}

/// Returns true for the characters that Python's `str.strip` removes.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Checks a JSON text without making values of it.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

/// The depth that the reader of literals accepts.
const MAX_DEPTH: usize = 128;

impl Scan<'_> {
    fn document(mut self) -> Option<()> {
        self.value(0)?;
        (self.at == self.text.len()).then_some(())
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> Option<()> {
        let found = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found.then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.space();
        match self.text.get(self.at)? {
            b'"' => self.string()?,
            b'[' if depth < MAX_DEPTH => self.elements("]", |scan| scan.value(depth + 1))?,
            b'{' if depth < MAX_DEPTH => self.elements("}", |scan| {
                scan.space();
                scan.string()?;
                scan.space();
                scan.take(":")?;
                scan.value(depth + 1)
            })?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => ["null", "true", "false", "NaN", "Infinity"]
                .into_iter()
                .find_map(|word| self.take(word))?,
        }
        self.space();
        Some(())
    }

    fn elements(&mut self, close: &str, element: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            element(self)?;
            if self.take(close).is_some() {
                return Some(());
            }
            self.take(",")?;
        }
    }

    fn string(&mut self) -> Option<()> {
        self.take("\"")?;
        let start = self.at;
        while *self.text.get(self.at)? != b'"' {
            self.at += if self.text[self.at] == b'\\' { 2 } else { 1 };
        }
        let inside = std::str::from_utf8(self.text.get(start..self.at)?).ok()?;
        self.at += 1;
        decode(inside).map(|_| ())
    }

    fn number(&mut self) -> Option<()> {
        if self.take("-Infinity").is_some() {
            return Some(());
        }
        let _negative = self.take("-");
        if self.take("0").is_none() {
            self.digits()?;
        }
        if self.take(".").is_some() {
            self.digits()?;
        }
        if self.take("e").or_else(|| self.take("E")).is_some() {
            let _signed = self.take("+").or_else(|| self.take("-"));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_json_or_a_bare_word() {
        for text in [
            "",
            "foo",
            " foo",
            "1",
            "1.",
            "-1.5e+3",
            "[1, {\"a\": null}]",
            "NaN",
            "[-Infinity]",
            "a\\nb",
            "{",
            "\"\\ud800\"",
        ] {
            assert!(between_backticks(text.to_owned()).is_some(), "{text}");
        }
        for text in ["\"", "{\"a\"}", "[\"a\",]", "a\nb", "a\\x", "\"a\" b"] {
            assert!(between_backticks(text.to_owned()).is_none(), "{text}");
        }
    }

    #[test]
    fn deep_literals_do_not_overflow_the_stack() {
        assert_eq!(between_backticks("[\"".repeat(2000)), None);
        assert_eq!(between_backticks("{\"a\":".repeat(800)), None);
    }
}
