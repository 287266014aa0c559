//! The identity of a call: its payload, and the invocation's context.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use super::SpanRange;
use crate::arguments::Shape;
use crate::parameters::Parameters;
use crate::runtime::Runtime;
use crate::validate::{ContextSource, PayloadSource};

/// The code that makes a call's identity, in three places of the function.
#[derive(Default)]
pub(super) struct IdentityCode {
    /// Statements that find the context and match the parameters' patterns.
    pub(super) before: TokenStream,
    /// The expression that makes the identity.
    pub(super) identified: TokenStream,
    /// The statement at the start of the body that matches the event's pattern.
    pub(super) destructure: TokenStream,
}

/// Returns the code that makes the identity of a call with this payload.
pub(super) fn identified(
    payload: &PayloadSource,
    shape: Option<Shape>,
    runtime: &Runtime,
) -> IdentityCode {
    // `run_http` takes the store of a handler of HTTP events: a request that is not protected needs none.
    let (identify, store) = if shape == Some(Shape::Http) {
        ("prepare_http", None)
    } else {
        (
            "identify_event",
            Some(quote_spanned!(Span::mixed_site()=> , __store)),
        )
    };
    match payload {
        PayloadSource::Event { name, pattern, of } => {
            let at = SpanRange::of(of);
            // The span of the type, with the hygiene of the parameter.
            let mut event = name.clone();
            event.set_span(at.end.resolved_at(name.span()));
            let (head, and) = (
                at.head(runtime, identify),
                quote_spanned!(at.start.resolved_at(name.span())=> &),
            );
            let destructure = pattern
                .as_ref()
                .map(|pattern| quote_spanned!(Span::mixed_site()=> let #pattern = #name;));
            let call = quote_spanned!(at.end=> (__operation, #and #event #store));
            IdentityCode {
                before: TokenStream::new(),
                identified: quote_spanned!(at.start=> #head #call),
                destructure: destructure.into_token_stream(),
            }
        }
        // `batch` makes the identity of each record.
        PayloadSource::Record { .. } => IdentityCode::default(),
        PayloadSource::Value { value, context } => {
            let at = SpanRange::of(value);
            let head = at.head(runtime, "identify_value");
            let call = quote_spanned!(at.end=> (__operation, #value, __found, __store));
            IdentityCode {
                before: match context {
                    ContextSource::Named(named) => named_context(named, runtime),
                    ContextSource::Parameters(parameters) => found(parameters, runtime),
                },
                identified: quote_spanned!(at.start=> #head #call),
                destructure: TokenStream::new(),
            }
        }
    }
}

/// Returns the statement that reads the context from `context = ..`.
fn named_context(named: &syn::Expr, runtime: &Runtime) -> TokenStream {
    let at = SpanRange::of(named);
    let head = at.head(runtime, "context");
    let call = quote_spanned!(at.end=> (#named));
    let context = quote_spanned!(at.start=> #head #call);
    quote_spanned!(Span::mixed_site()=> let __found = #context;)
}

/// Returns the statements that find the context among the parameters: first in those that are not taken apart yet, then in the
/// names that patterns bind.
fn found(parameters: &Parameters, runtime: &Runtime) -> TokenStream {
    let site = Span::mixed_site();
    let none = quote_spanned!(site=> ::core::default::Default::default());
    let whole = among(
        parameters.whole.iter().map(|(name, _)| name),
        &none,
        runtime,
    );
    let named = among(&parameters.named, &quote_spanned!(site=> __found), runtime);
    let patterns = parameters
        .whole
        .iter()
        .map(|(name, pattern)| quote_spanned!(site=> let #pattern = #name;));
    quote_spanned! {site=>
        let __found = #whole;
        #(#patterns)*
        let __found = #named;
    }
}

/// Returns an expression that is `first` if that is a context, and otherwise the first context among these names.
fn among<'a>(
    names: impl IntoIterator<Item = &'a syn::Ident>,
    first: &TokenStream,
    runtime: &Runtime,
) -> TokenStream {
    let site = Span::mixed_site();
    let (names, private) = (names.into_iter(), runtime.private(site));
    let all = names
        .map(|name| quote_spanned!(site=> (&#private::Parameter(&#name)).__idempotent_context(),));
    quote_spanned! {site=>
        {
            #[allow(unused_imports)]
            use #private::{IsContext as _, IsNoContext as _};
            #private::found(#first, &[
                #(#all)*
            ])
        }
    }
}
