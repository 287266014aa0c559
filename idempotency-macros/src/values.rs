//! Phase 2, for one setting: checks the value, and says what to write instead of a wrong one.

use std::time::Duration;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit};

use crate::arguments::{self, Setting, constants};

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

type Choices = &'static [(&'static str, &'static str)];

const HASHES: Choices = &[
    ("md5", "Md5"),
    ("sha224", "Sha224"),
    ("sha256", "Sha256"),
    ("sha384", "Sha384"),
    ("sha512", "Sha512"),
];
const IN_PROGRESS: Choices = &[("reject", "Reject"), ("wait", "Wait")];
const TIMEOUT: Choices = &[("rerun", "Rerun"), ("hold", "Hold")];
const ERROR: Choices = &[("release", "Release"), ("record", "Record")];

/// The longest prefix in bytes. With the tenant and the digest, an id must fit into the 1024 bytes of DynamoDB's sort key.
const LONGEST_PREFIX: usize = 512;

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
        "key_required" => key_required(&name, &value)?,
        "key_prefix" => prefix(&name, &value)?,
        "shared_key_prefix" => boolean(&name, &value)?,
        "hash" => choice(&name, &value, "HashAlgorithm", HASHES)?,
        "expires_after" => duration(&name, &value, Duration::from_secs(1))?,
        "lease" | "store_timeout" => duration(&name, &value, Duration::from_millis(1))?,
        "local_cache" => number(&name, &value, "records")?,
        "local_cache_bytes" => number(&name, &value, "bytes")?,
        "on_in_progress" => choice(&name, &value, "OnInProgress", IN_PROGRESS)?,
        "on_timeout" => choice(&name, &value, "OnTimeout", TIMEOUT)?,
        "on_error" => choice(&name, &value, "OnError", ERROR)?,
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

/// Returns the text of a string literal, and its place.
fn text(name: &str, value: &Expr) -> syn::Result<(String, Span)> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = value
        && text.suffix().is_empty()
    {
        return Ok((text.value(), text.span()));
    }
    let message = match value {
        Expr::Path(_) | Expr::Field(_) => {
            let written = value.to_token_stream().to_string().replace(' ', "");
            format!("the value of `{name}` is a text: write it in quotes, `{name} = \"{written}\"`")
        }
        _ => {
            let example = arguments::example(name).unwrap_or_default();
            format!(
                "the value of `{name}` is a text: write it in quotes, like `{name} = {example}`"
            )
        }
    };
    Err(Error::new_spanned(value, message))
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
    let is_choice = ["hash", "on_in_progress", "on_timeout", "on_error"].contains(&setting);
    constants().any(|constant| constant == setting)
        && if is_choice {
            is_capital
        } else {
            path.segments.len() > 1 || is_capital && !name.contains(char::is_lowercase)
        }
}

/// Checks a JMESPath expression.
fn expression(name: &str, value: &Expr, otherwise: &str) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    if text.trim().is_empty() {
        return Err(Error::new(
            span,
            format!("`{name}` is empty: leave it out for {otherwise}"),
        ));
    }
    match idempotency_expression::parse(&text) {
        Ok(_) => Ok(Constant::Text(text)),
        Err(error) => Err(Error::new(
            span,
            format!(
                "`{name}` is not an expression that can be used:\n{}",
                error.render(&text)
            ),
        )),
    }
}

/// Checks a key prefix: not empty, not too long, without the mark of a tenant.
fn prefix(name: &str, value: &Expr) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    let wrong = if text.is_empty() {
        "`key_prefix` is empty: write a name for this operation, or leave it out".to_owned()
    } else if text.len() > LONGEST_PREFIX {
        format!(
            "`key_prefix` has {} bytes: write at most {LONGEST_PREFIX}",
            text.len()
        )
    } else if text.contains("#tenant=") {
        "leave out `#tenant=`: it marks the tenant in a key".to_owned()
    } else {
        return Ok(Constant::Text(text));
    };
    Err(Error::new(span, wrong))
}

