//! Valid settings on a valid function are accepted, and the function keeps its name and its signature.

use proptest::prelude::*;
use quote::ToTokens;
use syn::{FnArg, ItemFn, Pat};

use super::strategies::{place, valid};
use super::{cases, expansion};

fn as_written(item: &str) -> ItemFn {
    syn::parse_str(item).expect("the input is a function")
}

/// Returns a signature without its patterns, which may move into the body. Nothing else of a signature may change.
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
    fn valid_settings_on_a_valid_function_are_accepted(valid in valid()) {
        let expansion = expansion(&valid.arguments(), &valid.item);
        prop_assert_eq!(&expansion.errors, &Vec::<String>::new());
        let (function, written) = (expansion.function().clone(), as_written(&valid.item));
        prop_assert_eq!(function.sig.ident.to_string(), valid.name);
        prop_assert_eq!(&function.vis, &written.vis);
        prop_assert_eq!(function.attrs.len(), written.attrs.len());
        prop_assert_eq!(without_patterns(function), without_patterns(written));
    }

    #[test]
    fn the_order_of_the_settings_and_a_last_comma_change_nothing(valid in valid(), place in place()) {
        let mut other = valid.clone();
        if !other.settings.is_empty() {
            let by = place.index(other.settings.len());
            other.settings.rotate_left(by);
        }
        let straight = expansion(&valid.arguments(), &valid.item);
        let comma = if other.settings.is_empty() { "" } else { "," };
        let turned = expansion(&format!("{}{comma}", other.arguments()), &valid.item);
        prop_assert_eq!(turned.function(), straight.function());
    }
}
