//! Searches in types and tokens.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{GenericArgument, PathArguments, Type, TypeImplTrait};

/// Returns the type arguments of a type: `R` and `E` of `Result<R, E>`.
pub(super) fn type_arguments(of: &Type) -> Vec<&Type> {
    let Type::Path(path) = of else {
        return Vec::new();
    };
    match path.path.segments.last().map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) => {
            let types = arguments.args.iter().filter_map(|argument| match argument {
                GenericArgument::Type(of) => Some(of),
                _ => None,
            });
            types.collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the first `impl Trait` in a type.
pub(super) fn impl_trait(within: &Type) -> Option<TypeImplTrait> {
    struct Search(Option<TypeImplTrait>);

    impl VisitMut for Search {
        fn visit_type_mut(&mut self, of: &mut Type) {
            match of {
                Type::ImplTrait(found) => {
                    self.0.get_or_insert_with(|| found.clone());
                }
                _ => visit_type_mut(self, of),
            }
        }
    }

    let mut search = Search(None);
    search.visit_type_mut(&mut within.clone());
    search.0
}

/// Returns true if a word is among the tokens, at any depth.
pub(super) fn mentions(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => false,
    })
}

/// Returns the last name of a type's path.
pub(super) fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}
