//! Each mistake is one error, and the user's item stays unchanged.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use syn::Item;

use super::strategies::{Valid, among, literal, place, valid, value};
use super::{Expansion, cases, expansion};
use crate::arguments::{ENVIRONMENT, KNOWN};

fn written(item: &str) -> Item {
    syn::parse_str(item).expect("the input is an item")
}

fn names() -> impl Strategy<Value = &'static str> {
    select(KNOWN.map(|(name, _)| name).to_vec())
}

/// Returns values of another kind, or out of range.
fn wrong_value(name: &str) -> BoxedStrategy<String> {
    match name {
        "key" | "validate" | "store_when" | "store_event" => prop_oneof![
            among(&[
                "3",
                "true",
                "body.id",
                "f(a, b)",
                "b\"a\"",
                "c\"a\"",
                "'a'",
                "\"a\"x",
                "\"\"",
                "\" \"",
                "-a",
                "|a, b| a",
                "concat!(\"a\", \"b\")",
                "\"a\".to_owned()",
                "&\"a\"",
                "\"a.\"",
                "\"a b\"",
                "\"lenght(a)\"",
                "\"a\" + \"b\"",
                "1e400",
                "(\"a\")",
            ]),
            literal(
                (
                    among(&["(", "[", "{a:", "!", "a.", "a[?", "sort(", "a|"]),
                    100..3_000_usize
                )
                    .prop_map(|(part, times)| part.repeat(times))
            ),
        ]
        .boxed(),
        "key_required" => among(&[
            "\"true\"", "1", "yes", "!true", "True", "(true)", "all", "\"any\"",
        ]),
        "shared_key_prefix" | "circuit_breaker" => {
            among(&["\"true\"", "1", "yes", "!true", "True", "(true)"])
        }
        "key_prefix" => prop_oneof![
            among(&[
                "\"\"",
                "\"a#tenant=b\"",
                "shop.orders",
                "3",
                "b\"a\"",
                "concat!(\"a\")"
            ]),
            literal("[a-z]{513,600}"),
        ]
        .boxed(),
        "expires_after" | "lease" | "store_timeout" => among(&[
            "30",
            "\"30\"",
            "\"soon\"",
            "\"0s\"",
            "\"\"",
            "\"-1s\"",
            "\"99999999999999999999s\"",
            "\"1\u{660}s\"",
            "Duration::from_secs(1)",
            "1.5",
            "\"1ns\"",
            "b\"1h\"",
            "30s",
            "\"18446744073709551615years\"",
        ]),
        "local_cache" | "local_cache_bytes" => among(&[
            "\"5\"",
            "-1",
            "1.5",
            "5u8",
            "99999999999999999999",
            "true",
            "1 + 1",
            "5i32",
            "0xfffffffffffffffff",
            "'5'",
        ]),
        "hash" | "lookup" | "on_in_progress" | "on_timeout" | "on_error" | "on_store_error"
        | "steps" => among(&[
            "\"\"",
            "3",
            "true",
            "hold",
            "\"crc32\"",
            "b\"md5\"",
            "\" md5\"",
        ]),
        "on_replay" => among(&[
            "\"hook\"", "3", "hook()", "a.b", "{ hook }", "(hook)", "&hook", "hook!()",
        ]),
        "context" => among(&["\"context\"", "3", "true", "'a'", "b\"a\""]),
        "store" => among(&["\"dynamodb\"", "3", "true", "'a'", "1.5"]),
        _ => among(&[
            "\"order\"",
            "()",
            "[]",
            "3",
            "true",
            "(a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a)",
            "b\"a\"",
        ]),
    }
}

