//! Phase 1: the attribute's arguments, each written as `name = value`.
//!
//! Every argument passes through [`Arguments::add`], so that no setting is accepted twice and no misspelt name is missed.

mod suggest;

use idempotency_expression::{Scope, SettingRow};
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Ident, LitStr, Token, parse_quote_spanned, token};

#[cfg(test)]
pub(crate) use suggest::variable;

/// Returns the names of the settings of the shape `http`, or of those of batches.
pub(crate) fn names(scope: Scope) -> impl Iterator<Item = &'static str> {
    SettingRow::of(scope).map(|row| row.name)
}

/// One setting as it was written.
pub(crate) struct Setting {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// The settings that could be read, and the errors of the others.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) all: Vec<Setting>,
    pub(crate) errors: Vec<Error>,
    /// The shape of the function, such as `http`. Without one it is a plain function.
    pub(crate) shape: Option<WrittenShape>,
    /// The path in `crate = path`.
    pub(crate) runtime: Option<syn::Path>,
    seen: Vec<String>,
}

impl Arguments {
    /// Reads all arguments. An error in one does not end the reading.
    pub(crate) fn parse(tokens: TokenStream) -> Self {
        let mut arguments = Self::default();
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                arguments.add(input);
                if input.peek(Token![,]) {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            arguments.errors.push(error);
        }
        arguments
    }

    /// Returns true if a setting was written, even with a wrong value.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    /// Returns the setting with this name, if it was written with a value that could be read.
    pub(crate) fn named(&self, name: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.name == name)
    }

    /// Returns an error for each of these settings that was written. `message` returns its text, from the name of the setting.
    pub(crate) fn refused<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        message: impl Fn(&str) -> String,
    ) -> Vec<Error> {
        let written = names.into_iter().filter_map(|name| self.named(name));
        written
            .map(|setting| Error::new(setting.name.span(), message(&setting.name.to_string())))
            .collect()
    }

    fn add(&mut self, input: ParseStream<'_>) {
        match self.setting(input) {
            Ok(setting) => self.all.extend(setting),
            Err(error) => {
                self.errors.push(error);
                skip_to_next(input);
            }
        }
    }

    /// Reads one argument; returns `None` for `crate` and for a shape, which are no settings.
    fn setting(&mut self, input: ParseStream<'_>) -> syn::Result<Option<Setting>> {
        let Ok(name) = input.call(Ident::parse_any) else {
            return Err(match input.parse::<LitStr>() {
                Ok(text) => Error::new(
                    text.span(),
                    "a setting has a name: write `key = \"..\"` for the key's expression",
                ),
                Err(_) => input.error("a setting is written `name = value`"),
            });
        };
        let text = name.to_string();
        if text == "crate" {
            return self.runtime(input).map(|()| None);
        }
        let has_value = input.peek(Token![=]);
        if let Some(shape) = Shape::of(&text) {
            self.keep_shape(shape, name.clone())?;
            if has_value {
                let message = format!("`{text}` has no value: write `#[idempotent({text}, ..)]`");
                return Err(Error::new(name.span(), message));
            }
            return Ok(None);
        }
        let Some(SettingRow { example, .. }) = SettingRow::named(&text) else {
            let meant = suggest::shape(&text).filter(|_| !has_value);
            let (message, shape) = meant.unwrap_or_else(|| (suggest::unknown_setting(&text), None));
            if let Some(shape) = shape.and_then(Shape::of) {
                // The function is checked as one of this shape, so that one mistake is one error.
                self.shape.get_or_insert(WrittenShape {
                    shape,
                    word: name.clone(),
                });
            }
            return Err(Error::new(name.span(), message));
        };
        if self.names(&text) {
            return Err(twice(&name));
        }
        self.seen.push(text.clone());
        if text == "shared_by_all_callers" && (input.is_empty() || input.peek(Token![,])) {
            let value = parse_quote_spanned!(name.span()=> true);
            return Ok(Some(Setting { name, value }));
        }
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            return Err(needs_value(name.span(), &text, example));
        }
        input.parse::<Token![=]>()?;
        let value = value(input, &text, example)?;
        if starts_setting(input) {
            let message = format!("write a comma between the value of `{text}` and this setting");
            self.errors.push(input.error(message));
        }
        Ok(Some(Setting { name, value }))
    }

    /// Keeps the shape of the function.
    fn keep_shape(&mut self, shape: Shape, word: Ident) -> syn::Result<()> {
        match &self.shape {
            Some(first) => Err(second_shape(first, &word)),
            None => {
                self.shape = Some(WrittenShape { shape, word });
                Ok(())
            }
        }
    }

    /// Reads the rest of `crate = path`.
    fn runtime(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        input.parse::<Token![=]>()?;
        let start = input.span();
        if let Ok(text) = input.parse::<LitStr>() {
            let message = format!(
                "`crate` is a path: write it without quotes, `crate = {}`",
                text.value()
            );
            return Err(Error::new(start, message));
        }
        let path = input.call(syn::Path::parse_mod_style).map_err(|_| {
            let message = "`crate` is the path of a re-export of `idempotency_lambda`: write it like `crate = shop::idempotency`";
            Error::new(start, message)
        });
        self.runtime = Some(path?);
        Ok(())
    }
}

