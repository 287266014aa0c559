//! Large responses: compressed, and split over further items of the table if one item cannot hold them.
//!
//! The engine and the protocol see a plain [`Data`]. This module decides how its text is stored:
//!
//! | form | `data` | extra attributes |
//! |---|---|---|
//! | plain: at most the threshold | the text itself | none |
//! | compressed | [`COMPRESSED`] | `data_zstd`: the text, compressed with zstd |
//! | split | [`SPLIT`] | `data_pieces`: a [`Manifest`]; the bytes are in further items, the pieces |
//!
//! `data` always has a value, so that conditions on it hold, and says which of the other attributes counts: a program that
//! replaces only `data` leaves the others behind. Its texts are not JSON, so that a library in another language fails instead
//! of replaying nothing.

use std::borrow::Cow;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::compression::{DEFAULT_THRESHOLD, compress, decompress};
use idempotency_core::record::{Attribute, Data};

use self::manifest::{Encoding, PIECE_BYTES};
use crate::item;
use crate::limits::LARGEST_RESPONSE;
use crate::names::{AttributeNames, ExtraAttribute};
use crate::value::{Item, Value};

mod manifest;

pub use manifest::record_of_piece;
pub(crate) use manifest::{Manifest, PieceName};

/// A text that fits one item beside keys, names and the other attributes, however long these are.
const ALWAYS_FITS: usize = 256 * 1024;

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
            compress_above: DEFAULT_THRESHOLD,
            split: true,
        }
    }
}

impl Settings {
    /// Returns true if a text of so many bytes may need another form than the plain one.
    pub(crate) fn concern(self, bytes: usize) -> bool {
        bytes > ALWAYS_FITS || self.compress_above.is_some_and(|above| bytes > above)
    }
}

// The form of a stored response: chosen before a write, and recognised in an item that was read.

/// The form of a response in the table.
pub(crate) enum Form<'a> {
    /// The text itself, in `data`.
    Plain,
    /// Compressed, in `data_zstd`.
    Compressed(Vec<u8>),
    /// In pieces, which are written before the record.
    Split(Pieces<'a>),
}

/// The bytes of a split response, and their description.
pub(crate) struct Pieces<'a> {
    bytes: Cow<'a, [u8]>,
    pub(crate) manifest: Manifest,
    /// The text of `data_pieces`.
    json: String,
}

impl<'a> Pieces<'a> {
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
    /// Chooses the form of a response. `None` if its text is longer than any response that Lambda returns.
    ///
    /// `room` is what one item has left for `data` and the names and values of the extra attributes, in bytes. `can_split` is
    /// false if the ids of pieces would be too long.
    pub(crate) fn of(
        data: &'a Data,
        settings: Settings,
        names: &AttributeNames,
        room: usize,
        can_split: bool,
    ) -> Option<Self> {
        let text = data.as_str();
        let compresses = settings
            .compress_above
            .is_some_and(|above| text.len() > above);
        let plain = names.data.len() + text.len();
        let splits = settings.split && can_split;
        if !compresses && (plain <= room || !splits) {
            return Some(Self::Plain);
        }
        if text.len() > LARGEST_RESPONSE {
            return None;
        }
        // It must be smaller as an attribute: with its name, and with the text in `data`.
        let overhead = COMPRESSED.len() + names.data_zstd.len();
        let compressed = compresses
            .then(|| compress(text, text.len().saturating_sub(overhead)))
            .flatten();
        let length = compressed
            .as_ref()
            .map_or(plain, |bytes| names.data.len() + overhead + bytes.len());
        let fits = length <= room || !splits;
        Some(match compressed {
            Some(bytes) if fits => Self::Compressed(bytes),
            None if fits => Self::Plain,
            Some(bytes) => Self::Split(Pieces::of(Cow::Owned(bytes), Encoding::Zstd, text.len())),
            None => {
                let bytes = Cow::Borrowed(text.as_bytes());
                Self::Split(Pieces::of(bytes, Encoding::Text, text.len()))
            }
        })
    }

