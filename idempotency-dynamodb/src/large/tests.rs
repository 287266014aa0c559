use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{Data, RecordId};

use super::manifest::PIECE_BYTES;
use super::*;
use crate::config::AttributeNames;
use crate::item::Item;
use crate::request::Value;

/// The room of an item without other attributes.
const ROOM: usize = 400 * 1024;

fn settings(compress_above: Option<usize>, split: bool) -> Settings {
    Settings {
        compress_above,
        split,
    }
}

/// Returns a text that no compression makes smaller, of ASCII letters and more: each byte is a random one of 64, or of 2^15.
fn random(bytes: usize) -> Data {
    let mut state = 7_u64;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let wide = char::from_u32(0x1_0000 + (state as u32 & 0xF_FFFF))
            .filter(|_| bytes - text.len() >= 4);
        text.push(wide.unwrap_or('x'));
    }
    Data::new(text)
}

fn form(data: &Data, settings: Settings, room: usize) -> Form<'_> {
    Form::of(data, settings, &AttributeNames::default(), room, true)
}

fn text_of(form: &Form<'_>, further: &str) -> Item {
    let (_, value) = form.further().unwrap();
    let data = form.apply((Attribute::Data, Value::Text("the response"))).1;
    HashMap::from([
        ("data".to_owned(), crate::transport::to_value(data)),
        (further.to_owned(), crate::transport::to_value(value)),
    ])
}

use idempotency_core::record::Attribute;

