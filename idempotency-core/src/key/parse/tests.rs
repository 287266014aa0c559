//! Tests of the JSON parser.

use super::*;

fn canonical(text: &str) -> String {
    Json::parse(text).unwrap().to_canonical()
}

fn kind(text: &str) -> JsonErrorKind {
    Json::parse(text).unwrap_err().kind()
}

#[test]
fn each_digit_of_an_integer_is_kept() {
    assert_eq!(
        canonical("123456789012345678901234567890"),
        "123456789012345678901234567890"
    );
    assert_eq!(canonical("-0"), "0");
    assert_eq!(canonical("-0.0"), "-0.0");
    assert_eq!(kind(&"9".repeat(4301)), JsonErrorKind::NumberTooLong);
    assert_eq!(canonical(&"9".repeat(4300)), "9".repeat(4300));
}

#[test]
fn words_for_floats_that_are_no_number_are_read() {
    assert_eq!(
        canonical("[NaN, Infinity, -Infinity]"),
        "[NaN, Infinity, -Infinity]"
    );
}

#[test]
fn members_with_one_name_become_one_with_the_last_value_at_the_first_place() {
    let Json::Object(members) = Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap() else {
        panic!()
    };
    let names: Vec<_> = members.keys().filter_map(Text::as_str).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(members.get(b"a").unwrap().to_canonical(), "3");
}

