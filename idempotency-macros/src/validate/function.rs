//! Checks of the function itself, such as `async` and its key prefix, and of settings that contradict each other.

use quote::ToTokens;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, GenericParam, Lit, Path, Signature};

use super::{impl_trait, mentions};
use crate::arguments::{Arguments, Setting};
use crate::parse::Function;

/// Returns the error of a function that is not `async`.
pub(super) fn not_async(function: &Function) -> Option<Error> {
    if function.signature.asyncness.is_some() {
        return None;
    }
    let message = if returns_future(&function.signature) {
        "write `async fn` that returns the future's `Result`; where `#[async_trait]` made this method return a boxed future, put `#[idempotent]` on a function of its own and call it from here"
    } else if mentions(function.body.clone(), "block_on") {
        "an attribute above made this a function that is not async, as `#[tokio::main]` and `#[tokio::test]` do: put `#[idempotent]` on an `async fn` of its own, and call it from here"
    } else {
        "an idempotent function waits for its store: write `async fn`"
    };
    Some(Error::new(function.fn_span(), message))
}

/// Returns true if a function that is not `async` returns a future.
pub(super) fn returns_future(signature: &Signature) -> bool {
    let returned = || signature.output.to_token_stream();
    signature.asyncness.is_none()
        && ["Pin", "Future", "BoxFuture"]
            .iter()
            .any(|word| mentions(returned(), word))
}

/// Returns the error of a function that has a second `#[idempotent]`, also under another name.
pub(super) fn annotated_twice(function: &Function) -> Option<Error> {
    if mentions(function.body.clone(), GENERATED) {
        return Some(Error::new_spanned(
            &function.signature.ident,
            "`#[idempotent]` is written twice on this function, once under another name: leave one out",
        ));
    }
    let mut paths = function.attributes.iter().map(Attribute::path);
    let last = |path: &Path| path.segments.last().map(|last| last.ident.to_string());
    let again = paths.find(|path| last(path).is_some_and(|last| last == "idempotent"))?;
    Some(Error::new_spanned(
        again,
        "`#[idempotent]` is written twice on this function: leave one out",
    ))
}

/// A name that only generated code has.
const GENERATED: &str = "__IDEMPOTENT_OPERATION";

/// Returns the error of a `shared_key_prefix` without a `key_prefix` to share.
pub(super) fn shared_without_prefix(arguments: &Arguments) -> Option<Error> {
    let shared = arguments.named("shared_key_prefix")?;
    // A wrong value has an error of its own, and one mistake is one error.
    let is_bool =
        matches!(&shared.value, Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_)));
    is_bool.then(|| {
        Error::new(
            shared.name.span(),
            "`shared_key_prefix` needs a `key_prefix`: the default prefix belongs to one function",
        )
    })
}

/// Returns the error of a function that holds after a timeout, and yet runs unprotected after a failure of the store.
///
/// The start of the program checks this too: only there are the values of variables and constants known.
pub(super) fn unprotected_under_hold(arguments: &Arguments) -> Option<Error> {
    setting_with_value(arguments, "on_timeout", &["hold"])?;
    let unprotected = setting_with_value(arguments, "on_store_error", &["run-unprotected"])?;
    Some(Error::new_spanned(
        &unprotected.value,
        "`on_store_error = \"run-unprotected\"` contradicts `on_timeout = \"hold\"`, which refuses a second run until an operator \
         decides: write `on_store_error = \"fail\"`, or `on_timeout = \"rerun\"`",
    ))
}

/// Returns the setting with this name, if its value is one of these texts.
fn setting_with_value<'a>(
    arguments: &'a Arguments,
    name: &str,
    values: &[&str],
) -> Option<&'a Setting> {
    arguments
        .named(name)
        .filter(|setting| match &setting.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => {
                let text = text.value();
                values.iter().any(|value| text.eq_ignore_ascii_case(value))
            }
            _ => false,
        })
}

/// Returns the setting `steps`, if it says that the function has steps.
pub(super) fn steps_setting(arguments: &Arguments) -> Option<Expr> {
    let steps = setting_with_value(arguments, "steps", &["keep", "forget"])?;
    Some(steps.value.clone())
}

/// Returns the error of a function that has steps by this setting, and no `Call` to run them with.
pub(super) fn steps_without_call(steps: &Expr) -> Error {
    Error::new_spanned(
        steps,
        "a step is run with the `Call` of the function: add a parameter `call: Call`, or leave `steps` out",
    )
}

/// Returns the error of a function whose default prefix another function could have too.
///
/// The default prefix is made of the module and the function's name. Functions with one prefix would share their keys.
pub(super) fn missing_prefix(function: &Function) -> Option<Error> {
    let signature = &function.signature;
    let error = |at: &dyn ToTokens, why: &str| {
        let default = "the default key prefix is made of the module and the function's name";
        Some(Error::new_spanned(
            at,
            format!(
                "{default}, {why}: write `key_prefix = \"..\"` with a name for this operation alone"
            ),
        ))
    };
    let method = "and two types in one module can have a method of this name";
    let generic = "and all instances of a generic function have the same";
    if let Some(receiver) = signature.receiver() {
        return error(&receiver.self_token, method);
    }
    if mentions(signature.to_token_stream(), "Self") || mentions(function.body.clone(), "Self") {
        return error(&signature.ident, method);
    }
    for parameter in &signature.generics.params {
        match parameter {
            GenericParam::Type(parameter) => return error(&parameter.ident, generic),
            GenericParam::Const(parameter) => return error(&parameter.ident, generic),
            GenericParam::Lifetime(_) => {}
        }
    }
    signature.inputs.iter().find_map(|input| match input {
        FnArg::Typed(parameter) => error(&impl_trait(&parameter.ty)?, generic),
        FnArg::Receiver(_) => None,
    })
}
