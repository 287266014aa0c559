//! Compression of what a store keeps, with zstd, if it is compiled in.

use crate::config::{ConfigurationError, Variables};

/// True if the feature `zstd` is compiled in.
pub const ZSTD_IS_COMPILED_IN: bool = cfg!(feature = "zstd");

/// The variable of the threshold. Each store that compresses reads it.
pub const COMPRESS_ABOVE: &str = "IDEMPOTENCY_COMPRESS_ABOVE";

/// The threshold unless it is set, in bytes: a longer text is compressed. `None`: none is.
pub const DEFAULT_THRESHOLD: Option<usize> = if ZSTD_IS_COMPILED_IN {
    Some(16 * 1024)
} else {
    None
};

/// Returns the threshold that the variables set, or the default.
///
/// # Errors
///
/// If the variable has another value than a number or `off`.
pub fn threshold(variables: &Variables) -> Result<Option<usize>, ConfigurationError> {
    match variables.value(COMPRESS_ABOVE) {
        None => Ok(DEFAULT_THRESHOLD),
        Some(off) if off.eq_ignore_ascii_case("off") => Ok(None),
        Some(bytes) => bytes.parse().map(Some).map_err(|_| {
            let remedy = "write a number of bytes, such as `16384`, or `off`";
            ConfigurationError::value(COMPRESS_ABOVE, bytes, remedy)
        }),
    }
}

/// Checks that the program can do what is set.
///
/// # Errors
///
/// If a threshold is set, and the feature `zstd` is not compiled in.
pub fn check(threshold: Option<usize>) -> Result<(), ConfigurationError> {
    if threshold.is_some() && !ZSTD_IS_COMPILED_IN {
        return Err(ConfigurationError::new(
            "responses cannot be compressed, because the feature `zstd` is not compiled in: enable it, or set \
             IDEMPOTENCY_COMPRESS_ABOVE=off",
        ));
    }
    Ok(())
}

/// The compression level. Why this one: `docs/design/0034-large-responses.md`.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 1;

/// Returns the text compressed as one frame that contains its length. `None` if that is not smaller than `below` bytes.
#[cfg(feature = "zstd")]
pub fn compress(text: &str, below: usize) -> Option<Vec<u8>> {
    // The buffer limits the result: zstd fails if it is too small.
    let mut compressed = vec![0; below.min(text.len()).checked_sub(1)?];
    let length = zstd::bulk::compress_to_buffer(text.as_bytes(), &mut compressed, LEVEL).ok()?;
    compressed.truncate(length);
    compressed.shrink_to_fit();
    Some(compressed)
}

#[cfg(not(feature = "zstd"))]
pub fn compress(_: &str, _: usize) -> Option<Vec<u8>> {
    None
}

/// Returns the text of one compressed frame.
///
/// # Errors
///
/// What is wrong with the frame: it is damaged, has no length, or its text is not UTF-8 or longer than `at_most` bytes. No more
/// than `at_most` bytes are allocated.
#[cfg(feature = "zstd")]
pub fn decompress(compressed: &[u8], at_most: usize) -> Result<String, &'static str> {
    let length = zstd::zstd_safe::get_frame_content_size(compressed);
    let Ok(Some(length)) = length else {
        return Err("its compressed response is damaged");
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > at_most {
        return Err("its compressed response is longer than any response can be");
    }
    let text = zstd::bulk::decompress(compressed, length);
    let text = text.map_err(|_| "its compressed response is damaged")?;
    String::from_utf8(text).map_err(|_| "its compressed response is not UTF-8")
}

#[cfg(not(feature = "zstd"))]
pub fn decompress(_: &[u8], _: usize) -> Result<String, &'static str> {
    Err(
        "its response is compressed, and this program was built without the feature `zstd`: enable the feature",
    )
}

#[cfg(test)]
#[cfg(feature = "zstd")]
mod tests {
    use super::*;

    /// As for a store.
    const LARGEST_RESPONSE: usize = 6_291_556;

    #[test]
    fn bytes_that_are_no_frame_or_whose_text_is_too_long_are_refused() {
        let frame = |text: &[u8]| zstd::bulk::compress(text, 1).unwrap();
        let mut cut = frame("x".repeat(1_000).as_bytes());
        cut.pop();
        // As a stream writes it.
        let without_length = zstd::stream::encode_all(&b"xxxx"[..], 1).unwrap();
        for (name, bytes, error) in [
            ("nothing", Vec::new(), "damaged"),
            ("no frame", b"{}".to_vec(), "damaged"),
            ("a frame without its end", cut, "damaged"),
            ("a frame without its length", without_length, "damaged"),
            ("bytes that are no text", frame(&[0xff; 100]), "not UTF-8"),
        ] {
            let text = format!("its compressed response is {error}");
            assert_eq!(
                decompress(&bytes, LARGEST_RESPONSE).unwrap_err(),
                text,
                "{name}"
            );
        }
        // A bomb: a few hundred bytes that would become more than any response.
        let bomb = frame(&vec![b' '; LARGEST_RESPONSE + 1]);
        assert!(bomb.len() < 1_000);
        assert_eq!(
            decompress(&bomb, LARGEST_RESPONSE).unwrap_err(),
            "its compressed response is longer than any response can be"
        );
        let largest = decompress(&frame(&vec![b' '; LARGEST_RESPONSE]), LARGEST_RESPONSE).unwrap();
        assert_eq!(largest.len(), LARGEST_RESPONSE);
    }
}

#[cfg(test)]
#[cfg(not(feature = "zstd"))]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_an_error_that_names_the_feature_and_the_variable() {
        assert_eq!(
            check(Some(16_384)).unwrap_err().to_string(),
            "responses cannot be compressed, because the feature `zstd` is not compiled in: enable it, or set \
             IDEMPOTENCY_COMPRESS_ABOVE=off"
        );
        assert_eq!(check(DEFAULT_THRESHOLD), Ok(()));
    }
}
