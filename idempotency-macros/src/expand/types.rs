//! The requirements on the types of a function: expressions that compile only if a type is right, with the span of that type.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::arguments::Shape;
use crate::runtime::Runtime;
use crate::validate::{CallParameter, Returned, ValidatedFn};

/// The spans of the first and the last token.
///
/// rustc underlines a generated expression from its first to its last token. Joined spans would need a nightly compiler.
pub(super) struct SpanRange {
    pub(super) start: Span,
    pub(super) end: Span,
}

impl SpanRange {
    /// Returns the range of these tokens.
    pub(super) fn of(tokens: &impl ToTokens) -> Self {
        let mut tokens = tokens.to_token_stream().into_iter();
        let site = Span::mixed_site();
        let start = tokens.next().map_or(site, |token| token.span());
        let end = tokens.last().map_or(start, |token| token.span());
        Self {
            start: start.resolved_at(site),
            end: end.resolved_at(site),
        }
    }

    /// Returns the path of an item of the runtime's hidden module, with the span of the first token.
    pub(super) fn head(&self, runtime: &Runtime, item: &str) -> TokenStream {
        let item = syn::Ident::new(item, self.start);
        let private = runtime.private(self.start);
        quote_spanned!(self.start=> #private::#item)
    }
}

/// Expressions that compile only if the return type is right.
pub(super) struct Witnesses {
    /// How the response is written and read.
    pub(super) codec: TokenStream,
    /// How an error of the framework becomes an error of the function. `None` if it never does.
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

/// The code that supplies the call, in three places of the function.
pub(super) struct CallCode {
    /// The statement that compiles only if the type of the parameter is the framework's.
    pub(super) before: TokenStream,
    /// The name that the closure's parameter binds: `_` for a function that does not ask for its call.
    pub(super) name: TokenStream,
    /// The statement at the start of the body that binds the parameter's pattern.
    pub(super) binding: TokenStream,
}

/// Returns the code that supplies the call.
pub(super) fn supplied(validated: &ValidatedFn) -> CallCode {
    let site = Span::mixed_site();
    let Some(asked) = &validated.call else {
        return CallCode {
            before: TokenStream::new(),
            name: quote_spanned!(site=> _),
            binding: TokenStream::new(),
        };
    };
    let CallParameter {
        attributes,
        pattern,
        of,
    } = asked;
    let (runtime, at) = (&validated.runtime, SpanRange::of(of));
    let head = at.head(runtime, "supplied");
    let witness = quote_spanned!(at.end=> ::<#of>());
    let witness = quote_spanned!(at.start=> #head #witness);
    CallCode {
        before: quote_spanned!(site=> let __supplied = #witness;),
        name: quote_spanned!(site=> __call),
        binding: quote_spanned!(site=> #(#attributes)* let #pattern: #of = __supplied(__call);),
    }
}