#[test]
fn surrogates_form_pairs_or_stay_single() {
    assert_eq!(canonical(r#""\ud83d\ude00""#), r#""\ud83d\ude00""#);
    assert_eq!(
        Json::parse(r#""\ud83d\ude00""#).unwrap().as_str(),
        Some("😀")
    );
    assert_eq!(
        canonical(r#""\ud83d\ud83d\ude00""#),
        r#""\ud83d\ud83d\ude00""#
    );
    assert_eq!(canonical(r#""\ude00x""#), r#""\ude00x""#);
}

#[test]
fn a_text_that_is_not_json_is_refused_with_its_place() {
    assert_eq!(kind(""), JsonErrorKind::ExpectedValue);
    assert_eq!(kind("\u{feff}{}"), JsonErrorKind::ByteOrderMark);
    assert_eq!(kind("1 x"), JsonErrorKind::TrailingText);
    assert_eq!(kind("01"), JsonErrorKind::TrailingText);
    assert_eq!(kind("1."), JsonErrorKind::TrailingText);
    assert_eq!(kind("-"), JsonErrorKind::ExpectedValue);
    assert_eq!(kind("[1,]"), JsonErrorKind::ExpectedValue);
    assert_eq!(kind("{a:1}"), JsonErrorKind::ExpectedName);
    assert_eq!(kind("{\"a\" 1}"), JsonErrorKind::ExpectedColon);
    assert_eq!(kind("[1 2]"), JsonErrorKind::ExpectedComma);
    assert_eq!(kind("\"a"), JsonErrorKind::UnclosedString);
    assert_eq!(kind("\"a\nb\""), JsonErrorKind::ControlCharacter);
    assert_eq!(kind(r#""\x""#), JsonErrorKind::InvalidEscape);
    assert_eq!(kind(r#""\u12""#), JsonErrorKind::InvalidEscape);
    assert_eq!(kind("\"\\"), JsonErrorKind::InvalidEscape);
    let error = Json::parse("[1,\n \"é\", secret]").unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid JSON: expected a value at line 2, column 7"
    );
}

#[test]
fn deep_nesting_is_an_error_and_never_a_stack_overflow() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Json::parse(&nested(128)).is_ok());
    assert_eq!(kind(&nested(129)), JsonErrorKind::TooDeep);
    assert_eq!(kind(&"{\"a\":".repeat(1_000_000)), JsonErrorKind::TooDeep);
}

fn place(text: &str) -> (usize, usize) {
    let error = Json::parse(text).unwrap_err();
    (error.line(), error.column())
}

#[test]
fn an_error_has_the_line_and_column_where_the_text_stops_being_json() {
    for (text, at) in [
        ("x", (1, 1)),
        ("\"a", (1, 1)),
        ("[\"a]", (1, 2)),
        ("[1,\n2,\n x]", (3, 2)),
        ("{\"a\":\n 1,}", (2, 4)),
        ("[\"é😀\", x]", (1, 8)),
        ("[1, 2 3]", (1, 7)),
        ("[\"\\x\"]", (1, 4)),
        ("[\"\\u12g4\"]", (1, 5)),
        ("[\"a\tb\"]", (1, 4)),
        ("[\"\\", (1, 4)),
        ("[-]", (1, 2)),
        ("1 2", (1, 3)),
        ("\r\n\t 1 x", (2, 5)),
    ] {
        assert_eq!(place(text), at, "{text}");
    }
    let long = format!("[1, {}]", "9".repeat(4301));
    assert_eq!(place(&long), (1, 5));
}

#[test]
fn each_kind_of_error_has_its_text() {
    for (text, message) in [
        ("", "invalid JSON: expected a value at line 1, column 1"),
        (
            "{a",
            "invalid JSON: expected a member's name in double quotes at line 1, column 2",
        ),
        ("{\"a\"", "invalid JSON: expected ':' at line 1, column 5"),
        (
            "[1",
            "invalid JSON: expected ',' or the closing bracket at line 1, column 3",
        ),
        (
            "1 2",
            "invalid JSON: text after the value at line 1, column 3",
        ),
    ] {
        assert_eq!(Json::parse(text).unwrap_err().to_string(), message);
    }
    let mut budget = Budget::new(10);
    let error = Json::parse_within(b"\"text\"", &mut budget).unwrap_err();
    assert_eq!(error.kind(), JsonErrorKind::TooLarge);
    assert_eq!(
        error.to_string(),
        "values that take more memory than one event may use at line 1, column 7"
    );
}

#[test]
fn every_escape_is_its_character() {
    let text = Json::parse(r#""\"\\\/\b\f\n\r\t\u0041\u00e9\uFFFF\u20aC""#).unwrap();
    assert_eq!(text.as_str(), Some("\"\\/\u{8}\u{c}\n\r\tAé\u{ffff}€"));
    for (text, character) in [
        (r#""\ud800\udc00""#, "\u{10000}"),
        (r#""\ud800\udfff""#, "\u{103ff}"),
        (r#""\ud801\udc00""#, "\u{10400}"),
        (r#""\udbff\udfff""#, "\u{10ffff}"),
    ] {
        assert_eq!(Json::parse(text).unwrap().as_str(), Some(character));
    }
    for lone in [
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ue000""#,
        r#""\udbff\udbff""#,
        r#""\udfff\udc00""#,
    ] {
        assert_eq!(Json::parse(lone).unwrap().as_str(), None, "{lone}");
    }
    assert_eq!(canonical(r#""\ud800\u0041""#), r#""\ud800A""#);
    assert_eq!(kind(r#""\ud800\u00""#), JsonErrorKind::InvalidEscape);
}

#[test]
fn numbers_are_integers_until_they_have_a_point_or_an_exponent() {
    for (text, same) in [
        ("0", "0"),
        ("-12", "-12"),
        ("0.5", "0.5"),
        ("1e2", "100.0"),
        ("1E+2", "100.0"),
        ("-1.5e-1", "-0.15"),
        ("10", "10"),
    ] {
        assert_eq!(canonical(text), same, "{text}");
    }
    for text in [
        "1.", "1.e5", "1e", "1e+", "1e+x", "00", "0x1", "-01", "1.2.3",
    ] {
        assert_eq!(kind(text), JsonErrorKind::TrailingText, "{text}");
    }
    assert_eq!(
        canonical(&format!("-{}", "9".repeat(4300))),
        format!("-{}", "9".repeat(4300))
    );
    assert_eq!(
        kind(&format!("-{}", "9".repeat(4301))),
        JsonErrorKind::NumberTooLong
    );
}

#[test]
fn words_are_read_whole() {
    for text in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
        assert_eq!(canonical(&format!(" [ {text} ] ")), format!("[{text}]"));
        assert_eq!(
            kind(&text[..text.len() - 1]),
            JsonErrorKind::ExpectedValue,
            "{text}"
        );
    }
    assert_eq!(canonical(" { } "), "{}");
    assert_eq!(
        canonical("\t{ \"a\" : [ ] , \"b\" : { \"c\" : 1 } }\r\n"),
        r#"{"a": [], "b": {"c": 1}}"#
    );
    assert_eq!(
        Json::parse_text(&Text::from("[1]")).unwrap().to_canonical(),
        "[1]"
    );
}

#[test]
fn values_side_by_side_do_not_add_to_the_depth() {
    assert_eq!(
        canonical(&format!("[{}[]]", "[], {},".repeat(300)))
            .matches('[')
            .count(),
        302
    );
    let nested = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
    assert!(Json::parse(&nested).is_ok());
    assert_eq!(kind(&format!("[{nested}]")), JsonErrorKind::TooDeep);
}

#[test]
fn reading_charges_what_the_values_take() {
    for text in [
        "null",
        "1.5",
        "9223372036854775808",
        r#""text""#,
        r#""\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n""#,
        r#""\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9""#,
        r#""\ud800x\ud800x\ud800x\ud800x\ud800x\ud800x\ud800x""#,
        r#""\ud83d\ude00\ud83d\ude00\ud83d\ude00\ud83d\ude00\ud83d\ude00\ud83d\ude00\ud83d\ude00""#,
        "[]",
        "[1, 2, 3]",
        r#"["a", ["b", 9223372036854775808], {}]"#,
        r#"{"a": "text", "b": {"c": [1]}}"#,
    ] {
        let mut budget = Budget::new(10_000);
        let json = Json::parse_within(text.as_bytes(), &mut budget).unwrap();
        assert_eq!(budget.charged(), json.heap(), "{text}");
        let mut less = Budget::new(json.heap().saturating_sub(1));
        let refused = Json::parse_within(text.as_bytes(), &mut less);
        assert_eq!(refused.is_err(), json.heap() > 0, "{text}");
    }
}
