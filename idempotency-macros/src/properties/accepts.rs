//! What is right is accepted, and leaves the user's function under its name and with its signature.

use proptest::prelude::*;
use quote::ToTokens;
use syn::{FnArg, ItemFn, Pat};

use super::strategies::{place, right};
use super::{answer, cases};

fn as_written(item: &str) -> ItemFn {
    syn::parse_str(item).expect("what is given is a function")
}

/// Patterns are moved into the body; nothing else of a signature may change.
fn without_patterns(mut function: ItemFn) -> String {
    for input in &mut function.sig.inputs {
        if let FnArg::Typed(parameter) = input {
            *parameter.pat = Pat::Verbatim(quote::quote!(_));
        }
    }
    function.sig.to_token_stream().to_string()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn right_settings_on_a_right_function_are_accepted(right in right()) {
        let answer = answer(&right.arguments(), &right.item);
        prop_assert_eq!(&answer.errors, &Vec::<String>::new());
        let (function, written) = (answer.function().clone(), as_written(&right.item));
        prop_assert_eq!(function.sig.ident.to_string(), right.name);
        prop_assert_eq!(&function.vis, &written.vis);
        prop_assert_eq!(function.attrs.len(), written.attrs.len());
        prop_assert_eq!(without_patterns(function), without_patterns(written));
    }

    #[test]
    fn the_order_of_settings_and_a_last_comma_change_nothing(right in right(), place in place()) {
        let mut other = right.clone();
        if !other.settings.is_empty() {
            let by = place.index(other.settings.len());
            other.settings.rotate_left(by);
        }
        let straight = answer(&right.arguments(), &right.item);
        let comma = if other.settings.is_empty() { "" } else { "," };
        let turned = answer(&format!("{}{comma}", other.arguments()), &right.item);
        prop_assert_eq!(turned.function(), straight.function());
    }
}
