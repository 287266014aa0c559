//! Second phase: everything that can be wrong, collected, so that one build shows it all.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit_mut::{VisitMut, visit_type_mut};
use syn::{
    Error, Expr, FnArg, GenericArgument, GenericParam, Pat, PatIdent, PathArguments, ReturnType,
    Signature, Type, TypeImplTrait,
};

use crate::arguments::Arguments;
use crate::parameters::Parameters;
use crate::parse::Function;
use crate::runtime::Runtime;
use crate::values::{self, Constant, Value};

/// A function with everything known that its expansion wants to know.
pub(crate) struct ValidatedFn {
    /// As it was written, but for a pattern in place of the event's name.
    pub(crate) signature: Signature,
    pub(crate) constants: Vec<(Ident, Constant)>,
    /// Settings whose values are constants of the user's.
    pub(crate) paths: Vec<(Ident, Expr)>,
    /// Where the runtime's crate is.
    pub(crate) runtime: Runtime,
    pub(crate) payload: PayloadSource,
    pub(crate) returned: Returned,
    pub(crate) store: Option<Expr>,
    pub(crate) on_replay: Option<Expr>,
}

/// Where the payload comes from.
pub(crate) enum PayloadSource {
    /// A Lambda event in `name`; the pattern that stood there is matched in the body.
    Event {
        name: Ident,
        pattern: Option<Box<Pat>>,
        of: Box<Type>,
    },
    /// An expression over the parameters that yields a reference.
    Value { value: Box<Expr>, context: Context },
}

/// Where the context of the invocation is looked for.
pub(crate) enum Context {
    /// In an expression that yields a reference.
    Named(Box<Expr>),
    /// Among the parameters.
    Parameters(Parameters),
}

/// A return type, and where in it the answer and the error are, as far as that can be seen.
pub(crate) struct Returned {
    pub(crate) whole: Type,
    pub(crate) answer: TokenStream,
    pub(crate) failure: TokenStream,
}

/// Checks a function and its settings.
pub(crate) fn validate(function: &Function, arguments: Arguments) -> Result<ValidatedFn, Error> {
    let mut errors = Vec::new();
    let mut signature = function.signature.clone();
    errors.extend(asynchronous(function));
    errors.extend(annotated_twice(function));
    if !arguments.names("key_prefix") {
        errors.extend(prefix_needed(function));
        errors.extend(shared_without_prefix(&arguments));
    }
    let returned = returned(&signature)
        .map_err(|error| errors.push(error))
        .ok();
    let from_event = !arguments.names("payload");
    let whole_payload = !arguments.names("key");

    let (mut constants, mut paths) = (Vec::new(), Vec::new());
    let (mut value, mut context, mut store, mut on_replay) = (None, None, None, None);
    errors.extend(arguments.errors);
    for setting in arguments.all {
        if from_event && setting.name == "context" {
            errors.push(Error::new(
                setting.name.span(),
                "leave `context` out: a Lambda event brings its own; it is for functions with a `payload` of their own",
            ));
            continue;
        }
        let name = values::field(&setting.name.to_string());
        match values::check(setting) {
            Ok(Value::Constant(value)) => constants.push((name, value)),
            Ok(Value::Path(written)) => paths.push((name, written)),
            Ok(Value::Payload(written)) => value = Some(written),
            Ok(Value::Context(written)) => context = Some(written),
            Ok(Value::Store(value)) => store = Some(value),
            Ok(Value::OnReplay(value)) => on_replay = Some(value),
            Err(error) => errors.push(error),
        }
    }
    let payload = if from_event {
        event(&mut signature)
            .map_err(|error| errors.push(error))
            .ok()
    } else {
        value.map(|value| PayloadSource::Value {
            value: Box::new(value),
            context: match context {
                Some(named) => Context::Named(Box::new(named)),
                None => Context::Parameters(Parameters::take(&mut signature)),
            },
        })
    };
    if whole_payload && let Some(key) = payload.as_ref().and_then(key_of_elements) {
        constants.push((values::field("key"), Constant::Text(key)));
    }
    let combined = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    match (combined, payload, returned) {
        (None, Some(payload), Some(returned)) => Ok(ValidatedFn {
            signature,
            constants,
            paths,
            runtime: Runtime::find(arguments.runtime),
            payload,
            returned,
            store,
            on_replay,
        }),
        (Some(error), ..) => Err(error),
        // Without an error all parts are there.
        (None, ..) => Err(Error::new(
            function.fn_span(),
            "this function cannot be read",
        )),
    }
}

/// Returns the key of a payload that is written as a tuple or an array: its elements, which are then parts of the key
/// that can be required one by one. It selects the same value as no `key` does.
fn key_of_elements(payload: &PayloadSource) -> Option<String> {
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

fn asynchronous(function: &Function) -> Option<Error> {
    if function.signature.asyncness.is_some() {
        return None;
    }
    let boxed = mentions(function.signature.output.to_token_stream(), "Pin");
    let said = if boxed {
        "write `async fn`; where `#[async_trait]` made this method return a boxed future, put `#[idempotent]` on a function of its own and call it from here"
    } else {
        "an idempotent function waits for its store: write `async fn`"
    };
    Some(Error::new(function.fn_span(), said))
}

fn annotated_twice(function: &Function) -> Option<Error> {
    let again = function.attributes.iter().find(|attribute| {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|last| last.ident == "idempotent")
    })?;
    Some(Error::new_spanned(
        again.path(),
        "`#[idempotent]` is written twice on this function: leave one out",
    ))
}