/// The only mistake in a list of settings.
#[derive(Clone, Debug)]
enum Mistake {
    /// The setting has this text, in place of its own if it was in the list.
    Instead(&'static str, String),
    /// The list also has this text.
    Besides(String),
    /// One of the settings is in the list twice.
    Twice(Index),
}

fn mistake() -> impl Strategy<Value = Mistake> {
    let wrong = names().prop_flat_map(|name| {
        wrong_value(name).prop_map(move |value| Mistake::Instead(name, format!("{name} = {value}")))
    });
    let valueless = (
        names(),
        among(&[
            "",
            "=",
            "(\"a\", b)",
            "{}",
            "[a = b, c]",
            ": \"a\"",
            "== 3",
            "=> a",
            "\"a\"",
        ]),
    )
        .prop_map(|(name, after)| Mistake::Instead(name, format!("{name} {after}")));
    let unknown = (
        "[a-z]{1,12}(_[a-z]{1,6})?".prop_filter("a known one", |name| {
            KNOWN.iter().all(|(known, _)| name != known)
                && syn::parse_str::<syn::Ident>(name).is_ok()
        }),
        names().prop_flat_map(value),
    )
        .prop_map(|(name, value)| Mistake::Besides(format!("{name} = {value}")));
    let nameless = among(&[
        "\"order_id\"",
        "3",
        "= 3",
        "..",
        "(a, b)",
        "a.b",
        "a::key",
        "'a",
        "#[a]",
        "-",
    ])
    .prop_map(Mistake::Besides);
    prop_oneof![4 => wrong, 2 => valueless, 2 => unknown, 1 => nameless, 1 => place().prop_map(Mistake::Twice)]
}

/// Returns the settings of a function, with a mistake somewhere among them.
fn with(valid: &Valid, mistake: &Mistake, place: &Index) -> String {
    let mut all: Vec<_> = valid
        .settings
        .iter()
        .map(|(name, value)| (*name, format!("{name} = {value}")))
        .collect();
    let (name, text) = match mistake {
        Mistake::Instead(name, text) => {
            all.retain(|(known, _)| known != name);
            (*name, text.clone())
        }
        Mistake::Besides(text) => ("", text.clone()),
        Mistake::Twice(which) if all.is_empty() => {
            ("", format!("key = \"a\", key = \"{}\"", which.index(9)))
        }
        Mistake::Twice(which) => all[which.index(all.len())].clone(),
    };
    all.insert(place.index(all.len() + 1), (name, text));
    all.into_iter()
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(", ")
}

fn unchanged(expansion: &Expansion, item: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(&expansion.items, &vec![written(item)]);
    Ok(())
}

/// Returns functions and other items that cannot be protected, each for one reason.
fn wrong_item() -> BoxedStrategy<String> {
    among(&[
        "fn f(a: LambdaEvent<A>) -> Result<A, E> { a }",
        "async fn f(a: LambdaEvent<A>) {}",
        "async fn f(a: LambdaEvent<A>) -> Option<A> {}",
        "async fn f(a: LambdaEvent<A>) -> impl A {}",
        "async fn f(a: LambdaEvent<A>) -> Result<impl A, E> {}",
        "fn f() -> Pin<Box<dyn Future<Output = A>>> {}",
        "#[idempotent] async fn f(a: LambdaEvent<A>) -> Result<A, E> {}",
        "pub struct S { a: A }",
        "struct S;",
        "enum E { A }",
        "union U { a: A }",
        "trait T { fn f(); }",
        "impl S { async fn f() {} }",
        "unsafe impl S {}",
        "unsafe trait T {}",
        "auto trait T {}",
        "mod m { fn f() {} }",
        "mod m;",
        "const A: u8 = 1;",
        "const _: () = ();",
        "static A: u8 = 1;",
        "type A = B;",
        "use a::{b, c};",
        "extern crate a;",
        "extern \"C\" { fn f(); }",
        "macro_rules! m { () => {} }",
        "m! { a b c }",
        "macro m() {}",
        "const fn f() {}",
    ])
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn one_mistake_among_the_settings_is_one_error_and_the_function_stays(
        valid in valid(),
        mistake in mistake(),
        place in place(),
    ) {
        let arguments = with(&valid, &mistake, &place);
        let expansion = expansion(&arguments, &valid.item);
        prop_assert_eq!(expansion.errors.len(), 1, "{}: {:?}", arguments, expansion.errors);
        unchanged(&expansion, &valid.item)?;
    }

    #[test]
    fn any_mistakes_among_the_settings_are_errors_and_the_function_stays(
        valid in valid(),
        mistakes in vec((mistake(), place()), 1..6),
    ) {
        let all: Vec<_> = mistakes.iter().map(|(mistake, place)| with(&valid, mistake, place)).collect();
        let expansion = expansion(&all.join(", "), &valid.item);
        prop_assert!(!expansion.errors.is_empty());
        unchanged(&expansion, &valid.item)?;
    }

    #[test]
    fn an_item_that_cannot_be_protected_is_an_error_with_any_settings_and_stays(valid in valid(), item in wrong_item()) {
        let expansion = expansion(&valid.arguments(), &item);
        prop_assert!(!expansion.errors.is_empty());
        unchanged(&expansion, &item)?;
    }
}

/// Returns a name with one letter left out, changed, added, or swapped with the next one.
fn misspellings(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut all = Vec::new();
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        let put =
            |middle: &[char], rest: &[char]| [before, middle, rest].concat().into_iter().collect();
        for letter in ['a', 'e', 'k', 's', 'x', '_', '1', 'é'] {
            all.push(put(&[letter], after));
            all.extend(after.get(1..).map(|rest| put(&[letter], rest)));
        }
        all.extend(after.get(1..).map(|rest| put(&[], rest)));
        if let [one, two, rest @ ..] = after {
            all.push(put(&[*two, *one], rest));
        }
    }
    all
}

#[test]
fn a_name_with_one_spelling_mistake_leads_to_the_right_name() {
    for (known, _) in KNOWN {
        for misspelt in misspellings(known) {
            let known_name = KNOWN
                .iter()
                .chain(&ENVIRONMENT)
                .any(|(name, _)| *name == misspelt);
            if known_name || syn::parse_str::<syn::Ident>(&misspelt).is_err() {
                continue;
            }
            let expansion = expansion(
                &format!("{misspelt} = 1"),
                "async fn f(a: A) -> Result<A, E> {}",
            );
            let message = format!("unknown setting `{misspelt}`: did you mean `{known}`?");
            assert_eq!(expansion.errors, [message]);
        }
    }
}
