use super::*;

fn evaluate(expression: &str, payload: &str) -> Result<String, EvaluationError> {
    let payload = Json::parse(payload).unwrap();
    Expression::compile(expression)
        .unwrap()
        .evaluate(&payload)
        .map(|value| value.to_canonical())
}

fn value(expression: &str, payload: &str) -> String {
    evaluate(expression, payload).unwrap()
}

#[test]
fn numbers_beyond_64_bits_keep_their_digits() {
    assert_eq!(
        value("a", r#"{"a": 123456789012345678901}"#),
        "123456789012345678901"
    );
    assert_eq!(
        value("`123456789012345678901`", "null"),
        "123456789012345678901"
    );
    assert_eq!(
        value("sum(@)", "[9223372036854775807, 1]"),
        "9223372036854775808"
    );
    assert_eq!(
        value("abs(@)", "-9223372036854775808"),
        "9223372036854775808"
    );
    assert_eq!(value("ceil(@)", "1e20"), "100000000000000000000");
    assert_eq!(value("avg(@)", "[1, 2]"), "1.5");
}

#[test]
fn members_keep_their_order_until_the_end() {
    assert_eq!(value("keys(@)", r#"{"b": 1, "a": 2}"#), r#"["b", "a"]"#);
    assert_eq!(
        value("to_string(@)", r#"{"b": 1, "a": 1.0}"#),
        r#""{\"b\":1,\"a\":1.0}""#
    );
}

#[test]
fn booleans_are_numbers_inside_arrays_alone() {
    assert_eq!(value("@ == `1`", "true"), "false");
    assert_eq!(value("@ == `[1.0]`", "[true]"), "true");
    assert_eq!(value("contains(@, `0`)", "[false]"), "true");
}

#[test]
fn strings_and_numbers_have_no_common_order() {
    assert_eq!(
        evaluate("a < b", r#"{"a": 1, "b": "x"}"#),
        Err(EvaluationError::Incomparable)
    );
    assert_eq!(value("a < b", r#"{"a": 1, "b": null}"#), "null");
    assert!(evaluate("sort(@)", r#"[1, "a"]"#).is_err());
    assert!(evaluate("sort(@)", "[1, NaN]").is_err());
    assert!(evaluate("min_by(@, &@)", r#"["a", 1]"#).is_err());
}

#[test]
fn slices_run_both_ways() {
    assert_eq!(value("[::-1]", "[1, 2, 3]"), "[3, 2, 1]");
    assert_eq!(value("[-2:]", "[1, 2, 3]"), "[2, 3]");
    assert_eq!(value("[5:-5:-2]", "[1, 2, 3]"), "[3, 1]");
    assert_eq!(value("[:99999999999999999999]", "[1]"), "[1]");
}

#[test]
fn an_error_shows_no_payload() {
    let error = evaluate("powertools_json(@)", r#""secret""#).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
    let error = evaluate("sum(@)", r#"["secret"]"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`sum` takes an array of numbers, not a string"
    );
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret() {
    let error = Expression::compile("a.nope(b)").unwrap_err().to_string();
    assert!(error.ends_with("\na.nope(b)\n  ^ unknown function `nope`; the functions are abs, avg, ceil, contains, \
        ends_with, floor, join, keys, length, map, max, max_by, merge, min, min_by, not_null, powertools_base64, \
        powertools_base64_gzip, powertools_json, reverse, sort, sort_by, starts_with, sum, to_array, to_number, \
        to_string, type, values"), "{error}");
}

#[test]
fn what_doubles_at_each_step_is_stopped() {
    let doubling = vec!["[@, @]"; 15].join(" | ");
    assert_eq!(
        evaluate(&doubling, "{\"a\": 1}"),
        Ok(value(&doubling, "{\"a\": 1}"))
    );
    let doubling = vec!["[@, @]"; 22].join(" | ");
    assert_eq!(evaluate(&doubling, "1"), Err(EvaluationError::TooLarge));
}

#[test]
fn the_deepest_expression_runs_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let deepest = small.spawn(|| {
        for (open, close, times) in [
            ("[", "]", 32),
            ("{a: ", "}", 32),
            ("to_array(", ")", 32),
            ("[?", "]", 32),
            ("!", "", 63),
            ("", ".a", 63),
        ] {
            let text = format!("{}@{}", open.repeat(times), close.repeat(times));
            let payload = format!("{}1{}", "[".repeat(128), "]".repeat(128));
            assert!(evaluate(&text, &payload).is_ok(), "{text}");
        }
    });
    deepest.unwrap().join().unwrap();
}
