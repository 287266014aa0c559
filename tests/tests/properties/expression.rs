//! Expressions: any text compiles or is refused, and a compiled expression can be evaluated on any payload.

use idempotency_core::key::{Expression, Json};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases;
use crate::strategies::tree;

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
pub(crate) fn piece() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "body",
        "@",
        "*",
        ".",
        "[",
        "]",
        "[]",
        "[*]",
        "[0]",
        "[-1]",
        "[::2]",
        "[::-1]",
        "[1:0]",
        "[?",
        "{",
        "}",
        "(",
        ")",
        ",",
        ":",
        "|",
        "||",
        "&&",
        "!",
        "&",
        "==",
        "!=",
        "<",
        ">=",
        "'x'",
        "''",
        "`1`",
        "`{}`",
        "`[1,2]`",
        "`\"x\"`",
        "`1e999`",
        "\"a\"",
        "\"\\u00e9\"",
        "length(@)",
        "sort(@)",
        "sort_by(@,&a)",
        "max_by(@,&@)",
        "keys(@)",
        "map(&a,@)",
        "to_number(@)",
        "to_string(@)",
        "join(',',@)",
        "sum(@)",
        "avg(@)",
        "merge(@,@)",
        "not_null(a,b)",
        "reverse(@)",
        "powertools_json(@)",
        "powertools_base64(@)",
        "powertools_base64_gzip(@)",
        "group_by(@,&a)",
        " ",
        "99999999999999999999",
        "-",
        "\\",
        "\"",
        "`",
        "'",
    ])
    .prop_map(str::to_owned)
}

/// Returns valid expressions.
pub(crate) fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["a", "b", "@", "*", "`1`", "'x'", "`[3, 1, \"2\"]`"]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(5, 24, 3, |inner| {
            let two = (inner.clone(), inner.clone());
            let function = prop::sample::select(vec![
                "abs",
                "avg",
                "ceil",
                "keys",
                "length",
                "max",
                "min",
                "reverse",
                "sort",
                "sum",
                "to_array",
                "to_number",
                "to_string",
                "type",
                "values",
                "powertools_json",
                "powertools_base64",
            ]);
            prop_oneof![
                (
                    two.clone(),
                    prop::sample::select(vec!["|", "||", "&&", "==", "<", "."])
                )
                    .prop_map(|((one, two), operator)| format!("({one}){operator}{two}")),
                (two.clone(), any::<i8>())
                    .prop_map(|((one, two), at)| format!("{one}[{at}] | {two}")),
                two.clone().prop_map(|(one, two)| format!("{one}[?{two}]")),
                two.clone()
                    .prop_map(|(one, two)| format!("{{a: {one}, b: {two}}}")),
                two.clone().prop_map(|(one, two)| format!("[{one}, {two}]")),
                two.prop_map(|(one, two)| format!("map(&{one}, {two})")),
                (function, inner.clone())
                    .prop_map(|(function, inner)| format!("{function}({inner})")),
                (inner, any::<[Option<i8>; 3]>()).prop_map(|(inner, slice)| {
                    let [start, stop, step] =
                        slice.map(|at| at.map_or(String::new(), |at| at.to_string()));
                    format!("{inner}[{start}:{stop}:{step}]")
                }),
            ]
        })
}

/// Returns expressions that jmespath.py and the crate `jmespath` read alike: no slice directly after an index, no dot after `.*.a`, no
/// operator after braces.
fn plain_expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["a", "b", "@", "\"c\"", "`[1, {\"a\": 2}]`", "'x'"]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(5, 24, 3, |inner| {
            let two = (inner.clone(), inner.clone());
            let after = prop::sample::select(vec![
                ".a",
                ".b.c",
                "[0]",
                "[-1].a",
                "[*]",
                "[*].a",
                "[]",
                "[].b",
                "[?a]",
                "[?b == `1`].c",
                ".[a, b]",
                " | [1:]",
                " | [::-1].a",
                " | *",
                " | *.a",
                ".[a || b, !c]",
            ]);
            let operator = prop::sample::select(vec!["|", "||", "&&", "==", "!="]);
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
        let name = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
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
    fn valid_expressions_are_evaluated_on_any_payload(text in expression(), payload in tree()) {
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
