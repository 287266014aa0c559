//! The results of functions, operators and literals, each as in the reference implementation in Python.

use super::super::*;
use super::{check, check_each, evaluate};

#[test]
fn functions_of_numbers() {
    check(
        r#"{"n": [3, 1, 2], "f": [0.5, 1, 0.25], "none": [], "m": [1, 2.5, 3], "s": -1.5, "b": [-7, -7.0]}"#,
        r"
        abs(s) => 1.5
        abs(`-3`); max(n) => 3
        ceil(s) => -1
        floor(s) => -2
        ceil(`1.2`) => 2
        floor(`7`) => 7
        sum(n) => 6
        sum(f) => 1.75
        sum(m) => 6.5
        sum(none) => 0
        avg(n) => 2.0
        avg(f) => 0.5833333333333334
        avg(none); max(none); min(none) => null
        min(n); max(f) => 1
        min(f) => 0.25
        max(b); min(b) => -7
        sort(n) => [1, 2, 3]
        sort(f) => [0.25, 0.5, 1]
        sort(b) => [-7, -7.0]
        sort(none) => []
        ",
    );
    check(
        &r#"{"b": true, "s": ["a"], "x": ["a", 1], "i": Infinity, "n": [1, "a"], "big": [BIG, 0.5], "e": [0.5, BIG]}"#.replace("BIG", &"9".repeat(309)),
        r"
        abs(b) => error: `abs` takes a number, not a boolean
        ceil(i) => error: `ceil` failed: the number is infinite or not a number
        sum(s) => error: `sum` takes an array of numbers, not a string
        avg(s) => error: `avg` takes an array of numbers, not a string
        sum(b) => error: `sum` takes an array, not a boolean
        max(x) => error: `max` takes only numbers or only strings, not a number
        sort(n) => error: `sort` takes only numbers or only strings, not a string
        sort([b]) => error: `sort` takes only numbers or only strings, not a boolean
        sort([`[]`, `{}`]) => error: `sort` takes only numbers or only strings, not an array
        min([`{}`]) => error: `min` takes only numbers or only strings, not an object
        sum([`null`]) => error: `sum` takes an array of numbers, not null
        sort([`1`, i, `0.5`, `NaN`]) => error: `sort` failed: not-a-number cannot be sorted
        sum(big); sum(e) => error: `sum` failed: an integer is beyond the range of floats
        avg([big[0]]) => error: `avg` failed: the result is beyond the range of floats
        ",
    );
    check_each(
        r#"
        sort(@) on [NaN] => [NaN]
        max(@) on [NaN, 1] => NaN
        sum(@) on [1, 2, 0.5, 4] => 7.5
        sum(@) on [9223372036854775807, 1] => 9223372036854775808
        abs(@) on -9223372036854775808 => 9223372036854775808
        ceil(@) on 1e20 => 100000000000000000000
        avg(@) on [1, 2] => 1.5
        a on {"a": 123456789012345678901} => 123456789012345678901
        `123456789012345678901` on null => 123456789012345678901
        "#,
    );
}

#[test]
fn functions_of_strings_and_arrays() {
    check(
        r#"{"s": "aé😀", "a": [1, "x", [2]], "t": ["b", "a", "c"], "o": {"b": 1, "a": [2]}, "e": ""}"#,
        r#"
        length(s); length(a) => 3
        length(o) => 2
        reverse(s) => "\ud83d\ude00\u00e9a"
        reverse(a) => [[2], "x", 1]
        contains(s, 'é'); contains(a, 'x'); contains(a, `[2]`); starts_with(s, 'aé') => true
        ends_with(s, '😀') => true
        contains(s, 'x'); contains(a, `3`); starts_with(s, 'é'); ends_with(s, 'é') => false
        join('-', t) => "b-a-c"
        join('', t) => "bac"
        join('-', `[]`); not_null(none, e, s) => ""
        join('-', ['x']) => "x"
        sort(t) => ["a", "b", "c"]
        max(t) => "c"
        min(t) => "a"
        keys(o) => ["b", "a"]
        values(o) => [1, [2]]
        to_array(a) => [1, "x", [2]]
        to_array(s) => ["a\u00e9\ud83d\ude00"]
        to_string(s) => "a\u00e9\ud83d\ude00"
        to_string(a) => "[1,\"x\",[2]]"
        to_number('12') => 12
        to_number('1.5') => 1.5
        to_number('x'); to_number(a); not_null(none, none) => null
        to_number(`2.5`) => 2.5
        type(s) => "string"
        type(`1`) => "number"
        type(`null`) => "null"
        map(&@[0], [a, t]) => [1, "b"]
        map(&none, a) => [null, null, null]
        "#,
    );
    check(
        r#"{"n": 1, "s": "x", "a": ["x", 1]}"#,
        r"
        length(n) => error: `length` takes a string, an array or an object, not a number
        reverse(n) => error: `reverse` takes an array or a string, not a number
        contains(n, s) => error: `contains` takes an array or a string, not a number
        contains(s, n) => error: `contains` takes strings, not a number
        starts_with(s, n) => error: `starts_with` takes strings, not a number
        ends_with(n, s) => error: `ends_with` takes strings, not a number
        join(s, a); join(n, a) => error: `join` takes strings, not a number
        join(s, s) => error: `join` takes an array, not a string
        keys(a) => error: `keys` takes an object, not an array
        values(s) => error: `values` takes an object, not a string
        map(&@, s) => error: `map` takes an array, not a string
        not_null(s, keys(n)) => error: `keys` takes an object, not a number
        powertools_json(n) => error: `powertools_json` takes a string, not a number
        powertools_base64(n) => error: `powertools_base64` takes a string, not a number
        powertools_base64_gzip(n) => error: `powertools_base64_gzip` takes a string, not a number
        powertools_base64('x') => error: `powertools_base64` failed: the text is not base64: it has one character too many
        powertools_base64_gzip('eA==') => error: `powertools_base64_gzip` failed: the decoded bytes are not gzip data
        ",
    );
}

