//! Finds the path of the runtime, `idempotency-lambda`, for the generated code.
//!
//! The path is the one in `crate = ..`, or the name that the user's `Cargo.toml` gives to the dependency. With `crate = ..`
//! alone this crate would need one dependency less. But a user who renames the dependency would then see "cannot find
//! `idempotency_lambda`" in generated code. `proc-macro-crate` is not part of the user's binary, reads the manifest once for a
//! compilation, and supports inherited and renamed dependencies.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Ident, Path};

/// The crate's name, if it is not renamed.
const NAME: &str = "idempotency_lambda";

/// The path of the runtime.
pub(crate) enum Runtime {
    /// The name of the dependency in the user's program.
    Dependency(String),
    /// The path in `crate = ..`, for a program that uses the runtime through another crate.
    Written(Path),
}

impl Runtime {
    /// Returns the path that was written, or else the name of the dependency.
    pub(crate) fn find(written: Option<Path>) -> Self {
        match written {
            Some(path) => Self::Written(path),
            // If the manifest or the dependency is missing, the compiler reports the missing crate.
            None => Self::Dependency(match crate_name("idempotency-lambda") {
                Ok(FoundCrate::Name(name)) => name,
                Ok(FoundCrate::Itself) | Err(_) => NAME.to_owned(),
            }),
        }
    }

    /// Returns the path of the runtime's hidden module, with this span.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        match self {
            Self::Dependency(name) => {
                let name = Ident::new(name, span);
                quote_spanned!(span=> ::#name::__private)
            }
            Self::Written(path) => {
                let placed = path
                    .to_token_stream()
                    .into_iter()
                    .map(|mut token: TokenTree| {
                        token.set_span(span);
                        token
                    });
                let path = TokenStream::from_iter(placed);
                quote_spanned!(span=> #path::__private)
            }
        }
    }
}
