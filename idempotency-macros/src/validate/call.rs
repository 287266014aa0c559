//! The parameter of type `Call`: the framework supplies it, so it leaves the signature.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::visit_mut::{VisitMut, visit_expr_path_mut};
use syn::{Attribute, Error, Expr, ExprPath, FnArg, Macro, Pat, PatType, Signature, Type};

use super::mentions;
use crate::parameters::Names;

/// The parameter that the framework supplies.
pub(crate) struct CallParameter {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) pattern: Box<Pat>,
    pub(crate) of: Box<Type>,
}

/// Takes the parameter of type `Call` out of a function whose payload is this expression, or its event if there is none.
///
/// A function whose only parameter has the name is one of an event or a record with such a type, and a parameter that the payload
/// names is a part of it: the call of the framework does not exist yet when the payload is read.
///
/// A parameter in a wrong place is taken out too, so that it is one error.
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
        let Some(is_reference) = is_call(&parameter.ty) else {
            continue;
        };
        match payload {
            Some(payload) if names_any_of(payload, &parameter.pat) => continue,
            // It is the event or the record itself.
            None if at == last && !has_event_before => continue,
            _ => {}
        }
        let is_under_cfg = parameter.attrs.iter().any(|of| of.path().is_ident("cfg"));
        let wrong = if is_reference {
            Some("the framework supplies the `Call` by value: write `call: Call`")
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

/// Returns whether a type is `Call`, and then whether it is a reference to one.
fn is_call(of: &Type) -> Option<bool> {
    match of {
        Type::Reference(reference) => is_call(&reference.elem).map(|_| true),
        Type::Paren(inner) => is_call(&inner.elem),
        Type::Group(inner) => is_call(&inner.elem),
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last()?;
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

    /// Returns the signature that is left and the parameter that was taken, or the error.
    fn taken(parameters: &str, payload: Option<&str>) -> Result<(String, Option<String>), String> {
        let item = format!("async fn f({parameters})");
        let mut signature: Signature = syn::parse_str(&item).unwrap();
        let payload = payload.map(|text| syn::parse_str::<Expr>(text).unwrap());
        let mut errors = Vec::new();
        let taken = take(&mut signature, payload.as_ref(), &mut errors);
        if let [error] = &errors[..] {
            assert!(
                !signature
                    .inputs
                    .to_token_stream()
                    .to_string()
                    .contains("Call")
            );
            return Err(error.to_string());
        }
        assert!(errors.is_empty(), "one mistake is one error");
        let pattern = taken.map(|call| call.pattern.to_token_stream().to_string());
        Ok((signature.inputs.to_token_stream().to_string(), pattern))
    }

    #[test]
    fn a_call_after_the_event_leaves_the_signature() {
        for of in ["Call", "idempotency_lambda::Call", "(crate::Call)"] {
            let parameters = format!("event: LambdaEvent<A>, mut call: {of}");
            let (left, pattern) = taken(&parameters, None).unwrap();
            assert_eq!(left, "event : LambdaEvent < A >", "{of}");
            assert_eq!(pattern.as_deref(), Some("mut call"), "{of}");
        }
        let (left, pattern) = taken("&self, event: E, _: Call", None).unwrap();
        assert_eq!(
            (left.as_str(), pattern.as_deref()),
            ("& self , event : E", Some("_"))
        );
    }

    #[test]
    fn beside_a_payload_a_call_can_stand_anywhere() {
        for parameters in ["call: Call, order: &Order", "order: &Order, call: Call,"] {
            let (left, pattern) = taken(parameters, Some("order.id")).unwrap();
            assert_eq!(left, "order : & Order", "{parameters}");
            assert_eq!(pattern.as_deref(), Some("call"), "{parameters}");
        }
    }

    #[test]
    fn a_parameter_that_is_the_payload_is_a_type_of_the_program() {
        for payload in [
            "call",
            "call.id",
            "(id, &call.id)",
            "json!({ \"id\": call.id })",
        ] {
            for parameters in ["id: u8, call: Call", "id: u8, call: &Call"] {
                let (_, pattern) = taken(parameters, Some(payload)).unwrap();
                assert_eq!(pattern, None, "{payload}");
            }
        }
        // A field of this name is not the parameter.
        let (_, pattern) = taken("&self, call: Call", Some("self.call")).unwrap();
        assert_eq!(pattern.as_deref(), Some("call"));
    }

    #[test]
    fn an_event_or_a_record_of_this_name_stays() {
        for parameters in ["call: Call", "&self, call: Call", "app: &App, call: Call"] {
            assert_eq!(taken(parameters, None).unwrap().1, None, "{parameters}");
        }
        for of in ["Call<A>", "&'a str", "<A as B>::Call", "[Call; 2]"] {
            let parameters = format!("event: E, call: {of}");
            assert_eq!(taken(&parameters, None).unwrap().1, None, "{of}");
        }
    }

    #[test]
    fn a_wrong_use_is_an_error_that_says_what_to_write() {
        for (parameters, message) in [
            ("event: E, call: &Call", "write `call: Call`"),
            ("call: Call, event: E", "comes last, after the event"),
            ("event: E, #[cfg(test)] call: Call", "under `cfg`"),
        ] {
            let error = taken(parameters, None).unwrap_err();
            assert!(error.contains(message), "{parameters}: {error}");
        }
        let error = taken("id: u8, one: Call, two: Call", Some("id")).unwrap_err();
        assert!(error.contains("leave this one out"), "{error}");
    }
}
