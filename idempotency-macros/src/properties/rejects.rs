//! What is wrong is an error, one for each mistake, and leaves the user's item as it was.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use syn::Item;

use super::strategies::{Right, among, literal, place, right, value};
use super::{Answer, answer, cases};
use crate::arguments::{ENVIRONMENT, KNOWN};

fn written(item: &str) -> Item {
    syn::parse_str(item).expect("what is given is an item")
}

fn names() -> impl Strategy<Value = &'static str> {
    select(KNOWN.map(|(name, _)| name).to_vec())
}

/// Values of another kind, or out of range.
fn wrong_value(name: &str) -> BoxedStrategy<String> {
    match name {
        "key" | "validate" | "store_when" => prop_oneof![
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
        "shared_key_prefix" => among(&["\"true\"", "1", "yes", "!true", "True", "(true)"]),
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
        "hash" | "on_in_progress" | "on_timeout" | "on_error" => among(&[
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

/// One mistake in a list that is right but for it.
#[derive(Clone, Debug)]
enum Mistake {
    /// This stands for the setting, whether it was there or not.
    Instead(&'static str, String),
    /// This stands besides.
    Besides(String),
    /// One of the settings stands there again.
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

/// Settings with one mistake somewhere among them.
fn with(right: &Right, mistake: &Mistake, place: &Index) -> String {
    let mut all: Vec<_> = right
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

fn unchanged(answer: &Answer, item: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(&answer.items, &vec![written(item)]);
    Ok(())
}

/// Functions and other items that are not to be protected, each for one reason.
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
        right in right(),
        mistake in mistake(),
        place in place(),
    ) {
        let arguments = with(&right, &mistake, &place);
        let answer = answer(&arguments, &right.item);
        prop_assert_eq!(answer.errors.len(), 1, "{}: {:?}", arguments, answer.errors);
        unchanged(&answer, &right.item)?;
    }

    #[test]
    fn any_mistakes_among_the_settings_are_errors_and_the_function_stays(
        right in right(),
        mistakes in vec((mistake(), place()), 1..6),
    ) {
        let all: Vec<_> = mistakes.iter().map(|(mistake, place)| with(&right, mistake, place)).collect();
        let answer = answer(&all.join(", "), &right.item);
        prop_assert!(!answer.errors.is_empty());
        unchanged(&answer, &right.item)?;
    }

    #[test]
    fn what_cannot_be_protected_is_an_error_whatever_the_settings_and_stays(right in right(), item in wrong_item()) {
        let answer = answer(&right.arguments(), &item);
        prop_assert!(!answer.errors.is_empty());
        unchanged(&answer, &item)?;
    }
}

/// Each text with one letter left out, changed, added, or swapped with the next.
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
fn a_name_with_one_slip_is_answered_with_the_name_that_was_meant() {
    for (known, _) in KNOWN {
        for misspelt in misspellings(known) {
            let right = KNOWN
                .iter()
                .chain(&ENVIRONMENT)
                .any(|(name, _)| *name == misspelt);
            if right || syn::parse_str::<syn::Ident>(&misspelt).is_err() {
                continue;
            }
            let answer = answer(
                &format!("{misspelt} = 1"),
                "async fn f(a: A) -> Result<A, E> {}",
            );
            let said = format!("unknown setting `{misspelt}`: did you mean `{known}`?");
            assert_eq!(answer.errors, [said]);
        }
    }
}