#[test]
fn functions_that_sort_by_an_expression() {
    check(
        r#"[{"n": 2, "s": "x"}, {"n": 1, "s": "z"}, {"n": 2, "s": "y"}]"#,
        r#"
        sort_by(@, &n)[*].s => ["z", "x", "y"]
        sort_by(@, &s)[*].s => ["x", "y", "z"]
        min_by(@, &n).s => "z"
        max_by(@, &n).s => "x"
        max_by(@, &s).n => 1
        min_by(`[]`, &n); max_by(`[]`, &n) => null
        sort_by(`[]`, &n) => []
        sort_by(@, &@) => error: `sort_by` takes only numbers or only strings, not an object
        max_by(@[0], &n) => error: `max_by` takes an array, not an object
        "#,
    );
}

#[test]
fn merge_takes_objects_and_pairs() {
    check(
        r#"{"a": {"x": 1, "y": 2}, "b": {"y": 3, "z": 4}}"#,
        r#"
        merge(a, b) => {"x": 1, "y": 3, "z": 4}
        merge(a); merge(a, ''); merge(a, `[]`) => {"x": 1, "y": 2}
        merge(a, `[["x", 5], ["w", null]]`) => {"w": null, "x": 5, "y": 2}
        merge(a, `["pq"]`); merge(a, `[{"p": 1, "q": 2}]`) => {"p": "q", "x": 1, "y": 2}
        keys(merge(b, a)) => ["y", "z", "x"]
        "#,
    );
    check(
        r#"{"a": {}, "s": "pq"}"#,
        r#"
        merge(s); merge(a, s) => error: `merge` takes objects, not a string
        merge(a, `1`) => error: `merge` takes objects, not a number
        merge(a, `[1]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `["p"]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `["pqr"]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `[["p"]]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `[["p", 1, 2]]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `[[1, 2]]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `[{"p": 1}]`) => error: `merge` failed: an array must have pairs as its elements
        merge(a, `[{"p": 1, "q": 2, "r": 3}]`) => error: `merge` failed: an array must have pairs as its elements
        "#,
    );
}

#[test]
fn comparisons_and_conditions() {
    let payload = r#"{"a": 1, "b": 2.5, "s": "x", "t": "y", "n": null, "l": [1, {"k": "v"}], "e": [], "z": 0, "nan": NaN, "f": false, "tt": true}"#;
    check(
        payload,
        r#"
        a < b; b > a; a <= `1`; a >= `1`; s < t; s >= s; a == `1.0`; `1.0` == a; b == `2.5` => true
        a != s; s == 'x'; n == none; f == `false`; l == `[1, {"k": "v"}]` => true
        l == `[1.0, {"k": "v"}]`; `{"a": 1, "b": 2}` == `{"b": 2, "a": 1}` => true
        `[true, 0]` == `[1.0, false]`; `[1]` == `[true]`; !f; !e; !`{}`; !''; !n => true
        b < a; a > b; a <= `0`; a >= `2`; a < `1`; a > `1`; t <= s; nan == nan; nan < a => false
        nan >= a; a == s; a != a; s == 'y'; n == f; f == tt; tt == a; a == tt => false
        l == `[1, {"k": "w"}]`; l == `[1, {"j": "v"}]`; l == `[1]` => false
        `{"a": 1}` == `{"a": 1, "b": 2}`; `["1"]` == `[1]`; `[null]` == `[0]`; !z; !tt; !l => false
        !`{"a": 1}`; !s; !nan => false
        a < n; l < a; tt > a => null
        a && s; e || s; z && s => "x"
        e && s => []
        a || s => 1
        a < s; s >= a => error: a number cannot be compared with a string
        "#,
    );
    for (text, holds) in [
        ("tt", true),
        ("f", false),
        ("e", false),
        ("z", true),
        ("none", false),
    ] {
        let payload = Json::parse(payload).unwrap();
        let expression = Expression::compile(text).unwrap();
        let found = expression.holds_within(&payload, &mut Budget::of_one_evaluation());
        assert_eq!(found, Ok(holds), "{text}");
    }
    check_each(
        r#"
        @ == `1` on true => false
        @ == `[1.0]` on [true] => true
        contains(@, `0`) on [false] => true
        a < b on {"a": 1, "b": null} => null
        to_string(@) on {"b": 1, "a": 1.0} => "{\"b\":1,\"a\":1.0}"
        sort(@) on [1, NaN] => error: `sort` failed: not-a-number cannot be sorted
        min_by(@, &@) on ["a", 1] => error: `min_by` takes only numbers or only strings, not a number
        "#,
    );
}

