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
fn floats_beyond_the_range_are_infinite() {
    assert_eq!(
        canonical("[1e400, -1e400, 1e-400]"),
        "[Infinity, -Infinity, 0.0]"
    );
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