    /// Chooses the form of the result of a step: plain or compressed. It is in the record in both cases. `None` if it is too long.
    pub(crate) fn of_step(result: &Data, settings: Settings) -> Option<Self> {
        let text = result.as_str();
        if text.len() > LARGEST_RESPONSE {
            return None;
        }
        let compresses = settings.compress_above;
        let compresses = compresses.is_some_and(|above| text.len() > above);
        let compressed = compresses.then(|| compress(text, text.len())).flatten();
        Some(compressed.map_or(Self::Plain, Self::Compressed))
    }
}

impl Form<'_> {
    /// Returns the attribute as it is written: `data` contains the text of this form instead of the response.
    pub(crate) fn apply<'a>(
        &self,
        (attribute, value): (Attribute, Value<'a>),
    ) -> (Attribute, Value<'a>) {
        let mark = match self {
            Self::Compressed(_) if attribute == Attribute::Data => COMPRESSED,
            Self::Split(_) if attribute == Attribute::Data => SPLIT,
            _ => return (attribute, value),
        };
        (attribute, Value::Text(mark))
    }

    /// Returns the result of a step as it is written.
    pub(crate) fn step<'a>(&'a self, result: &'a Data) -> Value<'a> {
        match self {
            Self::Compressed(bytes) => Value::Bytes(bytes),
            Self::Plain | Self::Split(_) => Value::Text(result.as_str()),
        }
    }

    /// Returns the attribute beside `data`.
    pub(crate) fn extra(&self) -> Option<(ExtraAttribute, Value<'_>)> {
        match self {
            Self::Plain => None,
            Self::Compressed(bytes) => Some((ExtraAttribute::Compressed, Value::Bytes(bytes))),
            Self::Split(stored) => Some((ExtraAttribute::Pieces, Value::Text(&stored.json))),
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
    /// Takes the response out of the item, together with the text in `data`, if `data` is not the response itself.
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodb::primitives::Blob;
    use aws_sdk_dynamodb::types::AttributeValue;
    use idempotency_core::record::{Attribute, Data, RecordId};

    use super::manifest::PIECE_BYTES;
    use super::*;
    use crate::value::to_value;

    /// The room of an item without other attributes.
    const ROOM: usize = 400 * 1024;

    fn settings(compress_above: Option<usize>, split: bool) -> Settings {
        Settings {
            compress_above,
            split,
        }
    }

    /// Returns a text of random characters of four bytes each. Compression makes it only a little smaller.
    fn random(bytes: usize) -> Data {
        let mut random = fastrand::Rng::with_seed(7);
        let mut text = String::with_capacity(bytes);
        while text.len() < bytes {
            let wide = random.char('\u{1_0000}'..='\u{10_FFFF}');
            text.push(if bytes - text.len() >= 4 { wide } else { 'x' });
        }
        Data::new(text)
    }

    fn form(data: &Data, settings: Settings, room: usize) -> Form<'_> {
        Form::of(data, settings, &AttributeNames::default(), room, true).unwrap()
    }

    fn split<'a>(form: &'a Form<'a>) -> &'a Pieces<'a> {
        match form {
            Form::Split(stored) => stored,
            _ => panic!("it is not split"),
        }
    }

    /// Returns the name of the form of a response in an item with this room.
    fn kind(data: &Data, compress_above: Option<usize>, split: bool, room: usize) -> &'static str {
        let settings = settings(compress_above, split);
        match Form::of(data, settings, &AttributeNames::default(), room, true) {
            Some(Form::Plain) => "plain",
            Some(Form::Compressed(_)) => "compressed",
            Some(Form::Split(_)) => "split",
            None => "too long",
        }
    }

    fn text_of(form: &Form<'_>, extra: &str) -> Item {
        let (_, value) = form.extra().unwrap();
        let data = form.apply((Attribute::Data, Value::Text("the response"))).1;
        HashMap::from([
            ("data".to_owned(), to_value(data)),
            (extra.to_owned(), to_value(value)),
        ])
    }

    #[test]
    fn a_response_has_the_form_of_its_row() {
        let digits = Data::new(r#"{"id":"9b2c6f0e-2f4e-4d0a-8a5e-0b7f9b1c2d3e","sum":1047}"#);
        let text = |bytes| Data::new("x".repeat(bytes));
        let wide = random(300_000);
        let plain = "data".len() + 300_000;
        let (largest, longer) = (text(LARGEST_RESPONSE), text(LARGEST_RESPONSE + 1));
        for (data, compress_above, split, room, expected) in [
            // It does not become smaller: a short text does not, because of the text in `data`.
            (&text(COMPRESSED.len()), Some(0), true, ROOM, "plain"),
            (&digits, Some(0), true, ROOM, "plain"),
            // It is split if it exceeds the room by one byte.
            (&wide, None, true, plain, "plain"),
            (&wide, None, true, plain - 1, "split"),
            (&wide, None, false, plain - 1, "plain"),
            // Lambda's limit.
            (&largest, None, true, ROOM, "split"),
            (&longer, None, true, ROOM, "too long"),
            (&longer, Some(16_384), true, ROOM, "too long"),
            // Without splitting: the item is too large, and the store refuses it.
            (&longer, None, false, ROOM, "plain"),
        ] {
            let form = kind(data, compress_above, split, room);
            assert_eq!(form, expected, "{compress_above:?} {split} {room}");
        }
        assert_ne!(kind(&largest, Some(16_384), true, ROOM), "too long");
        let step = |result| Form::of_step(result, settings(None, true));
        assert!(step(&largest).is_some() && step(&longer).is_none());
        // The ids of its pieces would be too long.
        let (set, names) = (settings(None, true), AttributeNames::default());
        let no_ids = Form::of(&wide, set, &names, 0, false);
        assert!(matches!(no_ids, Some(Form::Plain)));
    }

    #[test]
    fn a_split_response_reads_back_with_a_last_piece_of_any_length() {
        let last = [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1];
        for bytes in last.into_iter().chain([2 * PIECE_BYTES, LARGEST_RESPONSE]) {
            let data = Data::new("x".repeat(bytes));
            let form = form(&data, settings(None, true), 1_000);
            let stored = split(&form);
            let lengths: Vec<_> = stored.pieces().map(<[u8]>::len).collect();
            assert_eq!(lengths.len(), bytes.div_ceil(PIECE_BYTES));
            assert_eq!(lengths.len(), stored.manifest.pieces());
            for (index, length) in lengths.iter().enumerate() {
                assert_eq!(*length, stored.manifest.length(index));
            }
            assert_eq!(stored.manifest.length(lengths.len()), 0);
            let mut item = text_of(&form, "data_pieces");
            let ItemForm::Split(read) = ItemForm::of(&mut item, &AttributeNames::default()) else {
                panic!("it is split");
            };
            assert_eq!(read, stored.manifest);
            let all: Vec<u8> = stored.pieces().flatten().copied().collect();
            assert!(read.response(all.clone()) == Ok(data));
            let mut damaged = all.clone();
            damaged[bytes / 2] ^= 1;
            let damaged = read.response(damaged).unwrap_err();
            assert_eq!(damaged, "a piece of its response is damaged");
            assert!(read.response(all[1..].to_vec()).is_err());
        }
    }

    #[test]
    fn only_a_text_that_may_not_fit_one_item_concerns_the_forms_if_none_is_compressed() {
        let set = settings(None, true);
        assert!(!set.concern(ALWAYS_FITS) && set.concern(ALWAYS_FITS + 1));
    }

    #[test]
    fn a_form_changes_no_attribute_but_the_response() {
        let wide = random(500_000);
        let status = (Attribute::Status, Value::Text("COMPLETED"));
        let split = form(&wide, settings(None, true), 1_000);
        for form in [Form::Plain, Form::Compressed(vec![1]), split] {
            assert_eq!(form.apply(status), status);
        }
        let names = AttributeNames::default();
        assert_eq!(names.extra(ExtraAttribute::Compressed), "data_zstd");
        assert_eq!(names.extra(ExtraAttribute::Pieces), "data_pieces");
    }

    #[test]
    fn a_split_response_has_this_stored_form() {
        let data = Data::new("x".repeat(PIECE_BYTES + 1));
        let form = form(&data, settings(None, true), 1_000);
        let stored = split(&form);
        assert_eq!(
            form.extra().unwrap().1,
            Value::Text(
                r#"{"bytes":405505,"encoding":"text","pieces":2,"sha256":"5832ab9a87012c77cb69d925b75357e2fb136128f3b91cdabd17dd3a59fa6c59","text":405505}"#
            )
        );
        let id = RecordId::new("shop.charge#42b7b4f2921788ea14dac5566e6f06d0");
        let piece = stored.manifest.piece(&id, 1).to_string();
        assert_eq!(
            piece,
            "shop.charge#42b7b4f2921788ea14dac5566e6f06d0#5832ab9a87012c77cb69d925b75357e2fb136128f3b91cdabd17dd3a59fa6c59.0001"
        );
        assert_eq!(piece.len(), id.as_str().len() + PieceName::MORE_BYTES);
        assert_eq!(
            form.apply((Attribute::Data, Value::Text("x"))).1,
            Value::Text(
                "split over the items of data_pieces; on a table shared with another language set IDEMPOTENCY_LARGE_RESPONSES=off"
            )
        );
    }

    #[test]
    fn a_manifest_that_no_version_wrote_is_not_read() {
        let digest = "0".repeat(64);
        let (short, no_hex) = (&"0".repeat(63), &"G".repeat(64));
        for (name, is_read, bytes, pieces, text, encoding, sha256) in [
            ("plain", true, 405_505, 2, 405_505, "text", &digest),
            ("compressed", true, 405_505, 2, 6_291_556, "zstd", &digest),
            ("its pieces", false, 405_505, 1, 405_505, "text", &digest),
            ("over its text", false, 405_505, 2, 405_504, "text", &digest),
            ("too long", false, 405_505, 2, 6_291_557, "zstd", &digest),
            ("empty", false, 0, 0, 1, "text", &digest),
            ("its encoding", false, 405_505, 2, 405_505, "gzip", &digest),
            ("a short digest", false, 405_505, 2, 405_505, "text", short),
            ("no digest", false, 405_505, 2, 405_505, "text", no_hex),
        ] {
            let json = serde_json::json!({
                "bytes": bytes, "pieces": pieces, "text": text, "encoding": encoding, "sha256": sha256,
            });
            let manifest = Manifest::from_json(&json.to_string());
            assert_eq!(manifest.is_some(), is_read, "{name}");
        }
        for text in ["", "{}", "null", "[]", "{\"bytes\":-1}"] {
            assert_eq!(Manifest::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn a_response_whose_attribute_is_missing_or_of_another_type_is_damaged() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        for (data, name, value) in [
            (COMPRESSED, "other", text("x")),
            (COMPRESSED, "data_zstd", text("x")),
            (SPLIT, "other", text("x")),
            (SPLIT, "data_pieces", text("x")),
            (SPLIT, "data_pieces", AttributeValue::B(Blob::new([1]))),
        ] {
            let mut item =
                HashMap::from([("data".to_owned(), text(data)), (name.to_owned(), value)]);
            let taken = ItemForm::of(&mut item, &AttributeNames::default());
            assert!(matches!(taken, ItemForm::Damaged(_)), "{data}, {name}");
            // It is never taken for a response.
            assert!(!item.contains_key("data"), "{data}, {name}");
        }
    }

    #[test]
    fn what_another_program_wrote_into_data_counts_alone() {
        let mut item = HashMap::from([
            ("data".to_owned(), AttributeValue::S("42".to_owned())),
            ("data_zstd".to_owned(), AttributeValue::B(Blob::new([1]))),
            ("data_pieces".to_owned(), AttributeValue::S("{}".to_owned())),
        ]);
        let form = ItemForm::of(&mut item, &AttributeNames::default());
        assert!(matches!(form, ItemForm::Plain));
        assert_eq!(item["data"], AttributeValue::S("42".to_owned()));
    }

    /// What needs the feature `zstd`.
    #[cfg(feature = "zstd")]
    mod compressed {
        use super::*;

        #[test]
        fn a_text_up_to_the_threshold_is_plain_and_one_byte_more_is_compressed() {
            for above in [0, 100, 16_384] {
                let set = settings(Some(above), true);
                let at = Data::new("x".repeat(above));
                assert_eq!(kind(&at, Some(above), true, ROOM), "plain", "{above}");
                assert!(!set.concern(above) && set.concern(above + 1));
            }
            let more = Data::new("x".repeat(16_385));
            assert_eq!(kind(&more, Some(16_384), true, ROOM), "compressed");
            assert_eq!(kind(&more, None, true, ROOM), "plain");
        }

        #[test]
        fn a_compressed_response_reads_back() {
            for data in [random(20_000), Data::new("é".repeat(300_000))] {
                let form = form(&data, settings(Some(16_384), true), ROOM);
                let mut item = text_of(&form, "data_zstd");
                assert_eq!(item["data"], AttributeValue::S(COMPRESSED.to_owned()));
                let form = ItemForm::of(&mut item, &AttributeNames::default());
                let ItemForm::Compressed(bytes) = form else {
                    panic!("it is compressed");
                };
                assert!(item.is_empty());
                assert!(decompress(&bytes, LARGEST_RESPONSE).as_deref() == Ok(data.as_str()));
            }
        }

        #[test]
        fn a_compressed_response_has_this_stored_form() {
            let data = Data::new(format!("[{}0]", "0,".repeat(50)));
            // The text in `data` takes more than compression saves.
            assert_eq!(kind(&data, Some(100), true, ROOM), "plain");
            let data = Data::new(format!("[{}0]", "0,".repeat(200)));
            let form = form(&data, settings(Some(100), true), ROOM);
            let Form::Compressed(bytes) = &form else {
                panic!("it is compressed");
            };
            // The format of zstd is frozen; other versions can compress to other bytes, and read these.
            let golden = [
                40, 181, 47, 253, 96, 147, 0, 93, 0, 0, 32, 91, 48, 44, 93, 1, 0, 140, 169, 110, 8,
            ];
            assert_eq!(
                decompress(&golden, LARGEST_RESPONSE).as_deref(),
                Ok(data.as_str()),
                "{bytes:?}"
            );
            assert_eq!(
                form.apply((Attribute::Data, Value::Text("x"))).1,
                Value::Text(
                    "compressed in data_zstd; on a table shared with another language set IDEMPOTENCY_COMPRESS_ABOVE=off"
                )
            );
        }

        #[test]
        fn compressed_bytes_that_exceed_the_room_by_one_byte_are_split() {
            let data = random(300_000);
            let names = "data".len() + COMPRESSED.len() + "data_zstd".len();
            let Form::Compressed(bytes) = form(&data, settings(Some(16_384), true), ROOM) else {
                panic!("it fits");
            };
            let room = names + bytes.len();
            assert_eq!(kind(&data, Some(16_384), true, room), "compressed");
            assert_eq!(kind(&data, Some(16_384), true, room - 1), "split");
            // Not split: it stays compressed, and is too large.
            assert_eq!(kind(&data, Some(16_384), false, room - 1), "compressed");
        }

        #[test]
        fn a_compressed_response_is_split_too() {
            let data = random(2_000_000);
            let form = form(&data, settings(Some(16_384), true), ROOM);
            let stored = split(&form);
            assert!(stored.manifest.bytes() < 2_000_000);
            let all: Vec<u8> = stored.pieces().flatten().copied().collect();
            assert!(stored.manifest.response(all) == Ok(data));
        }
    }

    /// What a program does without it.
    #[cfg(not(feature = "zstd"))]
    mod without_zstd {
        use super::super::manifest::Encoding;
        use super::*;

        #[test]
        fn nothing_is_compressed_and_what_does_not_fit_one_item_is_split_as_it_is() {
            let settings = Settings::default();
            assert_eq!(settings.compress_above, None);
            assert!(idempotency_core::compression::check(settings.compress_above).is_ok());
            let large = Data::new("x".repeat(100_000));
            assert!(!settings.concern(100_000));
            assert!(matches!(form(&large, settings, ROOM), Form::Plain));
            let larger = Data::new("x".repeat(500_000));
            let form = form(&larger, settings, ROOM);
            let stored = split(&form);
            let all: Vec<u8> = stored.pieces().flatten().copied().collect();
            assert!(stored.manifest.response(all) == Ok(larger.clone()));
        }

        #[test]
        fn a_compressed_response_is_refused_with_the_name_of_the_feature() {
            let refused = "its response is compressed, and this program was built without the feature `zstd`: \
                       enable the feature";
            assert_eq!(decompress(&[40, 181, 47, 253], 9).unwrap_err(), refused);
            let bytes = b"[0]".to_vec();
            let stored = Manifest::of(&bytes, Encoding::Zstd, 3);
            assert_eq!(stored.response(bytes).unwrap_err(), refused);
        }
    }
}
