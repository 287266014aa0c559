//! The requirements on the two types of the returned `Result`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};

use super::SpanRange;
use crate::arguments::Shape;
use crate::runtime::Runtime;
use crate::validate::Returned;

/// Expressions that compile only if the return type is right.
pub(super) struct Witnesses {
    /// How the response is written and read.
    pub(super) codec: TokenStream,
    /// How an error of the framework becomes the function's. `None` if it never does.
    pub(super) convert: Option<TokenStream>,
    /// A value of the return type, in code that never runs.
    pub(super) never: TokenStream,
}

/// Returns the expressions for a return type.
pub(super) fn witnesses(returned: &Returned, shape: Option<Shape>, runtime: &Runtime) -> Witnesses {
    let (response_of, failure_of) = match shape {
        // The errors of the framework become HTTP responses, so the function's error need not hold them.
        Some(Shape::Http) => ("http_response", None),
        Some(Shape::Batch(_)) => ("response", Some("record_failure")),
        None => ("response", Some("failure")),
    };
    let response = &returned.response;
    let failure = &returned.failure;
    Witnesses {
        codec: witness(
            runtime,
            response_of,
            response,
            part(runtime, returned, response, "Response"),
        ),
        convert: failure_of.map(|function| {
            let of = part(runtime, returned, failure, "Failure");
            witness(runtime, function, failure, of)
        }),
        never: never(runtime, returned),
    }
}

/// Returns a call that compiles only for a type with the right traits, with the span of that type.
fn witness(runtime: &Runtime, function: &str, place: &TokenStream, of: TokenStream) -> TokenStream {
    let at = SpanRange::of(place);
    let head = at.head(runtime, function);
    let (open, close) = (quote_spanned!(at.start=> ::<), quote_spanned!(at.end=> >()));
    quote_spanned!(at.start=> #head #open #of #close)
}

/// Returns one of the two types of the returned `Result`, which may have an alias.
pub(super) fn part(
    runtime: &Runtime,
    returned: &Returned,
    place: &TokenStream,
    part: &str,
) -> TokenStream {
    let at = SpanRange::of(place);
    let (whole, part) = (&returned.whole, syn::Ident::new(part, at.end));
    let open = quote_spanned!(at.start=> <);
    let private = runtime.private(at.end);
    let rest = quote_spanned!(at.end=> as #private::Returned>::#part);
    quote_spanned!(at.start=> #open #whole #rest)
}

/// Returns the expression that gives the body its type.
///
/// The type is built from its two parts, so that a return type that is not a `Result` is an error at that type alone.
fn never(runtime: &Runtime, returned: &Returned) -> TokenStream {
    let whole = returned.whole.to_token_stream();
    let at = SpanRange::of(&whole);
    let response = part(runtime, returned, &whole, "Response");
    let failure = part(runtime, returned, &whole, "Failure");
    witness(
        runtime,
        "never",
        &whole,
        quote_spanned!(at.start=> ::core::result::Result<#response, #failure>),
    )
}
