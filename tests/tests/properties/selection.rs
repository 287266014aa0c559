//! Selection while reading: a key that is taken while the event is read is the key that the interpreter takes from the whole
//! event, and a value gives the key of its JSON text.

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::error::ErrorKind;
use idempotency_core::key::{Expression, HashAlgorithm, Json, Selector};
use idempotency_core::operation::CompiledOperation;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases;
use crate::expression::{expression, piece};
use crate::shapes::shape;
use crate::strategies::{quoted, tree};

fn operation(
    key: Option<&str>,
    validate: Option<&str>,
    required: KeyRequired,
) -> CompiledOperation {
    let settings = Settings {
        key: key.map(|key| key.to_owned().into()),
        validate: validate.map(|validate| validate.to_owned().into()),
        key_required: Some(required),
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    CompiledOperation::new("charge", &settings, &Variables::default()).unwrap()
}

/// Checks an operation, which reads only what it needs, against the interpreter on the whole event.
fn check_text(key: &str, validate: Option<&str>, event: &str) -> Result<(), TestCaseError> {
    let compile = |text: &str| Expression::compile(text);
    let (Ok(compiled), Ok(validated)) = (compile(key), validate.map(compile).transpose()) else {
        return Ok(());
    };
    if key.trim().is_empty() {
        return Ok(());
    }
    let whole = Selector::new(Some(compiled), validated, HashAlgorithm::Md5);
    let found = operation(Some(key), validate, KeyRequired::No).identify(event, None);
    let json = match Json::parse(event) {
        Ok(json) => json,
        Err(error) => {
            let found = found.unwrap_err();
            prop_assert_eq!(found.kind(), ErrorKind::InvalidPayload);
            prop_assert!(found.to_string().contains(&error.to_string()), "{}", found);
            return Ok(());
        }
    };
    let expected = whole.key(&json).and_then(|key| {
        let validation = key.as_ref().map(|_| whole.validation(&json)).transpose()?;
        Ok((key, validation.flatten()))
    });
    match (expected, found) {
        (Ok((None, _)), Ok(found)) => prop_assert!(found.bypass().is_some()),
        (Ok((Some(key_of_whole), validation)), Ok(found)) => {
            let id = found.key().map(|id| id.as_str().to_owned());
            prop_assert_eq!(id, Some(format!("shop#{}", key_of_whole.digest())));
            prop_assert_eq!(found.validation(), validation.as_deref());
            let missing: Vec<_> = key_of_whole.missing_parts().collect();
            prop_assert_eq!(found.missing_parts().collect::<Vec<_>>(), missing.clone());
            let all = operation(Some(key), validate, KeyRequired::All).identify(event, None);
            prop_assert_eq!(all.is_err(), !missing.is_empty());
        }
        (Err(error), Err(found)) => {
            prop_assert_eq!(found.kind(), ErrorKind::ExpressionFailed);
            prop_assert!(
                found.to_string().contains(&error.to_string()),
                "{} {}",
                found,
                error
            );
        }
        (expected, found) => prop_assert!(false, "{expected:?} of the whole, but {found:?}"),
    }
    Ok(())
}

/// Checks that an expression has the same value on an event and on its text inside another event.
fn check_unwrapped(key: &str, event: &str) -> Result<(), TestCaseError> {
    let compile = |before: &str| Expression::compile(&format!("{before}.[{key}, a]"));
    let (Ok(direct), Ok(unwrapped)) = (compile("@"), compile("powertools_json(body)")) else {
        return Ok(());
    };
    let around = Json::parse(&format!("{{\"body\":{}}}", quoted(event))).unwrap();
    if let Ok(event) = Json::parse(event) {
        let value = |expression: &Expression, event: &Json| {
            let value = expression.evaluate(event);
            value.map(|value| value.to_canonical())
        };
        prop_assert_eq!(value(&direct, &event), value(&unwrapped, &around));
    }
    Ok(())
}

/// Checks the identity of a value against that of its JSON text.
fn check_value(key: Option<&str>, value: &impl serde::Serialize) -> Result<(), TestCaseError> {
    if key.is_some_and(|key| key.trim().is_empty() || Expression::compile(key).is_err()) {
        return Ok(());
    }
    let operation = operation(key, None, KeyRequired::No);
    let Ok(text) = serde_json::to_string(value) else {
        // The part that cannot be written is perhaps not looked at.
        let _identity = operation.identify_value(value, None);
        return Ok(());
    };
    match (
        operation.identify(&text, None),
        operation.identify_value(value, None),
    ) {
        (Ok(of_text), Ok(of_value)) => prop_assert_eq!(of_text, of_value, "{}", text),
        (Err(of_text), Err(of_value)) => {
            prop_assert_eq!(of_text.to_string(), of_value.to_string(), "{}", text);
        }
        (of_text, of_value) => {
            prop_assert!(
                false,
                "{of_text:?} of the text, but {of_value:?} of the value: {text}"
            );
        }
    }
    Ok(())
}

/// Returns names of members: few, so that expressions find them. Some are escaped, some differ in case alone.
fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#""a""#,
        r#""a""#,
        r#""b""#,
        r#""b""#,
        r#""c""#,
        r#""\u0061""#,
        r#""A""#,
        r#""""#,
        r#""body""#,
        r#""headers""#,
        r#""multiValueHeaders""#,
        r#""x-key""#,
        r#""X-Key""#,
        r#""\u0058-key""#,
    ])
}

