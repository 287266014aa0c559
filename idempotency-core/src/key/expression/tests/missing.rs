//! The parts of multi-selects that a payload lacks.

use super::super::*;

/// Returns the names of the missing parts.
pub(super) fn missing(expression: &str, payload: &str) -> Vec<String> {
    let payload = Json::parse(payload).unwrap();
    let selection = Expression::compile(expression)
        .unwrap()
        .select(&payload)
        .unwrap();
    let missing = selection.missing;
    missing.into_iter().map(|part| part.to_string()).collect()
}

#[test]
fn a_part_whose_own_value_cannot_be_a_key_is_missing() {
    for absent in ["null", "\"\"", "[]", "{}", "[null]", "{\"x\": null}"] {
        let payload = format!(r#"{{"a": {absent}, "b": 1}}"#);
        assert_eq!(missing("[a, b]", &payload), ["a"], "{absent}");
        assert_eq!(missing("{x: a, y: b}", &payload), ["a"], "{absent}");
    }
    assert_eq!(missing("[c, b]", r#"{"b": 1}"#), ["c"]);
    for present in ["0", "false", "\"x\"", "[\"\"]", "[null, 1]"] {
        let payload = format!(r#"{{"a": {present}, "b": 1}}"#);
        assert!(missing("[a, b]", &payload).is_empty(), "{present}");
    }
}

#[test]
fn missing_parts_are_found_anywhere_in_the_expression() {
    for (expression, payload, parts) in [
        ("body.[a, b]", r#"{"body": {"a": 1}}"#, vec!["b"]),
        ("body | [a, b]", r#"{"body": {"a": 1}}"#, vec!["b"]),
        ("([a, b])", r#"{"a": 1}"#, vec!["b"]),
        (
            "powertools_json(body).[a, b]",
            r#"{"body": "{\"b\": 1}"}"#,
            vec!["a"],
        ),
        ("[a, [b, {x: c.d}]]", r#"{"a": 1, "b": 2}"#, vec!["c.d"]),
        ("[a, [b, c]]", r#"{"a": 1}"#, vec!["b", "c"]),
        ("[a, body.[b, c]]", r#"{"a": 1}"#, vec!["body.[b, c]"]),
        (
            "items[*].[sku, n]",
            r#"{"items": [{"sku": 1, "n": 1}, {"n": 2}, {"n": 3}]}"#,
            vec!["sku"],
        ),
        ("items[].{x: sku}", r#"{"items": [{}]}"#, vec!["sku"]),
        ("none || [a, b]", r#"{"a": 1}"#, vec!["b"]),
        ("a && [a, b]", r#"{"a": 1}"#, vec!["b"]),
        ("to_string([a, b])", r#"{"a": 1}"#, vec!["b"]),
        (
            "map(&[sku, n], items)",
            r#"{"items": [{"sku": 1}]}"#,
            vec!["n"],
        ),
        (
            "sort_by(items, &n)[*].[n, sku]",
            r#"{"items": [{"n": 1}]}"#,
            vec!["sku"],
        ),
    ] {
        assert_eq!(missing(expression, payload), parts, "{expression}");
    }
}

#[test]
fn a_missing_part_inside_a_selected_part_is_missing() {
    for (expression, parts) in [
        ("{key: [user, order], other: x}.key", vec!["order"]),
        (
            "{a: {key: [user, order], other: none}, b: none}.a.key",
            vec!["order"],
        ),
        ("@.{key: [user, order], other: none} | key", vec!["order"]),
        ("{key: [user, order]} | key[::-1]", vec!["order"]),
        (
            "{key: to_string([user, order]), other: x}.key",
            vec!["order"],
        ),
        ("[[user, order], x] | [0]", vec!["order"]),
        ("[x, none, [user, order]][-1]", vec!["order"]),
        ("[[user, order], none][0] | [@, `1`]", vec!["order"]),
        ("[[[user, order], none], none][0][0]", vec!["order"]),
        ("[user, order][::-1]", vec!["order"]),
        ("[user, order][:]", vec!["order"]),
        ("[user, order][*] | [:]", vec!["order"]),
        ("[[user, order], none][?@] | [0]", vec!["order"]),
        ("[user, [order, x][0]]", vec!["order"]),
        ("[user, none][5] || [user, order]", vec!["order"]),
        ("[{key: order}, x] | [0].key", vec!["order"]),
        ("[x, {key: order}] | [1].key", vec!["order"]),
    ] {
        let payload = r#"{"user": "u-1", "order": null, "x": 1}"#;
        assert_eq!(missing(expression, payload), parts, "{expression}");
    }
}

#[test]
fn a_text_or_an_array_made_from_an_absent_value_is_missing() {
    for absent in ["null", "\"\"", "[]", "{}", "[null]"] {
        let payload = format!(r#"{{"order": {absent}, "user": 1}}"#);
        for part in [
            "to_string(order)",
            "to_array(order)",
            "to_string(to_array(order))",
            "not_null(none, to_string(order))",
            "join('-', ['x', to_string(order)])",
        ] {
            let found = missing(&format!("[user, {part}]"), &payload);
            assert_eq!(found.len(), 1, "{part} of {absent}: {found:?}");
            assert!(part.contains(&found[0]), "{part}: {found:?}");
        }
        assert_eq!(missing("to_string(order)", &payload), ["to_string(order)"]);
    }
    for expression in [
        "[user, to_string(user)]",
        "[user, order && to_string(order) || 'none']",
        "[user, not_null(order, 'none')]",
        "[user, not_null([order][0], 'none')]",
        "[user, [order, user][0] || 'none']",
        "[user, map(&to_string(@), items)]",
        "[user, items[*].to_string(@)]",
        "[user, sort_by(items, &to_string(x))]",
        "[user, to_string(order) == 'null']",
        "[user, order] && [user]",
    ] {
        let payload = r#"{"user": 1, "items": [{}]}"#;
        assert!(missing(expression, payload).is_empty(), "{expression}");
    }
}

#[test]
fn a_part_with_a_default_or_outside_the_value_is_not_missing() {
    for expression in [
        "[a, b || 'none']",
        "[a, b][?@] | [0]",
        "[a, b] | [0]",
        "[a, b][0]",
        "{x: a, y: b}.x",
        "{x: items, y: b}.x",
        "[items[0], b][0]",
        "[b, a][-1]",
        "{x: {y: a, z: b}, w: b}.x.y",
        "@.[a, b] | [0]",
        "[a, b] | [0].c | [`1`]",
        "[[a, b][?@], a]",
        "[a, [a, b] != `[]` && a]",
        "[a, !{x: b} && a || a]",
        "items[?[a, b] == `[1, null]`].a | [@, `1`]",
        "a",
        "[nothing.[b], a] | [1]",
    ] {
        let found = missing(expression, r#"{"a": 1, "items": [{"a": 1}]}"#);
        assert!(found.is_empty(), "{expression}: {found:?}");
    }
}

#[test]
fn at_most_eight_missing_parts_are_named() {
    let select = |count: usize| {
        let parts: Vec<_> = (0..count).map(|part| format!("p{part}")).collect();
        missing(&format!("[{}]", parts.join(",")), "{}")
    };
    assert_eq!(select(3), ["p0", "p1", "p2"]);
    assert_eq!(select(8).len(), 8);
    assert_eq!(select(9), select(8));
}
