//! Text that may hold lone surrogates, as JSON strings can.

use std::fmt;

/// A string of JSON: Unicode text that may also hold lone surrogates (`"\ud83d"`).
///
/// A surrogate is kept in three bytes, like the code points next to it. So the order of the bytes is the order of the code
/// points, by which Python sorts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Box<[u8]>);

impl Text {
    /// Returns the text as a `str`, or `None` if it holds a lone surrogate.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the bytes: UTF-8, in which a lone surrogate takes three bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the text is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the code points in order, surrogates included.
    pub fn code_points(&self) -> impl Iterator<Item = u32> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || take_code_point(&mut rest))
    }

    /// Returns the bytes of each code point, the last code point first.
    pub fn code_points_reversed(&self) -> impl Iterator<Item = &[u8]> {
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
    #[inline]
    pub fn from_trusted(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the text of these code points.
    pub fn of_code_points(codes: impl IntoIterator<Item = u32>) -> Self {
        let mut bytes = Vec::new();
        for code in codes {
            push_code_point(&mut bytes, code);
        }
        Self::from_trusted(bytes)
    }
}

/// Appends a code point in UTF-8; a surrogate is encoded in the same way.
#[inline]
pub(crate) fn push_code_point(bytes: &mut Vec<u8>, code: u32) {
    if let Some(character) = char::from_u32(code) {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        let [.., high, low] = code.to_be_bytes();
        bytes.extend([
            0xE0 | high >> 4,
            0x80 | (high & 0xF) << 2 | low >> 6,
            0x80 | low & 0x3F,
        ]);
    }
}

/// Removes the first code point from the bytes of a [`Text`], and returns it.
#[inline]
pub fn take_code_point(text: &mut &[u8]) -> Option<u32> {
    let (&first, rest) = text.split_first()?;
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
    *text = rest;
    Some(code)
}

impl From<&str> for Text {
    #[inline]
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
            assert!(text.code_points().eq([code]), "{code:x}");
            if let Some(character) = char::from_u32(code) {
                assert_eq!(text.as_str(), Some(&*character.to_string()), "{code:x}");
            }
        }
        assert_eq!(of(&[0xD800]).as_bytes(), [0xED, 0xA0, 0x80]);
        assert_eq!(of(&[0x41, 0xDFFF]).as_bytes(), [0x41, 0xED, 0xBF, 0xBF]);
        assert_eq!(of(&[0x41, 0xD800]).as_str(), None);
        assert_eq!(format!("{:?}", Text::from("aé😀")), "Text(7 bytes)");
    }

    #[test]
    fn code_points_stay_whole_and_have_an_order() {
        let mut codes = [0x41, 0xE9, 0xD83D, 0xFFFF, 0x1_F600, 0xDE00];
        let text = of(&codes);
        assert!(text.code_points().eq(codes));
        let reversed: Vec<_> = text.code_points_reversed().flatten().copied().collect();
        codes.reverse();
        assert!(Text::from_trusted(reversed) == of(&codes));
        assert!(of(&[0xD83D]) < of(&[0xFFFD]) && of(&[0xFFFD]) < of(&[0x1_F600]));
    }
}
