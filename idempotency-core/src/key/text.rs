//! Text that may hold lone surrogates, as strings of JSON can.

use std::fmt;

use super::budget::heap;

/// A string of JSON: Unicode text that may also hold lone surrogates (`"\ud83d"`).
///
/// Surrogates are kept in three bytes each, like any other character of their range, so that comparing bytes is
/// comparing code points: the order Python sorts by.
///
/// ```
/// use idempotency_core::key::Text;
///
/// let text = Text::from("o-1");
/// assert_eq!(text.as_str(), Some("o-1"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Box<[u8]>);

impl Text {
    /// The text as a `str`, or `None` where it holds a lone surrogate.
    ///
    /// ```
    /// use idempotency_core::key::{Json, Text};
    ///
    /// assert_eq!(Text::from("a").as_str(), Some("a"));
    /// let Ok(Json::Str(lone)) = Json::parse(r#""\ud800""#) else { panic!() };
    /// assert_eq!(lone.as_str(), None);
    /// ```
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The bytes: UTF-8, and lone surrogates in the three bytes of their range.
    ///
    /// ```
    /// # use idempotency_core::key::Text;
    /// assert_eq!(Text::from("é").as_bytes(), [0xC3, 0xA9]);
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the text has no characters.
    ///
    /// ```
    /// # use idempotency_core::key::Text;
    /// assert!(Text::from("").is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many code points the text has; a lone surrogate is one.
    ///
    /// ```
    /// # use idempotency_core::key::Text;
    /// assert_eq!(Text::from("aé😀").chars(), 3);
    /// ```
    #[must_use]
    pub fn chars(&self) -> usize {
        self.code_points().count()
    }

    /// The code points in order, surrogates included.
    pub(crate) fn code_points(&self) -> CodePoints<'_> {
        CodePoints { rest: &self.0 }
    }

    /// The bytes of each code point, the last one first.
    pub(crate) fn code_points_reversed(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            // Continuation bytes begin no character.
            let start = rest.iter().rposition(|byte| byte & 0xC0 != 0x80)?;
            let (before, last) = rest.split_at(start);
            rest = before;
            Some(last)
        })
    }

    /// Takes bytes that are UTF-8 or came from another [`Text`], cut between code points. They are moved to a block of
    /// their length if they have room for more.
    pub(crate) fn from_trusted(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn of_code_points(codes: impl IntoIterator<Item = u32>) -> Self {
        let mut bytes = Vec::new();
        for code in codes {
            push_code_point(&mut bytes, code);
        }
        Self::from_trusted(bytes)
    }

    /// Returns what a copy takes beside the value itself, in bytes.
    pub(crate) fn heap(&self) -> usize {
        heap(self.0.len())
    }
}

/// Appends a code point as UTF-8 would, surrogates included.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn push_code_point(bytes: &mut Vec<u8>, code: u32) {
    if let Some(character) = char::from_u32(code) {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.extend_from_slice(&[
            0xE0 | (code >> 12) as u8,
            0x80 | ((code >> 6) & 0x3F) as u8,
            0x80 | (code & 0x3F) as u8,
        ]);
    }
}

/// The code points of a [`Text`].
pub(crate) struct CodePoints<'a> {
    rest: &'a [u8],
}

impl<'a> CodePoints<'a> {
    /// Takes the characters that stand for themselves in a JSON string: printable ASCII without `"` and `\`.
    pub(crate) fn plain_run(&mut self) -> &'a str {
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let end = self.rest.iter().position(|byte| !plain(byte));
        let (run, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        // ASCII is UTF-8.
        std::str::from_utf8(run).unwrap_or_default()
    }
}

impl Iterator for CodePoints<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (&first, rest) = self.rest.split_first()?;
        let (mut code, more) = match first {
            0..=0x7F => (u32::from(first), 0),
            0x80..=0xDF => (u32::from(first & 0x1F), 1),
            0xE0..=0xEF => (u32::from(first & 0x0F), 2),
            _ => (u32::from(first & 0x07), 3),
        };
        let (tail, rest) = rest.split_at(more.min(rest.len()));
        for byte in tail {
            code = (code << 6) | u32::from(byte & 0x3F);
        }
        self.rest = rest;
        Some(code)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

/// The length alone: text comes from payloads.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(codes: &[u32]) -> Text {
        Text::of_code_points(codes.iter().copied())
    }

    #[test]
    fn code_points_survive_the_round_trip() {
        let codes = [0x41, 0xE9, 0xD83D, 0xFFFF, 0x1_F600, 0xDE00];
        assert_eq!(of(&codes).code_points().collect::<Vec<_>>(), codes);
    }

    #[test]
    fn order_is_that_of_code_points() {
        assert!(of(&[0xD83D]) < of(&[0xFFFD]));
        assert!(of(&[0xFFFD]) < of(&[0x1_F600]));
    }

    #[test]
    fn debug_shows_no_text() {
        assert_eq!(format!("{:?}", Text::from("secret")), "Text(6 bytes)");
    }
}
