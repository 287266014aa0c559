//! Finds the parameters that may have the invocation's context.
//!
//! The compiler decides by their types which one has it. So an alias, or a type of the user's, works like `LambdaEvent`.

use proc_macro2::Span;
use quote::format_ident;
use syn::visit_mut::{VisitMut, visit_pat_ident_mut, visit_pat_mut, visit_pat_struct_mut};
use syn::{FnArg, Ident, Pat, PatIdent, PatStruct, Signature};

/// The parameters in which the context is searched.
#[derive(Default)]
pub(crate) struct Parameters {
    /// The parameters whose pattern leaves something out, as `LambdaEvent { payload, .. }` leaves the context out. Each has a
    /// generated name. Its pattern is matched before the payload is evaluated.
    pub(crate) whole: Vec<(Ident, Pat)>,
    /// All names that the patterns bind.
    pub(crate) named: Vec<Ident>,
}

impl Parameters {
    /// Finds the parameters of a signature. Replaces each pattern that leaves something out by a name.
    pub(crate) fn take(signature: &mut Signature) -> Self {
        let mut parameters = Self::default();
        for (at, input) in signature.inputs.iter_mut().enumerate() {
            let FnArg::Typed(parameter) = input else {
                continue;
            };
            // After `cfg`, the parameter may not exist.
            if parameter.attrs.iter().any(|a| a.path().is_ident("cfg")) {
                continue;
            }
            let names = Names::of(&parameter.pat);
            parameters.named.extend(names.all);
            if names.leaves_out {
                let name = format_ident!("__parameter_{at}", span = Span::mixed_site());
                let named = Box::new(syn::parse_quote!(#name));
                let pattern = std::mem::replace(&mut parameter.pat, named);
                parameters.whole.push((name, *pattern));
            }
        }
        parameters
    }
}

/// The names that a pattern binds, and whether it leaves anything out.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) all: Vec<Ident>,
    leaves_out: bool,
}

impl Names {
    /// Finds the names of a pattern.
    pub(crate) fn of(pattern: &Pat) -> Self {
        let mut names = Self::default();
        names.visit_pat_mut(&mut pattern.clone());
        names
    }
}

impl VisitMut for Names {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        self.leaves_out |= matches!(pattern, Pat::Wild(_) | Pat::Rest(_));
        visit_pat_mut(self, pattern);
    }

    fn visit_pat_struct_mut(&mut self, pattern: &mut PatStruct) {
        self.leaves_out |= pattern.rest.is_some();
        visit_pat_struct_mut(self, pattern);
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        self.all.push(pattern.ident.clone());
        visit_pat_ident_mut(self, pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn searched(parameters: &str) -> (String, Vec<String>, usize) {
        let item = format!("async fn f({parameters})");
        let mut signature: Signature = syn::parse_str(&item).unwrap();
        let found = Parameters::take(&mut signature);
        (
            signature.inputs.to_token_stream().to_string(),
            found.named.iter().map(ToString::to_string).collect(),
            found.whole.len(),
        )
    }

    #[test]
    fn names_are_searched_and_stay_in_the_signature() {
        let (signature, named, whole) = searched("&self, app: &App, (mut a, b @ ..): (A, B)");
        assert!(signature.starts_with("& self , app : & App"), "{signature}");
        assert_eq!(named, ["app", "a", "b"]);
        assert_eq!(whole, 1);
    }

    #[test]
    fn a_pattern_that_leaves_something_out_is_replaced_by_a_name() {
        for (pattern, names) in [
            ("LambdaEvent { payload, .. }", 1),
            ("LambdaEvent { payload, context: _ }", 1),
            ("_", 0),
            ("[first, ..]", 1),
        ] {
            let (signature, named, whole) = searched(&format!("a: A, {pattern}: T"));
            assert_eq!(signature, "a : A , __parameter_1 : T", "{pattern}");
            assert_eq!((named.len(), whole), (1 + names, 1), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_binds_everything_stays() {
        let (signature, named, whole) =
            searched("LambdaEvent { payload, context }: LambdaEvent<A>");
        assert!(signature.starts_with("LambdaEvent {"), "{signature}");
        assert_eq!(named, ["payload", "context"]);
        assert_eq!(whole, 0);
    }

    #[test]
    fn a_parameter_under_cfg_is_left_alone() {
        let (signature, named, whole) = searched("#[cfg(test)] _: LambdaEvent<A>");
        assert!(signature.starts_with("# [cfg (test)] _"), "{signature}");
        assert!(named.is_empty());
        assert_eq!(whole, 0);
    }
}