#[test]
fn fields_indices_slices_and_projections() {
    check(
        r#"{"l": [0, 1, 2, 3], "o": {"x": {"n": 1}, "y": {"n": 2}, "z": 3}, "p": [[1, 2], 3, [[4]]], "q": [{"n": 1}, {"m": 1}, {"n": 0}]}"#,
        r#"
        l[0]; l[-4] => 0
        l[3]; l[-1] => 3
        l[4]; l[-5]; o[0]; l.x; o[1:]; l.*; o[]; o[*].n; none.[a]; none.{x: a} => null
        l[1:3]; l[-3:-1]; o.*.n; values(o)[?n].n => [1, 2]
        l[:2]; l[-9:2]; l[0:2] => [0, 1]
        l[2:]; l[-2:] => [2, 3]
        l[::2] => [0, 2]
        l[::3] => [0, 3]
        l[::-1]; l[9::-1] => [3, 2, 1, 0]
        l[::-2]; l[5:-5:-2] => [3, 1]
        l[::-3] => [3, 0]
        l[1::-3] => [1]
        l[9:]; l[:-9]; l[0:0]; l[-1:2]; l[3:1]; l[1:3:-1] => []
        l[:9]; l[:99999999999999999999] => [0, 1, 2, 3]
        l[2::-1] => [2, 1, 0]
        l[:1:-1] => [3, 2]
        l[:0:-1]; l[-1:0:-1] => [3, 2, 1]
        p[] => [1, 2, 3, [4]]
        q[*].n; q[?n].n => [1, 0]
        q[?n == `1`] => [{"n": 1}]
        q[?!n] => [{"m": 1}]
        q[*].[n, m] => [[1, null], [null, 1], [0, null]]
        {x: l[0], y: o.z} => {"x": 0, "y": 3}
        @ | l | [1] => 1
        keys(o) => ["x", "y", "z"]
        "#,
    );
}

#[test]
fn literals_and_quoted_names() {
    check(
        r#"{"a b": 1, "é": 2, "\n": 3}"#,
        r#"
        "a b" => 1
        "é"; "\u00e9" => 2
        "\n" => 3
        'raw' => "raw"
        `foo`; `  foo` => "foo"
        `{"a": [1]}` => {"a": [1]}
        {"x y": `1`} => {"x y": 1}
        "#,
    );
    // Python removes these as white space.
    for space in ["\u{1c}", "\u{1f}", "\u{a0}"] {
        assert_eq!(evaluate(&format!("`{space}foo`"), "0"), r#""foo""#);
    }
    assert!(Expression::compile("`a\"b`").is_err());
}

#[test]
fn an_expression_has_its_text_and_an_error_its_place() {
    let expression: Expression = "body.[a, b]".parse().unwrap();
    assert_eq!(expression.as_str(), "body.[a, b]");
    assert_eq!(expression.to_string(), "body.[a, b]");
    assert!(expression == Expression::compile("body.[a, b]").unwrap());
    assert!(expression != Expression::compile("body.[a]").unwrap());
    assert!("body.[a".parse::<Expression>().is_err());
    let error = Expression::compile("a.lenght(body)").unwrap_err();
    assert_eq!(
        (error.offset(), error.message()),
        (2, "unknown function `lenght`; did you mean `length`?")
    );
}

#[test]
fn wrapped_texts_are_unwrapped() {
    check(
        r#"{"j": "{\"a\": [1]}", "b": "eyJhIjogMX0="}"#,
        r#"
        powertools_json(j).a => [1]
        powertools_base64(b) => "{\"a\": 1}"
        powertools_json(powertools_base64(b)).a => 1
        "#,
    );
    let encoded = "; the text is base64: decode it first, `powertools_json(powertools_base64(..))`";
    let long = format!("eyJhIjogMX0g{}=", "ICAg".repeat(100));
    for (text, column, suggested) in [
        ("eyJhIjogMX0=", 1, true),
        ("WzFd", 1, true),
        ("ImEi", 1, true),
        ("ICAiYSI=", 1, true),
        (&long, 1, true),
        ("YWJj", 1, false),
        ("", 1, false),
        ("{", 2, false),
        ("secret", 1, false),
        ("{\"a\": secret}", 7, false),
    ] {
        let payload = Json::parse(&format!("{text:?}")).unwrap();
        let expression = Expression::compile("powertools_json(@)").unwrap();
        let error = expression.evaluate(&payload).unwrap_err();
        let reason = match column {
            2 => "a member's name in double quotes",
            _ => "a value",
        };
        let message = format!(
            "`powertools_json` failed: invalid JSON: expected {reason} at line 1, column {column}{}",
            if suggested { encoded } else { "" }
        );
        assert_eq!(error.to_string(), message);
        assert!(!format!("{error:?}").contains("secret"));
    }
}
