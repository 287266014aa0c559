//! The manifest of a split response: what `data_pieces` contains, and the ids of the pieces.
//!
//! A piece is named by the digest of all bytes and its index, so its content never changes. Two owners that write the same
//! response write the same pieces; two owners with different responses never mix.

use std::fmt;

use idempotency_core::record::RecordId;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::limits::LARGEST_RESPONSE;

/// The bytes of every piece but the last: 396 KiB. With its key, its names and its expiration a piece fits an item of 400 KB.
///
/// A part of the stored format: with another cut the same id would name other bytes.
pub(crate) const PIECE_BYTES: usize = 396 * 1024;

/// What the stored bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The text itself.
    Text,
    /// The text, compressed with zstd.
    Zstd,
}

impl Encoding {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Zstd => "zstd",
        }
    }
}

/// The pieces of a response, as the completed record names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The SHA-256 digest of the stored bytes, in hexadecimal digits.
    digest: String,
    pub(super) encoding: Encoding,
    /// The length of the stored bytes, of all pieces together.
    bytes: usize,
    /// The length of the text.
    pub(super) text: usize,
}

impl Manifest {
    /// Describes these bytes.
    pub(super) fn of(bytes: &[u8], encoding: Encoding, text: usize) -> Self {
        Self {
            digest: digest(bytes),
            encoding,
            bytes: bytes.len(),
            text,
        }
    }

    /// Returns the number of pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.bytes.div_ceil(PIECE_BYTES)
    }

    /// Returns the length of the stored bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the length of a piece, in bytes. It is zero after the last one.
    pub(crate) fn length(&self, index: usize) -> usize {
        let before = index.saturating_mul(PIECE_BYTES);
        self.bytes.saturating_sub(before).min(PIECE_BYTES)
    }

    /// Returns the id of a piece of the record `id`.
    pub(crate) fn piece<'a>(&'a self, id: &'a RecordId, index: usize) -> PieceName<'a> {
        PieceName {
            id,
            digest: &self.digest,
            index,
        }
    }

    /// Returns true if these are the stored bytes.
    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes && digest(bytes) == self.digest
    }

    /// Returns the text of `data_pieces`.
    pub(crate) fn to_json(&self) -> String {
        json!({
            "bytes": self.bytes,
            "encoding": self.encoding.name(),
            "pieces": self.pieces(),
            "sha256": self.digest,
            "text": self.text,
        })
        .to_string()
    }

    /// Reads the text of `data_pieces`. `None` if it is not a manifest that this version writes.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |name: &str| usize::try_from(value.get(name)?.as_u64()?).ok();
        let name = value.get("encoding")?.as_str()?;
        let encodings = [Encoding::Text, Encoding::Zstd];
        let manifest = Self {
            digest: value.get("sha256")?.as_str()?.to_owned(),
            encoding: encodings.into_iter().find(|known| known.name() == name)?,
            bytes: number("bytes")?,
            text: number("text")?,
        };
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let good = manifest.digest.len() == 64
            && manifest.digest.bytes().all(hex)
            && (1..=manifest.text).contains(&manifest.bytes)
            && manifest.text <= LARGEST_RESPONSE
            && number("pieces") == Some(manifest.pieces());
        good.then_some(manifest)
    }
}

/// The id of a piece: `{record id}#{digest}.{index}`. It cannot be the id of a record, because those end with a hexadecimal
/// digest. It begins with the record id, so an IAM condition on leading keys that admits the record admits its pieces.
#[derive(Clone, Copy)]
pub(crate) struct PieceName<'a> {
    id: &'a RecordId,
    digest: &'a str,
    index: usize,
}

impl fmt::Display for PieceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{:04}", self.id, self.digest, self.index)
    }
}

impl PieceName<'_> {
    /// The number of bytes by which the id of a piece is longer than the id of its record.
    pub(crate) const MORE_BYTES: usize = "#".len() + 64 + ".0000".len();
}

/// Returns the id of the record to which the item with this id belongs, if it is a piece of a large response.
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::record_of_piece;
/// let piece = format!("shop.charge#42b7#{}.0003", "0".repeat(64));
/// assert_eq!(record_of_piece(&piece), Some("shop.charge#42b7"));
/// assert_eq!(record_of_piece("shop.charge#42b7"), None);
/// ```
pub fn record_of_piece(id: &str) -> Option<&str> {
    let (record, piece) = id.rsplit_once('#')?;
    let (digest, index) = piece.split_once('.')?;
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_piece = digest.len() == 64
        && digest.bytes().all(hex)
        && index.len() == 4
        && index.bytes().all(|byte| byte.is_ascii_digit());
    is_piece.then_some(record)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_piece_names_a_record() {
        let (digest, short) = ("0a".repeat(32), "0a".repeat(31));
        for (id, record) in [
            (
                format!("shop.charge#42b7#{digest}.0003"),
                Some("shop.charge#42b7"),
            ),
            (format!("shop.charge#42b7#{short}.0003"), None),
            (
                format!("shop.charge#42b7#{}.0003", digest.to_uppercase()),
                None,
            ),
            (format!("shop.charge#42b7#{digest}.003"), None),
            (format!("shop.charge#42b7#{digest}.000a"), None),
            (format!("shop.charge#42b7#{digest}"), None),
            ("shop.charge#42b7".to_owned(), None),
            (format!("{digest}.0003"), None),
        ] {
            assert_eq!(record_of_piece(&id), record, "{id}");
        }
    }
}
