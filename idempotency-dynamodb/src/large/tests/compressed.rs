//! What needs the feature `zstd`.

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
        let Taken::Compressed(bytes) = Taken::of(&mut item, &AttributeNames::default()) else {
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
