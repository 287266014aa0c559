//! The event among the parameters, and the types in the return type of the function.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Error, Expr, FnArg, Pat, PatIdent, ReturnType, Signature, Type};

use super::{PayloadSource, Returned, event_type, impl_trait, type_arguments, type_name};
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
                None if is_before_a_call(signature) => {
                    "with more than one parameter, write `payload = <expression over the parameters>`; if the last one is the \
                     framework's call, write it with its own name, `call: Call` or `call: idempotency_lambda::Call`"
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

/// Returns the error of a key that is a whole event which is another one in each delivery.
pub(super) fn whole_event(of: &Type) -> Option<Error> {
    let name = event_type(of)?;
    let (why, shape) = if name.starts_with("Sqs") {
        (
            "a message has another receipt handle in each delivery",
            "`#[idempotent(sqs)]` on a function of one message",
        )
    } else if name.starts_with("Kinesis") {
        (
            "a retry can have a part of its records",
            "`#[idempotent(kinesis)]` on a function of one record",
        )
    } else if name.ends_with("Event") {
        (
            "a retry can have a part of its records",
            "`#[idempotent(dynamodb_stream)]` on a function of one change",
        )
    } else {
        (
            "each request has an id and a time of its own",
            "`#[idempotent(http, ..)]`",
        )
    };
    Some(Error::new_spanned(
        of,
        format!(
            "a whole `{name}` is no key, because {why}, so a retry would run again: write {shape}, or a `key` that stays the same"
        ),
    ))
}

/// Returns true if two parameters are a `LambdaEvent` and one that may be a `Call` under another name.
fn is_before_a_call(signature: &Signature) -> bool {
    match signature.inputs.iter().collect::<Vec<_>>()[..] {
        [FnArg::Typed(event), FnArg::Typed(_)] => {
            type_name(&event.ty).is_some_and(|name| name == "LambdaEvent")
        }
        _ => false,
    }
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

/// Finds the types of the response and of the error in the return type, as far as the tokens show them.
pub(super) fn returned(signature: &Signature) -> syn::Result<Returned> {
    let ReturnType::Type(_, whole) = &signature.output else {
        return Err(Error::new(
            signature.ident.span(),
            "an idempotent function returns a response: write `-> Result<Response, Error>`",
        ));
    };
    if let Some(hidden) = impl_trait(whole) {
        return Err(Error::new_spanned(
            hidden,
            "name the type: the response is stored and read back as this type",
        ));
    }
    if let Type::Never(_) = **whole {
        return Err(Error::new_spanned(
            whole,
            "a function that never returns has no response for duplicates: write `-> Result<Response, Error>`",
        ));
    }
    if is_not_a_result(whole) {
        let spaces = [
            (" ,", ","),
            (" <", "<"),
            ("< ", "<"),
            (" >", ">"),
            ("& ", "&"),
        ];
        let written = whole.to_token_stream().to_string();
        let written = spaces
            .iter()
            .fold(written, |text, (from, to)| text.replace(from, to));
        return Err(Error::new_spanned(
            whole,
            format!(
                "an idempotent function returns a `Result`: write `-> Result<{written}, Error>`"
            ),
        ));
    }
    let arguments = type_arguments(whole);
    if let Some(borrowed) = arguments.first().and_then(|response| borrowed(response)) {
        return Err(borrowed);
    }
    let argument = |at: usize| match arguments.get(at) {
        Some(argument) => argument.to_token_stream(),
        None => whole.to_token_stream(),
    };
    Ok(Returned {
        whole: (**whole).clone(),
        response: argument(0),
        failure: argument(1),
    })
}

/// Returns true if a type is certainly not a `Result` nor an alias of one. Any other type is left to the compiler.
fn is_not_a_result(of: &Type) -> bool {
    const OTHERS: [&str; 19] = [
        "Option", "Vec", "Box", "String", "Value", "bool", "char", "f32", "f64", "i8", "i16",
        "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize",
    ];
    match of {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| OTHERS.iter().any(|other| last.ident == other))
        }
        Type::Paren(_) | Type::Group(_) | Type::Macro(_) | Type::Verbatim(_) => false,
        _ => true,
    }
}

/// Returns the error of a response that borrows. A response that is read back from the store has nothing to borrow from.
fn borrowed(response: &Type) -> Option<Error> {
    let found = reference_in(response)?;
    let owned = match &*found.elem {
        Type::Path(path) if path.path.is_ident("str") => "`String`".to_owned(),
        Type::Slice(slice) => format!("`Vec<{}>`", slice.elem.to_token_stream()),
        other => format!("`{}`", other.to_token_stream()),
    };
    Some(Error::new_spanned(
        found,
        format!("a response is stored and read back, so it must own what it holds: write {owned}"),
    ))
}

/// Returns the first reference in a type, inside of tuples, arrays and the containers of the standard library.
///
/// Any other type with a reference may own its values (`PhantomData<&str>`, `<&str as Trait>::Out`): it is left to the compiler.
fn reference_in(of: &Type) -> Option<&syn::TypeReference> {
    const CONTAINERS: [&str; 9] = [
        "Option", "Result", "Vec", "VecDeque", "Box", "HashMap", "BTreeMap", "HashSet", "BTreeSet",
    ];
    match of {
        Type::Reference(found) => Some(found),
        Type::Paren(inner) => reference_in(&inner.elem),
        Type::Group(inner) => reference_in(&inner.elem),
        Type::Array(array) => reference_in(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(reference_in),
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last()?;
            let is_container = CONTAINERS.iter().any(|known| last.ident == known);
            let mut held = type_arguments(of).into_iter();
            is_container.then(|| held.find_map(reference_in)).flatten()
        }
        _ => None,
    }
}
