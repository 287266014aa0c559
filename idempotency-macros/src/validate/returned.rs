//! The return type: it must be a `Result` whose response can be stored.

use quote::ToTokens;
use syn::{Error, ReturnType, Signature, Type};

use super::{Returned, impl_trait, type_arguments};

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
    if is_not_a_result(whole) {
        let written = whole
            .to_token_stream()
            .to_string()
            .replace(" ,", ",")
            .replace(" <", "<");
        let written = written
            .replace("< ", "<")
            .replace(" >", ">")
            .replace("& ", "&");
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
