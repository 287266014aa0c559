//! Expands to the errors and the unchanged item.
//!
//! The callers of the function still compile, so that one mistake is one error.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

/// Returns the errors as `compile_error!`, and the item as it was written.
pub(crate) fn fallback(item: &TokenStream, error: &Error) -> TokenStream {
    let errors = error.to_compile_error();
    quote!(#errors #item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_stays_as_it_was_written() {
        let item = quote!(
            pub fn f(self) -> u8 {
                1
            }
        );
        let error = Error::new(proc_macro2::Span::call_site(), "no");
        let tokens = fallback(&item, &error).to_string();
        assert!(tokens.ends_with(&item.to_string()), "{tokens}");
        assert!(tokens.contains("compile_error"), "{tokens}");
    }
}
