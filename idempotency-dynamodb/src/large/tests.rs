#[cfg(feature = "zstd")]
mod compressed;
#[cfg(not(feature = "zstd"))]
mod without_zstd;

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{Data, RecordId};

use super::manifest::PIECE_BYTES;
use super::*;
use crate::attribute_names::AttributeNames;
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
        let Taken::Split(read) = Taken::of(&mut item, &AttributeNames::default()) else {
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
        let taken = Taken::of(&mut item, &AttributeNames::default());
        assert!(matches!(taken, Taken::Damaged(_)), "{data}, {name}");
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
        Taken::of(&mut item, &AttributeNames::default()),
        Taken::Plain
    ));
    assert_eq!(item["data"], AttributeValue::S("42".to_owned()));
}