#[test]
fn a_text_that_does_not_become_smaller_is_plain() {
    // Random text of 20 bits in four bytes becomes smaller; a short text does not, because of the text in `data`.
    let short = Data::new("x".repeat(COMPRESSED.len()));
    assert!(matches!(
        form(&short, settings(Some(0), true), ROOM),
        Form::Plain
    ));
    let digits = Data::new(r#"{"id":"9b2c6f0e-2f4e-4d0a-8a5e-0b7f9b1c2d3e","sum":1047}"#);
    assert!(matches!(
        form(&digits, settings(Some(0), true), ROOM),
        Form::Plain
    ));
}

#[test]
fn a_text_that_exceeds_the_room_by_one_byte_is_split() {
    let data = random(300_000);
    let plain = "data".len() + 300_000;
    assert!(matches!(
        form(&data, settings(None, true), plain),
        Form::Plain
    ));
    assert!(matches!(
        form(&data, settings(None, true), plain - 1),
        Form::Split(_)
    ));
    assert!(matches!(
        form(&data, settings(None, false), plain - 1),
        Form::Plain
    ));
    let no_ids = Form::of(
        &data,
        settings(None, true),
        &AttributeNames::default(),
        0,
        false,
    );
    assert!(
        matches!(no_ids, Form::Plain),
        "the ids of its pieces would be too long"
    );
}

#[test]
fn a_text_longer_than_lambdas_limit_has_no_form() {
    let largest = Data::new("x".repeat(LARGEST_TEXT));
    let longer = Data::new("x".repeat(LARGEST_TEXT + 1));
    for compress_above in [None, Some(16_384)] {
        let set = settings(compress_above, true);
        assert!(!matches!(form(&largest, set, ROOM), Form::TooLong));
        assert!(matches!(form(&longer, set, ROOM), Form::TooLong));
    }
    // As before: the item is too large, which the store finds out.
    assert!(matches!(
        form(&longer, settings(None, false), ROOM),
        Form::Plain
    ));
}

#[test]
fn a_split_response_reads_back_with_a_last_piece_of_any_length() {
    for bytes in [
        PIECE_BYTES - 1,
        PIECE_BYTES,
        PIECE_BYTES + 1,
        2 * PIECE_BYTES,
        LARGEST_TEXT,
    ] {
        let data = Data::new("x".repeat(bytes));
        let form = form(&data, settings(None, true), 1_000);
        let Form::Split(stored) = &form else {
            panic!("it is split");
        };
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
        assert_eq!(
            read.response(damaged).unwrap_err(),
            "a piece of its response is damaged"
        );
        assert!(read.response(all[1..].to_vec()).is_err());
    }
}

#[test]
fn a_split_response_has_this_stored_form() {
    let data = Data::new("x".repeat(PIECE_BYTES + 1));
    let form = form(&data, settings(None, true), 1_000);
    let Form::Split(stored) = &form else {
        panic!("it is split");
    };
    assert_eq!(
        form.further().unwrap().1,
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
    let good = |bytes: u64, pieces: u64, text: u64, encoding: &str, digest: &str| {
        let json = serde_json::json!({
            "bytes": bytes, "pieces": pieces, "text": text, "encoding": encoding, "sha256": digest,
        });
        Manifest::from_json(&json.to_string()).is_some()
    };
    assert!(good(405_505, 2, 405_505, "text", &digest));
    assert!(good(405_505, 2, 6_291_556, "zstd", &digest));
    assert!(!good(405_505, 1, 405_505, "text", &digest), "its pieces");
    assert!(
        !good(405_505, 2, 405_504, "text", &digest),
        "longer than its text"
    );
    assert!(
        !good(405_505, 2, 6_291_557, "zstd", &digest),
        "longer than any text"
    );
    assert!(!good(0, 0, 1, "text", &digest), "empty");
    assert!(!good(405_505, 2, 405_505, "gzip", &digest), "its encoding");
    assert!(
        !good(405_505, 2, 405_505, "text", &"0".repeat(63)),
        "its digest"
    );
    assert!(
        !good(405_505, 2, 405_505, "text", &"G".repeat(64)),
        "its digest"
    );
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
        let mut item = HashMap::from([("data".to_owned(), text(data)), (name.to_owned(), value)]);
        let taken = ItemForm::of(&mut item, &AttributeNames::default());
        assert!(matches!(taken, ItemForm::Damaged(_)), "{data}, {name}");
        assert!(
            !item.contains_key("data"),
            "it is never taken for a response"
        );
    }
}

#[test]
fn what_another_program_wrote_into_data_counts_alone() {
    let mut item = HashMap::from([
        ("data".to_owned(), AttributeValue::S("42".to_owned())),
        ("data_zstd".to_owned(), AttributeValue::B(Blob::new([1]))),
        ("data_pieces".to_owned(), AttributeValue::S("{}".to_owned())),
    ]);
    assert!(matches!(
        ItemForm::of(&mut item, &AttributeNames::default()),
        ItemForm::Plain
    ));
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
            assert!(matches!(form(&at, set, ROOM), Form::Plain), "{above}");
            assert!(!set.concern(above) && set.concern(above + 1));
        }
        let more = Data::new("x".repeat(16_385));
        let set = settings(Some(16_384), true);
        assert!(matches!(form(&more, set, ROOM), Form::Compressed(_)));
        assert!(matches!(
            form(&more, settings(None, true), ROOM),
            Form::Plain
        ));
    }

    #[test]
    fn a_compressed_response_reads_back() {
        for data in [random(20_000), Data::new("é".repeat(300_000))] {
            let form = form(&data, settings(Some(16_384), true), ROOM);
            let mut item = text_of(&form, "data_zstd");
            assert_eq!(item["data"], AttributeValue::S(COMPRESSED.to_owned()));
            let ItemForm::Compressed(bytes) = ItemForm::of(&mut item, &AttributeNames::default())
            else {
                panic!("it is compressed");
            };
            assert!(item.is_empty());
            assert!(decompressed(&bytes) == Ok(data.clone()));
        }
    }

    #[test]
    fn a_compressed_response_has_this_stored_form() {
        let data = Data::new(format!("[{}0]", "0,".repeat(50)));
        let form = form(&data, settings(Some(100), true), ROOM);
        let Form::Plain = form else {
            panic!("the text in `data` takes more than compression saves");
        };
        let data = Data::new(format!("[{}0]", "0,".repeat(200)));
        let form = self::form(&data, settings(Some(100), true), ROOM);
        let Form::Compressed(bytes) = &form else {
            panic!("it is compressed");
        };
        // The format of zstd is frozen; other versions can compress to other bytes, and read these.
        let golden = [
            40, 181, 47, 253, 96, 147, 0, 93, 0, 0, 32, 91, 48, 44, 93, 1, 0, 140, 169, 110, 8,
        ];
        assert_eq!(decompressed(&golden), Ok(data.clone()), "{bytes:?}");
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
        assert!(matches!(
            form(&data, settings(Some(16_384), true), room),
            Form::Compressed(_)
        ));
        assert!(matches!(
            form(&data, settings(Some(16_384), true), room - 1),
            Form::Split(_)
        ));
        // Not split: it stays compressed, and is too large.
        assert!(matches!(
            form(&data, settings(Some(16_384), false), room - 1),
            Form::Compressed(_)
        ));
    }

    #[test]
    fn a_compressed_response_is_split_too() {
        let data = random(2_000_000);
        let form = form(&data, settings(Some(16_384), true), ROOM);
        let Form::Split(stored) = &form else {
            panic!("it is split");
        };
        assert!(stored.manifest.bytes() < 2_000_000);
        let all: Vec<u8> = stored.pieces().flatten().copied().collect();
        assert!(stored.manifest.response(all) == Ok(data));
    }

    #[test]
    fn bytes_that_are_no_frame_or_whose_text_is_too_long_are_refused() {
        let frame = |text: &[u8]| zstd::bulk::compress(text, 1).unwrap();
        assert_eq!(
            decompressed(&[]).unwrap_err(),
            "its compressed response is damaged"
        );
        assert_eq!(
            decompressed(b"{}").unwrap_err(),
            "its compressed response is damaged"
        );
        let mut cut = frame("x".repeat(1_000).as_bytes());
        cut.pop();
        assert_eq!(
            decompressed(&cut).unwrap_err(),
            "its compressed response is damaged"
        );
        assert_eq!(
            decompressed(&frame(&[0xff; 100])).unwrap_err(),
            "its compressed response is not UTF-8"
        );
        // A bomb: a few hundred bytes that would become more than any response.
        let bomb = frame(&vec![b' '; LARGEST_TEXT + 1]);
        assert!(bomb.len() < 1_000);
        assert_eq!(
            decompressed(&bomb).unwrap_err(),
            "its compressed response is longer than any response can be"
        );
        assert_eq!(
            decompressed(&frame(&vec![b' '; LARGEST_TEXT]))
                .unwrap()
                .as_str()
                .len(),
            LARGEST_TEXT
        );
        // A frame without its length, as a stream writes it.
        let stream = zstd::stream::encode_all(&b"xxxx"[..], 1).unwrap();
        assert_eq!(
            decompressed(&stream).unwrap_err(),
            "its compressed response is damaged"
        );
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
        assert_eq!(settings.check(), Ok(()));
        let large = Data::new("x".repeat(100_000));
        assert!(!settings.concern(100_000));
        assert!(matches!(form(&large, settings, ROOM), Form::Plain));
        let larger = Data::new("x".repeat(500_000));
        let form = form(&larger, settings, ROOM);
        let Form::Split(stored) = &form else {
            panic!("it does not fit one item");
        };
        let all: Vec<u8> = stored.pieces().flatten().copied().collect();
        assert!(stored.manifest.response(all) == Ok(larger.clone()));
    }

    #[test]
    fn a_threshold_is_an_error_that_names_the_feature_and_the_variable() {
        let error = settings(Some(16_384), true).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "responses cannot be compressed, because the feature `zstd` of idempotency-dynamodb is not compiled in: enable it, \
         or set IDEMPOTENCY_COMPRESS_ABOVE=off"
        );
    }

    #[test]
    fn a_compressed_response_is_refused_with_the_name_of_the_feature() {
        let refused = "its response is compressed, and this program was built without the feature `zstd` of \
                   idempotency-dynamodb: enable the feature";
        assert_eq!(decompressed(&[40, 181, 47, 253]).unwrap_err(), refused);
        let bytes = b"[0]".to_vec();
        let stored = Manifest::of(&bytes, Encoding::Zstd, 3);
        assert_eq!(stored.response(bytes).unwrap_err(), refused);
    }
}