/// Returns the text of an event. Names can occur several times in one object.
fn event() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => prop::sample::select(vec![
            "null", "true", "false", "0", "1", "-7", "1.5", "1e3", "NaN", "-Infinity", "12345678901234567890123",
            r#""""#, r#""a""#, r#""\ud800""#, r#""é\n\"""#, "[]", "{}", "[null]", r#""not json""#,
        ])
        .prop_map(str::to_owned),
        1 => tree().prop_map(|tree| tree.text(1)),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let members = vec((name(), inner.clone()), 0..6).prop_map(|members| {
            let members: Vec<_> = members
                .iter()
                .map(|(name, value)| format!("{name} : {value}"))
                .collect();
            format!("{{{}}}", members.join(",\n"))
        });
        prop_oneof![
            4 => members,
            2 => vec(inner.clone(), 0..6).prop_map(|elements| format!("[ {} ]", elements.join(" , "))),
            1 => inner.prop_map(|text| quoted(&text)),
        ]
    })
}

/// Returns expressions of all forms that are selected while reading, and some that are not.
fn selection() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "body",
        "@",
        "[0]",
        "[1]",
        "[-1]",
        "[-2]",
        "[-17]",
        "`1`",
        "'x'",
        "*",
        "header(@, 'x-key')",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 16, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            3 => two.clone().prop_map(|(one, two)| format!("{one} | {two}")),
            4 => (inner.clone(), prop::sample::select(vec!["a", "b", "c"]))
                .prop_map(|(one, name)| format!("{one}.{name}")),
            2 => (inner.clone(), -3..4_i64).prop_map(|(one, index)| format!("{one}[{index}]")),
            2 => two.clone().prop_map(|(one, two)| format!("[{one}, {two}]")),
            2 => two.clone().prop_map(|(one, two)| format!("{{a: {one}, b: {two}}}")),
            1 => two.clone().prop_map(|(one, two)| format!("{one} || {two}")),
            1 => two.clone().prop_map(|(one, two)| format!("{one} && {two}")),
            1 => two.clone().prop_map(|(one, two)| format!("not_null({one}, {two})")),
            1 => two.clone().prop_map(|(one, two)| format!("map(&({one}), {two})")),
            1 => two.clone().prop_map(|(one, two)| format!("sort_by({one}, &({two}))")),
            1 => two.prop_map(|(one, two)| format!("{one}[?{two}].a")),
            1 => inner.clone().prop_map(|one| format!("{one}[*].b")),
            1 => inner.clone().prop_map(|one| format!("{one}[].a")),
            1 => inner.clone().prop_map(|one| format!("{one}[][]")),
            1 => inner.clone().prop_map(|one| format!("{one}.*.a")),
            1 => (inner.clone(), any::<[Option<i8>; 3]>()).prop_map(|(one, slice)| {
                let [start, stop, step] =
                    slice.map(|at| at.map_or(String::new(), |at| (at % 5).to_string()));
                format!("{one}[{start}:{stop}:{step}].a")
            }),
            3 => (prop::sample::select(vec!["powertools_json", "type", "length", "to_string", "to_array", "keys"]), inner)
                .prop_map(|(function, one)| format!("{function}({one})")),
        ]
    })
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_key_taken_while_reading_is_the_key_of_the_whole_event(
        key in selection(),
        validate in proptest::option::of(selection()),
        event in event(),
    ) {
        check_text(&key, validate.as_deref(), &event)?;
        check_text(&format!("powertools_json(body).[{key}, a]"), None, &format!("{{\"body\":{}}}", quoted(&event)))?;
        check_unwrapped(&key, &event)?;
    }

    #[test]
    fn any_expression_has_the_same_key_while_reading(text in expression(), event in event()) {
        check_text(&text, None, &event)?;
    }

    #[test]
    fn pieces_of_expressions_have_the_same_key_while_reading(pieces in vec(piece(), 1..8), event in event()) {
        check_text(&pieces.concat(), None, &event)?;
    }

    #[test]
    fn a_damaged_event_has_the_same_error_while_reading(
        key in selection(),
        event in event(),
        at in any::<prop::sample::Index>(),
        piece in "[\\[\\]{},:\"\\\\\u{1}é]|null|-|-0|01|1\\.|1e|\\\\u12|\\\\ud800\\\\u|[0-9]{1,3}",
    ) {
        let mut at = at.index(event.len());
        while !event.is_char_boundary(at) {
            at -= 1;
        }
        let (before, after) = event.split_at(at);
        check_text(&key, None, &format!("{before}{piece}{after}"))?;
        check_text(&key, None, before)?;
        check_text(&key, None, after)?;
    }

    #[test]
    fn a_value_has_the_key_of_its_text(key in proptest::option::of(selection()), event in event(), shape in shape()) {
        check_value(key.as_deref(), &shape)?;
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&event) {
            check_value(key.as_deref(), &value)?;
        }
        if let Ok(raw) = serde_json::from_str::<Box<serde_json::value::RawValue>>(&event) {
            check_value(key.as_deref(), &raw)?;
            check_value(key.as_deref(), &[("a", &raw), ("b", &raw)])?;
        }
    }
}
