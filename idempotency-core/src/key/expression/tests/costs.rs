//! What an evaluation is charged: the blocks of memory that it allocates, and its steps.
//!
//! The tables are exact. A function that charges too little lets a hostile event use more than its limit.

use super::super::*;
use super::evaluate;
use crate::key::Exhausted;
use crate::key::budget::heap;

/// Returns the bytes and the steps that an evaluation is charged.
fn cost(expression: &str, payload: &str) -> (usize, usize) {
    let payload = Json::parse(payload).unwrap();
    let mut budget = Budget::of_one_evaluation();
    let expression = Expression::compile(expression).unwrap();
    expression.evaluate_within(&payload, &mut budget).unwrap();
    (budget.charged(), budget.worked())
}

#[test]
fn each_expression_is_charged_for_its_blocks_and_steps() {
    let payload = r#"{"s": "aé😀bcdefgh", "n": [3, 1, 2], "big": 9223372036854775808,
        "o": {"x": "text", "y": [1, "ab"]}, "t": ["b", "aa", "c"], "f": 1e300,
        "mix": [9223372036854775808, 1e19, 2.5]}"#;
    for (expression, bytes, steps) in [
        ("s", 32, 5),
        ("n", 80, 11),
        ("big", 32, 5),
        ("o", 336, 43),
        ("o.x", 32, 7),
        ("[s, n]", 176, 17),
        ("{a: s, b: n}", 320, 19),
        ("n[*]", 80, 5),
        ("o.*", 384, 39),
        ("n[]", 160, 9),
        ("n[1:]", 128, 8),
        ("n[::-1]", 160, 10),
        ("n[?@ == `1`]", 32, 12),
        ("s || n", 32, 6),
        ("none || n", 80, 13),
        ("!s", 0, 2),
        ("s == s", 0, 17),
        ("n == n", 0, 6),
        ("o == o", 0, 5),
        ("contains([o], o)", 368, 49),
        ("n[0] < n[1]", 0, 7),
        ("big < f", 0, 22),
        ("big == f", 0, 22),
        ("f != big", 0, 22),
        ("abs(big)", 32, 6),
        ("ceil(f)", 320, 42),
        ("sum(n)", 0, 5),
        ("sum(mix)", 0, 5),
        ("avg(n)", 0, 5),
        ("avg([big, big])", 128, 196),
        ("max(n)", 0, 5),
        ("max(t)", 32, 13),
        ("max(mix)", 0, 43),
        ("min(mix)", 0, 62),
        ("sort(n)", 112, 11),
        ("sort(t)", 208, 31),
        ("sort(mix)", 144, 129),
        ("sort_by(t, &length(@))", 288, 33),
        ("max_by(t, &@)", 208, 28),
        ("length(s)", 0, 16),
        ("reverse(s)", 32, 16),
        ("reverse(n)", 80, 5),
        ("contains(s, 'b')", 0, 18),
        ("contains(t, 'c')", 0, 9),
        ("contains(mix, `2.5`)", 0, 25),
        ("starts_with(s, 'a')", 0, 4),
        ("ends_with(s, 'h')", 0, 4),
        ("join('--', t)", 32, 14),
        ("keys(o)", 128, 4),
        ("values(o)", 192, 20),
        ("to_array(s)", 64, 6),
        ("to_array(n)", 80, 12),
        ("to_string(o)", 48, 27),
        ("to_string(s)", 32, 6),
        ("to_number('12_3')", 0, 18),
        ("to_number('9223372036854775808')", 32, 82),
        ("type(s)", 32, 6),
        ("not_null(none, s)", 32, 7),
        ("map(&[@], n)", 176, 8),
        ("merge(o, o)", 896, 91),
        (r#"merge(o, `["pq"]`)"#, 688, 56),
        (r#"powertools_json('{"a": [1, 2]}')"#, 192, 15),
        ("powertools_base64('eyJhIjogMX0=')", 32, 14),
    ] {
        assert_eq!(cost(expression, payload), (bytes, steps), "{expression}");
    }
}

#[test]
fn a_value_is_refused_if_the_budget_lacks_one_byte_of_it() {
    let payload = Json::parse(r#"{"s": "text", "o": {"x": [1, "ab"]}}"#).unwrap();
    for text in [
        "s",
        "o",
        "[s, o]",
        "{a: s, b: o}",
        "o.*",
        "o.x[]",
        "o.x[::-1]",
        "keys(o)",
        "to_string(o)",
        "to_array(s)",
        "reverse(s)",
        "type(s)",
        "join('-', [s, s])",
        "merge(o, o)",
        "powertools_json('[1]')",
        "powertools_base64('eyJhIjogMX0=')",
        "sort(keys(o))",
        "sort_by(o.x[:1], &@)",
    ] {
        let expression = Expression::compile(text).unwrap();
        let mut budget = Budget::of_one_evaluation();
        expression.evaluate_within(&payload, &mut budget).unwrap();
        let mut less = Budget::new(budget.charged() - 1);
        let refused = expression.evaluate_within(&payload, &mut less);
        assert_eq!(refused, Err(EvaluationError::TooLarge), "{text}");
    }
    assert_eq!(
        EvaluationError::from(Exhausted::Memory),
        EvaluationError::TooLarge
    );
    assert_eq!(
        EvaluationError::from(Exhausted::Work),
        EvaluationError::TooLong
    );
}

#[test]
fn the_memory_of_a_wrapped_text_is_freed_after_unwrapping() {
    let (blanks, json) = (" ".repeat(1000), "WyJ0ZXh0Il0=");
    let payload = format!(r#"{{"w": "{blanks}{json}", "x": "{json}"}}"#);
    // The characters that are skipped take room while the text is decoded, and none afterwards.
    assert_eq!(cost("powertools_base64(w)", &payload).0, heap(8));
    assert_eq!(cost("powertools_base64(x)", &payload).0, heap(8));
    assert_eq!(
        cost(
            "powertools_base64('YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXph')",
            "0"
        )
        .0,
        heap(27)
    );
    let opened = "powertools_json(powertools_base64(w))";
    assert_eq!(cost(opened, &payload).0, heap(24) + heap(4));
}

#[test]
fn a_header_is_charged_for_the_members_that_it_finds() {
    let event = r#"{"headers": {"a": "1", "X-Key": "2", "x-key": "3", "X-KEY": "45"}}"#;
    assert_eq!(
        evaluate("header(@, 'x-key')", event).unwrap(),
        r#""45,2,3""#
    );
    // Two lists with room for four references of 16 bytes, and the text.
    let blocks = 2 * heap(64) + heap(6);
    assert_eq!(cost("header(@, 'x-key')", event), (blocks, 61));
}
