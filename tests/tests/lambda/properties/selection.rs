//! Selection while reading: a key that is taken while the event is read is the key that the interpreter takes from the whole
//! event, and a value gives the key of its JSON text.
//!
//! Expressions: any text compiles or is refused, and a compiled expression can be evaluated on any payload.

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::error::ErrorKind;
use idempotency_core::key::{Expression, HashAlgorithm, Json, Selector};
use idempotency_core::operation::CompiledOperation;
use proptest::collection::vec;
use proptest::prelude::*;

use super::canonical::check_digests;
use super::cases;
use super::shapes::shape;
use super::strategies::{quoted, tree, words};

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
fn check_against_whole_event(
    key: &str,
    validate: Option<&str>,
    event: &str,
) -> Result<(), TestCaseError> {
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
            let text = found.to_string();
            prop_assert!(text.contains(&error.to_string()), "{text}");
            prop_assert!(text.len() < 500);
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
            if validate.is_none() {
                prop_assert_eq!(all.is_err(), !missing.is_empty());
            } else {
                // A part of `validate` may be missing too.
                prop_assert!(all.is_err() || missing.is_empty());
            }
        }
        (Err(error), Err(found)) => {
            prop_assert_eq!(found.kind(), ErrorKind::ExpressionFailed);
            let text = found.to_string();
            prop_assert!(text.contains(&error.to_string()), "{text} {error}");
            prop_assert!(text.len() < 500 + key.len(), "{text}");
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
        // The text of a float does not show that other numbers became it.
        (_, Err(of_value)) if of_value.to_string().contains("has lost its digits") => {}
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
fn name() -> impl Strategy<Value = String> {
    let names = words("a a b b c \\u0061 A body headers multiValueHeaders x-key X-Key \\u0058-key");
    let name = prop_oneof![13 => names, 1 => Just(String::new())];
    name.prop_map(|name| format!("\"{name}\""))
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

/// The functions of one argument that are tried on every value, some more often.
const FUNCTIONS: &str = "powertools_json powertools_json type length to_string to_array keys abs avg ceil max min reverse sort \
                         sum to_number values powertools_base64";

/// Returns valid expressions: all forms that are selected while reading, and some that are not.
fn selection() -> impl Strategy<Value = String> {
    let leaf = words(
        "a a b b c body @ @ [0] [1] [-1] [-2] [-17] `1` 'x' * header(@,'x-key') `[3,1,\"2\"]`",
    );
    leaf.prop_recursive(5, 20, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            3 => two.clone().prop_map(|(one, two)| format!("{one} | {two}")),
            4 => (inner.clone(), words("a b c"))
                .prop_map(|(one, name)| format!("{one}.{name}")),
            2 => (inner.clone(), -3..4_i64).prop_map(|(one, index)| format!("{one}[{index}]")),
            1 => (inner.clone(), any::<i8>()).prop_map(|(one, index)| format!("{one}[{index}]")),
            2 => (two.clone(), words("| || && == < ."))
                .prop_map(|((one, two), operator)| format!("({one}){operator}{two}")),
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
                let [start, stop, step] = slice.map(|at| at.map_or(String::new(), |at| at.to_string()));
                format!("{one}[{start}:{stop}:{step}].a")
            }),
            1 => (inner.clone(), any::<[Option<i8>; 3]>()).prop_map(|(one, slice)| {
                let [start, stop, step] =
                    slice.map(|at| at.map_or(String::new(), |at| (at % 5).to_string()));
                format!("{one}[{start}:{stop}:{step}]")
            }),
            4 => (words(FUNCTIONS), inner)
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
        check_against_whole_event(&key, validate.as_deref(), &event)?;
        check_against_whole_event(&format!("powertools_json(body).[{key}, a]"), None, &format!("{{\"body\":{}}}", quoted(&event)))?;
        check_unwrapped(&key, &event)?;
    }

    #[test]
    fn pieces_of_expressions_have_the_same_key_while_reading(pieces in vec(piece(), 1..8), event in event()) {
        check_against_whole_event(&pieces.concat(), None, &event)?;
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
        check_against_whole_event(&key, None, &format!("{before}{piece}{after}"))?;
        check_against_whole_event(&key, None, before)?;
        check_against_whole_event(&key, None, after)?;
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

fn check(text: &str, payload: &Json) -> Result<(), TestCaseError> {
    match Expression::compile(text) {
        Ok(expression) => {
            prop_assert_eq!(expression.as_str(), text);
            let canonical = |value: Json| value.to_canonical();
            // Twice, because an evaluation must not change the expression.
            let (one, two) = (expression.evaluate(payload), expression.evaluate(payload));
            prop_assert_eq!(one.map(canonical), two.map(canonical));
        }
        Err(error) => {
            prop_assert!(error.offset() <= text.len());
            prop_assert!(!error.message().is_empty());
            prop_assert!(error.to_string().starts_with("invalid JMESPath expression"));
        }
    }
    Ok(())
}

/// Returns pieces of the language. A random sequence of them is often nearly an expression, and sometimes one.
fn piece() -> impl Strategy<Value = String> {
    let pieces = words(
        "a b body @ * . [ ] [] [*] [0] [-1] [::2] [::-1] [1:0] [? { } ( ) , : | || && ! & == != < >= 'x' '' `1` `{}` `[1,2]` \
         `\"x\"` `1e999` \"a\" \"\\u00e9\" length(@) sort(@) sort_by(@,&a) max_by(@,&@) keys(@) map(&a,@) to_number(@) \
         to_string(@) join(',',@) sum(@) avg(@) merge(@,@) not_null(a,b) reverse(@) powertools_json(@) powertools_base64(@) \
         powertools_base64_gzip(@) group_by(@,&a) 99999999999999999999 - \\ \" ` '",
    );
    prop_oneof![64 => pieces, 1 => Just(" ".to_owned())]
}

/// Returns expressions that jmespath.py and the crate `jmespath` read alike: no slice directly after an index, no dot after `.*.a`, no
/// operator after braces.
fn plain_expression() -> impl Strategy<Value = String> {
    words("a b @ \"c\" `[1,{\"a\":2}]` 'x'")
        .prop_recursive(5, 24, 3, |inner| {
            let two = (inner.clone(), inner.clone());
            let after = words(
                ".a .b.c [0] [-1].a [*] [*].a [] [].b [?a] [?b==`1`].c .[a,b] |[1:] |[::-1].a |* |*.a .[a||b,!c]",
            );
            let operator = words("| || && == !=");
            prop_oneof![
                (inner.clone(), after).prop_map(|(one, after)| format!("{one}{after}")),
                (two.clone(), operator).prop_map(|((one, two), of)| format!("{one} {of} {two}")),
                two.clone()
                    .prop_map(|(one, two)| format!("({one})[?{two}]")),
                two.clone()
                    .prop_map(|(one, two)| format!("{{a: {one}, c: {two}}} | @")),
                two.prop_map(|(one, two)| format!("[{one}, {two}]")),
                inner.prop_map(|one| format!("!({one})")),
            ]
        })
}

/// Returns values whose members are in the order of their names, which is the order in the crate.
fn ordered() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-2..3_i64).prop_map(Into::into),
        prop::sample::select(vec!["", "x", "y"]).prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let name = words("a b c");
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<serde_json::Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_crate_jmespath_finds_the_same(text in plain_expression(), payload in ordered()) {
        let found = jmespath::compile(&text).unwrap().search(&payload).unwrap();
        let payload = Json::parse(&payload.to_string()).unwrap();
        let own = Expression::compile(&text).unwrap().evaluate(&payload).unwrap().to_canonical();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&own).unwrap(), serde_json::to_value(&found).unwrap());
    }

    #[test]
    fn any_text_compiles_or_is_refused(text: String, payload in tree()) {
        check(&text, &Json::parse(&payload.text(0)).unwrap())?;
    }

    #[test]
    fn pieces_of_expressions_in_any_order_compile_or_are_refused(pieces in vec(piece(), 0..12), payload in tree()) {
        check(&pieces.concat(), &Json::parse(&payload.text(0)).unwrap())?;
    }

    #[test]
    fn valid_expressions_are_evaluated_on_any_payload(text in selection(), payload in tree()) {
        check(&text, &Json::parse(&payload.text(0)).unwrap())?;
    }

    #[test]
    fn a_piece_repeated_many_times_compiles_or_is_refused(
        pieces in vec(piece(), 1..4),
        times in prop_oneof![1..200_usize, Just(5_000)],
        payload in tree(),
    ) {
        check(&pieces.concat().repeat(times), &Json::parse(&payload.text(0)).unwrap())?;
    }
}

