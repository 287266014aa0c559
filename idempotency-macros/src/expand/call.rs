//! The call of a function that asks for it.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::SpanRange;
use crate::validate::{CallParameter, ValidatedFn};

/// The code that supplies the call, in three places of the function.
#[derive(Default)]
pub(super) struct CallCode {
    /// The statement that compiles only if the type of the parameter is the framework's.
    pub(super) before: TokenStream,
    /// The parameter of the closure that gets the call.
    pub(super) parameter: Option<TokenStream>,
    /// The statement at the start of the body that binds the parameter's pattern.
    pub(super) binding: TokenStream,
}

/// Returns the code that supplies the call, or `None` if the function does not ask for it.
pub(super) fn supplied(validated: &ValidatedFn) -> Option<CallCode> {
    let CallParameter {
        attributes,
        pattern,
        of,
    } = validated.call.as_ref()?;
    let site = Span::mixed_site();
    let (runtime, at) = (&validated.runtime, SpanRange::of(of));
    let private = runtime.private(site);
    let head = at.head(runtime, "supplied");
    let witness = quote_spanned!(at.end=> ::<#of>());
    let witness = quote_spanned!(at.start=> #head #witness);
    Some(CallCode {
        before: quote_spanned!(site=> let __supplied = #witness;),
        parameter: Some(quote_spanned!(site=> __call: #private::Call)),
        binding: quote_spanned!(site=> #(#attributes)* let #pattern: #of = __supplied.call(__call);),
    })
}