/// A shape, as the attribute names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A handler of HTTP events.
    Http,
    /// A function of one record of a batch.
    Batch(Source),
}

/// A source of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sqs,
    Kinesis,
    DynamoDbStream,
}

/// The words of the shapes.
const SHAPES: [(&str, Shape); 4] = [
    ("http", Shape::Http),
    ("sqs", Shape::Batch(Source::Sqs)),
    ("kinesis", Shape::Batch(Source::Kinesis)),
    ("dynamodb_stream", Shape::Batch(Source::DynamoDbStream)),
];

impl Shape {
    /// Returns the shape of a word, or `None` if the word is no shape.
    fn of(word: &str) -> Option<Self> {
        let shape = SHAPES.iter().find(|(known, _)| *known == word);
        shape.map(|(_, shape)| *shape)
    }

    /// Returns the word of the shape.
    pub(crate) fn word(self) -> &'static str {
        let shape = SHAPES.iter().find(|(_, shape)| *shape == self);
        shape.map_or("", |(word, _)| word)
    }
}

/// A shape and its place in the attribute.
pub(crate) struct WrittenShape {
    pub(crate) shape: Shape,
    pub(crate) word: Ident,
}

/// Returns the error of a shape that is written after another.
fn second_shape(first: &WrittenShape, second: &Ident) -> Error {
    if *second == first.word {
        return twice(second);
    }
    let first = first.shape.word();
    Error::new(
        second.span(),
        format!("a function has one shape: write either `{first}` or `{second}`"),
    )
}

/// Returns the error of a name that is written again.
fn twice(name: &Ident) -> Error {
    Error::new(
        name.span(),
        format!("`{name}` is written twice: leave one out"),
    )
}

/// Returns the error of a setting without a value.
fn needs_value(at: Span, name: &str, example: &str) -> Error {
    Error::new(
        at,
        format!("`{name}` needs a value: write `{name} = {example}`"),
    )
}

/// Reads a value up to the comma, or up to the next setting if the comma is missing.
///
/// Tokens that are not a Rust expression are most likely a text without its quotes.
fn value(input: ParseStream<'_>, name: &str, example: &str) -> syn::Result<Expr> {
    if input.is_empty() || input.peek(Token![,]) {
        return Err(needs_value(input.span(), name, example));
    }
    let start = input.span();
    let ends =
        |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]) || starts_setting(input);
    let ahead = input.fork();
    let value = ahead.parse::<Expr>();
    match value {
        Ok(value) if ends(&ahead) => {
            input.advance_to(&ahead);
            Ok(value)
        }
        _ if example.starts_with('"') => Err(Error::new(
            start,
            format!(
                "the value of `{name}` is a text: write it in quotes, like `{name} = {example}`"
            ),
        )),
        Ok(_) => Err(ahead.error("expected `,` between two settings")),
        Err(error) => Err(error),
    }
}

/// Skips the rest of a setting, so that the next one is still read.
///
/// A comma inside an expression does not end the setting: only a comma before another setting does.
fn skip_to_next(input: ParseStream<'_>) {
    while !input.is_empty() {
        let ahead = input.fork();
        let comma = ahead.parse::<Token![,]>().is_ok();
        if comma && (ahead.is_empty() || starts_setting(&ahead)) {
            return;
        }
        // The input is not empty, so it has a token tree.
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

/// Returns true if the next tokens are most likely a setting: `name =`, or a known name at the end of an argument.
fn starts_setting(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(name) = ahead.call(Ident::parse_any) else {
        return false;
    };
    let equals = ahead.peek(Token![=]) && !ahead.peek(Token![==]);
    let name = name.to_string();
    let known = SettingRow::named(&name).is_some() || Shape::of(&name).is_some();
    equals || known && (ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(token::Paren))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_page_names_every_setting_and_no_other() {
        let page = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/configuration.md"
        ));
        // Each setting has a section of its name. The sections of HTTP and of batches are tables.
        let (sections, _) = page.split_once("\n## HTTP").unwrap();
        let headings = sections
            .lines()
            .filter_map(|line| line.strip_prefix("### "));
        let mut on_page: Vec<_> = headings
            .flat_map(|line| line.split('`').skip(1).step_by(2))
            .collect();
        let mut known: Vec<_> = SettingRow::of(Scope::Every).map(|row| row.name).collect();
        on_page.sort_unstable();
        known.sort_unstable();
        assert_eq!(on_page, known);
    }

    #[test]
    fn each_setting_is_documented() {
        let documentation = include_str!("../idempotent.md");
        for SettingRow { name, .. } in SettingRow::of(Scope::Every) {
            let row = format!("\n| `{name}` | ");
            assert_eq!(documentation.matches(&row).count(), 1, "{name}");
        }
    }
}
