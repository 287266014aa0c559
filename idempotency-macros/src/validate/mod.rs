//! Phase 2: checks everything that can be wrong, and collects all errors, so that one build shows them all.

mod batch;
mod call;
mod function;
mod http;
mod payload;

use idempotency_expression::is_event_type;
use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit_mut::{VisitMut, visit_path_mut, visit_type_mut};
use syn::{Error, Expr, GenericArgument, Pat, Path, PathArguments, Signature, Type, TypeImplTrait};

use crate::arguments::{Arguments, Setting, Shape};
use crate::parameters::Parameters;
use crate::parse::Function;
use crate::runtime::Runtime;
use crate::values::{self, Constant, Value};
pub(crate) use call::CallParameter;

/// A function without errors, with all that its expansion needs.
pub(crate) struct ValidatedFn {
    /// The signature as it was written, but without the call, and with a name in place of a pattern that the body matches.
    pub(crate) signature: Signature,
    /// The parameter that the framework supplies, if the function asks for its call.
    pub(crate) call: Option<CallParameter>,
    /// The shape of the function, if it has one of its own.
    pub(crate) shape: Option<Shape>,
    /// The settings whose values are known at compile time.
    pub(crate) constants: Vec<(Ident, Constant)>,
    /// The settings whose values are the names of constants in the user's program.
    pub(crate) paths: Vec<(Ident, Expr)>,
    /// The path of the runtime's crate.
    pub(crate) runtime: Runtime,
    pub(crate) payload: PayloadSource,
    pub(crate) returned: Returned,
    pub(crate) store: Option<Expr>,
    pub(crate) on_replay: Option<Expr>,
}

/// The source of the payload.
pub(crate) enum PayloadSource {
    /// A Lambda event in the parameter `name`. If the parameter was a pattern, the body matches it.
    Event {
        name: Ident,
        pattern: Option<Box<Pat>>,
        of: Box<Type>,
    },
    /// A record of a batch, in the last parameter. In the signature the parameter is the event.
    Record { pattern: Box<Pat>, of: Box<Type> },
    /// An expression over the parameters that returns a reference.
    Value {
        value: Box<Expr>,
        context: ContextSource,
    },
}

/// The source of the invocation's context.
pub(crate) enum ContextSource {
    /// The expression in `context = ..`, which returns a reference.
    Named(Box<Expr>),
    /// The parameters, one of which may have the context.
    Parameters(Parameters),
}

/// A return type. `response` and `failure` are the types that an error points at, or the whole type if it shows no arguments.
pub(crate) struct Returned {
    pub(crate) whole: Type,
    pub(crate) response: TokenStream,
    pub(crate) failure: TokenStream,
}

