//! Bytes as text: digests, and random bytes.

pub(crate) const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Returns two lower-case digits for each byte.
pub(crate) fn of(bytes: &[u8]) -> String {
    let digit = |half: u8| DIGITS[usize::from(half)];
    let digits = bytes
        .iter()
        .map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    let text = digits.collect::<Vec<_>>().into_flattened();
    // They are ASCII.
    String::from_utf8(text).unwrap_or_default()
}
