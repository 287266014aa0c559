//! The results of functions, operators and literals, each as in the reference implementation in Python.

use super::super::*;
use super::{evaluate, value};

/// Compares values of expressions on one payload.
fn compare(payload: &str, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(value(expression, payload), *expected, "{expression}");
    }
}

/// Compares the texts of errors on one payload.
fn refused(payload: &str, cases: &[(&str, &str)]) {
    for (expression, message) in cases {
        let error = evaluate(expression, payload).unwrap_err();
        assert_eq!(error.to_string(), *message, "{expression}");
    }
}

#[test]
fn functions_of_numbers() {
    compare(
        r#"{"n": [3, 1, 2], "f": [0.5, 1, 0.25], "none": [], "m": [1, 2.5, 3], "s": -1.5, "b": [-7, -7.0]}"#,
        &[
            ("abs(s)", "1.5"),
            ("abs(`-3`)", "3"),
            ("ceil(s)", "-1"),
            ("floor(s)", "-2"),
            ("ceil(`1.2`)", "2"),
            ("floor(`7`)", "7"),
            ("sum(n)", "6"),
            ("sum(f)", "1.75"),
            ("sum(m)", "6.5"),
            ("sum(none)", "0"),
            ("avg(n)", "2.0"),
            ("avg(f)", "0.5833333333333334"),
            ("avg(none)", "null"),
            ("max(n)", "3"),
            ("min(n)", "1"),
            ("max(f)", "1"),
            ("min(f)", "0.25"),
            ("max(b)", "-7"),
            ("min(b)", "-7"),
            ("max(none)", "null"),
            ("min(none)", "null"),
            ("sort(n)", "[1, 2, 3]"),
            ("sort(f)", "[0.25, 0.5, 1]"),
            ("sort(b)", "[-7, -7.0]"),
            ("sort(none)", "[]"),
        ],
    );
    assert_eq!(value("sort(@)", "[NaN]"), "[NaN]");
    assert_eq!(value("max(@)", "[NaN, 1]"), "NaN");
    assert_eq!(value("sum(@)", "[1, 2, 0.5, 4]"), "7.5");
    refused(
        r#"{"b": true, "s": ["a"], "x": ["a", 1], "i": Infinity, "n": [1, "a"], "big": [BIG, 0.5], "e": [0.5, BIG]}"#
            .replace("BIG", &"9".repeat(309))
            .as_str(),
        &[
            ("abs(b)", "`abs` takes a number, not a boolean"),
            ("ceil(i)", "`ceil` failed: the number is infinite or not a number"),
            ("sum(s)", "`sum` takes an array of numbers, not a string"),
            ("avg(s)", "`avg` takes an array of numbers, not a string"),
            ("sum(b)", "`sum` takes an array, not a boolean"),
            ("max(x)", "`max` takes only numbers or only strings, not a number"),
            ("sort(n)", "`sort` takes only numbers or only strings, not a string"),
            ("sort([b])", "`sort` takes only numbers or only strings, not a boolean"),
            ("sort([`[]`, `{}`])", "`sort` takes only numbers or only strings, not an array"),
            ("min([`{}`])", "`min` takes only numbers or only strings, not an object"),
            ("sum([`null`])", "`sum` takes an array of numbers, not null"),
            ("sort([`1`, i, `0.5`, `NaN`])", "`sort` failed: not-a-number cannot be sorted"),
            ("sum(big)", "`sum` failed: an integer is beyond the range of floats"),
            ("sum(e)", "`sum` failed: an integer is beyond the range of floats"),
            ("avg([big[0]])", "`avg` failed: the result is beyond the range of floats"),
        ],
    );
}

