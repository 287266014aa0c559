//! Tests of the functions that unwrap a part of an event.

use super::*;

const ENOUGH: usize = 1024 * 1024;

fn readable<T>(result: Result<T, Refusal>) -> Result<T, &'static str> {
    result.map_err(|refusal| match refusal {
        Refusal::Unreadable(reason) => reason,
        Refusal::Exhausted(_) => "exhausted",
    })
}

fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    readable(decode(&text.into(), &mut Budget::new(ENOUGH)))
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>, &'static str> {
    readable(gunzip(packed, &mut Budget::new(ENOUGH)))
}

#[test]
fn base64_is_read_as_leniently_as_in_python() {
    assert_eq!(decoded("aGVs\nbG8=").unwrap(), b"hello");
    assert_eq!(decoded("aGVsbG8=ignored").unwrap(), b"hello");
    assert_eq!(decoded("a=GVsbG8=").unwrap(), b"hello");
    assert_eq!(decoded("aGVsbA==").unwrap(), b"hell");
    assert_eq!(decoded("-_aGVsbA==").unwrap(), b"hell");
    assert!(decoded("aGVsbG8").unwrap_err().contains("padding"));
    assert!(
        decoded("aGVsb")
            .unwrap_err()
            .contains("one character too many")
    );
    assert!(decoded("aGVsbA==é").unwrap_err().contains("ASCII"));
}

fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn members_are_joined_and_damaged_data_is_refused() {
    let joined = [gzip(b"one"), vec![0; 3], gzip(b"two")].concat();
    assert_eq!(unpacked(&joined).unwrap(), b"onetwo");
    assert_eq!(unpacked(b"").unwrap(), b"");
    let whole = gzip(&b"abc".repeat(1000));
    for end in 1..whole.len() {
        assert!(unpacked(&whole[..end]).is_err(), "{end}");
    }
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    assert!(unpacked(&damaged).unwrap_err().contains("checksum"));
}

#[test]
fn gzip_data_that_unpacks_beyond_the_budget_is_refused() {
    let fits = gzip(&vec![0; ENOUGH - STATE - 64]);
    assert!(unpacked(&fits).is_ok());
    let bomb = gzip(&vec![0; ENOUGH - STATE]);
    assert_eq!(unpacked(&bomb), Err("exhausted"));
}

#[test]
fn every_character_of_the_alphabet_is_decoded() {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = decoded(alphabet).unwrap();
    let mut bits = bytes.chunks(3).flat_map(|three| {
        let whole = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        [18, 12, 6, 0].map(|shift| whole >> shift & 63)
    });
    assert!((0..64).all(|six| bits.next() == Some(six)) && bits.next().is_none());
    assert_eq!(decoded("/w==").unwrap(), [0xFF]);
    assert_eq!(decoded("//8=").unwrap(), [0xFF, 0xFF]);
    assert_eq!(decoded("=Zg==").unwrap(), b"f");
    assert_eq!(decoded("Zg=x=").unwrap(), [b'f', 0x0C]);
    assert_eq!(
        decoded("Zg=").unwrap_err(),
        "the text is not base64: its padding is missing"
    );
    assert_eq!(decoded("Zm8=Zg==").unwrap(), b"fo");
}

/// Returns a gzip member with these flags and header fields.
fn member(flags: u8, fields: &[u8], content: &[u8]) -> Vec<u8> {
    let plain = gzip(content);
    let mut header = plain[..10].to_vec();
    header[3] = flags;
    [&header, fields, &plain[10..]].concat()
}

#[test]
fn the_optional_fields_of_a_header_are_skipped() {
    let extra = [&[0x04, 0x01], &[7; 260][..]].concat();
    let all = [&extra, &b"name\0comment\0"[..], &[1, 2]].concat();
    for (flags, fields) in [
        (0, &b""[..]),
        (4, &extra),
        (4, b"\0\0"),
        (8, b"name\0"),
        (16, b"comment\0"),
        (2, b"\x01\x02"),
        (24, b"name\0comment\0"),
        (30, &all),
        (1, b""),
    ] {
        assert_eq!(
            unpacked(&member(flags, fields, b"text")).unwrap(),
            b"text",
            "{flags}"
        );
    }
    assert_eq!(
        unpacked(b"\x1f\x8b\x07\0\0\0\0\0\0\0"),
        Err("the gzip data uses an unknown compression method")
    );
    assert_eq!(unpacked(b"PK"), Err("the decoded bytes are not gzip data"));
    for cut in [
        &member(4, &extra[..100], b"")[..100],
        b"\x1f\x8b\x08\x02\0\0\0\0\0\0\x01",
        b"\x1f\x8b\x08\x08\0\0\0\0\0\0name",
    ] {
        assert_eq!(unpacked(cut), Err(CUT_SHORT));
    }
}

#[test]
fn a_member_with_another_length_or_checksum_is_refused() {
    let whole = gzip(&b"abc".repeat(100_000));
    assert_eq!(unpacked(&whole).unwrap().len(), 300_000);
    for back in 1..=8 {
        let mut damaged = whole.clone();
        let at = damaged.len() - back;
        damaged[at] ^= 0x10;
        let reason = if back > 4 {
            "its checksum differs"
        } else {
            "its length differs"
        };
        assert!(unpacked(&damaged).unwrap_err().ends_with(reason), "{back}");
    }
    assert_eq!(
        unpacked(&[&whole[..], b"x"].concat()),
        Err("the decoded bytes are not gzip data")
    );
}

/// Encodes bytes as base64.
fn encoded(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let whole = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let six = (whole >> (18 - 6 * place)) & 63;
            text.push(if place > three.len() {
                '='
            } else {
                char::from(ALPHABET[six as usize])
            });
        }
    }
    text
}

#[test]
fn unpacked_text_is_charged_for_its_block_alone() {
    for length in [0, 1, 100, 40_000] {
        let content = "x".repeat(length);
        let text = Text::from(encoded(&gzip(content.as_bytes())));
        let mut budget = Budget::new(ENOUGH);
        assert_eq!(
            base64_gzip(&text, &mut budget).unwrap(),
            Text::from(content)
        );
        assert_eq!(
            budget.charged(),
            crate::key::budget::heap(length),
            "{length}"
        );
        assert_eq!(budget.worked(), length);
    }
    let binary = Text::from(encoded(&gzip(&[0xFF])));
    let error = base64_gzip(&binary, &mut Budget::new(ENOUGH)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`powertools_base64_gzip` failed: the decoded bytes are not UTF-8"
    );
    let error = base64_gzip(&binary, &mut Budget::new(STATE)).unwrap_err();
    assert_eq!(error, EvaluationError::TooLarge);
}

#[test]
fn unpacking_takes_a_chunk_and_a_window_beside_its_result() {
    assert_eq!((CHUNK, STATE), (32_768, 98_304));
}
