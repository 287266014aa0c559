//! Properties of the attribute: each mistake is one error beside the unchanged item, no input exhausts the compiler's stack, and a value is
//! accepted if and only if the start of a program accepts it. The fuzz target `macro_arguments` tries any tokens.

use idempotency_core::config::{Settings, Variables};
use idempotency_core::key::Expression;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::policy::Steps;
use idempotency_expression::{Check, Scope, SettingRow};
use proc_macro2::{Span, TokenStream, TokenTree};
use proptest::prelude::*;
use proptest::test_runner::Config;
use syn::{File, Ident, Item, LitInt, LitStr, parse_quote};

use crate::arguments::{Setting, variable as variable_of};
use crate::attribute::attribute;
use crate::values::check;

const HANDLER: &str = "pub async fn handler(event: LambdaEvent<A>) -> Result<A, E> { a }";

/// The size of rustc's stack, if `RUST_MIN_STACK` is not set.
const STACK: usize = 8 * 1024 * 1024;

/// Expands the attribute and parses the result. Returns the texts of the errors, and the items beside them.
fn expansion(arguments: &str, item: &str) -> (Vec<String>, Vec<Item>) {
    let tokens = |text: &str| -> TokenStream { text.parse().expect("these are tokens") };
    let back = attribute(tokens(arguments), tokens(item));
    let file: File = match syn::parse2(back.clone()) {
        Ok(file) => file,
        Err(error) => panic!("the expansion is not Rust: {error}\n{back}"),
    };
    let (mut errors, mut items) = (Vec::new(), Vec::new());
    for item in file.items {
        match item {
            Item::Macro(call)
                if call.mac.path.segments.last().unwrap().ident == "compile_error" =>
            {
                errors.push(call.mac.parse_body::<LitStr>().unwrap().value());
            }
            other => items.push(other),
        }
    }
    (errors, items)
}

/// Correct settings, with a place for a mistake before, between and after them.
const AROUND: [(&str, &str); 3] = [
    ("", ", lease = \"1m\", expires_after = WINDOW"),
    ("lease = \"1m\", ", ", expires_after = WINDOW"),
    ("lease = \"1m\", expires_after = WINDOW, ", ""),
];

/// Returns settings with a mistake each.
fn mistakes() -> Vec<String> {
    let of = |kind: &str| -> Vec<&str> {
        let rows = include_str!("properties_tests/mistakes.txt").lines();
        let rows = rows.filter_map(|row| row.strip_prefix(kind)?.strip_prefix(" |"));
        rows.collect()
    };
    let mut all: Vec<String> = of("without a name")
        .into_iter()
        .map(str::to_owned)
        .collect();
    all.extend(
        ["(", "[", "{a:", "!", "a.", "a[?", "sort(", "a|"]
            .map(|part| format!("key = {:?}", part.repeat(900))),
    );
    for SettingRow { name, check, .. } in SettingRow::of(Scope::Every) {
        let check = format!("{check:?}");
        let wrong = of(check.split('(').next().unwrap());
        assert!(!wrong.is_empty(), "{check}");
        all.extend(wrong.iter().map(|value| format!("{name} = {value}")));
        let valueless = of("without a value");
        all.extend(valueless.iter().map(|after| format!("{name} {after}")));
    }
    all.retain(|text| !text.starts_with("lease") && !text.starts_with("expires_after"));
    all.extend(["lease = \"2m\"", "expires_after = LATER"].map(str::to_owned));
    all
}

#[test]
fn one_mistake_among_the_settings_is_one_error_and_the_function_stays() {
    let handler: Item = syn::parse_str(HANDLER).unwrap();
    for (at, mistake) in mistakes().into_iter().enumerate() {
        let (before, after) = AROUND[at % AROUND.len()];
        let arguments = format!("{before}{mistake}{after}");
        let (errors, items) = expansion(&arguments, HANDLER);
        assert_eq!(errors.len(), 1, "{arguments}: {errors:?}");
        assert_eq!(items, std::slice::from_ref(&handler), "{arguments}");
    }
}

#[test]
fn an_item_that_cannot_be_protected_is_an_error_and_stays() {
    for item in include_str!("properties_tests/items.txt").lines() {
        let (errors, items) = expansion("lease = \"1m\"", item);
        assert!(!errors.is_empty(), "{item}");
        assert_eq!(items, [syn::parse_str(item).unwrap()], "{item}");
    }
}

