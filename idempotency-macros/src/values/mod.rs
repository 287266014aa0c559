//! Phase 2, for one setting: checks the value, and says what to write instead of a wrong one.

mod code;
mod literal;

use std::time::Duration;

use proc_macro2::Span;
use syn::{Expr, Ident};

use crate::arguments::{Setting, constants, of_batch, of_http};
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

/// The names of an enum's variants in a setting, each with its variant.
type Choices = &'static [(&'static str, &'static str)];

const HASHES: Choices = &[
    ("md5", "Md5"),
    ("sha224", "Sha224"),
    ("sha256", "Sha256"),
    ("sha384", "Sha384"),
    ("sha512", "Sha512"),
];
const LOOKUP: Choices = &[("claim-first", "ClaimFirst"), ("read-first", "ReadFirst")];
const IN_PROGRESS: Choices = &[("reject", "Reject"), ("wait", "Wait")];
const TIMEOUT: Choices = &[("rerun", "Rerun"), ("hold", "Hold")];
const UNSTORABLE: Choices = &[
    ("complete", "Complete"),
    ("release", "Release"),
    ("refuse", "Refuse"),
];
const KEY_FROM: Choices = &[("body", "Body"), ("record", "Record")];
const ORDER: Choices = &[("source", "Source"), ("partition_key", "PartitionKey")];
const STORE_ERROR: Choices = &[("fail", "Fail"), ("run-unprotected", "RunUnprotected")];
const ERROR: Choices = &[("release", "Release"), ("record", "Record")];
const STEPS: Choices = &[("off", "Off"), ("keep", "Keep"), ("forget", "Forget")];

/// Checks the value of a setting.
///
/// # Errors
///
/// One error at the value, with the values that are accepted.
pub(crate) fn check(setting: Setting) -> syn::Result<Value> {
    let Setting { name, value } = setting;
    let name = name.to_string();
    let value = without_groups(value);
    if is_constant(&name, &value) {
        return Ok(Value::Path(value));
    }
    Ok(Value::Constant(match name.as_str() {
        "key" => expression(&name, &value, "the whole payload")?,
        "validate" => expression(&name, &value, "no validation")?,
        "store_when" => expression(&name, &value, "storing every response")?,
        "store_event" => expression(&name, &value, "storing no event")?,
        "key_required" => key_required(&name, &value)?,
        "key_prefix" => prefix(&name, &value)?,
        "caller" => caller(&name, &value)?,
        "fingerprint_also" => expression(&name, &value, "method, path, query and body alone")?,
        "key_header" => header(&name, &value)?,
        "stored_headers" => headers(&name, &value)?,
        "methods" => methods(&name, &value)?,
        "on_unstorable" => choice(&name, &value, "Unstorable", UNSTORABLE)?,
        "add_headers" => return function(&name, value).map(Value::Path),
        "shared_key_prefix" | "shared_by_all_callers" | "circuit_breaker" | "log_errors" => {
            boolean(&name, &value)?
        }
        "hash" => choice(&name, &value, "HashAlgorithm", HASHES)?,
        "expires_after" => duration(&name, &value, Duration::from_secs(1))?,
        "lease" | "store_timeout" => duration(&name, &value, Duration::from_millis(1))?,
        "key_from" => choice(&name, &value, "KeyFrom", KEY_FROM)?,
        "order" => choice(&name, &value, "RecordOrder", ORDER)?,
        "concurrency" => at_least_one(&name, &value)?,
        "reserve" => duration(&name, &value, Duration::from_millis(1))?,
        "local_cache" => number(&name, &value, "records")?,
        "local_cache_bytes" => number(&name, &value, "bytes")?,
        "lookup" => choice(&name, &value, "Lookup", LOOKUP)?,
        "on_in_progress" => choice(&name, &value, "OnInProgress", IN_PROGRESS)?,
        "on_timeout" => choice(&name, &value, "OnTimeout", TIMEOUT)?,
        "on_error" => choice(&name, &value, "OnError", ERROR)?,
        "on_store_error" => choice(&name, &value, "OnStoreError", STORE_ERROR)?,
        "steps" => choice(&name, &value, "Steps", STEPS)?,
        "on_replay" => return hook(value).map(Value::OnReplay),
        "store" => return code(&name, value).map(Value::Store),
        "context" => return code(&name, value).map(reference).map(Value::Context),
        _ => return payload(&name, value).map(Value::Payload),
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
fn is_constant(setting: &str, value: &Expr) -> bool {
    let Expr::Path(syn::ExprPath { path, .. }) = value else {
        return false;
    };
    let Some(last) = path.segments.last() else {
        return false;
    };
    let name = last.ident.to_string();
    let is_capital = name.starts_with(char::is_uppercase);
    let is_choice = [
        "hash",
        "lookup",
        "on_in_progress",
        "on_timeout",
        "on_error",
        "on_store_error",
        "on_unstorable",
        "steps",
        "key_from",
        "order",
    ]
    .contains(&setting);
    let mut constants = constants().chain(of_http()).chain(of_batch());
    constants.any(|constant| constant == setting)
        && if is_choice {
            is_capital
        } else {
            path.segments.len() > 1 || is_capital && !name.contains(char::is_lowercase)
        }
}

/// Returns an identifier for generated code.
pub(crate) fn field(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

#[cfg(test)]
mod tests;
