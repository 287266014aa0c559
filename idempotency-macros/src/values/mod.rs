//! Phase 2, for one setting: checks the value, and says what to write instead of a wrong one.

mod code;
mod literal;

use std::time::Duration;

use idempotency_expression::{Check, SettingRow};
use proc_macro2::Span;
use syn::{Expr, Ident};

use crate::arguments::Setting;
use code::{code, function, hook, payload, reference};
use literal::{
    at_least_one, boolean, caller, choice, duration, expression, header, headers, key_required,
    methods, number, prefix,
};

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
    // The arguments have settings of known names alone.
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
        Check::Truth => boolean(name, &value)?,
        Check::Time(shortest) => duration(name, &value, shortest)?,
        Check::Number(of) => number(name, &value, of)?,
        Check::Count => at_least_one(name, &value)?,
        Check::Choice(kind, choices) => choice(name, &value, kind, choices)?,
        Check::Function => return function(name, value).map(Value::Path),
        Check::Replay => return hook(value).map(Value::OnReplay),
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
pub(crate) fn field(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

#[cfg(test)]
mod tests;
