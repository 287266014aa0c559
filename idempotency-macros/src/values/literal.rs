//! Checks of literals: texts, expressions, durations, numbers and choices.

use std::time::Duration;

use idempotency_expression::SettingRow;
use proc_macro2::Span;
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Lit};

use super::Constant;

/// The longest prefix in bytes. With the tenant and the digest, an id must fit into the 1024 bytes of DynamoDB's sort key.
pub(super) const LONGEST_PREFIX: usize = 512;

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
            let example = SettingRow::named(name).map_or("", |row| row.example);
            format!(
                "the value of `{name}` is a text: write it in quotes, like `{name} = {example}`"
            )
        }
    };
    Err(Error::new_spanned(value, message))
}

/// Checks a JMESPath expression.
pub(super) fn expression(name: &str, value: &Expr, otherwise: &str) -> syn::Result<Constant> {
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

/// Checks the expression that selects the caller of a request.
pub(super) fn caller(name: &str, value: &Expr) -> syn::Result<Constant> {
    let checked = expression(name, value, "`shared_by_all_callers`")?;
    let tree = idempotency_expression::parse(&text(name, value)?.0).ok();
    match tree
        .as_ref()
        .and_then(idempotency_expression::refuse_caller)
    {
        Some(why) => Err(Error::new_spanned(value, format!("`{name}`: {why}"))),
        None => Ok(checked),
    }
}

/// Checks a key prefix: not empty, not too long, without the mark of a tenant.
pub(super) fn prefix(name: &str, value: &Expr) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    let wrong = if text.is_empty() {
        "`key_prefix` is empty: write a name for this operation, or leave it out".to_owned()
    } else if text.len() > LONGEST_PREFIX {
        format!(
            "`key_prefix` has {} bytes: write at most {LONGEST_PREFIX}",
            text.len()
        )
    } else if text.contains("#tenant=") {
        "leave out `#tenant=`, which marks a tenant's keys".to_owned()
    } else {
        return Ok(Constant::Text(text));
    };
    Err(Error::new(span, wrong))
}

/// Checks the name of a header.
pub(super) fn header(name: &str, value: &Expr) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    if is_token(&text) {
        return Ok(Constant::Text(text));
    }
    Err(Error::new(
        span,
        format!(
            "`{name}` is the name of a header: write letters, digits and `-`, or leave it out for `Idempotency-Key`"
        ),
    ))
}

/// Checks a list of headers.
pub(super) fn headers(name: &str, value: &Expr) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    if text.split(',').map(str::trim).all(is_token) {
        return Ok(Constant::Text(text));
    }
    Err(Error::new(
        span,
        format!(
            "`{name}` is a list of headers: write their names with commas between them, like `{name} = \"x-receipt, x-total\"`"
        ),
    ))
}

/// Returns true if HTTP allows the name for a header.
fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Checks a list of HTTP methods.
pub(super) fn methods(name: &str, value: &Expr) -> syn::Result<Constant> {
    let (text, span) = text(name, value)?;
    let is_method = |method: &str| {
        !method.is_empty()
            && method
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    if text.split(',').map(str::trim).all(is_method) {
        return Ok(Constant::Text(text));
    }
    Err(Error::new(
        span,
        format!(
            "`{name}` is a list of HTTP methods: write them in capitals with commas between them, like `{name} = \"POST, PUT\"`"
        ),
    ))
}

/// Checks a value that is one of some names, without regard to case.
pub(super) fn choice(
    name: &str,
    value: &Expr,
    kind: &'static str,
    choices: &[(&str, &'static str)],
) -> syn::Result<Constant> {
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
pub(super) fn duration(name: &str, value: &Expr, shortest: Duration) -> syn::Result<Constant> {
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
pub(super) fn number(name: &str, value: &Expr, of: &str) -> syn::Result<Constant> {
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
                format!("`{name}` is too large: write a smaller number"),
            )),
        };
    }
    Err(Error::new_spanned(
        value,
        format!("`{name}` is a number of {of}; 0 is off"),
    ))
}

/// Checks a number of records that run at a time.
pub(super) fn at_least_one(name: &str, value: &Expr) -> syn::Result<Constant> {
    let wrong = format!("`{name}` is the number of records that run at a time: write 1 or more");
    match number(name, value, "records") {
        Ok(Constant::Number(0)) => Err(Error::new_spanned(value, wrong)),
        Err(_)
            if !matches!(
                value,
                Expr::Lit(ExprLit {
                    lit: Lit::Int(_),
                    ..
                })
            ) =>
        {
            Err(Error::new_spanned(value, wrong))
        }
        checked => checked,
    }
}

/// Checks `true` or `false`.
pub(super) fn boolean(name: &str, value: &Expr) -> syn::Result<Constant> {
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
pub(super) fn key_required(name: &str, value: &Expr) -> syn::Result<Constant> {
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
