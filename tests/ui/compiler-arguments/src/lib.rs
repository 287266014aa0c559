//! The command line with which rustc compiles a crate, as a constant inside that crate.
//!
//! A test that starts rustc needs the paths of the libraries that cargo built for that test. Cargo passes them to rustc only. A
//! second cargo, started by the test, would choose other features and compile many libraries again.

use proc_macro::{Literal, TokenStream, TokenTree};

/// Expands to the arguments with which rustc compiles the caller: a `[&str; N]` that begins with the path of rustc.
///
/// A procedural macro runs inside rustc, so the arguments of its process are those of rustc.
#[proc_macro]
pub fn compiler_arguments(_: TokenStream) -> TokenStream {
    let program = std::env::current_exe().unwrap_or_else(|_| "rustc".into());
    let program = program.to_string_lossy().into_owned();
    let arguments = std::iter::once(program).chain(std::env::args().skip(1));
    let elements: TokenStream = arguments
        .flat_map(|argument| {
            let comma = TokenTree::Punct(proc_macro::Punct::new(',', proc_macro::Spacing::Alone));
            [TokenTree::Literal(Literal::string(&argument)), comma]
        })
        .collect();
    let array = proc_macro::Group::new(proc_macro::Delimiter::Bracket, elements);
    TokenStream::from(TokenTree::Group(array))
}
