//! The place of some tokens, from the first to the last.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::runtime::Runtime;

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

    /// Returns the path of an item of the runtime's hidden module, at the start of the range.
    pub(super) fn head(&self, runtime: &Runtime, item: &str) -> TokenStream {
        let item = syn::Ident::new(item, self.start);
        let private = runtime.private(self.start);
        quote_spanned!(self.start=> #private::#item)
    }
}
