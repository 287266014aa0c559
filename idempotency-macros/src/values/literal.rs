//! Checks of literals: texts, expressions, durations, numbers and choices.

use std::fmt::Display;
use std::time::Duration;

use idempotency_expression::{
    SettingRow, is_token, json_pointers, parse_duration, refuse_condition, refuse_prefix,
};
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Lit};

use super::Constant;

type Checked = syn::Result<Constant>;

/// Returns the error of a value.
fn refused<T>(value: &Expr, message: impl Display) -> syn::Result<T> {
    Err(Error::new_spanned(value, message))
}

/// Returns the literal that a value is.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// Returns the text of a string literal.
fn text(name: &str, value: &Expr) -> syn::Result<String> {
    if let Some(Lit::Str(text)) = literal(value)
        && text.suffix().is_empty()
    {
        return Ok(text.value());
    }
    let written = match value {
        Expr::Path(_) | Expr::Field(_) => {
            let written = value.to_token_stream().to_string().replace(' ', "");
            format!(
                "`{name} = \"{written}\"`; the name of a constant has capital letters or a module, like `{name} = KEY`"
            )
        }
        Expr::Macro(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Binary(_) => {
            return refused(
                value,
                format!(
                    "the value of `{name}` is a text, or the name of a constant: write `const TEXT: &str = ..;` with this value outside of \
                     the attribute, and `{name} = TEXT`"
                ),
            );
        }
        _ => {
            let example = SettingRow::named(name).map_or("", |row| row.example);
            format!("like `{name} = {example}`")
        }
    };
    let message = format!("the value of `{name}` is a text: write it in quotes, {written}");
    refused(value, message)
}

/// Checks a text. `wrong` returns what is wrong with it.
fn text_without(name: &str, value: &Expr, wrong: impl FnOnce(&str) -> Option<String>) -> Checked {
    let text = text(name, value)?;
    match wrong(&text) {
        None => Ok(Constant::Text(text)),
        Some(wrong) => refused(value, wrong),
    }
}

/// Checks a JMESPath expression.
pub(super) fn expression(name: &str, value: &Expr, otherwise: &str) -> Checked {
    text_without(name, value, |text| {
        if text.trim().is_empty() {
            return Some(format!("`{name}` is empty: leave it out for {otherwise}"));
        }
        let parsed = idempotency_expression::parse(text).map(drop);
        let of_condition = || refuse_condition(text).filter(|_| name == "store_when");
        let error = parsed.err().or_else(of_condition)?.render(text);
        Some(format!(
            "`{name}` is not an expression that can be used:\n{error}"
        ))
    })
}

/// Checks the expression that selects the caller of a request.
pub(super) fn caller(name: &str, value: &Expr) -> Checked {
    expression(name, value, "`shared_by_all_callers`")?;
    text_without(name, value, |text| {
        let tree = idempotency_expression::parse(text).ok()?;
        let why = idempotency_expression::check_caller(&tree).refused?;
        Some(format!("`{name}`: {why}"))
    })
}

/// Checks a key prefix.
pub(super) fn prefix(name: &str, value: &Expr) -> Checked {
    text_without(name, value, |text| {
        if text.is_empty() {
            return Some(format!(
                "`{name}` is empty: write a name for this operation, or leave it out"
            ));
        }
        refuse_prefix(text).map(|remedy| format!("`{name}`: {remedy}"))
    })
}

/// Checks the name of a header.
pub(super) fn header(name: &str, value: &Expr) -> Checked {
    let wrong = "is the name of a header: write letters, digits and `-`, or leave it out for `Idempotency-Key`";
    text_without(name, value, |text| {
        (!is_token(text)).then(|| format!("`{name}` {wrong}"))
    })
}

/// Checks a list of headers.
pub(super) fn headers(name: &str, value: &Expr) -> Checked {
    let wrong = "is a list of headers: write their names";
    list(name, value, is_token, wrong, "x-receipt, x-total")
}

/// Checks a list of HTTP methods.
pub(super) fn methods(name: &str, value: &Expr) -> Checked {
    let wrong = "is a list of HTTP methods: write them in capitals";
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    let is_method = |method: &str| !method.is_empty() && method.bytes().all(is_capital);
    list(name, value, is_method, wrong, "POST, PUT")
}

/// Checks a list of JSON pointers.
pub(super) fn pointers(name: &str, value: &Expr) -> Checked {
    text_without(name, value, |text| {
        let wrong = json_pointers(text).err()?;
        Some(format!(
            "`{name}` is a list of JSON pointers, and {wrong:?} is none: write pointers with commas between them and without white \
             space in them, like `{name} = \"/context, /ext\"`, or `\"\"` to leave nothing out"
        ))
    })
}

/// Checks a list of names with commas between them.
fn list(
    name: &str,
    value: &Expr,
    is_name: impl Fn(&str) -> bool,
    wrong: &str,
    example: &str,
) -> Checked {
    let wrong = format!("`{name}` {wrong} with commas between them, like `{name} = \"{example}\"`");
    text_without(name, value, |text| {
        (!text.split(',').map(str::trim).all(is_name)).then_some(wrong)
    })
}

/// Checks a value that is one of some names, without regard to case.
pub(super) fn choice(
    name: &str,
    value: &Expr,
    kind: &'static str,
    choices: &[(&str, &'static str)],
) -> Checked {
    let written = text(name, value).ok();
    let is_written = |known: &str| {
        written
            .as_ref()
            .is_some_and(|text| known.eq_ignore_ascii_case(text))
    };
    if let Some((_, variant)) = choices.iter().find(|(known, _)| is_written(known)) {
        return Ok(Constant::Choice(kind, variant));
    }
    let names: Vec<_> = choices
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    refused(value, format!("`{name}` is one of {}", names.join(", ")))
}

/// Checks a duration: long enough, and in whole seconds if the shortest one is.
pub(super) fn duration(name: &str, value: &Expr, shortest: Duration) -> Checked {
    let time = text(name, value)
        .ok()
        .and_then(|text| parse_duration(&text).ok());
    let Some(time) = time else {
        let wrong =
            "write a duration such as \"30s\", \"15m\" or \"1h\", or the name of a constant";
        return refused(value, wrong);
    };
    if time < shortest {
        let least = humantime::format_duration(shortest);
        return refused(
            value,
            format!("`{name}` is too short: write at least \"{least}\""),
        );
    }
    if shortest.subsec_nanos() == 0 && time.subsec_nanos() != 0 {
        let wrong = "is counted in whole seconds: write a duration without a fraction of a second";
        return refused(value, format!("`{name}` {wrong}"));
    }
    Ok(Constant::Time(time))
}

/// Checks a number without a sign.
pub(super) fn number(name: &str, value: &Expr, of: &str) -> Checked {
    match literal(value) {
        Some(Lit::Int(number)) if matches!(number.suffix(), "" | "usize") => {
            let too_large = |_| {
                Error::new_spanned(
                    value,
                    format!("`{name}` is too large: write a smaller number"),
                )
            };
            number
                .base10_parse()
                .map(Constant::Number)
                .map_err(too_large)
        }
        _ => refused(value, format!("`{name}` is a number of {of}; 0 is off")),
    }
}

/// Checks a number of records that run at a time.
pub(super) fn at_least_one(name: &str, value: &Expr) -> Checked {
    let wrong = "is the number of records that run at a time: write 1 or more";
    match number(name, value, "records") {
        Err(error) if matches!(literal(value), Some(Lit::Int(_))) => Err(error),
        Ok(Constant::Number(0)) | Err(_) => refused(value, format!("`{name}` {wrong}")),
        checked => checked,
    }
}

/// Checks `true` or `false`.
pub(super) fn boolean(name: &str, value: &Expr) -> Checked {
    match literal(value) {
        Some(Lit::Bool(literal)) => Ok(Constant::Bool(literal.value)),
        _ => refused(value, format!("`{name}` is `true` or `false`")),
    }
}

/// Checks `true`, `false` or `"all"`.
pub(super) fn key_required(name: &str, value: &Expr) -> Checked {
    let variant = match literal(value) {
        Some(Lit::Bool(literal)) if literal.value => "Any",
        Some(Lit::Bool(_)) => "No",
        _ if text(name, value).is_ok_and(|text| text.eq_ignore_ascii_case("all")) => "All",
        _ => return refused(value, format!("`{name}` is `true`, `false` or `\"all\"`")),
    };
    Ok(Constant::Choice("KeyRequired", variant))
}
