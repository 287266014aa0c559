//! Compression with zstd, if it is compiled in.

/// True if the feature `zstd` is compiled in.
pub(super) const AVAILABLE: bool = cfg!(feature = "zstd");

/// The compression level. Why this one: `docs/design/0034-large-responses.md`.
#[cfg(feature = "zstd")]
const LEVEL: i32 = 1;

/// Returns the text compressed as one frame that contains its length. `None` if that is not smaller than `below` bytes.
#[cfg(feature = "zstd")]
pub(super) fn compress(text: &str, below: usize) -> Option<Vec<u8>> {
    // The buffer limits the result: zstd fails if it is too small.
    let mut compressed = vec![0; below.min(text.len()).checked_sub(1)?];
    let length = zstd::bulk::compress_to_buffer(text.as_bytes(), &mut compressed, LEVEL).ok()?;
    compressed.truncate(length);
    compressed.shrink_to_fit();
    Some(compressed)
}

#[cfg(not(feature = "zstd"))]
pub(super) fn compress(_: &str, _: usize) -> Option<Vec<u8>> {
    None
}

/// Returns the text of one compressed frame.
///
/// # Errors
///
/// What is wrong with the frame: it is damaged, has no length, or its text is not UTF-8 or longer than `at_most` bytes. No more
/// than `at_most` bytes are allocated.
#[cfg(feature = "zstd")]
pub(super) fn decompress(compressed: &[u8], at_most: usize) -> Result<String, &'static str> {
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
pub(super) fn decompress(_: &[u8], _: usize) -> Result<String, &'static str> {
    Err(
        "its response is compressed, and this program was built without the feature `zstd` of idempotency-dynamodb: \
         enable the feature",
    )
}

/// Returns an event compressed, or `None` if that is not smaller.
pub(crate) fn compressed_event(text: &str) -> Option<Vec<u8>> {
    compress(text, text.len())
}

/// Returns the text of a compressed event.
///
/// # Errors
///
/// What is wrong with it.
#[cfg(feature = "zstd")]
pub(crate) fn decompressed_event(compressed: &[u8]) -> Result<String, &'static str> {
    let longest = idempotency_core::record::StoredEvent::LONGEST_STORED;
    decompress(compressed, longest).map_err(|_| "it is damaged")
}

#[cfg(not(feature = "zstd"))]
pub(crate) fn decompressed_event(_: &[u8]) -> Result<String, &'static str> {
    Err(
        "it is compressed, and this program was built without the feature `zstd` of idempotency-dynamodb",
    )
}
