//! Runs the phases in their order. The result always contains the user's item, also after an error.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Attribute;

use crate::arguments::{Arguments, Shape};
use crate::parse::Function;
use crate::runtime::Runtime;
use crate::{bounds, expand, validate};

/// Expands `#[idempotent(arguments)]` on an item.
pub(crate) fn attribute(arguments: TokenStream, item: TokenStream) -> TokenStream {
    protect(arguments, &item).unwrap_or_else(|error| {
        // The callers of the function still compile, so that one mistake is one error.
        let errors = error.to_compile_error();
        quote!(#errors #item)
    })
}

fn protect(arguments: TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    bounds::arguments(&arguments)?;
    bounds::signature(item)?;
    let function: Function = syn::parse2(item.clone())?;
    let parsed = Arguments::parse(arguments.clone());
    if let Some(written) = &parsed.shape
        && matches!(written.shape, Shape::Batch(_))
        && function.attributes.iter().any(is_expanded)
    {
        let runtime = Runtime::find(parsed.runtime);
        return Ok(after_the_others(function, &arguments, &runtime));
    }
    let validated = validate::validate(&function, parsed)?;
    Ok(expand::expand(&function, &validated))
}

/// Returns the function of one record with its other attributes first, so that they see this function and not the handler of the
/// batch: `#[tracing::instrument(fields(order = %order.id))]` needs the parameter `order`.
fn after_the_others(function: Function, arguments: &TokenStream, runtime: &Runtime) -> TokenStream {
    let (first, rest): (Vec<_>, Vec<_>) = function.attributes.into_iter().partition(is_expanded);
    let (visibility, signature, body) = (function.visibility, function.signature, function.body);
    let site = Span::mixed_site();
    let private = runtime.private(site);
    quote_spanned! {site=>
        #(#first)*
        #[#private::idempotent(#arguments)]
        #(#rest)*
        #visibility #signature { #body }
    }
}

/// The built-in attributes of functions: <https://doc.rust-lang.org/reference/attributes.html#built-in-attributes-index>.
const BUILT_IN: &str = "allow automatically_derived cfg cfg_attr cold coverage deny deprecated doc expect export_name forbid inline \
    link_section must_use no_mangle target_feature track_caller unsafe warn";
/// The tools whose attributes no macro expands.
const TOOLS: &str = "clippy diagnostic miri rust_analyzer rustfmt";

/// Returns true if a macro expands the attribute: it is neither built in nor an attribute of a tool.
fn is_expanded(attribute: &Attribute) -> bool {
    let path = attribute.path();
    let known = if path.get_ident().is_some() {
        BUILT_IN
    } else {
        TOOLS
    };
    let first = path.segments.first();
    !first.is_some_and(|first| known.split(' ').any(|name| first.ident == name))
}
