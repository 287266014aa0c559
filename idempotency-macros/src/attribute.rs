//! The phases, one after the other. Whatever is given, what comes back holds the user's item.

use proc_macro2::TokenStream;

use crate::arguments::Arguments;
use crate::{bounds, expand, fallback, validate};

/// What `#[idempotent(arguments)]` on an item becomes.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream) -> TokenStream {
    protect(arguments, &item).unwrap_or_else(|error| fallback::fallback(&item, &error))
}

fn protect(arguments: TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    bounds::arguments(&arguments)?;
    bounds::signature(item)?;
    let function = syn::parse2(item.clone())?;
    let arguments = Arguments::parse(arguments);
    let operation = validate::validate(&function, arguments)?;
    Ok(expand::expand(&function, &operation))
}