/// Checks a value that is one of some names, without regard to case.
fn choice(name: &str, value: &Expr, kind: &'static str, choices: Choices) -> syn::Result<Constant> {
    let accepted = || {
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        format!("`{name}` is one of {}", names.join(", "))
    };
    let Ok((text, span)) = text(name, value) else {
        return Err(Error::new_spanned(value, accepted()));
    };
    match choices
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&text))
    {
        Some((_, variant)) => Ok(Constant::Choice(kind, variant)),
        None => Err(Error::new(span, accepted())),
    }
}

/// Checks a duration: long enough, and in whole seconds if the shortest one is.
fn duration(name: &str, value: &Expr, shortest: Duration) -> syn::Result<Constant> {
    let wrong = "write a duration such as \"30s\", \"15m\" or \"1h\", or the name of a constant";
    let Ok((text, span)) = text(name, value) else {
        return Err(Error::new_spanned(value, wrong));
    };
    match humantime::parse_duration(&text) {
        Ok(time) if shortest.subsec_nanos() == 0 && time.subsec_nanos() != 0 && time > shortest => {
            Err(Error::new(
                span,
                format!(
                    "`{name}` is counted in whole seconds: write a duration without a fraction of a second"
                ),
            ))
        }
        Ok(time) if time >= shortest => Ok(Constant::Time(time)),
        Ok(_) => Err(Error::new(
            span,
            format!(
                "`{name}` is too short: write at least \"{}\"",
                humantime::format_duration(shortest)
            ),
        )),
        Err(_) => Err(Error::new(span, wrong)),
    }
}

/// Checks a number without a sign.
fn number(name: &str, value: &Expr, of: &str) -> syn::Result<Constant> {
    if let Expr::Lit(ExprLit {
        lit: Lit::Int(number),
        ..
    }) = value
        && matches!(number.suffix(), "" | "usize")
    {
        return match number.base10_parse() {
            Ok(number) => Ok(Constant::Number(number)),
            Err(_) => Err(Error::new(
                number.span(),
                format!("`{name}` is too large a number"),
            )),
        };
    }
    Err(Error::new_spanned(
        value,
        format!("`{name}` is a number of {of}; 0 is off"),
    ))
}

/// Checks `true` or `false`.
fn boolean(name: &str, value: &Expr) -> syn::Result<Constant> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(literal),
            ..
        }) => Ok(Constant::Bool(literal.value)),
        _ => Err(Error::new_spanned(
            value,
            format!("`{name}` is `true` or `false`"),
        )),
    }
}

/// Checks `true`, `false` or `"all"`.
fn key_required(name: &str, value: &Expr) -> syn::Result<Constant> {
    let variant = match value {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(literal),
            ..
        }) => Some(if literal.value { "Any" } else { "No" }),
        _ => match text(name, value) {
            Ok((text, _)) if text.eq_ignore_ascii_case("all") => Some("All"),
            _ => None,
        },
    };
    match variant {
        Some(variant) => Ok(Constant::Choice("KeyRequired", variant)),
        None => Err(Error::new_spanned(
            value,
            format!("`{name}` is `true`, `false` or `\"all\"`"),
        )),
    }
}

/// Checks the value of `on_replay`: a name or a closure.
fn hook(value: Expr) -> syn::Result<Expr> {
    match value {
        Expr::Path(_) | Expr::Closure(_) => Ok(value),
        other => Err(Error::new_spanned(
            other,
            "`on_replay` is called with a replayed response: write the name of a `fn(Response, &Replay) -> Response`, or a closure",
        )),
    }
}

/// Checks that a value is code and not a literal.
fn code(name: &str, value: Expr) -> syn::Result<Expr> {
    match &value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(_), ..
        }) if name == "store" => Err(Error::new_spanned(
            &value,
            "`store` is an expression that returns a store, like `store = store.clone()`; the name of a kind of store belongs in `IDEMPOTENCY_STORE`",
        )),
        Expr::Lit(literal) => Err(Error::new_spanned(
            literal,
            format!(
                "`{name}` is an expression, not a literal: write it without quotes, like `{name} = {}`",
                arguments::example(name).unwrap_or_default()
            ),
        )),
        _ => Ok(value),
    }
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

/// Returns an identifier for generated code.
pub(crate) fn field(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

#[cfg(test)]
mod tests;
