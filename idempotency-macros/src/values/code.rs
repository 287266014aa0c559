//! Checks of values that are code: `payload`, `context`, `store` and `on_replay`.

use idempotency_expression::SettingRow;
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit};

/// Checks the value of `on_replay`: a name or a closure.
pub(super) fn hook(value: Expr) -> syn::Result<Expr> {
    match value {
        Expr::Path(_) | Expr::Closure(_) => Ok(value),
        other => Err(Error::new_spanned(
            other,
            "`on_replay` is called with a replayed response: write the name of a `fn(Response, &Replay) -> Response`, or a closure",
        )),
    }
}

/// Checks the value of `add_headers`: a name or a closure.
pub(super) fn function(name: &str, value: Expr) -> syn::Result<Expr> {
    match value {
        Expr::Path(_) | Expr::Closure(_) => Ok(value),
        other => Err(Error::new_spanned(
            other,
            format!(
                "`{name}` is called with the headers of a request: write the name of a `fn(&HeaderMap) -> HeaderMap`, or a closure \
                 that captures nothing"
            ),
        )),
    }
}

/// Checks that a value is code and not a literal.
pub(super) fn code(name: &str, value: Expr) -> syn::Result<Expr> {
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
                SettingRow::named(name).map_or("", |row| row.example)
            ),
        )),
        _ => Ok(value),
    }
}

/// Returns the payload as an expression that moves nothing, so that the handler keeps its values.
///
/// Each element of a tuple or an array is taken by reference. An array becomes a tuple, so that its elements may have different
/// types; both are lists in JSON.
pub(super) fn payload(name: &str, value: Expr) -> syn::Result<Expr> {
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
pub(super) fn reference(value: Expr) -> Expr {
    let first = value.to_token_stream().into_iter().next();
    let place = first.map_or_else(Span::mixed_site, |token| token.span());
    Expr::Reference(syn::ExprReference {
        attrs: Vec::new(),
        and_token: syn::Token![&](place),
        mutability: None,
        expr: Box::new(value),
    })
}