#[test]
fn functions_of_strings_and_arrays() {
    compare(
        r#"{"s": "aé😀", "a": [1, "x", [2]], "t": ["b", "a", "c"], "o": {"b": 1, "a": [2]}, "e": ""}"#,
        &[
            ("length(s)", "3"),
            ("length(a)", "3"),
            ("length(o)", "2"),
            ("reverse(s)", r#""\ud83d\ude00\u00e9a""#),
            ("reverse(a)", r#"[[2], "x", 1]"#),
            ("contains(s, 'é')", "true"),
            ("contains(s, 'x')", "false"),
            ("contains(a, 'x')", "true"),
            ("contains(a, `[2]`)", "true"),
            ("contains(a, `3`)", "false"),
            ("starts_with(s, 'aé')", "true"),
            ("starts_with(s, 'é')", "false"),
            ("ends_with(s, '😀')", "true"),
            ("ends_with(s, 'é')", "false"),
            ("join('-', t)", r#""b-a-c""#),
            ("join('', t)", r#""bac""#),
            ("join('-', `[]`)", r#""""#),
            ("join('-', ['x'])", r#""x""#),
            ("sort(t)", r#"["a", "b", "c"]"#),
            ("max(t)", r#""c""#),
            ("min(t)", r#""a""#),
            ("keys(o)", r#"["b", "a"]"#),
            ("values(o)", "[1, [2]]"),
            ("to_array(a)", r#"[1, "x", [2]]"#),
            ("to_array(s)", r#"["a\u00e9\ud83d\ude00"]"#),
            ("to_string(s)", r#""a\u00e9\ud83d\ude00""#),
            ("to_string(a)", r#""[1,\"x\",[2]]""#),
            ("to_number('12')", "12"),
            ("to_number('1.5')", "1.5"),
            ("to_number('x')", "null"),
            ("to_number(`2.5`)", "2.5"),
            ("to_number(a)", "null"),
            ("type(s)", r#""string""#),
            ("type(`1`)", r#""number""#),
            ("type(`null`)", r#""null""#),
            ("not_null(none, e, s)", r#""""#),
            ("not_null(none, none)", "null"),
            ("map(&@[0], [a, t])", r#"[1, "b"]"#),
            ("map(&none, a)", "[null, null, null]"),
        ],
    );
    refused(
        r#"{"n": 1, "s": "x", "a": ["x", 1]}"#,
        &[
            (
                "length(n)",
                "`length` takes a string, an array or an object, not a number",
            ),
            (
                "reverse(n)",
                "`reverse` takes an array or a string, not a number",
            ),
            (
                "contains(n, s)",
                "`contains` takes an array or a string, not a number",
            ),
            ("contains(s, n)", "`contains` takes strings, not a number"),
            (
                "starts_with(s, n)",
                "`starts_with` takes strings, not a number",
            ),
            ("ends_with(n, s)", "`ends_with` takes strings, not a number"),
            ("join(s, a)", "`join` takes strings, not a number"),
            ("join(n, a)", "`join` takes strings, not a number"),
            ("join(s, s)", "`join` takes an array, not a string"),
            ("keys(a)", "`keys` takes an object, not an array"),
            ("values(s)", "`values` takes an object, not a string"),
            ("map(&@, s)", "`map` takes an array, not a string"),
            (
                "not_null(s, keys(n))",
                "`keys` takes an object, not a number",
            ),
            (
                "powertools_json(n)",
                "`powertools_json` takes a string, not a number",
            ),
            (
                "powertools_base64(n)",
                "`powertools_base64` takes a string, not a number",
            ),
            (
                "powertools_base64_gzip(n)",
                "`powertools_base64_gzip` takes a string, not a number",
            ),
            (
                "powertools_base64('x')",
                "`powertools_base64` failed: the text is not base64: it has one character too many",
            ),
            (
                "powertools_base64_gzip('eA==')",
                "`powertools_base64_gzip` failed: the decoded bytes are not gzip data",
            ),
        ],
    );
}

#[test]
fn functions_that_sort_by_an_expression() {
    let payload = r#"[{"n": 2, "s": "x"}, {"n": 1, "s": "z"}, {"n": 2, "s": "y"}]"#;
    compare(
        payload,
        &[
            ("sort_by(@, &n)[*].s", r#"["z", "x", "y"]"#),
            ("sort_by(@, &s)[*].s", r#"["x", "y", "z"]"#),
            ("min_by(@, &n).s", r#""z""#),
            ("max_by(@, &n).s", r#""x""#),
            ("max_by(@, &s).n", "1"),
            ("min_by(`[]`, &n)", "null"),
            ("max_by(`[]`, &n)", "null"),
            ("sort_by(`[]`, &n)", "[]"),
        ],
    );
    refused(
        payload,
        &[
            (
                "sort_by(@, &@)",
                "`sort_by` takes only numbers or only strings, not an object",
            ),
            ("max_by(@[0], &n)", "`max_by` takes an array, not an object"),
        ],
    );
}

#[test]
fn merge_takes_objects_and_pairs() {
    compare(
        r#"{"a": {"x": 1, "y": 2}, "b": {"y": 3, "z": 4}}"#,
        &[
            ("merge(a, b)", r#"{"x": 1, "y": 3, "z": 4}"#),
            ("merge(a)", r#"{"x": 1, "y": 2}"#),
            ("merge(a, '')", r#"{"x": 1, "y": 2}"#),
            ("merge(a, `[]`)", r#"{"x": 1, "y": 2}"#),
            (
                r#"merge(a, `[["x", 5], ["w", null]]`)"#,
                r#"{"w": null, "x": 5, "y": 2}"#,
            ),
            (r#"merge(a, `["pq"]`)"#, r#"{"p": "q", "x": 1, "y": 2}"#),
            (
                r#"merge(a, `[{"p": 1, "q": 2}]`)"#,
                r#"{"p": "q", "x": 1, "y": 2}"#,
            ),
            (r#"keys(merge(b, a))"#, r#"["y", "z", "x"]"#),
        ],
    );
    let pairs = "`merge` failed: an array must have pairs as its elements";
    refused(
        r#"{"a": {}, "s": "pq"}"#,
        &[
            ("merge(s)", "`merge` takes objects, not a string"),
            ("merge(a, s)", "`merge` takes objects, not a string"),
            ("merge(a, `1`)", "`merge` takes objects, not a number"),
            ("merge(a, `[1]`)", pairs),
            (r#"merge(a, `["p"]`)"#, pairs),
            (r#"merge(a, `["pqr"]`)"#, pairs),
            (r#"merge(a, `[["p"]]`)"#, pairs),
            (r#"merge(a, `[["p", 1, 2]]`)"#, pairs),
            (r#"merge(a, `[[1, 2]]`)"#, pairs),
            (r#"merge(a, `[{"p": 1}]`)"#, pairs),
            (r#"merge(a, `[{"p": 1, "q": 2, "r": 3}]`)"#, pairs),
        ],
    );
}

#[test]
fn comparisons_and_conditions() {
    let payload = r#"{"a": 1, "b": 2.5, "s": "x", "t": "y", "n": null, "l": [1, {"k": "v"}], "e": [], "z": 0, "nan": NaN, "f": false, "tt": true}"#;
    compare(
        payload,
        &[
            ("a < b", "true"),
            ("b < a", "false"),
            ("b > a", "true"),
            ("a > b", "false"),
            ("a <= `1`", "true"),
            ("a <= `0`", "false"),
            ("a >= `1`", "true"),
            ("a >= `2`", "false"),
            ("a < `1`", "false"),
            ("a > `1`", "false"),
            ("s < t", "true"),
            ("t <= s", "false"),
            ("s >= s", "true"),
            ("nan == nan", "false"),
            ("nan < a", "false"),
            ("nan >= a", "false"),
            ("a < n", "null"),
            ("l < a", "null"),
            ("tt > a", "null"),
            ("a == `1.0`", "true"),
            ("`1.0` == a", "true"),
            ("b == `2.5`", "true"),
            ("a == s", "false"),
            ("a != s", "true"),
            ("a != a", "false"),
            ("s == 'x'", "true"),
            ("s == 'y'", "false"),
            ("n == none", "true"),
            ("n == f", "false"),
            ("f == `false`", "true"),
            ("f == tt", "false"),
            ("tt == a", "false"),
            ("a == tt", "false"),
            (r#"l == `[1, {"k": "v"}]`"#, "true"),
            (r#"l == `[1.0, {"k": "v"}]`"#, "true"),
            (r#"l == `[1, {"k": "w"}]`"#, "false"),
            (r#"l == `[1, {"j": "v"}]`"#, "false"),
            (r#"l == `[1]`"#, "false"),
            (r#"`{"a": 1}` == `{"a": 1, "b": 2}`"#, "false"),
            (r#"`{"a": 1, "b": 2}` == `{"b": 2, "a": 1}`"#, "true"),
            ("`[true, 0]` == `[1.0, false]`", "true"),
            ("`[1]` == `[true]`", "true"),
            ("`[\"1\"]` == `[1]`", "false"),
            ("`[null]` == `[0]`", "false"),
            ("a && s", r#""x""#),
            ("e && s", "[]"),
            ("e || s", r#""x""#),
            ("a || s", "1"),
            ("z && s", r#""x""#),
            ("!z", "false"),
            ("!f", "true"),
            ("!tt", "false"),
            ("!e", "true"),
            ("!l", "false"),
            ("!`{}`", "true"),
            ("!`{\"a\": 1}`", "false"),
            ("!''", "true"),
            ("!s", "false"),
            ("!n", "true"),
            ("!nan", "false"),
        ],
    );
    refused(
        payload,
        &[
            ("a < s", "a number cannot be compared with a string"),
            ("s >= a", "a number cannot be compared with a string"),
        ],
    );
    for (text, holds) in [
        ("tt", true),
        ("f", false),
        ("e", false),
        ("z", true),
        ("none", false),
    ] {
        let payload = Json::parse(payload).unwrap();
        assert_eq!(
            Expression::compile(text).unwrap().holds(&payload),
            Ok(holds),
            "{text}"
        );
    }
}

#[test]
fn fields_indices_slices_and_projections() {
    compare(
        r#"{"l": [0, 1, 2, 3], "o": {"x": {"n": 1}, "y": {"n": 2}, "z": 3}, "p": [[1, 2], 3, [[4]]], "q": [{"n": 1}, {"m": 1}, {"n": 0}]}"#,
        &[
            ("l[0]", "0"),
            ("l[3]", "3"),
            ("l[4]", "null"),
            ("l[-1]", "3"),
            ("l[-4]", "0"),
            ("l[-5]", "null"),
            ("o[0]", "null"),
            ("l.x", "null"),
            ("l[1:3]", "[1, 2]"),
            ("l[:2]", "[0, 1]"),
            ("l[2:]", "[2, 3]"),
            ("l[::2]", "[0, 2]"),
            ("l[::3]", "[0, 3]"),
            ("l[::-1]", "[3, 2, 1, 0]"),
            ("l[::-2]", "[3, 1]"),
            ("l[::-3]", "[3, 0]"),
            ("l[1::-3]", "[1]"),
            ("l[-3:-1]", "[1, 2]"),
            ("l[-9:2]", "[0, 1]"),
            ("l[9:]", "[]"),
            ("l[:9]", "[0, 1, 2, 3]"),
            ("l[:-9]", "[]"),
            ("l[9::-1]", "[3, 2, 1, 0]"),
            ("l[2::-1]", "[2, 1, 0]"),
            ("l[:1:-1]", "[3, 2]"),
            ("l[:0:-1]", "[3, 2, 1]"),
            ("l[-1:0:-1]", "[3, 2, 1]"),
            ("l[0:0]", "[]"),
            ("l[0:2]", "[0, 1]"),
            ("l[-1:2]", "[]"),
            ("l[3:1]", "[]"),
            ("l[1:3:-1]", "[]"),
            ("o[1:]", "null"),
            ("o.*.n", "[1, 2]"),
            ("values(o)[?n].n", "[1, 2]"),
            ("l.*", "null"),
            ("p[]", "[1, 2, 3, [4]]"),
            ("o[]", "null"),
            ("q[*].n", "[1, 0]"),
            ("q[?n].n", "[1, 0]"),
            ("q[?n == `1`]", r#"[{"n": 1}]"#),
            ("q[?!n]", r#"[{"m": 1}]"#),
            ("o[*].n", "null"),
            ("q[*].[n, m]", "[[1, null], [null, 1], [0, null]]"),
            ("none.[a]", "null"),
            ("none.{x: a}", "null"),
            ("{x: l[0], y: o.z}", r#"{"x": 0, "y": 3}"#),
            ("@ | l | [1]", "1"),
        ],
    );
}

#[test]
fn literals_and_quoted_names() {
    compare(
        r#"{"a b": 1, "é": 2, "\n": 3}"#,
        &[
            (r#""a b""#, "1"),
            (r#""é""#, "2"),
            (r#""\u00e9""#, "2"),
            (r#""\n""#, "3"),
            ("'raw'", r#""raw""#),
            ("`foo`", r#""foo""#),
            ("`  foo`", r#""foo""#),
            ("`\u{1c}foo`", r#""foo""#),
            ("`\u{1f}foo`", r#""foo""#),
            ("`\u{a0}foo`", r#""foo""#),
            (r#"`{"a": [1]}`"#, r#"{"a": [1]}"#),
            (r#"{"x y": `1`}"#, r#"{"x y": 1}"#),
        ],
    );
    let error = Expression::compile("`a\"b`").unwrap_err();
    assert!(!error.message().is_empty());
}

#[test]
fn an_expression_has_its_text_and_an_error_its_place() {
    let expression: Expression = "body.[a, b]".parse().unwrap();
    assert_eq!(
        (expression.as_str(), expression.to_string().as_str()),
        ("body.[a, b]", "body.[a, b]")
    );
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
    compare(
        r#"{"j": "{\"a\": [1]}", "b": "eyJhIjogMX0="}"#,
        &[
            ("powertools_json(j).a", "[1]"),
            ("powertools_base64(b)", r#""{\"a\": 1}""#),
            ("powertools_json(powertools_base64(b)).a", "1"),
        ],
    );
    for (text, suggested) in [
        ("eyJhIjogMX0=", true),
        ("WzFd", true),
        ("ImEi", true),
        ("ICAiYSI=", true),
        ("YWJj", false),
        ("", false),
        ("{", false),
    ] {
        let error = evaluate("powertools_json(@)", &format!("{text:?}")).unwrap_err();
        assert_eq!(
            error.to_string().contains("decode it first"),
            suggested,
            "{text}"
        );
    }
    let long = format!("{:?}", format!("eyJhIjogMX0g{}=", "ICAg".repeat(100)));
    let error = evaluate("powertools_json(@)", &long).unwrap_err();
    assert!(error.to_string().contains("decode it first"), "{error}");
}
