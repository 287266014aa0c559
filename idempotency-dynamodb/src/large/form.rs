//! The form of a stored response: chosen before a write, and recognised in an item that was read.

use std::borrow::Cow;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{Attribute, Data};

use super::compression::{compress, decompress};
use super::manifest::{Encoding, Manifest, PIECE_BYTES};
use super::{COMPRESSED, LARGEST_TEXT, SPLIT, Settings};
use crate::config::{AttributeNames, Further};
use crate::item::{self, Item};
use crate::request::Value;

/// The form of a response in the table.
pub(crate) enum Form<'a> {
    /// The text itself, in `data`.
    Plain,
    /// Compressed, in `data_zstd`.
    Compressed(Vec<u8>),
    /// In pieces, which are written before the record.
    Split(Stored<'a>),
    /// The text is longer than any response that Lambda returns.
    TooLong,
}

/// The bytes of a split response, and their description.
pub(crate) struct Stored<'a> {
    bytes: Cow<'a, [u8]>,
    pub(crate) manifest: Manifest,
    /// The text of `data_pieces`.
    json: String,
}

impl<'a> Stored<'a> {
    fn of(bytes: Cow<'a, [u8]>, encoding: Encoding, text: usize) -> Self {
        let manifest = Manifest::of(&bytes, encoding, text);
        Self {
            json: manifest.to_json(),
            bytes,
            manifest,
        }
    }

    /// Returns the content of each piece, in order.
    pub(crate) fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks(PIECE_BYTES)
    }
}

impl<'a> Form<'a> {
    /// Chooses the form of a response.
    ///
    /// `room` is what one item has left for `data` and the names and values of the further attributes, in bytes. `can_split` is
    /// false if the ids of pieces would be too long.
    pub(crate) fn of(
        data: &'a Data,
        settings: Settings,
        names: &AttributeNames,
        room: usize,
        can_split: bool,
    ) -> Self {
        let text = data.as_str();
        let compresses = settings
            .compress_above
            .is_some_and(|above| text.len() > above);
        let plain = names.data.len() + text.len();
        let splits = settings.split && can_split;
        if !compresses && (plain <= room || !splits) {
            return Self::Plain;
        }
        if text.len() > LARGEST_TEXT {
            return Self::TooLong;
        }
        let names_and_mark = names.data.len() + COMPRESSED.len() + names.data_zstd.len();
        // It must be smaller as an attribute: with its name, and with the text in `data`.
        let overhead = names_and_mark - names.data.len();
        let compressed = if compresses {
            compress(text, text.len().saturating_sub(overhead))
        } else {
            None
        };
        match compressed {
            Some(bytes) if names_and_mark + bytes.len() <= room || !splits => {
                Self::Compressed(bytes)
            }
            Some(bytes) => Self::Split(Stored::of(Cow::Owned(bytes), Encoding::Zstd, text.len())),
            None if plain <= room || !splits => Self::Plain,
            None => {
                let bytes = Cow::Borrowed(text.as_bytes());
                Self::Split(Stored::of(bytes, Encoding::Text, text.len()))
            }
        }
    }

    /// Chooses the form of the result of a step: plain or compressed. It is in the record in both cases.
    pub(crate) fn of_step(result: &Data, settings: Settings) -> Self {
        let text = result.as_str();
        if text.len() > LARGEST_TEXT {
            return Self::TooLong;
        }
        let compresses = settings.compress_above;
        let compresses = compresses.is_some_and(|above| text.len() > above);
        let compressed = compresses.then(|| compress(text, text.len())).flatten();
        compressed.map_or(Self::Plain, Self::Compressed)
    }

    /// Returns the text that `data` contains. `None`: the response itself.
    fn mark(&self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::TooLong => None,
            Self::Compressed(_) => Some(COMPRESSED),
            Self::Split(_) => Some(SPLIT),
        }
    }
}

impl Form<'_> {
    /// Returns the attribute as it is written: `data` contains the text of this form instead of the response.
    pub(crate) fn apply<'a>(
        &self,
        (attribute, value): (Attribute, Value<'a>),
    ) -> (Attribute, Value<'a>) {
        match self.mark() {
            Some(mark) if attribute == Attribute::Data => (attribute, Value::Text(mark)),
            _ => (attribute, value),
        }
    }

    /// Returns the result of a step as it is written.
    pub(crate) fn step<'a>(&'a self, result: &'a Data) -> Value<'a> {
        match self {
            Self::Compressed(bytes) => Value::Bytes(bytes),
            Self::Plain | Self::Split(_) | Self::TooLong => Value::Text(result.as_str()),
        }
    }

    /// Returns the attribute beside `data`.
    pub(crate) fn further(&self) -> Option<(Further, Value<'_>)> {
        match self {
            Self::Plain | Self::TooLong => None,
            Self::Compressed(bytes) => Some((Further::Compressed, Value::Bytes(bytes))),
            Self::Split(stored) => Some((Further::Pieces, Value::Text(&stored.json))),
        }
    }
}

/// The response of an item that was read, if it is not in `data` itself.
pub(crate) enum ItemForm {
    /// It is in `data`, or there is none.
    Plain,
    /// It is compressed.
    Compressed(Vec<u8>),
    /// It is in pieces.
    Split(Manifest),
    /// It cannot be read, and why.
    Damaged(&'static str),
}

impl ItemForm {
    /// Takes a response that is not in `data` itself out of the item, with the text in `data`.
    pub(crate) fn of(item: &mut Item, names: &AttributeNames) -> Self {
        let Some(AttributeValue::S(data)) = item.get(&names.data) else {
            return Self::Plain;
        };
        let taken = match data.as_str() {
            COMPRESSED => item::bytes(item, &names.data_zstd).map_or(
                Self::Damaged("its compressed response is missing"),
                Self::Compressed,
            ),
            SPLIT => match item.get(&names.data_pieces) {
                Some(AttributeValue::S(text)) => Manifest::from_json(text).map_or(
                    Self::Damaged("its `data_pieces` cannot be read"),
                    Self::Split,
                ),
                _ => Self::Damaged("its `data_pieces` is missing"),
            },
            _ => return Self::Plain,
        };
        item.remove(&names.data);
        taken
    }
}

/// Returns the response of compressed bytes.
///
/// # Errors
///
/// What is wrong with them.
pub(crate) fn decompressed(bytes: &[u8]) -> Result<Data, &'static str> {
    decompressed_up_to(bytes, LARGEST_TEXT)
}

/// Returns the text of the content of an attribute: at most so many bytes.
///
/// # Errors
///
/// What is wrong with the content.
pub(crate) fn decompressed_up_to(bytes: &[u8], at_most: usize) -> Result<Data, &'static str> {
    decompress(bytes, at_most).map(Data::new)
}

impl Manifest {
    /// Returns the response of the bytes of all pieces.
    ///
    /// # Errors
    ///
    /// What is wrong with them: they are not the bytes that were stored, or not a text of the length that was stored.
    pub(crate) fn response(&self, bytes: Vec<u8>) -> Result<Data, &'static str> {
        if !self.matches(&bytes) {
            return Err("a piece of its response is damaged");
        }
        let text = match self.encoding {
            Encoding::Zstd => decompress(&bytes, self.text)?,
            Encoding::Text => {
                String::from_utf8(bytes).map_err(|_| "its split response is not UTF-8")?
            }
        };
        if text.len() != self.text {
            return Err("its split response has another length");
        }
        Ok(Data::new(text))
    }
}
