use super::*;
use crate::key::{Expression, JsonErrorKind};

const TEXTS: [&str; 43] = [
    r#"{"a": {"b": [1]}, "a": 2}"#,
    r#"{"a": {"b": [1], "c": {}}, "d": 1, "a": {"c": {"c": 3}}, "d": {"e": 4}}"#,
    r#"{"a": {"b": [1], "b": [2, 3]}, "a": {"b": "last", "b": [4, {"c": 5}]}}"#,
    r#"{"headers": {"X-KEY": "1"}, "headers": null}"#,
    r#"{"headers": {"x-key": "1", "X-KEY": "2", "x-Key": "3", "x-key": "4"}, "multiValueHeaders": {"x-key": []}}"#,
    r#"{"multiValueHeaders": {"X-KEY": ["1", "2"], "y": [3]}, "headers": []}"#,
    r#"{"headers": {"X-KEY": 7}}"#,
    r#"{"d": 1, "requestContext": {"identity": {"userArn": "arn:aws:iam::123456789012:root", "x": 1}}}"#,
    r#"{"": {"": "empty"}, "a": {"": 0}}"#,
    r#"{"a": {"b": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,{"c":16},17,18,[19]]}}"#,
    r#"{"a": {"b": [{"c":0},1,2,3,4,5,6,7,8,9,10,11,12,13,14,{"c":15}]}, "d": [1]}"#,
    r#"{"a": [[{"b": 1}], {"b": [2, 3]}, [[{"b": 4}, []]], "b", null, {"b": null}]}"#,
    r#"{"d": NaN, "a": {"b": [1.50, -0, -0.0, 1E2, 1e400, 123456789012345678901234567890]}}"#,
    r#"{"\ud800": 1, "a": {"b": ["\ud800", "\ud83d\ude00", "\u0000"]}}"#,
    r#"{"d": "", "a": {"b": [[], {}, "", null, false, 0]}}"#,
    r#"{"body": "{\"a\": {\"b\": [1], \"b\": [2, 3]}, \"rest\": {\"e\": 1}, \"rest\": [{\"e\": 2}]}", "d": []}"#,
    r#"{"body": "{\"a\": 1, \"rest\": [1,]}"}"#,
    r#"{"body": "\"{\\"a\\": {\\"b\\": [8]}, \\"rest\\": 1}\""}"#,
    r#"{"a": [{"id": 1, "body": "{\"e\": 2, \"f\": [1]}"}, {"id": 2, "body": "{\"e\": 1, \"g\": {}}"}]}"#,
    r#"{"a": {"b": [1, {"c": "x"}, "y"]}, "d": null}"#,
    r#"{"a": 1, "a": {"b": [[2], [3, 4]]}}"#,
    r#"{"\u0061": {"\u0062": ["escaped"]}}"#,
    r#"{"a": {"b": {}}, "headers": {"X-Key": "1", "x-key": ["2", null]}}"#,
    r#"{"body": "{\"a\": {\"b\": [7]}, \"rest\": [1, 2]}"}"#,
    r#"[{"a": 1}, {"a": null}, {"b": 2}, 3, [{"a": 4}]]"#,
    "[]",
    "{}",
    "null",
    "-Infinity",
    "-1",
    r#""text""#,
    "{\"a\": [1, 2, 3",
    "{\"a\": [1, 2, 3,]}",
    "{\"d\": tru, \"a\": 1}",
    "{\"d\": \"\u{1}\", \"a\": 1}",
    r#"{"d": "\x", "a": 1}"#,
    r#"{"d": 01, "a": 1}"#,
    r#"{"d": -, "a": 1}"#,
    r#"{"d": 1., "a": 1}"#,
    r#"{"d" 1, "a": 1}"#,
    r#"{d: 1, "a": 1}"#,
    "{\"a\": 1} x",
    "\u{feff}{}",
];

