//! Where the code that is written finds the runtime: the crate `idempotency-lambda`, under whatever name the user's
//! `Cargo.toml` gives it, or at the path that `crate = ..` says.
//!
//! `crate = ..` alone would need no dependency here, as in serde. But who renames the crate would first meet the compiler's "cannot
//! find `idempotency_lambda`" in code that is not there to be seen. `proc-macro-crate` is compiled for the macro alone, reads the
//! manifest once for a compilation, and knows inherited and renamed dependencies.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Ident, Path};

/// The crate's name where it has no other.
const NAME: &str = "idempotency_lambda";

/// The path of the runtime.
pub(crate) enum Runtime {
    /// A dependency, by its name in the user's program.
    Dependency(String),
    /// What `crate = ..` says, where a crate of the user's re-exports the runtime.
    Written(Path),
}

impl Runtime {
    /// Finds the runtime's crate.
    pub(crate) fn find(written: Option<Path>) -> Self {
        match written {
            Some(path) => Self::Written(path),
            // Without a manifest, or without the dependency in it, the compiler says that the crate is missing.
            None => Self::Dependency(match crate_name("idempotency-lambda") {
                Ok(FoundCrate::Name(name)) => name,
                Ok(FoundCrate::Itself) | Err(_) => NAME.to_owned(),
            }),
        }
    }

    /// The path of its hidden module, placed at `span`.
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