/// Returns all forms of a name with one letter left out, changed, added, or swapped with the next one.
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
    for SettingRow { name: known, .. } in SettingRow::of(Scope::Every) {
        for misspelt in misspellings(known) {
            let known_name =
                SettingRow::named(&misspelt).is_some() || variable_of(&misspelt).is_some();
            if known_name || syn::parse_str::<syn::Ident>(&misspelt).is_err() {
                continue;
            }
            let (errors, _) = expansion(&format!("{misspelt} = 1"), HANDLER);
            let message = format!("unknown setting `{misspelt}`: did you mean `{known}`?");
            assert_eq!(errors, [message]);
        }
    }
}

/// Expands in a thread with rustc's stack size. Returns whether there is an error, and whether the item can be in the result.
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
    for line in include_str!("properties_tests/nesting.txt").lines() {
        let (open, close) = line.split_once('…').unwrap();
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
    let item = HANDLER.replace("{ a }", &format!("{{ {body} }}"));
    assert_eq!(on_rustcs_stack(String::new(), item), (false, true));
}

/// Returns true if the attribute accepts this text as the value of a setting.
fn accepts(name: &str, text: &str) -> bool {
    let literal = LitStr::new(text, Span::call_site());
    let name = Ident::new(name, Span::call_site());
    check(Setting {
        name,
        value: parse_quote!(#literal),
    })
    .is_ok()
}

/// Returns the settings of these checks that have a variable, each with its variable.
fn settings(is_one: fn(&Check) -> bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = SettingRow::all().filter(move |row| is_one(&row.check));
    rows.filter_map(|row| Some((row.name, row.variable?)))
}

/// Returns true if a program starts with this text as the value of a variable.
fn starts(variable: &str, text: &str) -> bool {
    let variables = Variables::from_iter([(variable.to_owned(), text.to_owned())]);
    CompiledOperation::new("shop::charge", &Settings::default(), &variables).is_ok()
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn an_expression_is_accepted_if_it_compiles_at_start(
        text in prop_oneof![any::<String>(), "[a-z.@*\\[\\](){}?!&|,:'\"` ]{0,30}", "\\s{0,3}"],
    ) {
        for name in ["key", "validate", "store_when", "store_event"] {
            prop_assert_eq!(accepts(name, &text), Expression::compile(&text).is_ok(), "{}", name);
        }
    }

    #[test]
    fn a_duration_is_accepted_if_it_is_at_start(
        text in prop_oneof![
            any::<String>(),
            "[0-9]{1,25} ?(ns|us|ms|s|m|h|d|w|M|y|years|x)?",
            "[1-9]s [0-9]{1,12}(ns|ms|s)",
            prop::sample::select(vec!["1500ms", "1000ms", "0.5s", "1s 1ns", "1 h", "584542046090years", "-1s"]).prop_map(str::to_owned),
        ],
    ) {
        // An empty variable counts as not set.
        prop_assume!(!text.is_empty());
        for (name, of_variable) in settings(|check| matches!(check, Check::Time(_))) {
            prop_assert_eq!(accepts(name, &text), starts(of_variable, &text), "{}", name);
        }
    }

    #[test]
    fn a_choice_is_accepted_if_it_is_at_start(
        text in prop_oneof![
            any::<String>(),
            "(md5|MD5|sha(224|256|384|512|1)|(claim|read)-first|Read-First|reject|wait|Wait|rerun|hold|release|record|RECORD|fail|(run|Run)-unprotected|off|keep|Forget) ?",
        ],
    ) {
        prop_assume!(!text.is_empty());
        for (name, of_variable) in settings(|check| matches!(check, Check::Choice(..))) {
            prop_assert_eq!(accepts(name, &text), starts(of_variable, &text), "{}", name);
        }
        prop_assert_eq!(accepts("steps", &text), text.parse::<Steps>().is_ok());
    }

    #[test]
    fn a_prefix_is_accepted_if_it_is_at_start(
        text in prop_oneof![any::<String>(), "[a-f]{500,520}", "é{250,260}", ".{0,4}#tenant=.{0,4}", "[a-f]{0,2}\\PC[a-f]{0,2}"],
    ) {
        let settings = Settings { key_prefix: Some(text.clone().into()), ..Settings::default() };
        let at_start = settings.key_prefix(&Variables::default(), "shop::charge");
        prop_assert_eq!(accepts("key_prefix", &text), at_start.is_ok());
    }

    #[test]
    fn a_number_is_accepted_if_it_is_at_start(text in "[0-9]{1,24}") {
        let literal = LitInt::new(&text, Span::call_site());
        for (name, of_variable) in settings(|check| matches!(check, Check::Number(_))) {
            let name = Ident::new(name, Span::call_site());
            let accepted = check(Setting { name, value: parse_quote!(#literal) }).is_ok();
            prop_assert_eq!(accepted, starts(of_variable, &text));
        }
    }
}