const EXPRESSIONS: [&str; 99] = [
    "a.b[15].c",
    "a.b[-5].c",
    "a.b[-16].c",
    "a.b[-17].c",
    "a.b[-20]",
    "[a.b[-1], a.b[-4]]",
    "[a.b[1], a.b[-2]]",
    "[a.b[1], a.b[3], length(a.b)]",
    "[a.b[2].c, a.b[*].c]",
    "[a.b[1:3], a.b[0]]",
    "a.b[1:9:3]",
    "a.b[4:2]",
    "a.b[:64]",
    "a.b[-3:]",
    "a.b[-3:18].c",
    "a.b[::-1]",
    "a.b[1:][0]",
    "a.b[*].c | [0]",
    "a.b[?c] | [-1].c",
    "a[].b",
    "a[][].b",
    "a[].b[]",
    "a[].b[0]",
    "a[] | [1].b",
    "a[*][0].b",
    "a[*].[b, @]",
    "a[*].type(b)",
    "a.*",
    "a.* | [0]",
    "*.b",
    "@.a.b",
    "a.{x: b, y: @}",
    "{x: a, y: @}.y.d",
    "[a, d][1]",
    "[a.b, d][?@]",
    "a || d",
    "(a || d).b",
    "(d || a).b[0]",
    "(d && a).b[0]",
    "!a.b",
    "[!a.b, !d]",
    "a == d",
    "a.b == `[1]`",
    "a.b != d",
    "d < `2`",
    "not_null(a.zz, d.e, a.b)[0]",
    "not_null(d, a).b[0]",
    "merge(a, a).b",
    "keys(@)",
    "values(a)",
    "map(&b, a)",
    "map(&type(@), a.b)",
    "sort_by(a, &id)[0].body",
    "max_by(a, &id).body",
    "contains(a.b, `1`)",
    "join(',', a.b)",
    "type(a)",
    "type(a.b[1])",
    "[type(a.b), type(d), a.b[0]]",
    "to_array(a)[0].b",
    "reverse(a.b)[0]",
    r#"""."""#,
    r#"a."\u0062"[0]"#,
    "headers.\"X-KEY\"",
    "[header(@, 'x-key'), headers.\"X-KEY\"]",
    "powertools_json(body).[a.b[0], type(rest), rest[-1].e]",
    "[powertools_json(body).a.b, powertools_json(body).rest]",
    "(powertools_json(body) || d).a",
    "not_null(powertools_json(body).zz, powertools_json(body).a).b[-1]",
    "powertools_json(powertools_json(body)).a.b",
    "a[*].powertools_json(body).e",
    "a[?powertools_json(body).e == `1`].id",
    "sort_by(a, &powertools_json(body).e)[*].id",
    "map(&powertools_json(body).f[0], a)",
    "type(powertools_json(body).a)",
    "length(powertools_json(body))",
    "powertools_json(body).*",
    "a",
    "a.b",
    "a.b[0]",
    "a.b[-1]",
    "a.b[-3]",
    "a.b[1].c",
    "[a.b[0], d]",
    "{x: a.b, y: d.e}",
    "a.b[:2]",
    "a.b[0:1].c",
    "[*].a",
    "[].a",
    "[?a].a",
    "[-1][0].a",
    "header(@, 'x-KEY')",
    "iam_caller(@)",
    "[iam_caller(@), d]",
    "powertools_json(body).a.b[0]",
    "keys(d)",
    "to_string(a.b)",
    "type(d)",
    "'constant'",
];

/// Returns the value of an expression on a payload, as text, with the missing parts, or the error.
pub(super) fn value(expression: &Expression, payload: &Json) -> String {
    match expression.select(payload) {
        Ok(selection) => format!("{} {:?}", selection.value.to_canonical(), selection.missing),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_expression_has_the_same_value_on_what_it_looks_at() {
    for text in EXPRESSIONS {
        let expression = Expression::compile(text).unwrap();
        let interpreter = Expression::looking_at_all(text);
        for event in TEXTS {
            let read = |event: &str| {
                let mut budget = Budget::unbounded();
                expression.needs().read(event.as_bytes(), &mut budget)
            };
            match (Json::parse(event), read(event)) {
                (Ok(whole), Ok(part)) => {
                    let expected = value(&interpreter, &whole);
                    assert_eq!(value(&expression, &part), expected, "{text} {event}");
                    assert_eq!(value(&expression, &whole), expected, "{text} {event}");
                }
                (whole, part) => assert_eq!(part.err(), whole.err(), "{text} {event}"),
            }
            if let Ok(typed) = serde_json::from_str::<serde_json::Value>(event) {
                let whole = Json::parse(&typed.to_string()).unwrap();
                let part = expression.needs().take(&typed, &mut Budget::unbounded());
                let expected = value(&interpreter, &whole);
                assert_eq!(
                    value(&expression, &part.unwrap()),
                    expected,
                    "{text} {typed}"
                );
            }
        }
    }
}

#[test]
fn what_is_left_out_takes_no_memory() {
    let large = format!("[{}0]", "0,".repeat(10_000));
    let text = format!(r#"{{"large": {large}, "text": "{large}", "a": [{large}, 7, {large}]}}"#);
    for (expression, most) in [
        ("a[1]", 300),
        ("a[-2]", 300),
        ("a[1:2]", 300),
        ("b", 0),
        ("type(a)", 200),
    ] {
        let expression = Expression::compile(expression).unwrap();
        let mut budget = Budget::new(1_000_000);
        expression
            .needs()
            .read(text.as_bytes(), &mut budget)
            .unwrap();
        assert!(
            budget.charged() <= most,
            "{expression}: {} bytes",
            budget.charged()
        );
    }
    let whole = Needs::All.read(text.as_bytes(), &mut Budget::new(100_000));
    assert_eq!(whole.unwrap_err().kind(), JsonErrorKind::TooLarge);
}

#[test]
fn the_depth_and_the_length_of_numbers_are_limited_in_what_is_left_out() {
    for needs in [
        Needs::Kind,
        Needs::member("a".into(), Needs::All),
        Needs::All,
    ] {
        let read = |text: String| needs.read(text.as_bytes(), &mut Budget::unbounded());
        let nested =
            |levels: usize| format!("{{\"b\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(nested(127)).is_ok());
        assert_eq!(
            read(nested(128)).unwrap_err().kind(),
            JsonErrorKind::TooDeep
        );
        assert!(read(format!("{{\"b\":-{}}}", "9".repeat(4300))).is_ok());
        let error = read(format!("{{\"b\":-{}}}", "9".repeat(4301))).unwrap_err();
        assert_eq!(error.kind(), JsonErrorKind::NumberTooLong);
    }
}

#[test]
fn a_name_is_found_among_many_and_after_a_long_escaped_one() {
    let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let expression = Expression::compile(&format!("[{}]", names.join(", "))).unwrap();
    let text = format!(
        r#"{{"{}": 1, "n7": 2, "\u006e19": 3}}"#,
        r"\u006e".repeat(100)
    );
    let part = expression
        .needs()
        .read(text.as_bytes(), &mut Budget::unbounded())
        .unwrap();
    assert_eq!(part.to_canonical(), r#"{"n19": 3, "n7": 2}"#);
}
