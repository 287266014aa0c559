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

    #[test]
    fn a_pattern_that_leaves_something_out_is_replaced_by_a_name_and_others_are_searched() {
        // Parameters, the names that are searched, and the signature.
        let rows = "
            &self, app: &App, (mut a, b @ ..): (A, B) | app a b | & self , app : & App , __parameter_2 : (A , B)
            a: A, LambdaEvent { payload, .. }: T | a payload | a : A , __parameter_1 : T
            a: A, LambdaEvent { payload, context: _ }: T | a payload | a : A , __parameter_1 : T
            a: A, _: T | a | a : A , __parameter_1 : T
            a: A, [first, ..]: T | a first | a : A , __parameter_1 : T
            LambdaEvent { payload, context }: A | payload context | LambdaEvent { payload , context } : A
            #[cfg(test)] _: LambdaEvent<A> |  | # [cfg (test)] _ : LambdaEvent < A >";
        for row in rows.lines().skip(1) {
            let columns: Vec<_> = row.split(" | ").map(str::trim).collect();
            let item = format!("async fn f({})", columns[0]);
            let mut signature: Signature = syn::parse_str(&item).unwrap();
            let found = Parameters::take(&mut signature);
            let named: Vec<_> = found.named.iter().map(ToString::to_string).collect();
            assert_eq!(named.join(" "), columns[1], "{row}");
            let inputs = signature.inputs.to_token_stream().to_string();
            assert_eq!(inputs, columns[2], "{row}");
            assert_eq!(
                found.whole.len(),
                inputs.matches("__parameter").count(),
                "{row}"
            );
        }
    }
}