/// Checks a function and its settings.
///
/// # Errors
///
/// All errors, combined into one.
pub(crate) fn validate(function: &Function, arguments: Arguments) -> Result<ValidatedFn, Error> {
    let mut errors = Vec::new();
    let mut signature = function.signature.clone();
    errors.extend(function::not_async(function));
    errors.extend(function::annotated_twice(function));
    if !arguments.names("key_prefix") {
        errors.extend(function::missing_prefix(function));
        errors.extend(function::shared_without_prefix(&arguments));
    }
    errors.extend(function::unprotected_under_hold(&arguments));
    // What a future returns is not known, and the missing `async` is the one mistake.
    let returned = if function::returns_future(&signature) {
        None
    } else {
        kept(payload::returned(&signature), &mut errors)
    };
    errors.extend(http::wrong_settings(&arguments));
    errors.extend(batch::wrong_settings(&arguments));
    let shape = arguments.shape.as_ref().map(|written| written.shape);
    let from_event = shape.is_some() || !arguments.names("payload");
    let whole_payload = !arguments.names("key");
    let steps = function::steps_setting(&arguments);
    errors.extend(arguments.errors);
    let mut checked = SettingValues::new(arguments.all, from_event && shape.is_none(), &mut errors);
    let payload = checked.payload.as_ref().filter(|_| !from_event);
    // Where the value of `payload` is wrong, nothing is known about the parameters.
    let call = if from_event || payload.is_some() {
        let call = call::take(&mut signature, payload, &mut errors);
        let steps = steps.filter(|_| call.is_none());
        errors.extend(steps.as_ref().map(function::steps_without_call));
        call
    } else {
        None
    };
    let payload = if let Some(Shape::Batch(source)) = shape {
        kept(batch::record(&mut signature, source), &mut errors)
    } else if from_event {
        kept(payload::event(&mut signature, shape), &mut errors)
    } else {
        checked.payload.map(|value| PayloadSource::Value {
            value: Box::new(value),
            context: match checked.context {
                Some(named) => ContextSource::Named(Box::new(named)),
                None => ContextSource::Parameters(Parameters::take(&mut signature)),
            },
        })
    };
    if whole_payload && let Some(key) = payload.as_ref().and_then(payload::key_of_elements) {
        checked
            .constants
            .push((values::ident("key"), Constant::Text(key)));
    }
    // The other errors can be about a shape that is missing.
    if let Some(PayloadSource::Event { of, .. }) = &payload
        && shape.is_none()
        && whole_payload
        && errors.is_empty()
    {
        errors.extend(payload::whole_event(of));
    }
    let combined = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    match (combined, payload, returned) {
        (None, Some(payload), Some(returned)) => Ok(ValidatedFn {
            signature,
            call,
            shape,
            constants: checked.constants,
            paths: checked.paths,
            runtime: Runtime::find(arguments.runtime),
            payload,
            returned,
            store: checked.store,
            on_replay: checked.on_replay,
        }),
        (Some(error), ..) => Err(error),
        // Unreachable: a missing part has left an error.
        (None, ..) => Err(Error::new(
            function.fn_span(),
            "this function cannot be read",
        )),
    }
}

/// Returns a part that is right, and keeps the error of one that is wrong.
fn kept<T>(part: syn::Result<T>, errors: &mut Vec<Error>) -> Option<T> {
    part.map_err(|error| errors.push(error)).ok()
}

/// The values of the settings, after the checks.
#[derive(Default)]
struct SettingValues {
    constants: Vec<(Ident, Constant)>,
    paths: Vec<(Ident, Expr)>,
    payload: Option<Expr>,
    context: Option<Expr>,
    store: Option<Expr>,
    on_replay: Option<Expr>,
}

impl SettingValues {
    /// Checks each setting, and adds what is wrong to the errors.
    fn new(settings: Vec<Setting>, from_event: bool, errors: &mut Vec<Error>) -> Self {
        let mut checked = Self::default();
        for setting in settings {
            if from_event && setting.name == "context" {
                errors.push(Error::new(
                    setting.name.span(),
                    "leave `context` out: a Lambda event has its own context; `context` is for functions with `payload`",
                ));
                continue;
            }
            let name = values::ident(&setting.name.to_string());
            match values::check(setting) {
                Ok(Value::Constant(value)) => checked.constants.push((name, value)),
                Ok(Value::Path(value)) => checked.paths.push((name, value)),
                Ok(Value::Payload(value)) => checked.payload = Some(value),
                Ok(Value::Context(value)) => checked.context = Some(value),
                Ok(Value::Store(value)) => checked.store = Some(value),
                Ok(Value::OnReplay(value)) => checked.on_replay = Some(value),
                Err(error) => errors.push(error),
            }
        }
        checked
    }
}

/// Returns the type arguments of a type: `R` and `E` of `Result<R, E>`.
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

/// Returns the first `impl Trait` in a type.
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

/// Returns the name of a type of events that is anywhere in this type.
fn event_type(of: &Type) -> Option<String> {
    struct Search(Option<String>);

    impl VisitMut for Search {
        fn visit_path_mut(&mut self, path: &mut Path) {
            let names: Vec<_> = path
                .segments
                .iter()
                .map(|part| part.ident.to_string())
                .collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            if is_event_type(&names) {
                self.0 = names.last().map(|name| (*name).to_owned());
            }
            visit_path_mut(self, path);
        }
    }

    let mut search = Search(None);
    search.visit_type_mut(&mut of.clone());
    search.0
}

/// Returns true if a word is among the tokens, at any depth.
fn mentions(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => false,
    })
}

/// Returns the last name of a type's path.
fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
