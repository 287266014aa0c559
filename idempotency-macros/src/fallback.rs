//! When something is wrong: the errors, beside the item as it was written, so that whoever calls it still compiles and
//! one mistake stays one error.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

/// The errors, and the item unchanged.
pub(crate) fn fallback(item: &TokenStream, error: &Error) -> TokenStream {
    let errors = error.to_compile_error();
    quote!(#errors #item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_left_as_it_was() {
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
