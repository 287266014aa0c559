//! Text that may hold lone surrogates, as JSON strings can.

use std::fmt;

use super::budget::heap;
use super::scan;

/// A string of JSON: Unicode text that may also hold lone surrogates (`"\ud83d"`).
///
/// A surrogate is kept in three bytes, like the code points next to it. So the order of the bytes is the order of the code
/// points, by which Python sorts.
///
/// # Examples
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
    /// Returns the text as a `str`, or `None` if it holds a lone surrogate.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the bytes: UTF-8, in which a lone surrogate takes three bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of code points; a lone surrogate is one.
    #[must_use]
    pub fn chars(&self) -> usize {
        self.code_points().count()
    }

    /// Returns the code points in order, surrogates included.
    pub(crate) fn code_points(&self) -> CodePoints<'_> {
        CodePoints::of(&self.0)
    }

    /// Returns the bytes of each code point, the last code point first.
    pub(crate) fn code_points_reversed(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            // Continuation bytes do not begin a character.
            let start = rest.iter().rposition(|byte| byte & 0xC0 != 0x80)?;
            let (before, last) = rest.split_at(start);
            rest = before;
            Some(last)
        })
    }

    /// Returns a text of these bytes. They must be UTF-8, or parts of another [`Text`] cut between code points. A list with
    /// spare room is moved to a block of its length.
    pub(crate) fn from_trusted(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the text of these code points.
    pub(crate) fn of_code_points(codes: impl IntoIterator<Item = u32>) -> Self {
        let mut bytes = Vec::new();
        for code in codes {
            push_code_point(&mut bytes, code);
        }
        Self::from_trusted(bytes)
    }

    /// Returns how many bytes a copy takes on the heap.
    pub(crate) fn heap(&self) -> usize {
        heap(self.0.len())
    }
}

/// Appends a code point in UTF-8; a surrogate is encoded in the same way.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn push_code_point(bytes: &mut Vec<u8>, code: u32) {
    if let Some(character) = char::from_u32(code) {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.extend_from_slice(&[
            0xE0 + (code >> 12) as u8,
            0x80 + ((code >> 6) & 0x3F) as u8,
            0x80 + (code & 0x3F) as u8,
        ]);
    }
}

/// The code points of a [`Text`].
pub(crate) struct CodePoints<'a> {
    rest: &'a [u8],
}

impl<'a> CodePoints<'a> {
    /// Returns the code points of these bytes, which are those of a [`Text`].
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the characters up to the next one that a JSON string must escape, and skips them: printable ASCII without `"`
    /// and `\`.
    pub(crate) fn plain_run(&mut self) -> &'a [u8] {
        let (run, rest) = self.rest.split_at(scan::printable(self.rest));
        self.rest = rest;
        run
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
            code = (code << 6) + u32::from(byte & 0x3F);
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

/// Shows only the length, because text comes from payloads.
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
    fn every_code_point_is_the_same_after_a_round_trip() {
        for code in (0..0x1_1000).chain([0x10_FFFF]) {
            let text = of(&[code]);
            assert_eq!(text.code_points().collect::<Vec<_>>(), [code], "{code:x}");
            assert_eq!(text.chars(), 1, "{code:x}");
            if let Some(character) = char::from_u32(code) {
                assert_eq!(text, Text::from(character.to_string()), "{code:x}");
            }
        }
        assert_eq!(of(&[0xD800]).as_bytes(), [0xED, 0xA0, 0x80]);
        assert_eq!(of(&[0xDFFF]).as_bytes(), [0xED, 0xBF, 0xBF]);
    }

    #[test]
    fn code_points_stay_whole_and_have_an_order() {
        let mut codes = [0x41, 0xE9, 0xD83D, 0xFFFF, 0x1_F600, 0xDE00];
        let text = of(&codes);
        assert_eq!(text.code_points().collect::<Vec<_>>(), codes);
        let reversed: Vec<_> = text.code_points_reversed().flatten().copied().collect();
        codes.reverse();
        assert_eq!(Text::from_trusted(reversed), of(&codes));
        assert!(of(&[0xD83D]) < of(&[0xFFFD]) && of(&[0xFFFD]) < of(&[0x1_F600]));
    }

    #[test]
    fn only_text_without_lone_surrogates_is_a_str() {
        let (text, empty) = (Text::from("aé😀"), Text::from(""));
        assert_eq!(text.as_str(), Some("aé😀"));
        assert_eq!(of(&[0x41, 0xD800]).as_str(), None);
        assert_eq!((text.chars(), empty.chars()), (3, 0));
        assert_eq!((text.is_empty(), empty.is_empty()), (false, true));
        assert_eq!((text.heap(), empty.heap()), (heap(7), 0));
        assert_eq!(format!("{text:?}"), "Text(7 bytes)");
    }

    #[test]
    fn a_plain_run_ends_at_the_first_character_that_is_escaped() {
        for (text, run) in [
            ("plain ~", "plain ~"),
            ("a\"b", "a"),
            ("a\\b", "a"),
            ("a\u{7f}", "a"),
            ("a\u{1f}", "a"),
            ("aé", "a"),
            ("\"a", ""),
        ] {
            let text = Text::from(text);
            let mut codes = text.code_points();
            assert_eq!(codes.plain_run(), run.as_bytes());
            assert_eq!(codes.count(), text.chars() - run.len());
        }
    }
}
