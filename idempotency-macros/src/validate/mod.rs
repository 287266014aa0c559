//! Phase 2: checks everything that can be wrong, and collects all errors, so that one build shows them all.

mod function;
mod payload;
mod returned;
mod types;

use proc_macro2::{Ident, TokenStream};
use syn::{Error, Expr, Pat, Signature, Type};

use crate::arguments::Arguments;
use crate::parameters::Parameters;
use crate::parse::Function;
use crate::runtime::Runtime;
use crate::values::{self, Constant, Value};

/// A function without errors, with all that its expansion needs.
pub(crate) struct ValidatedFn {
    /// The signature as it was written, but with a name in place of a pattern that the body matches.
    pub(crate) signature: Signature,
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
    /// The parameter that has a context.
    Parameters(Parameters),
}

/// A return type. `response` and `failure` are the types to point at, or the whole type if it shows no arguments.
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
    let returned = returned::returned(&signature)
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
                "leave `context` out: a Lambda event has its own context; `context` is for functions with `payload`",
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
        payload::event(&mut signature)
            .map_err(|error| errors.push(error))
            .ok()
    } else {
        value.map(|value| PayloadSource::Value {
            value: Box::new(value),
            context: match context {
                Some(named) => ContextSource::Named(Box::new(named)),
                None => ContextSource::Parameters(Parameters::take(&mut signature)),
            },
        })
    };
    if whole_payload && let Some(key) = payload.as_ref().and_then(payload::key_of_elements) {
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
        // Unreachable: a missing part has left an error.
        (None, ..) => Err(Error::new(
            function.fn_span(),
            "this function cannot be read",
        )),
    }
}

#[cfg(test)]
mod tests;
