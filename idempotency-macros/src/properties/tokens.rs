//! For any tokens the attribute ends without a panic, and the user's item is in the expansion.

use proc_macro2::{TokenStream, TokenTree};
use proptest::collection::vec;
use proptest::prelude::*;
use syn::{File, ItemFn};

use super::strategies::{among, place, stream, token, valid};
use super::{cases, expansion};
use crate::attribute::attribute;

const HANDLER: &str = "pub async fn handler(event: LambdaEvent<A>) -> Result<A, E> { a }";

/// The size of rustc's stack, if `RUST_MIN_STACK` is not set.
const STACK: usize = 8 * 1024 * 1024;

/// Checks that the handler is in the expansion, unchanged if there are errors.
fn keeps_the_handler(arguments: &str) -> Result<(), TestCaseError> {
    let expansion = expansion(arguments, HANDLER);
    let function = expansion.function();
    prop_assert_eq!(function.sig.ident.to_string(), "handler");
    if !expansion.errors.is_empty() {
        prop_assert_eq!(function, &syn::parse_str::<ItemFn>(HANDLER).unwrap());
    }
    Ok(())
}

/// Returns lists that look like settings: a name, a sign, any tokens.
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

/// Returns true if the tokens end with these others, compared as text.
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
        keeps_the_handler(&arguments)?;
    }

    #[test]
    fn arguments_like_settings_leave_the_function(arguments in nearly_settings()) {
        keeps_the_handler(&arguments)?;
    }

    #[test]
    fn any_text_that_is_tokens_leaves_the_function(text in "\\PC{0,40}|[a-z_=,\"(){}' ]{0,60}") {
        if text.parse::<TokenStream>().is_ok() {
            keeps_the_handler(&text)?;
        }
    }

    #[test]
    fn any_tokens_below_the_attribute_are_kept(arguments in stream(), item in stream()) {
        let item: TokenStream = item.parse().unwrap();
        let back = attribute(arguments.parse().unwrap(), item.clone());
        if syn::parse2::<ItemFn>(item.clone()).is_err() {
            prop_assert!(ends_with(back, item));
        }
    }

    #[test]
    fn a_function_with_a_wrong_token_expands_to_rust_if_it_is_rust(
        valid in valid(),
        by in token(),
        place in place(),
        how in 0..3_u8,
    ) {
        let mut tokens: Vec<TokenTree> = valid.item.parse::<TokenStream>().unwrap().into_iter().collect();
        let at = place.index(tokens.len());
        let other = by.parse::<TokenStream>().unwrap();
        match how {
            0 => drop(tokens.remove(at)),
            1 => drop(tokens.splice(at..at, other)),
            _ => drop(tokens.splice(at..=at, other)),
        }
        let item: TokenStream = tokens.into_iter().collect();
        let back = attribute(valid.arguments().parse().unwrap(), item.clone());
        if syn::parse2::<File>(item).is_ok() {
            prop_assert!(syn::parse2::<File>(back.clone()).is_ok(), "{}", back);
        }
    }
}

/// Expands in a thread with rustc's stack size. Returns whether there is an error, and whether the item can be there.
///
/// Only the tokens of the outermost level are counted: a full comparison would recurse.
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
fn deep_or_long_arguments_do_not_exhaust_the_stack() {
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
fn a_deep_type_is_an_error_and_a_deep_body_is_left_to_the_compiler() {
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
