//! The attribute accepts a value if and only if the start of a program accepts it.

use idempotency_core::config::{Settings, Variables};
use idempotency_core::key::Expression;
use idempotency_core::protocol::policy::Steps;
use proc_macro2::Span;
use proptest::prelude::*;
use syn::{Ident, LitInt, LitStr, parse_quote};

use super::cases;
use super::strategies::among;
use crate::arguments::Setting;
use crate::values::check;

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

fn variable(name: &str, text: &str) -> Variables {
    Variables::from_iter([(name.to_owned(), text.to_owned())])
}

proptest! {
    #![proptest_config(cases(1_000))]

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
            among(&["1500ms", "1000ms", "0.5s", "1s 1ns", "1 h", "584542046090years", "-1s"]),
        ],
    ) {
        // An empty variable counts as not set.
        prop_assume!(!text.is_empty());
        for (name, of_variable) in [
            ("expires_after", "IDEMPOTENCY_EXPIRES_AFTER"),
            ("lease", "IDEMPOTENCY_LEASE"),
            ("store_timeout", "IDEMPOTENCY_STORE_TIMEOUT"),
        ] {
            let at_start = Settings::default().policy(&variable(of_variable, &text));
            prop_assert_eq!(accepts(name, &text), at_start.is_ok(), "{}: {:?}", name, at_start);
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
        let policy = |name| Settings::default().policy(&variable(name, &text)).is_ok();
        prop_assert_eq!(accepts("lookup", &text), policy("IDEMPOTENCY_LOOKUP"));
        prop_assert_eq!(accepts("on_in_progress", &text), policy("IDEMPOTENCY_ON_IN_PROGRESS"));
        prop_assert_eq!(accepts("on_timeout", &text), policy("IDEMPOTENCY_ON_TIMEOUT"));
        prop_assert_eq!(accepts("on_error", &text), policy("IDEMPOTENCY_ON_ERROR"));
        prop_assert_eq!(accepts("on_store_error", &text), policy("IDEMPOTENCY_ON_STORE_ERROR"));
        prop_assert_eq!(accepts("steps", &text), text.parse::<Steps>().is_ok());
        let hash = Settings::default().hash(&variable("IDEMPOTENCY_HASH", &text));
        prop_assert_eq!(accepts("hash", &text), hash.is_ok());
    }

    #[test]
    fn a_prefix_is_accepted_if_it_is_at_start(
        text in prop_oneof![any::<String>(), "[a-f]{500,520}", "é{250,260}", ".{0,4}#tenant=.{0,4}"],
    ) {
        let settings = Settings { key_prefix: Some(text.clone().into()), ..Settings::default() };
        let at_start = settings.key_prefix(&Variables::default(), "shop::charge");
        prop_assert_eq!(accepts("key_prefix", &text), at_start.is_ok());
    }

    #[test]
    fn a_number_is_accepted_if_it_is_at_start(text in "[0-9]{1,24}") {
        let literal = LitInt::new(&text, Span::call_site());
        for (name, of_variable) in [
            ("local_cache", "IDEMPOTENCY_LOCAL_CACHE"),
            ("local_cache_bytes", "IDEMPOTENCY_LOCAL_CACHE_BYTES"),
        ] {
            let name = Ident::new(name, Span::call_site());
            let accepted = check(Setting { name, value: parse_quote!(#literal) }).is_ok();
            let at_start = Settings::default().local_cache(&variable(of_variable, &text));
            prop_assert_eq!(accepted, at_start.is_ok());
        }
    }
}
