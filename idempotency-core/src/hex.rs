//! Bytes as text: digests, and random bytes.

pub(crate) const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Returns two lower-case digits for each byte.
pub(crate) fn of(bytes: &[u8]) -> String {
    let mut text = vec![0; 2 * bytes.len()];
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
    // They are ASCII.
    String::from_utf8(text).unwrap_or_default()
}
