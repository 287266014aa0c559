//! Runs the phases in their order. The result always contains the user's item, also after an error.

use proc_macro2::TokenStream;

use crate::arguments::Arguments;
use crate::{bounds, expand, fallback, validate};

/// Expands `#[idempotent(arguments)]` on an item.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream) -> TokenStream {
    protect(arguments, &item).unwrap_or_else(|error| fallback::fallback(&item, &error))
}

fn protect(arguments: TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    bounds::arguments(&arguments)?;
    bounds::signature(item)?;
    let function = syn::parse2(item.clone())?;
    let arguments = Arguments::parse(arguments);
    let validated = validate::validate(&function, arguments)?;
    Ok(expand::expand(&function, &validated))
}
