//! Phase 2, for one setting: checks the value, and says what to write instead of a wrong one.

use std::time::Duration;

use idempotency_expression::{Check, SettingRow};
use literal::{
    at_least_one, boolean, caller, choice, duration, expression, header, headers, key_required,
    methods, number, pointers, prefix,
};
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit};

use crate::arguments::Setting;

mod literal;

/// A value that is known at compile time.
#[derive(Debug, PartialEq)]
pub(crate) enum Constant {
    Text(String),
    Bool(bool),
    Number(usize),
    Time(Duration),
    /// An enum of the runtime's hidden module, and the variant.
    Choice(&'static str, &'static str),
}

/// The value of a setting, after the checks.
pub(crate) enum Value {
    Constant(Constant),
    /// The name of a constant in the user's program. The compiler checks its type, and the start of the program its value.
    Path(Expr),
    Store(Expr),
    OnReplay(Expr),
    Payload(Expr),
    Context(Expr),
}

/// Checks the value of a setting.
///
/// # Errors
///
/// One error at the value, with the values that are accepted.
pub(crate) fn check(setting: Setting) -> syn::Result<Value> {
    let Setting { name, value } = setting;
    let name = &*name.to_string();
    let value = without_groups(value);
    // The default is unreachable: `arguments` refuses unknown names.
    let check = SettingRow::named(name).map_or(Check::Payload, |row| row.check);
    if is_constant(check, &value) {
        return Ok(Value::Path(value));
    }
    Ok(Value::Constant(match check {
        Check::Expression(otherwise) => expression(name, &value, otherwise)?,
        Check::Caller => caller(name, &value)?,
        Check::KeyRequired => key_required(name, &value)?,
        Check::Prefix => prefix(name, &value)?,
        Check::Header => header(name, &value)?,
        Check::Headers => headers(name, &value)?,
        Check::Methods => methods(name, &value)?,
        Check::Pointers => pointers(name, &value)?,
        Check::Truth => boolean(name, &value)?,
        Check::Time(shortest) => duration(name, &value, shortest)?,
        Check::Number(of) => number(name, &value, of)?,
        Check::Count => at_least_one(name, &value)?,
        Check::Choice(kind, choices) => choice(name, &value, kind, choices)?,
        Check::Function => return callable(name, value, HEADERS).map(Value::Path),
        Check::Replay => return callable(name, value, REPLAY).map(Value::OnReplay),
        Check::Store => return code(name, value).map(Value::Store),
        Check::Context => return code(name, value).map(reference).map(Value::Context),
        Check::Payload => return payload(name, value).map(Value::Payload),
    }))
}

/// Removes invisible groups: a `macro_rules!` that forwards a literal puts it into one.
fn without_groups(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

/// Returns true if a value is certainly the name of a constant: a name without lower-case letters, or one with a module.
///
/// A single name in lower-case letters is most likely a text without its quotes. The variant of an enum may have lower-case
/// letters.
fn is_constant(check: Check, value: &Expr) -> bool {
    let Expr::Path(syn::ExprPath { path, .. }) = value else {
        return false;
    };
    let Some(last) = path.segments.last() else {
        return false;
    };
    let name = last.ident.to_string();
    let is_capital = name.starts_with(char::is_uppercase);
    match check {
        Check::Choice(..) => is_capital,
        check if check.is_code() => false,
        _ => path.segments.len() > 1 || is_capital && !name.contains(char::is_lowercase),
    }
}

/// Returns an identifier for generated code.
pub(crate) fn ident(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// What the function in `add_headers` is called with, and its form.
const HEADERS: &str = "the headers of a request: write the name of a `fn(&HeaderMap) -> HeaderMap`, or a closure that captures nothing";

/// What the function in `on_replay` is called with, and its form.
const REPLAY: &str =
    "a replayed response: write the name of a `fn(Response, &Replay) -> Response`, or a closure";

/// Checks a value that is called: a name or a closure.
fn callable(name: &str, value: Expr, called_with: &str) -> syn::Result<Expr> {
    match value {
        Expr::Path(_) | Expr::Closure(_) => Ok(value),
        other => {
            let message = format!("`{name}` is called with {called_with}");
            Err(Error::new_spanned(other, message))
        }
    }
}

/// Checks that a value is code and not a literal.
fn code(name: &str, value: Expr) -> syn::Result<Expr> {
    let Expr::Lit(ExprLit { lit, .. }) = &value else {
        return Ok(value);
    };
    let message = if name == "store" && matches!(lit, Lit::Str(_)) {
        "`store` is an expression that returns a store, like `store = store.clone()`; the name of a kind of store belongs in `IDEMPOTENCY_STORE`".to_owned()
    } else {
        let example = SettingRow::named(name).map_or("", |row| row.example);
        format!(
            "`{name}` is an expression, not a literal: write it without quotes, like `{name} = {example}`"
        )
    };
    Err(Error::new_spanned(lit, message))
}

/// Returns the payload as an expression that moves nothing, so that the handler keeps its values.
///
/// Each element of a tuple or an array is taken by reference. An array becomes a tuple, so that its elements may have different
/// types; both are lists in JSON.
fn payload(name: &str, value: Expr) -> syn::Result<Expr> {
    /// The longest tuple that serde serialises.
    const LONGEST_TUPLE: usize = 16;

    let span = value.span();
    let value = code(name, value)?;
    let (Expr::Tuple(syn::ExprTuple { elems, .. }) | Expr::Array(syn::ExprArray { elems, .. })) =
        &value
    else {
        return Ok(reference(value));
    };
    if elems.is_empty() || elems.len() > LONGEST_TUPLE {
        let message = format!(
            "write between 1 and {LONGEST_TUPLE} elements; each is one element of the payload's list"
        );
        return Err(Error::new_spanned(&value, message));
    }
    let mut tuple = syn::ExprTuple {
        attrs: Vec::new(),
        paren_token: syn::token::Paren(span),
        elems: elems.iter().cloned().map(reference).collect(),
    };
    // With one element, a tuple needs a comma.
    tuple.elems.push_punct(syn::Token![,](span));
    Ok(reference(Expr::Tuple(tuple)))
}

/// Returns `&value`.
///
/// The `&` has the place of the value's first token, so that rustc underlines the whole value.
fn reference(value: Expr) -> Expr {
    let first = value.to_token_stream().into_iter().next();
    let place = first.map_or_else(Span::mixed_site, |token| token.span());
    Expr::Reference(syn::ExprReference {
        attrs: Vec::new(),
        and_token: syn::Token![&](place),
        mutability: None,
        expr: Box::new(value),
    })
}

#[cfg(test)]
mod tests;
