//! Large responses: compressed, and split over further items of the table if one item cannot hold them.
//!
//! The engine and the protocol see a plain [`Data`]. This module decides how its text is stored:
//!
//! | form | `data` | further attributes |
//! |---|---|---|
//! | plain: at most the threshold | the text itself | none |
//! | compressed | [`COMPRESSED`] | `data_zstd`: the text, compressed with zstd |
//! | split | [`SPLIT`] | `data_pieces`: a [`Manifest`]; the bytes are in further items, the pieces |
//!
//! `data` always has a value, so that conditions on it hold, and says which of the other attributes counts: a program that
//! replaces only `data` leaves the others behind. Its texts are not JSON, so that a library in another language fails instead
//! of replaying nothing.

mod compression;
mod form;
mod manifest;

pub(crate) use compression::{compressed_event, decompressed_event};
pub(crate) use form::{Form, ItemForm, Stored, decompressed, decompressed_up_to};
pub use manifest::record_of_piece;
pub(crate) use manifest::{Manifest, PieceName};

use idempotency_core::config::ConfigurationError;

/// The largest text of a response, in bytes: what Lambda accepts from a function.
pub(crate) const LARGEST_TEXT: usize = 6_291_556;

/// A text that fits one item beside keys, names and the other attributes, however long these are.
const ALWAYS_FITS: usize = 256 * 1024;

/// The threshold unless it is set, in bytes.
const COMPRESS_ABOVE: usize = 16 * 1024;

/// The `data` of a compressed response. A part of the stored format.
pub(crate) const COMPRESSED: &str = "compressed in data_zstd; on a table shared with another language set IDEMPOTENCY_COMPRESS_ABOVE=off";

/// The `data` of a split response. A part of the stored format.
pub(crate) const SPLIT: &str = "split over the items of data_pieces; on a table shared with another language set IDEMPOTENCY_LARGE_RESPONSES=off";

/// How large responses are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// A longer text is compressed. `None`: none is.
    pub(crate) compress_above: Option<usize>,
    /// True if a response that does not fit one item is split.
    pub(crate) split: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compress_above: compression::AVAILABLE.then_some(COMPRESS_ABOVE),
            split: true,
        }
    }
}

impl Settings {
    /// Returns true if a text of so many bytes may need another form than the plain one.
    pub(crate) fn concern(self, bytes: usize) -> bool {
        bytes > ALWAYS_FITS || self.compress_above.is_some_and(|above| bytes > above)
    }

    /// Checks that the program can do what is set.
    ///
    /// # Errors
    ///
    /// If a threshold is set, and the feature `zstd` is not compiled in.
    pub(crate) fn check(self) -> Result<(), ConfigurationError> {
        if self.compress_above.is_some() && !compression::AVAILABLE {
            return Err(ConfigurationError::new(
                "responses cannot be compressed, because the feature `zstd` of idempotency-dynamodb is not compiled in: \
                 enable it, or set IDEMPOTENCY_COMPRESS_ABOVE=off",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
