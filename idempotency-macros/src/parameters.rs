//! Where among the parameters the invocation's context may be. Which of them is one, their types decide: an alias or a type
//! of the user's own is no different from `LambdaEvent`.

use proc_macro2::Span;
use quote::format_ident;
use syn::visit_mut::{VisitMut, visit_pat_ident_mut, visit_pat_mut, visit_pat_struct_mut};
use syn::{FnArg, Ident, Pat, PatIdent, PatStruct, Signature};

/// The parameters to look into.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Those whose pattern leaves something out: each under a name of ours, with its pattern, which is matched before the
    /// payload is looked at. `LambdaEvent { payload, .. }` leaves the context out.
    pub(crate) whole: Vec<(Ident, Pat)>,
    /// Every name that the patterns bind.
    pub(crate) named: Vec<Ident>,
}

impl Parameters {
    /// Takes the parameters of a signature, and gives those a name whose pattern leaves something out.
    pub(crate) fn take(signature: &mut Signature) -> Self {
        let mut parameters = Self::default();
        for (at, input) in signature.inputs.iter_mut().enumerate() {
            let FnArg::Typed(parameter) = input else {
                continue;
            };
            // It may not be there.
            if parameter.attrs.iter().any(|a| a.path().is_ident("cfg")) {
                continue;
            }
            let mut search = Search::default();
            search.visit_pat_mut(&mut parameter.pat.clone());
            parameters.named.append(&mut search.names);
            if search.leaves_out {
                let name = format_ident!("parameter_{at}", span = Span::mixed_site());
                let named = Box::new(syn::parse_quote!(#name));
                let pattern = std::mem::replace(&mut parameter.pat, named);
                parameters.whole.push((name, *pattern));
            }
        }
        parameters
    }
}

/// What a pattern binds, and whether it leaves anything out.
#[derive(Default)]
struct Search {
    names: Vec<Ident>,
    leaves_out: bool,
}

impl VisitMut for Search {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        self.leaves_out |= matches!(pattern, Pat::Wild(_) | Pat::Rest(_));
        visit_pat_mut(self, pattern);
    }

    fn visit_pat_struct_mut(&mut self, pattern: &mut PatStruct) {
        self.leaves_out |= pattern.rest.is_some();
        visit_pat_struct_mut(self, pattern);
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        self.names.push(pattern.ident.clone());
        visit_pat_ident_mut(self, pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn taken(parameters: &str) -> (String, Vec<String>, usize) {
        let item = format!("async fn f({parameters})");
        let mut signature: Signature = syn::parse_str(&item).unwrap();
        let taken = Parameters::take(&mut signature);
        (
            signature.inputs.to_token_stream().to_string(),
            taken.named.iter().map(ToString::to_string).collect(),
            taken.whole.len(),
        )
    }

    #[test]
    fn names_are_looked_into_and_stay_where_they_are() {
        let (signature, named, whole) = taken("&self, app: &App, (mut a, b @ ..): (A, B)");
        assert!(signature.starts_with("& self , app : & App"), "{signature}");
        assert_eq!(named, ["app", "a", "b"]);
        assert_eq!(whole, 1);
    }

    #[test]
    fn a_pattern_that_leaves_something_out_is_matched_later() {
        for (pattern, names) in [
            ("LambdaEvent { payload, .. }", 1),
            ("LambdaEvent { payload, context: _ }", 1),
            ("_", 0),
            ("[first, ..]", 1),
        ] {
            let (signature, named, whole) = taken(&format!("a: A, {pattern}: T"));
            assert_eq!(signature, "a : A , parameter_1 : T", "{pattern}");
            assert_eq!((named.len(), whole), (1 + names, 1), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_binds_everything_stays() {
        let (signature, named, whole) = taken("LambdaEvent { payload, context }: LambdaEvent<A>");
        assert!(signature.starts_with("LambdaEvent {"), "{signature}");
        assert_eq!(named, ["payload", "context"]);
        assert_eq!(whole, 0);
    }

    #[test]
    fn a_parameter_that_may_not_be_there_is_left_alone() {
        let (signature, named, whole) = taken("#[cfg(test)] _: LambdaEvent<A>");
        assert!(signature.starts_with("# [cfg (test)] _"), "{signature}");
        assert!(named.is_empty());
        assert_eq!(whole, 0);
    }
}
