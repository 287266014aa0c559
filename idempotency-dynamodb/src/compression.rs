//! Compression with zstd, if it is compiled in.

/// True if the feature `zstd` is compiled in.
pub(crate) const ZSTD_IS_COMPILED_IN: bool = cfg!(feature = "zstd");

/// The compression level. Why this one: `docs/design/0034-large-responses.md`.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 1;

/// Returns the text compressed as one frame that contains its length. `None` if that is not smaller than `below` bytes.
#[cfg(feature = "zstd")]
pub(crate) fn compress(text: &str, below: usize) -> Option<Vec<u8>> {
    // The buffer limits the result: zstd fails if it is too small.
    let mut compressed = vec![0; below.min(text.len()).checked_sub(1)?];
    let length = zstd::bulk::compress_to_buffer(text.as_bytes(), &mut compressed, LEVEL).ok()?;
    compressed.truncate(length);
    compressed.shrink_to_fit();
    Some(compressed)
}

#[cfg(not(feature = "zstd"))]
pub(crate) fn compress(_: &str, _: usize) -> Option<Vec<u8>> {
    None
}

/// Returns the text of one compressed frame.
///
/// # Errors
///
/// What is wrong with the frame: it is damaged, has no length, or its text is not UTF-8 or longer than `at_most` bytes. No more
/// than `at_most` bytes are allocated.
#[cfg(feature = "zstd")]
pub(crate) fn decompress(compressed: &[u8], at_most: usize) -> Result<String, &'static str> {
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
pub(crate) fn decompress(_: &[u8], _: usize) -> Result<String, &'static str> {
    Err(
        "its response is compressed, and this program was built without the feature `zstd` of idempotency-dynamodb: \
         enable the feature",
    )
}

#[cfg(test)]
#[cfg(feature = "zstd")]
mod tests {
    use super::*;
    use crate::limits::LARGEST_RESPONSE;

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
