//! The call of a function, which it may ask for.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::SpanRange;
use crate::validate::{CallParameter, ValidatedFn};

/// The code that supplies the call, in three places of the function.
pub(super) struct CallCode {
    /// The statement that compiles only if the type of the parameter is the framework's.
    pub(super) before: TokenStream,
    /// The name that the closure's parameter binds: `_` for a function that does not ask.
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
        binding: quote_spanned!(site=> #(#attributes)* let #pattern: #of = __supplied.call(__call);),
    }
}
