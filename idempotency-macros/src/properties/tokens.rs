//! Any tokens at all: no panic, an end, and the user's item is still there.

use proc_macro2::{TokenStream, TokenTree};
use proptest::collection::vec;
use proptest::prelude::*;
use syn::{File, ItemFn};

use super::strategies::{among, place, right, stream, token};
use super::{answer, cases};
use crate::attribute::attribute;

const HANDLER: &str = "pub async fn handler(event: LambdaEvent<A>) -> Result<A, E> { a }";

/// rustc's own stack, unless `RUST_MIN_STACK` says otherwise.
const STACK: usize = 8 * 1024 * 1024;

fn still_there(arguments: &str) -> Result<(), TestCaseError> {
    let answer = answer(arguments, HANDLER);
    let function = answer.function();
    prop_assert_eq!(function.sig.ident.to_string(), "handler");
    if !answer.errors.is_empty() {
        prop_assert_eq!(function, &syn::parse_str::<ItemFn>(HANDLER).unwrap());
    }
    Ok(())
}

/// Settings, or nearly: a name, a sign, any tokens.
fn nearly_settings() -> impl Strategy<Value = String> {
    let one = (
        token(),
        among(&["=", "=", "=", "", "=="]),
        stream(),
        among(&[",", ",", ",", "", ";"]),
    )
        .prop_map(|(name, sign, value, comma)| format!("{name} {sign} {value} {comma}"));
    vec(one, 0..6).prop_map(|all| all.join(" "))
}

/// Two lists of tokens that must agree at their ends, compared as text.
fn ends_with(all: TokenStream, end: TokenStream) -> bool {
    let texts = |tokens: TokenStream| {
        tokens
            .into_iter()
            .map(|token| token.to_string())
            .collect::<Vec<_>>()
    };
    texts(all).ends_with(&texts(end))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_tokens_as_arguments_leave_the_function(arguments in stream()) {
        still_there(&arguments)?;
    }

    #[test]
    fn anything_like_settings_leaves_the_function(arguments in nearly_settings()) {
        still_there(&arguments)?;
    }

    #[test]
    fn any_text_that_is_tokens_leaves_the_function(text in "\\PC{0,40}|[a-z_=,\"(){}' ]{0,60}") {
        if text.parse::<TokenStream>().is_ok() {
            still_there(&text)?;
        }
    }

    #[test]
    fn any_tokens_may_stand_below_the_attribute(arguments in stream(), item in stream()) {
        let item: TokenStream = item.parse().unwrap();
        let back = attribute(arguments.parse().unwrap(), item.clone());
        if syn::parse2::<ItemFn>(item.clone()).is_err() {
            prop_assert!(ends_with(back, item));
        }
    }

    #[test]
    fn a_function_with_a_token_that_is_wrong_gives_rust_wherever_it_is_rust(
        right in right(),
        by in token(),
        place in place(),
        how in 0..3_u8,
    ) {
        let mut tokens: Vec<TokenTree> = right.item.parse::<TokenStream>().unwrap().into_iter().collect();
        let at = place.index(tokens.len());
        let other = by.parse::<TokenStream>().unwrap();
        match how {
            0 => drop(tokens.remove(at)),
            1 => drop(tokens.splice(at..at, other)),
            _ => drop(tokens.splice(at..=at, other)),
        }
        let item: TokenStream = tokens.into_iter().collect();
        let back = attribute(right.arguments().parse().unwrap(), item.clone());
        if syn::parse2::<File>(item).is_ok() {
            prop_assert!(syn::parse2::<File>(back.clone()).is_ok(), "{}", back);
        }
    }
}

/// What comes back in a thread with rustc's stack. Only the ends are looked at, since whoever walks what is deep recurses.
fn on_rustcs_stack(arguments: String, item: String) -> (bool, bool) {
    let thread = std::thread::Builder::new().stack_size(STACK);
    let run = thread.spawn(move || {
        let item: TokenStream = item.parse().unwrap();
        let many = item.clone().into_iter().count();
        let back = attribute(arguments.parse().unwrap(), item);
        let error = back
            .clone()
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(word) if word == "compile_error"));
        (error, back.into_iter().count() >= many)
    });
    run.unwrap().join().unwrap()
}

#[test]
fn what_is_deep_or_long_ends_without_using_up_the_stack() {
    let pieces = [
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("!", ""),
        ("& ", ""),
        ("a = ", ""),
        ("|| ", ""),
        ("|a, b| ", ""),
        ("if a {", "}"),
        ("if ", ""),
        ("a::<b, ", ">"),
        ("a + ", ""),
        ("a.", ""),
        ("return ", ""),
        ("a as ", ""),
        ("a as &", ""),
        ("a as dyn A<", ">"),
        ("a as fn() -> ", ""),
        ("< ", ""),
        ("a(b, ", ")"),
        ("m!{", "}"),
        ("a, ", ""),
        ("key = \"a\", ", ""),
        ("kee = 1, ", ""),
        ("key = , ", ""),
        ("= ", ""),
        (", ", ""),
        ("#[a] ", ""),
        ("-", ""),
        ("match a { _ => ", "}"),
        ("async { ", "}"),
        ("'a: loop { ", "}"),
        ("..", ""),
        ("a..", ""),
        ("\"a\" ", ""),
    ];
    for (open, close) in pieces {
        for times in [42, 63, 126, 1_000, 4_000] {
            for name in ["payload = ", "on_replay = |a, b| ", "key = ", ""] {
                let arguments = format!("{name}{}a{}", open.repeat(times), close.repeat(times));
                let (_, there) = on_rustcs_stack(arguments, HANDLER.to_owned());
                assert!(there, "{open} {times} times");
            }
        }
    }
}

#[test]
fn a_deep_type_is_an_error_and_a_deep_body_is_the_compilers_to_judge() {
    for (open, close) in [
        ("(", ")"),
        ("[", "; 1]"),
        ("& ", ""),
        ("A<", ">"),
        ("dyn A<", ">"),
        ("fn(a, ", ")"),
        ("<", " as A>::B"),
    ] {
        let deep = |times: usize| format!("{}A{}", open.repeat(times), close.repeat(times));
        for times in [10, 42, 63, 1_000, 4_000] {
            for place in ["LambdaEvent<A>", "Result<A, E>"] {
                let (error, there) =
                    on_rustcs_stack(String::new(), HANDLER.replace(place, &deep(times)));
                assert!(there && (error || times < 1_000), "{open} {times} times");
            }
        }
    }
    let body = format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000));
    assert_eq!(
        on_rustcs_stack(
            String::new(),
            HANDLER.replace("{ a }", &format!("{{ {body} }}"))
        ),
        (false, true)
    );
}
