//! Writes the canonical text of a value: members sorted, characters escaped, numbers in one form.

use idempotency_expression::{scan, take_code_point};

use super::{Integer, Json, Text};
use crate::hex::DIGITS;

/// The layout of a text: canonical, or that of `to_string` in an expression.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) between: &'static str,
    pub(crate) after_name: &'static str,
    pub(crate) sorted: bool,
    /// True if a number with a fraction is written as the nearest float, as in Python. Otherwise it keeps its digits.
    pub(crate) python_numbers: bool,
}

pub(crate) const CANONICAL: &Layout = &Layout {
    between: ", ",
    after_name: ": ",
    sorted: true,
    python_numbers: false,
};
/// No spaces, and members in the order of the event.
pub(crate) const COMPACT: &Layout = &Layout {
    between: ",",
    after_name: ":",
    sorted: false,
    python_numbers: false,
};
pub(crate) const PYTHON_CANONICAL: &Layout = &Layout {
    python_numbers: true,
    ..*CANONICAL
};
pub(crate) const PYTHON_COMPACT: &Layout = &Layout {
    python_numbers: true,
    ..*COMPACT
};

impl Json {
    /// Returns the canonical text, from which keys are computed: ASCII, members sorted by code point, `", "` and `": "` as
    /// separators.
    pub fn to_canonical(&self) -> String {
        self.to_text(CANONICAL)
    }

    /// Returns the text in this layout.
    pub(crate) fn to_text(&self, layout: &Layout) -> String {
        let mut out = Vec::with_capacity(self.text_length(layout));
        write(&mut out, self, layout);
        // ASCII is UTF-8.
        String::from_utf8(out).unwrap_or_default()
    }

    /// Returns the length of the text in bytes, without building the text.
    pub(crate) fn text_length(&self, layout: &Layout) -> usize {
        let mut length = Length(0);
        write(&mut length, self, layout);
        length.0
    }
}

/// Takes a text in pieces. A canonical text is ASCII.
pub(super) trait Sink {
    /// Takes the next piece.
    fn ascii(&mut self, piece: &[u8]);
}

impl Sink for Vec<u8> {
    fn ascii(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl Sink for Length {
    fn ascii(&mut self, piece: &[u8]) {
        self.0 += piece.len();
    }
}

/// Writes the text of a value in this layout.
pub(super) fn write(out: &mut impl Sink, json: &Json, layout: &Layout) {
    match json {
        Json::Null => out.ascii(b"null"),
        Json::Bool(true) => out.ascii(b"true"),
        Json::Bool(false) => out.ascii(b"false"),
        Json::Int(integer) => write_integer(out, integer),
        Json::Float(float) => float.write(out, layout.python_numbers),
        Json::Str(text) => write_characters(out, text.as_bytes()),
        Json::Array(elements) => {
            out.ascii(b"[");
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.ascii(layout.between.as_bytes());
                }
                write(out, element, layout);
            }
            out.ascii(b"]");
        }
        Json::Object(members) => {
            out.ascii(b"{");
            let mut between = "";
            let mut member = |name: &Text, member: &Json| {
                out.ascii(between.as_bytes());
                between = layout.between;
                write_characters(out, name.as_bytes());
                out.ascii(layout.after_name.as_bytes());
                write(out, member, layout);
            };
            if layout.sorted {
                members.each_by_name(member);
            } else {
                members.iter().for_each(|(name, value)| member(name, value));
            }
            out.ascii(b"}");
        }
    }
}

fn write_integer(out: &mut impl Sink, integer: &Integer) {
    let Some(small) = integer.as_i64() else {
        return out.ascii(integer.to_string().as_bytes());
    };
    let mut room = Room::default();
    let start = write_digits(&mut room, small.unsigned_abs(), 1);
    room[start - 1] = b'-';
    out.ascii(&room[start - usize::from(small.is_negative())..]);
}

/// Has room for the 20 digits of a number, a sign and a point.
pub(super) type Room = [u8; 24];

/// Writes the decimal digits of a number to the end of `room`, with leading zeros up to `least` digits. Returns where they start.
pub(super) fn write_digits(room: &mut Room, number: u64, least: usize) -> usize {
    let mut at = room.len();
    let mut rest = number;
    while rest > 0 || room.len() - at < least {
        at -= 1;
        room[at] = DIGITS[(rest % 10) as usize];
        rest /= 10;
    }
    at
}

