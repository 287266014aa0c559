//! Parses numbers in text, as Python's `int` and `float` do.

use crate::key::{Float, Integer, Json, Text};

/// The most digits of an integer in Python; a longer number is a float.
const MAX_DIGITS: usize = 4300;

/// The digit zero of each script with decimal digits; the other nine follow it. (Unicode 14, as in Python 3.11.)
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50,
    0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// Returns the number in a text: an integer if possible, otherwise a float; `None` if it is not a number.
pub(super) fn read(text: &Text) -> Option<Json> {
    let ascii: String = text.code_points().map(to_ascii).collect();
    let trimmed = ascii.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let digits = without_underscores(trimmed)?;
    // Rust and Python parse the same floats, with the words for infinity and not-a-number.
    integer(&digits).or_else(|| Float::parse(&digits).map(Json::Float))
}

/// Returns a blank for white space, the ASCII digit for a digit, and `?` for other characters outside ASCII.
fn to_ascii(code: u32) -> char {
    // Python keeps characters with a lower code.
    if code < 127 {
        return char::from_u32(code).unwrap_or('?');
    }
    if char::from_u32(code).is_some_and(char::is_whitespace) {
        return ' ';
    }
    let below = ZEROS.partition_point(|&zero| zero <= code);
    let digit = below.checked_sub(1).map(|at| code - ZEROS[at]);
    digit
        .and_then(|digit| char::from_digit(digit, 10))
        .unwrap_or('?')
}

/// Removes underscores; `None` if one is not between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('_') {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        if !digit(at.checked_sub(1)) || !digit(Some(at + 1)) {
            return None;
        }
    }
    Some(text.replace('_', ""))
}

fn integer(text: &str) -> Option<Json> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = !digits.is_empty()
        && digits.len() <= MAX_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| Json::Int(Integer::from_digits(text.trim_start_matches('+'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/values.txt` has shorter numbers.
    #[test]
    fn an_integer_of_too_many_digits_is_a_float() {
        let (most, more) = ("9".repeat(4300), "9".repeat(4301));
        for (text, number) in [(&*most, &*most), (&more, "Infinity")] {
            let read = read(&text.into()).map(|json| json.to_canonical());
            assert_eq!(read.as_deref(), Some(number));
        }
    }

    #[test]
    fn digits_of_each_script_are_read() {
        for zero in ZEROS {
            let digit = |value: u32| char::from_u32(zero + value).unwrap();
            let text: String = (0..10).map(digit).collect();
            let number = read(&text.as_str().into()).map(|json| json.to_canonical());
            assert_eq!(number.as_deref(), Some("123456789"), "{zero:x}");
        }
    }
}
