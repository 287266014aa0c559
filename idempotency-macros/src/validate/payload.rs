//! The source of the payload: the event, or the expression in `payload = ..`.

use proc_macro2::{Ident, Span};
use syn::{Error, Expr, FnArg, Pat, PatIdent, Signature};

use super::{PayloadSource, type_name};
use crate::arguments::Shape;

/// Returns the event: the only parameter, and with `http` the last one. A pattern is replaced by a name, and is matched in the
/// body.
pub(super) fn event(signature: &mut Signature, shape: Option<Shape>) -> syn::Result<PayloadSource> {
    let is_http = shape == Some(Shape::Http);
    let mut inputs: Vec<_> = signature.inputs.iter_mut().collect();
    let parameter = match &mut inputs[..] {
        [FnArg::Typed(only)] => only,
        [.., FnArg::Typed(last)] if is_http => last,
        _ => {
            let message = match signature.receiver() {
                _ if is_http => {
                    "with `http` the last parameter is the event: write `event: LambdaEvent<ApiGatewayV2httpRequest>`"
                }
                Some(_) => {
                    let of_event = lambda_event(signature).map(|event| format!("{event}.payload"));
                    let written = of_event
                        .as_deref()
                        .unwrap_or("<expression over the parameters>");
                    &format!("a method needs a payload: write `payload = {written}`")
                }
                None if signature.inputs.is_empty() => {
                    "there is no payload here: take a `LambdaEvent<T>`, or write `payload = <expression>`"
                }
                None => {
                    "with more than one parameter, write `payload = <expression over the parameters>`"
                }
            };
            return Err(Error::new(signature.ident.span(), message));
        }
    };
    let (name, pattern) = match &*parameter.pat {
        Pat::Ident(PatIdent {
            by_ref: None,
            subpat: None,
            ident,
            ..
        }) => (ident.clone(), None),
        _ => {
            let name = Ident::new("__event", Span::mixed_site());
            let named = Box::new(syn::parse_quote!(#name));
            (name, Some(std::mem::replace(&mut parameter.pat, named)))
        }
    };
    Ok(PayloadSource::Event {
        name,
        pattern,
        of: parameter.ty.clone(),
    })
}

/// Returns the name of the parameter that is a `LambdaEvent`.
fn lambda_event(signature: &Signature) -> Option<&Ident> {
    signature.inputs.iter().find_map(|input| match input {
        FnArg::Typed(parameter) if type_name(&parameter.ty)? == "LambdaEvent" => {
            match &*parameter.pat {
                Pat::Ident(named) => Some(&named.ident),
                _ => None,
            }
        }
        _ => None,
    })
}

/// Returns the key expression of a payload that is written as a tuple or an array: one part for each element.
///
/// It selects the same value as the whole payload does. With parts, `key_required = "all"` checks each element.
pub(super) fn key_of_elements(payload: &PayloadSource) -> Option<String> {
    let PayloadSource::Value { value, .. } = payload else {
        return None;
    };
    let Expr::Reference(reference) = &**value else {
        return None;
    };
    let Expr::Tuple(tuple) = &*reference.expr else {
        return None;
    };
    let elements: Vec<_> = (0..tuple.elems.len()).map(|at| format!("[{at}]")).collect();
    Some(format!("[{}]", elements.join(", ")))
}
