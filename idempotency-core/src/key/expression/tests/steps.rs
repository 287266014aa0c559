//! Tests that the steps of an expression grow at most in proportion to any payload.

use super::super::*;

/// Returns the steps of an expression on a payload.
fn steps(expression: &str, payload: &str) -> usize {
    let payload = Json::parse(payload).unwrap();
    let mut budget = Budget::of_one_evaluation();
    let expression = Expression::compile(expression).unwrap();
    expression.evaluate_within(&payload, &mut budget).unwrap();
    budget.worked()
}

fn array(first: &str, part: &str, parts: usize) -> String {
    format!("[{first}{}]", format!(",{part}").repeat(parts))
}

/// Expressions, and a function that returns their payload with this many parts.
type Family<'a> = (&'a [&'a str], &'a dyn Fn(usize) -> String);

#[test]
fn twice_the_payload_takes_about_twice_the_steps() {
    let longest = "9".repeat(4300);
    let as_long_as_floats = format!("1{}1", "0".repeat(307));
    let lone = |parts: usize| {
        format!(
            r#"["\ud800{}", "{}b"]"#,
            "a".repeat(2 * parts),
            "a".repeat(parts)
        )
    };
    let zeros = |parts| array("0", "0", parts);
    let members = |parts| {
        let members: Vec<_> = (0..parts)
            .map(|name| format!("\"{name:05}\":{name}"))
            .collect();
        format!("[{{{}}}]", members.join(","))
    };
    let payloads: &[Family<'_>] = &[
        (&["sum(@)", "max(@)", "min(@)", "sort(@)"], &|parts| {
            array(&longest, "0", parts)
        }),
        (
            &["max(@)", "min(@)", "sort(@)", "contains(@, [0])"],
            &|parts| array(&longest, "0.5", parts),
        ),
        (
            &["min(@)", "contains(@[1:], [0])", "[1:][?@ == `1`]"],
            &|parts| array(&as_long_as_floats, "1e308", parts),
        ),
        (&["max(@)"], &|parts| {
            array(&"1".repeat(309), "1e308", parts)
        }),
        (&["sort(@)", "avg(@)"], &|parts| {
            array("100000000000000000001", "1000000000000e8", parts)
        }),
        (&["map(&avg(@), @)"], &|parts| array("[1]", "[1]", parts)),
        (&["map(&avg(@), @)"], &|parts| {
            array("[1]", "[9007199254740993]", parts)
        }),
        (&["avg(@)"], &|parts| array(&as_long_as_floats, "1", parts)),
        (&["sum(@)"], &|parts| {
            array(
                &longest,
                "10000000000000000000,-10000000000000000000",
                parts,
            )
        }),
        (&["sum(@)", "sort(@)", "max(@)"], &|parts| {
            array("1e308", "100000000000000000000,1e20", parts)
        }),
        (
            &[
                "contains([0], [1])",
                "[0] == [1]",
                "starts_with([0], [1])",
                "reverse([0])",
                "length([0])",
            ],
            &lone,
        ),
        (&["join([0], @)", "sort(@)"], &|parts| {
            array("\"ab\"", "\"a\"", parts)
        }),
        (
            &[
                "contains(@, `[]`)",
                "[?@ == `1`]",
                "map(&to_string(@), @)",
                "[*].[@]",
                "@[::-1]",
                "[@, @][]",
            ],
            &zeros,
        ),
        (&["map(&ceil(@), @)", "max_by(@, &floor(@))"], &|parts| {
            array("1.5", "1e308", parts)
        }),
        (
            &[
                "keys([0])",
                "[0].*",
                "merge([0], [0])",
                "[0] == [0]",
                "to_string([0])",
            ],
            &members,
        ),
        (&["map(&to_number(@), @)"], &|parts| {
            array("\"1\"", "\"1_1\"", parts)
        }),
    ];
    for (expressions, payload) in payloads {
        for expression in *expressions {
            let (one, two) = (payload(1000), payload(2000));
            let (once, twice) = (steps(expression, &one), steps(expression, &two));
            assert!(
                twice <= once * 23 / 10,
                "{expression}: {once}, then {twice}"
            );
            assert!(
                twice <= 60 * two.len(),
                "{expression}: {twice} for {} bytes",
                two.len()
            );
        }
    }
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
        evaluate::evaluate(&expression.node, &payload, COMPACT, budget).map(|(value, _)| value)
    };
    assert!(evaluated(&mut budget).is_ok());
    let enough = budget.worked();
    budget.renew_work();
    while budget.work(enough).is_ok() {}
    assert_eq!(evaluated(&mut budget), Err(EvaluationError::TooLong));
}
