//! Scans text eight bytes at a time.

/// Returns how many bytes come before the first quote, backslash or control character.
#[inline]
pub fn plain(bytes: &[u8]) -> usize {
    let special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    first(bytes, specials, special)
}

/// Returns how many bytes come before the first one that a text of ASCII must escape: anything but printable ASCII, a quote or
/// a backslash.
#[inline]
pub fn printable(bytes: &[u8]) -> usize {
    let special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x7F..);
    let specials = |word| specials(word) | zeros(word ^ (ONES * 0x7F)) | word;
    first(bytes, specials, special)
}

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// Sets the high bit of the lowest zero byte, and clears those below it. Those above it can be wrong: a borrow goes upwards.
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}

/// Does what [`zeros`] does, for the lowest quote, backslash or control character.
fn specials(word: u64) -> u64 {
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zeros(word ^ (ONES * u64::from(b'"')));
    let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
    control | quote | backslash
}

/// Returns how many bytes come before the first special one. `specials` finds it in a word of eight bytes.
fn first(bytes: &[u8], specials: impl Fn(u64) -> u64, is_special: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let found = specials(u64::from_le_bytes(*chunk)) & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let mut rest = bytes[at..].iter();
    at + rest
        .position(|&byte| is_special(byte))
        .unwrap_or(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scan: fn(&[u8]) -> usize, is_special: fn(u8) -> bool) {
        for length in 0..20 {
            for at in 0..=length {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'a'; length];
                    // What follows must not be found first.
                    bytes[at..].fill(b'"');
                    let expected = match bytes.get_mut(at) {
                        Some(place) => {
                            *place = byte;
                            if is_special(byte) {
                                at
                            } else {
                                (at + 1).min(length)
                            }
                        }
                        None => length,
                    };
                    assert_eq!(scan(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn plain_characters_end_at_the_first_special_byte_wherever_it_is() {
        check(plain, |byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        for byte in [b'!', b'#', b'[', b']', 0x20, 0x7F, 0x80, 0xFF] {
            assert_eq!(plain(&[byte; 31]), 31, "{byte}");
        }
    }

    #[test]
    fn printable_characters_end_at_the_first_that_is_escaped_wherever_it_is() {
        check(printable, |byte| {
            !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\')
        });
        for byte in [b'!', b'#', b'[', b']', b' ', b'~'] {
            assert_eq!(printable(&[byte; 31]), 31, "{byte}");
        }
    }
}
