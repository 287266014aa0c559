//! The parameter of type `Call`: the framework supplies it, so it leaves the signature.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit_mut::{VisitMut, visit_expr_path_mut};
use syn::{Attribute, Error, Expr, ExprPath, FnArg, Macro, Pat, PatType, Signature, Type};

use super::{mentions, type_arguments};
use crate::parameters::Names;

/// The parameter that the framework supplies.
pub(crate) struct CallParameter {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) pattern: Box<Pat>,
    pub(crate) of: Box<Type>,
}

/// Takes the parameter of type `Call` out of a signature. `payload` is the expression of that setting; without it the payload is the event.
///
/// A parameter with a type of this name stays if it is the event or the record itself, or if the payload uses it. Then the type is one of
/// the program: the framework's call does not exist yet when the payload is read.
///
/// A parameter in a wrong place is taken out too, so that it causes one error only.
pub(super) fn take(
    signature: &mut Signature,
    payload: Option<&Expr>,
    errors: &mut Vec<Error>,
) -> Option<CallParameter> {
    let last = signature.inputs.len().saturating_sub(1);
    let has_event_before = signature.inputs.iter().rev().nth(1).is_some_and(by_value);
    let mut found = Vec::new();
    for (at, input) in signature.inputs.iter().enumerate() {
        let FnArg::Typed(parameter) = input else {
            continue;
        };
        let Some(is_wrapped) = is_call(&parameter.ty) else {
            continue;
        };
        match payload {
            Some(payload) if names_any_of(payload, &parameter.pat) => continue,
            // It is the event or the record itself.
            None if at == last && !has_event_before => continue,
            _ => {}
        }
        let is_under_cfg = parameter.attrs.iter().any(|of| of.path().is_ident("cfg"));
        let wrong = if is_wrapped {
            Some("the framework supplies the `Call` by value, and always: write `call: Call`")
        } else if payload.is_none() && at != last {
            Some("the `Call` comes last, after the event: the framework supplies it")
        } else if is_under_cfg {
            Some(
                "a `Call` cannot be under `cfg`: write two functions under `cfg`, with and without it",
            )
        } else if !found.is_empty() {
            Some("a run has one `Call`: leave this one out, and clone the other")
        } else {
            None
        };
        errors.extend(wrong.map(|text| {
            let own = "for a type of your own with this name, give it another one: `use .. as ..`";
            Error::new_spanned(&parameter.ty, format!("{text}; {own}"))
        }));
        found.push(at);
    }
    let taken = found.into_iter().rev().map(|at| remove(signature, at));
    taken.last().flatten()
}

fn remove(signature: &mut Signature, at: usize) -> Option<CallParameter> {
    let mut inputs: Vec<_> = std::mem::take(&mut signature.inputs).into_iter().collect();
    let removed = inputs.remove(at);
    signature.inputs = Punctuated::from_iter(inputs);
    match removed {
        FnArg::Typed(PatType { attrs, pat, ty, .. }) => Some(CallParameter {
            attributes: attrs,
            pattern: pat,
            of: ty,
        }),
        // Unreachable: only a typed parameter was found.
        FnArg::Receiver(_) => None,
    }
}

/// Returns true if a parameter can be an event or a record.
fn by_value(input: &FnArg) -> bool {
    matches!(input, FnArg::Typed(parameter) if !matches!(*parameter.ty, Type::Reference(_)))
}

/// Returns `None` if a type is not `Call`, and otherwise whether it is a reference to one, or a container of one.
fn is_call(of: &Type) -> Option<bool> {
    const CONTAINERS: [&str; 4] = ["Option", "Box", "Rc", "Arc"];
    match of {
        Type::Reference(reference) => is_call(&reference.elem).map(|_| true),
        Type::Paren(inner) => is_call(&inner.elem),
        Type::Group(inner) => is_call(&inner.elem),
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last()?;
            if CONTAINERS.iter().any(|known| last.ident == known) {
                return is_call(type_arguments(of).first()?).map(|_| true);
            }
            (last.ident == "Call" && last.arguments.is_none()).then_some(false)
        }
        _ => None,
    }
}

/// Returns true if an expression uses a variable that the pattern binds.
fn names_any_of(expression: &Expr, pattern: &Pat) -> bool {
    let names = Names::of(pattern).all;
    let mut search = Search {
        names: names.iter().map(ToString::to_string).collect(),
        found: false,
    };
    search.visit_expr_mut(&mut expression.clone());
    search.found
}

struct Search {
    names: Vec<String>,
    found: bool,
}

impl Search {
    fn look(&mut self, tokens: &TokenStream) {
        self.found |= self.names.iter().any(|name| mentions(tokens.clone(), name));
    }
}

impl VisitMut for Search {
    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        if path.path.get_ident().is_some() {
            self.look(&path.to_token_stream());
        }
        visit_expr_path_mut(self, path);
    }

    /// What a macro is given is not parsed, so each of its words counts.
    fn visit_macro_mut(&mut self, invocation: &mut Macro) {
        self.look(&invocation.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/ui/fail/call.cases` has what is refused.
    #[test]
    fn the_call_leaves_the_signature_and_a_type_of_the_program_stays() {
        for line in include_str!("call.txt").lines().skip(1) {
            let mut columns = line.split('|').map(str::trim);
            let mut column = || columns.next().unwrap_or_default();
            let (parameters, payload, taken, left) = (column(), column(), column(), column());
            let item = format!("async fn f({parameters})");
            let mut signature: Signature = syn::parse_str(&item).unwrap();
            let payload = syn::parse_str::<Expr>(payload).ok();
            let mut errors = Vec::new();
            let call = take(&mut signature, payload.as_ref(), &mut errors);
            assert!(errors.is_empty(), "{line}");
            let pattern = call.map(|call| call.pattern.to_token_stream().to_string());
            assert_eq!(pattern.unwrap_or_default(), taken, "{line}");
            let inputs = signature.inputs.to_token_stream().to_string();
            assert!(taken.is_empty() || inputs == left, "{line}: {inputs}");
        }
    }
}