#[test]
fn deep_and_long_expressions_do_not_overflow_the_stack() {
    for piece in [
        "(", "[", "{a:", "!", "a.", "a[?", "sort(", "&", "a|", "[]", "*.", "[?a]", "`[", "\"a\".",
    ] {
        for times in [16, 31, 32, 33, 71, 72, 73, 400, 1_000_000] {
            let closed = match piece {
                "(" | "sort(" => ")",
                "[" | "a[?" => "]",
                "{a:" => "}",
                _ => "",
            };
            let text = format!("{}a{}", piece.repeat(times), closed.repeat(times));
            check(&text, &Json::Null).unwrap();
        }
    }
}

/// Checks that an event gives a key of fixed length or an error, whole and by each of some expressions.
fn check_event(event: &str) -> Result<(), TestCaseError> {
    check_digests(event)?;
    for key in [
        "a",
        "[a, b.c, *]",
        "powertools_json(body).[a, b]",
        "powertools_json(powertools_base64(body))",
        "powertools_json(powertools_base64_gzip(body))",
        "body[?a > `0`].b[] | sort(@)",
        "to_string(@)",
    ] {
        check_against_whole_event(key, Some("@"), event)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_bytes_give_a_key_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        check_event(&text)?;
        check_event(&format!("{{\"body\":{}}}", quoted(&text)))?;
    }

    #[test]
    fn anything_that_looks_like_json_gives_a_key_or_an_error(
        pieces in vec("[\\[\\]{},:\"\\\\]|null|true|-?[0-9.eE+-]{1,5}|\\\\u[0-9a-f]{0,4}|\"a\"|\"body\"| ", 0..40),
    ) {
        check_event(&pieces.concat())?;
    }

    #[test]
    fn any_json_gives_a_key_or_an_error(tree in tree(), seed: u64) {
        let text = tree.text(seed);
        check_event(&text)?;
        check_event(&format!("{{\"a\":{text},\"body\":{}}}", quoted(&text)))?;
    }

    #[test]
    fn a_truncated_or_damaged_event_gives_a_key_or_an_error(
        tree in tree(),
        seed: u64,
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), b' '..=b'~'],
        is_inserted: bool,
    ) {
        let mut bytes = tree.text(seed).into_bytes();
        let at = at.index(bytes.len());
        bytes.splice(at..at + usize::from(!is_inserted), [byte]);
        check_event(&String::from_utf8_lossy(&bytes))?;
        check_event(&String::from_utf8_lossy(&bytes[..at]))?;
    }
}

#[test]
fn deep_and_huge_events_do_not_overflow_the_stack() {
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for event in [
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        nested(128),
        nested(129),
        "9".repeat(1_000_000),
        format!("0.{}", "9".repeat(100_000)),
        format!("\"{}\"", "\\u0000".repeat(100_000)),
        format!("[{}0]", "0,".repeat(20_000)),
    ] {
        check_event(&event).unwrap();
    }
    assert!(Json::parse(&nested(128)).is_ok());
    assert!(Json::parse(&nested(129)).is_err());
}
