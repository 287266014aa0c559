//! What an evaluation is charged: the blocks of memory that it allocates, and its steps. The steps grow at most in proportion to any
//! payload.
//!
//! The tables are exact. A function that charges too little lets a hostile event use more than its limit.

use super::super::*;
use super::{cases, each, evaluate};
use crate::example::shared::lines;
use crate::key::budget::heap;

/// Returns the bytes and the steps that an evaluation is charged.
fn cost(expression: &str, payload: &str) -> (usize, usize) {
    let payload = Json::parse(payload).unwrap();
    let mut budget = Budget::of_one_evaluation();
    let expression = Expression::compile(expression).unwrap();
    expression.select_within(&payload, &mut budget).unwrap();
    (budget.charged(), budget.worked())
}

#[test]
fn each_expression_is_charged_for_its_blocks_and_steps() {
    for (expression, payload, charged) in cases(include_str!("costs.txt")) {
        let (bytes, steps) = cost(expression, payload);
        assert_eq!(format!("{bytes} {steps}"), charged, "{expression}");
    }
}

#[test]
fn a_value_is_refused_if_the_budget_lacks_one_byte_of_it() {
    let payload = Json::parse(r#"{"s": "text", "o": {"x": [1, "ab"]}}"#).unwrap();
    let texts = "
        s; o; [s, o]; {a: s, b: o}; o.*; o.x[]; o.x[::-1]; keys(o); to_string(o); to_array(s); reverse(s); type(s);
        join('-', [s, s]); merge(o, o); powertools_json('[1]'); powertools_base64('eyJhIjogMX0='); sort(keys(o));
        sort_by(o.x[:1], &@)
    ";
    for text in each(texts) {
        let expression = Expression::compile(text).unwrap();
        let mut budget = Budget::of_one_evaluation();
        expression.select_within(&payload, &mut budget).unwrap();
        let mut less = Budget::new(budget.charged() - 1);
        let refused = expression.select_within(&payload, &mut less).err();
        assert_eq!(refused, Some(EvaluationError::TooLarge), "{text}");
    }
}

#[test]
fn the_memory_of_a_wrapped_text_is_freed_after_unwrapping() {
    let (blanks, json) = (" ".repeat(1000), "WyJ0ZXh0Il0=");
    let payload = format!(r#"{{"w": "{blanks}{json}", "x": "{json}"}}"#);
    // The characters that are skipped take room while the text is decoded, and none afterwards.
    assert_eq!(cost("powertools_base64(w)", &payload).0, heap(8));
    assert_eq!(cost("powertools_base64(x)", &payload).0, heap(8));
    let text = "powertools_base64('YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXph')";
    assert_eq!(cost(text, "0").0, heap(27));
    let opened = "powertools_json(powertools_base64(w))";
    assert_eq!(cost(opened, &payload).0, heap(24) + heap(4));
}

#[test]
fn a_header_is_charged_for_the_members_that_it_finds() {
    let event = r#"{"headers": {"a": "1", "X-Key": "2", "x-key": "3", "X-KEY": "45"}}"#;
    assert_eq!(evaluate("header(@, 'x-key')", event), r#""45,2,3""#);
    // Two lists with room for four references of 16 bytes, and the text.
    let blocks = 2 * heap(64) + heap(6);
    assert_eq!(cost("header(@, 'x-key')", event), (blocks, 61));
}

/// Returns the steps of an expression on a payload.
fn steps(expression: &str, payload: &str) -> usize {
    cost(expression, payload).1
}

fn array(first: &str, part: &str, parts: usize) -> String {
    format!("[{first}{}]", format!(",{part}").repeat(parts))
}

/// Checks expressions that are separated by `; `, on payloads of this many parts.
fn grow_in_proportion(expressions: &str, payload: &dyn Fn(usize) -> String) {
    let (one, two) = (payload(1000), payload(2000));
    for expression in expressions.split("; ") {
        let (once, twice) = (steps(expression, &one), steps(expression, &two));
        let text = format!("{expression}: {once}, then {twice} for {} bytes", two.len());
        assert!(twice <= once * 23 / 10, "{text}");
        assert!(twice <= 60 * two.len(), "{text}");
    }
}

#[test]
fn twice_the_payload_takes_about_twice_the_steps() {
    for row in lines(include_str!("growth.txt")) {
        let row = row
            .replace("LONGEST", &"9".repeat(4300))
            .replace("TEN^308", &format!("1{}1", "0".repeat(307)))
            .replace("ONES", &"1".repeat(309));
        let mut columns = row.splitn(3, " | ");
        let mut column = || columns.next().unwrap();
        let (first, part, expressions) = (column(), column(), column());
        grow_in_proportion(expressions, &|parts| array(first, part, parts));
    }
    let expressions =
        "contains([0], [1]); [0] == [1]; starts_with([0], [1]); reverse([0]); length([0])";
    grow_in_proportion(expressions, &|parts| {
        let (text, part) = ("a".repeat(2 * parts), "a".repeat(parts));
        format!(r#"["\ud800{text}", "{part}b"]"#)
    });
    let expressions = "keys([0]); [0].*; merge([0], [0]); [0] == [0]; to_string([0])";
    grow_in_proportion(expressions, &|parts| {
        let members = (0..parts).map(|name| format!("\"{name:05}\":{name}"));
        format!("[{{{}}}]", members.collect::<Vec<_>>().join(","))
    });
}

#[test]
fn functions_that_read_a_text_count_its_length() {
    let text = format!(r#"["\ud800{}", "{}b"]"#, "a".repeat(4000), "a".repeat(2000));
    for (expression, least) in [
        ("contains([0], [1])", 6000),
        ("starts_with([0], [1])", 2000),
        ("length([0])", 4000),
        ("reverse([0])", 4000),
        ("to_number([0])", 4000),
        ("[0] == [1]", 2000),
        ("[0] < [1]", 2000),
    ] {
        let steps = steps(expression, &text);
        assert!(steps >= least, "{expression}: {steps}");
    }
}

#[test]
fn an_integer_compared_with_floats_counts_its_digits_in_each_comparison() {
    let integer = format!("1{}1", "0".repeat(307));
    let flat = array(&integer, "1e308", 100);
    let greatest = array(&"1".repeat(309), "1e308", 100);
    let nested = array(&format!("[{integer}]"), "[1e308]", 100);
    for (expression, payload) in [
        ("max(@)", &greatest),
        ("min(@)", &flat),
        ("max_by(@, &@)", &greatest),
        ("sort(@)", &flat),
        ("sort_by(@, &@)", &flat),
        ("contains(@[1:], @[0])", &flat),
        ("contains(@[1:], @[0])", &nested),
    ] {
        let steps = steps(expression, payload);
        assert!(steps >= 100 * 309, "{expression}: {steps}");
    }
    for comparator in ["==", "!=", "<", ">="] {
        let steps = steps(&format!("[0] {comparator} [1]"), &flat);
        assert!(steps >= 309, "{comparator}: {steps}");
    }
}

#[test]
fn a_long_division_and_the_order_of_header_names_are_counted() {
    let long = array("[9007199254740993]", "[9007199254740993]", 99);
    assert!(steps("map(&avg(@), @)", &long) >= 100 * 160);
    let names = (0..256_u32).map(|upper| {
        let letter = |at: u32| if upper >> at & 1 == 1 { 'A' } else { 'a' };
        let name: String = (0..8).map(letter).collect();
        format!("\"{name}\": \"k\"")
    });
    let names: Vec<_> = names.collect();
    let event = format!("{{\"headers\": {{{}}}}}", names.join(","));
    assert!(steps("header(@, 'aaaaaaaa')", &event) >= 256 * 8 * 8);
}

#[test]
fn a_search_in_a_text_with_lone_surrogates_is_fast_and_right() {
    // A search at each position would take 10^12 comparisons.
    let (before, part) = ("a".repeat(2_000_000), format!("{}b", "a".repeat(1_000_000)));
    let contains = Expression::compile("contains([0], [1])").unwrap();
    for (text, found) in [(before.clone(), false), (format!("{before}b"), true)] {
        let payload = Json::parse(&format!(r#"["\ud800{text}", "{part}"]"#)).unwrap();
        assert_eq!(contains.evaluate(&payload), Ok(Json::Bool(found)));
    }
}

#[test]
fn an_expression_with_too_many_steps_has_an_error_of_its_own() {
    let payload = Json::parse(&array("0", "0", 20_000)).unwrap();
    let expression = Expression::compile("[*].[@]").unwrap();
    let mut budget = Budget::of_one_evaluation();
    let evaluated = |budget: &mut Budget| {
        let mut walk = Walk {
            layout: COMPACT,
            budget,
            missing: Missing::default(),
            compares: false,
        };
        walk.visit(&expression.node, &payload).map(drop)
    };
    assert_eq!(evaluated(&mut budget), Ok(()));
    let enough = budget.worked();
    budget.renew_work();
    while budget.work(enough).is_ok() {}
    assert_eq!(evaluated(&mut budget), Err(EvaluationError::TooLong));
}
