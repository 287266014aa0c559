use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn key(values: &[&[u8]]) -> Result<Option<String>, Malformed> {
    let name = HeaderName::from_static("idempotency-key");
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(&name, HeaderValue::from_bytes(value).unwrap());
    }
    of_header(&headers, &name)
}

#[test]
fn a_quoted_string_and_a_bare_value_are_one_key() {
    for value in [
        &b"\"8e03978e-40d5-43dd-bc93-6894a57f9324\""[..],
        b"8e03978e-40d5-43dd-bc93-6894a57f9324",
        b"  \"8e03978e-40d5-43dd-bc93-6894a57f9324\"  ",
        b"\t8e03978e-40d5-43dd-bc93-6894a57f9324 ",
    ] {
        let expected = "8e03978e-40d5-43dd-bc93-6894a57f9324".to_owned();
        assert_eq!(key(&[value]), Ok(Some(expected)));
    }
    assert_eq!(key(&[]), Ok(None));
}

#[test]
fn escapes_spaces_and_separators_are_part_of_a_quoted_key() {
    for (value, expected) in [
        (&br#""a\"b\\c""#[..], r#"a"b\c"#),
        (b"\"a, b; c\"", "a, b; c"),
        (b"\" \"", " "),
        (b"a+b/c=", "a+b/c="),
        (b"~!#$%&'()*", "~!#$%&'()*"),
    ] {
        assert_eq!(key(&[value]), Ok(Some(expected.to_owned())));
    }
}

#[test]
fn what_is_not_one_key_is_refused() {
    for (value, malformed) in [
        (&b""[..], Malformed::Empty),
        (b"  ", Malformed::Empty),
        (b"\"\"", Malformed::Empty),
        (b"\"a", Malformed::Syntax),
        (b"a\"", Malformed::Syntax),
        (b"\"a\\n\"", Malformed::Syntax),
        (b"\"a\\", Malformed::Syntax),
        (b"\"a\" b", Malformed::Syntax),
        (b"\"a\";p=1", Malformed::Syntax),
        (b"a;p=1", Malformed::Syntax),
        (b"a b", Malformed::Syntax),
        (b"a\\b", Malformed::Syntax),
        (b"\"a\tb\"", Malformed::Syntax),
        (b"\xc3\xa9", Malformed::Syntax),
        (b"\"\xc3\xa9\"", Malformed::Syntax),
        (b"\"a\", \"b\"", Malformed::Repeated),
        (b"a,b", Malformed::Repeated),
        (b",", Malformed::Repeated),
    ] {
        assert_eq!(key(&[value]), Err(malformed), "{value:?}");
    }
    assert_eq!(key(&[b"a", b"a"]), Err(Malformed::Repeated));
    assert_eq!(key(&[b"a", b""]), Err(Malformed::Repeated));
}

#[test]
fn the_limit_of_255_bytes_counts_the_key_and_not_its_quotes() {
    let of_length = |length: usize| "k".repeat(length);
    assert_eq!(key(&[of_length(255).as_bytes()]), Ok(Some(of_length(255))));
    let quoted = format!("\"{}\"", of_length(255));
    assert_eq!(key(&[quoted.as_bytes()]), Ok(Some(of_length(255))));
    let escaped = format!("\"{}\"", "\\\"".repeat(255));
    assert_eq!(key(&[escaped.as_bytes()]), Ok(Some("\"".repeat(255))));
    for value in [of_length(256), format!("\"{}\"", of_length(256))] {
        assert_eq!(key(&[value.as_bytes()]), Err(Malformed::TooLong));
    }
}

#[test]
fn every_text_says_what_to_send() {
    for malformed in [
        Malformed::Repeated,
        Malformed::Empty,
        Malformed::TooLong,
        Malformed::Syntax,
    ] {
        assert!(malformed.text().contains("send "), "{malformed:?}");
    }
}

proptest! {
    #[test]
    fn every_key_is_read_back_from_its_quoted_form(expected in "[ -~]{1,255}") {
        let escaped = expected.replace('\\', "\\\\").replace('"', "\\\"");
        let quoted = format!("\"{escaped}\"");
        prop_assert_eq!(key(&[quoted.as_bytes()]), Ok(Some(expected)));
    }

    #[test]
    fn no_value_of_a_header_panics_and_every_key_is_visible_ascii_of_the_right_length(
        value in prop::collection::vec(prop_oneof![0x20_u8..=0x7E, 0x80_u8..=0xFF], 0..300),
    ) {
        if let Ok(Some(key)) = key(&[&value]) {
            prop_assert!((1..=255).contains(&key.len()));
            prop_assert!(key.bytes().all(|byte| (0x20..=0x7E).contains(&byte)));
        }
    }
}
