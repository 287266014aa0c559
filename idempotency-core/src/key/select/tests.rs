use serde::Serialize;
use serde_json::value::RawValue;

use super::*;
use crate::key::{Expression, JsonErrorKind};

const TEXTS: [&str; 24] = [
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

const EXPRESSIONS: [&str; 20] = [
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
    "powertools_json(body).a.b[0]",
    "keys(d)",
    "to_string(a.b)",
    "type(d)",
    "'constant'",
];

/// Returns the value of an expression on a payload, as text, with the missing parts, or the error.
fn value(expression: &Expression, payload: &Json) -> String {
    match expression.select(payload) {
        Ok(selection) => format!("{} {:?}", selection.value.to_canonical(), selection.missing),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_expression_has_the_same_value_on_what_it_looks_at() {
    for expression in EXPRESSIONS {
        let expression = Expression::compile(expression).unwrap();
        for text in TEXTS {
            let read = expression
                .needs()
                .read(text.as_bytes(), &mut Budget::unbounded());
            match (Json::parse(text), read) {
                (Ok(whole), Ok(part)) => {
                    assert_eq!(
                        value(&expression, &part),
                        value(&expression, &whole),
                        "{text}"
                    );
                }
                (whole, part) => assert_eq!(part.err(), whole.err(), "{expression} {text}"),
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

#[derive(Serialize)]
struct Order<'a> {
    id: u64,
    price: f32,
    total: f64,
    raw: &'a RawValue,
    /// A map whose keys are not strings or numbers cannot be written as JSON.
    unwritable: std::collections::BTreeMap<(u8, u8), u8>,
}

fn order(raw: &RawValue) -> Order<'_> {
    Order {
        id: u64::MAX,
        price: 0.1,
        total: f64::NAN,
        raw,
        unwritable: [((1, 2), 3)].into(),
    }
}

#[test]
fn a_value_is_taken_as_its_text_would_be_read() {
    let raw =
        RawValue::from_string(r#"{"b": 12345678901234567890123, "c": [1]}"#.to_owned()).unwrap();
    let order = order(&raw);
    let taken = |text: &str| {
        let expression = Expression::compile(text).unwrap();
        let parts = expression.needs().take(&order, &mut Budget::unbounded())?;
        Ok(expression.evaluate(&parts).unwrap().to_canonical())
    };
    assert_eq!(taken("id"), Ok("18446744073709551615".to_owned()));
    assert_eq!(taken("[price, total]"), Ok("[0.1, null]".to_owned()));
    assert_eq!(taken("raw.b"), Ok("12345678901234567890123".to_owned()));
    assert_eq!(
        taken("raw"),
        Ok(r#"{"b": 12345678901234567890123, "c": [1]}"#.to_owned())
    );
    assert_eq!(taken("type(raw)"), Ok(r#""object""#.to_owned()));
    assert_eq!(taken("unwritable"), Err(Unfit), "the text has the error");
    assert_eq!(taken("@"), Err(Unfit));
}

#[test]
fn a_value_beyond_the_budget_or_too_deep_is_written_as_text() {
    let long = "x".repeat(1000);
    assert_eq!(Needs::All.take(&long, &mut Budget::new(1000)), Err(Unfit));
    assert!(Needs::Kind.take(&long, &mut Budget::new(0)).is_ok());
    let mut nested = serde_json::Value::Null;
    for _ in 0..128 {
        nested = serde_json::Value::Array(vec![nested]);
    }
    assert!(Needs::All.take(&nested, &mut Budget::unbounded()).is_ok());
    let deeper = vec![nested];
    assert_eq!(
        Needs::All.take(&deeper, &mut Budget::unbounded()),
        Err(Unfit)
    );
}
