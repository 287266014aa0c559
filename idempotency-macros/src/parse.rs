//! Phase 1: parses the annotated function.
//!
//! The body is not parsed: it stays tokens, so that rustc alone reports an error in it, once.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{AttrStyle, Attribute, Error, Ident, Signature, Token, Visibility, braced};

/// The parts of a function, as they were written.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let start = input.span();
        if let Some(other) = other_item(input) {
            return Err(Error::new(
                start,
                format!("`#[idempotent]` protects one `async fn`, not {other}"),
            ));
        }
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(Error::new(
                signature.fn_token.span,
                "a method without a body cannot be protected: write `#[idempotent]` on the method in each `impl`",
            ));
        }
        let content;
        braced!(content in input);
        // `#![..]` at the start of a body belongs to the function. Rust does not accept it in the middle of generated code.
        for mut inner in content.call(Attribute::parse_inner)? {
            inner.style = AttrStyle::Outer;
            attributes.push(inner);
        }
        Ok(Self {
            attributes,
            visibility,
            signature,
            body: content.parse()?,
        })
    }
}

/// Returns what the item is, if it is not a function.
fn other_item(input: ParseStream<'_>) -> Option<&'static str> {
    let ahead = input.fork();
    let word = ahead.call(Ident::parse_any).ok()?.to_string();
    Some(match word.as_str() {
        "struct" | "union" => "a struct",
        "enum" => "an enum",
        "impl" => "an `impl`: write it on each method",
        "trait" => "a trait: write it on the methods of each `impl`",
        "mod" => "a module: write it on each function",
        "static" => "a static",
        "type" => "a type",
        "use" => "an import",
        "let" => "a `let`: name the function and call it here",
        "const"
            if !ahead.peek(Token![fn])
                && !ahead.peek(Token![async])
                && !ahead.peek(Token![unsafe]) =>
        {
            "a constant"
        }
        _ => return None,
    })
}

impl Function {
    /// Returns the place for an error about the whole function.
    pub(crate) fn fn_span(&self) -> Span {
        self.signature.fn_token.span
    }

    /// Returns the name without `r#`, as it is in the function's path.
    pub(crate) fn name(&self) -> String {
        self.signature.ident.unraw().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_not_parsed_and_a_raw_name_loses_its_prefix() {
        let item = "pub async fn r#type() -> R { let x = ; }";
        let function: Function = syn::parse_str(item).unwrap();
        assert_eq!(function.body.to_string(), "let x = ;");
        assert_eq!(function.name(), "type");
    }

    #[test]
    fn inner_attributes_become_outer_ones() {
        let function: Function =
            syn::parse_str("#[inline] async fn f() { #![allow(unused)] 1 }").unwrap();
        assert_eq!(function.attributes.len(), 2);
        assert!(
            function
                .attributes
                .iter()
                .all(|attribute| matches!(attribute.style, AttrStyle::Outer))
        );
        assert_eq!(function.body.to_string(), "1");
    }
}