fn shared_without_prefix(arguments: &Arguments) -> Option<Error> {
    let mut all = arguments.all.iter();
    let shared = all.find(|setting| setting.name == "shared_key_prefix")?;
    // A wrong value is told by itself: one mistake is one error.
    let is_truth =
        matches!(&shared.value, Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)));
    is_truth.then(|| {
        Error::new(
            shared.name.span(),
            "`shared_key_prefix` needs a `key_prefix`: the default prefix is of one function alone",
        )
    })
}

/// Module and name are the default prefix. Where they name more than one function, keys could meet.
fn prefix_needed(function: &Function) -> Option<Error> {
    let signature = &function.signature;
    let say = |at: &dyn ToTokens, why: &str| {
        Some(Error::new_spanned(
            at,
            format!("{why}: write `key_prefix = \"..\"`, a name of its own for this operation"),
        ))
    };
    let method = "two types in one module can have a method of this name, and module and name are the default prefix of keys";
    let generic = "every instance of a generic function has the same module and name, which are the default prefix of keys";
    if let Some(receiver) = signature.receiver() {
        return say(&receiver.self_token, method);
    }
    if mentions(signature.to_token_stream(), "Self") || mentions(function.body.clone(), "Self") {
        return say(&signature.ident, method);
    }
    for parameter in &signature.generics.params {
        match parameter {
            GenericParam::Type(parameter) => return say(&parameter.ident, generic),
            GenericParam::Const(parameter) => return say(&parameter.ident, generic),
            GenericParam::Lifetime(_) => {}
        }
    }
    signature.inputs.iter().find_map(|input| match input {
        FnArg::Typed(parameter) => say(&impl_trait(&parameter.ty)?, generic),
        FnArg::Receiver(_) => None,
    })
}

/// Makes the only parameter one with a name.
fn event(signature: &mut Signature) -> syn::Result<PayloadSource> {
    let [FnArg::Typed(parameter)] = &mut signature.inputs.iter_mut().collect::<Vec<_>>()[..] else {
        let said = match signature.receiver() {
            Some(_) => {
                "a method says what its payload is: write `payload = <expression over the parameters>`"
            }
            None if signature.inputs.is_empty() => {
                "there is no payload here: take a `LambdaEvent<T>`, or write `payload = <expression>`"
            }
            None => {
                "with more than one parameter, write `payload = <expression over the parameters>`"
            }
        };
        return Err(Error::new(signature.ident.span(), said));
    };
    let (name, pattern) = match &*parameter.pat {
        Pat::Ident(PatIdent {
            by_ref: None,
            subpat: None,
            ident,
            ..
        }) => (ident.clone(), None),
        _ => {
            let name = Ident::new("event", Span::mixed_site());
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

fn returned(signature: &Signature) -> syn::Result<Returned> {
    let ReturnType::Type(_, whole) = &signature.output else {
        return Err(Error::new(
            signature.ident.span(),
            "an idempotent function returns its answer: write `-> Result<Answer, Error>`",
        ));
    };
    if let Some(hidden) = impl_trait(whole) {
        return Err(Error::new_spanned(
            hidden,
            "name the type: an answer is stored, and read back as this type",
        ));
    }
    if is_no_result(whole) {
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
    if let Some(borrowed) = arguments.first().and_then(|answer| borrowed(answer)) {
        return Err(borrowed);
    }
    let place = |at: usize| match arguments.get(at) {
        Some(argument) => argument.to_token_stream(),
        None => whole.to_token_stream(),
    };
    Ok(Returned {
        whole: (**whole).clone(),
        answer: place(0),
        failure: place(1),
    })
}

/// Whether a type is surely no alias of `Result`. Of any other, the compiler finds out.
fn is_no_result(of: &Type) -> bool {
    const NONE: [&str; 19] = [
        "Option", "Vec", "Box", "String", "Value", "bool", "char", "f32", "f64", "i8", "i16",
        "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize",
    ];
    match of {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.is_some_and(|last| NONE.iter().any(|none| last.ident == none))
        }
        Type::Paren(_) | Type::Group(_) | Type::Macro(_) | Type::Verbatim(_) => false,
        _ => true,
    }
}

/// What is said of a response that borrows: it is read back from the store, and there is nothing to borrow from.
fn borrowed(answer: &Type) -> Option<Error> {
    let found = reference_in(answer)?;
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

/// Returns the first reference in what surely holds values: tuples, arrays and the containers of the standard library. Of any
/// other type (`PhantomData<&str>`, `<&str as Trait>::Out`) the compiler finds out whether it can be read back.
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

/// `R` and `E` of a `Result<R, E>`, to point at; of an alias, whatever it has.
fn type_arguments(of: &Type) -> Vec<&Type> {
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

/// The first `impl Trait` in a type.
fn impl_trait(within: &Type) -> Option<TypeImplTrait> {
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

fn mentions(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