/// Writes a string of these characters, which are the bytes of a [`Text`].
pub(super) fn write_characters(out: &mut impl Sink, characters: &[u8]) {
    out.ascii(b"\"");
    let mut rest = characters;
    loop {
        let (run, special) = rest.split_at(scan::printable(rest));
        out.ascii(run);
        rest = special;
        let Some(code) = take_code_point(&mut rest) else {
            return out.ascii(b"\"");
        };
        match code {
            0x22 => out.ascii(b"\\\""),
            0x5C => out.ascii(b"\\\\"),
            0x0A => out.ascii(b"\\n"),
            0x0D => out.ascii(b"\\r"),
            0x09 => out.ascii(b"\\t"),
            0x0C => out.ascii(b"\\f"),
            0x08 => out.ascii(b"\\b"),
            0..=0xFFFF => write_escape(out, code),
            _ => {
                write_escape(out, 0xD800 + ((code - 0x1_0000) >> 10));
                write_escape(out, 0xDC00 + (code & 0x3FF));
            }
        }
    }
}

fn write_escape(out: &mut impl Sink, unit: u32) {
    let digit = |shift: u32| DIGITS[((unit >> shift) & 15) as usize];
    out.ascii(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::shared::lines;

    #[test]
    fn characters_outside_printable_ascii_are_escaped() {
        let json = Json::Str("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} ~\u{7f}é/😀\"\\".into());
        let text = r#""\u0000\b\t\n\u000b\f\r\u001f ~\u007f\u00e9/\ud83d\ude00\"\\""#;
        assert_eq!(json.to_canonical(), text);
    }

    #[test]
    fn members_are_sorted_by_code_point_at_each_level() {
        let json = Json::parse(r#"{"b":{"z":1,"y":2},"\ud83d\ude00":1,"\uffff":2,"B":3}"#).unwrap();
        assert_eq!(
            json.to_canonical(),
            r#"{"B": 3, "b": {"y": 2, "z": 1}, "\uffff": 2, "\ud83d\ude00": 1}"#
        );
        assert_eq!(
            json.to_text(COMPACT),
            r#"{"b":{"z":1,"y":2},"\ud83d\ude00":1,"\uffff":2,"B":3}"#
        );
    }

    #[test]
    fn numbers_with_a_fraction_keep_their_digits_or_have_those_of_python() {
        for line in lines(include_str!("canonical/numbers.txt")) {
            let mut texts = line.split_whitespace();
            let (text, own) = (texts.next().unwrap(), texts.next().unwrap());
            let json = Json::parse(text).unwrap();
            assert_eq!(json.to_canonical(), own, "{text}");
            let python = json.to_text(PYTHON_CANONICAL);
            assert_eq!(python, texts.next().unwrap_or(own), "{text}");
            assert_eq!(Json::parse(own).unwrap().to_canonical(), own, "{text}");
        }
    }

    #[test]
    fn at_most_4300_digits_of_a_number_with_a_fraction_are_kept() {
        let of = |digits: usize| format!("1.{}", "7".repeat(digits - 1));
        let canonical = |text: &str| Json::parse(text).unwrap().to_canonical();
        assert_eq!(canonical(&of(4300)), of(4300));
        assert_eq!(canonical(&of(4301)), "1.7777777777777777");
    }

    #[test]
    fn each_layout_has_its_separators_and_its_length() {
        let json = Json::parse(r#"{"b": [1, [], [2]], "a": {}, "c": [true, false, null, "é"]}"#);
        let json = json.unwrap();
        let canonical = r#"{"a": {}, "b": [1, [], [2]], "c": [true, false, null, "\u00e9"]}"#;
        let compact = r#"{"b":[1,[],[2]],"a":{},"c":[true,false,null,"\u00e9"]}"#;
        for (layout, text) in [(CANONICAL, canonical), (COMPACT, compact)] {
            assert_eq!(json.to_text(layout), text);
            assert_eq!(json.text_length(layout), text.len());
        }
    }
}
