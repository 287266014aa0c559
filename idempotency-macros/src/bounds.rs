//! Bounds on what is handed to `syn`, which recurses. Its frames take up to 40 KB each where nothing is optimised, as in
//! most builds of a macro, and rustc's stack has 8 MB: some hundreds of `&` would end the compiler without a word.
//!
//! A body needs no bound: it stays tokens here, and rustc has parsed it before.

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};
use syn::{Error, Result};

/// Operators, brackets and keywords inside or after one another.
const MAX_STEPS: usize = 128;

/// Keywords between or before expressions, and so perhaps beside one another without an operator.
const KEYWORDS: [&str; 10] = [
    "as", "become", "break", "if", "in", "let", "match", "return", "while", "yield",
];

/// Refuses arguments that are too deep to parse.
pub(crate) fn arguments(arguments: &TokenStream) -> Result<()> {
    check(
        arguments.clone(),
        "this is too deep to read here: give it a name outside of the attribute and write the name",
    )
}

/// Refuses a function whose signature is too deep to parse.
pub(crate) fn signature(item: &TokenStream) -> Result<()> {
    let mut tokens: Vec<_> = item.clone().into_iter().collect();
    let braces = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    // The body.
    tokens.pop_if(|last| braces(last));
    check(
        tokens.into_iter().collect(),
        "this type is too deep to read here: write `type` with a name for it, and the name here",
    )
}

/// What is open in one group of tokens.
struct Level {
    tokens: token_stream::IntoIter,
    /// Since the last comma.
    steps: usize,
    /// `<` without its `>`, and `|`: a comma may stand within generics, and between a closure's parameters.
    open: usize,
    /// Whether a `>` is the head of an arrow.
    arrow: bool,
    /// Whether brackets are an attribute's. Any number of these may stand in a row, and nobody parses what is in them.
    attribute: bool,
}

impl Level {
    fn new(tokens: TokenStream) -> Self {
        Self {
            tokens: tokens.into_iter(),
            steps: 0,
            open: 0,
            arrow: false,
            attribute: false,
        }
    }

    /// Takes a token into account, and says what is to be looked into next.
    fn take(&mut self, token: TokenTree) -> Option<TokenStream> {
        let (arrow, attribute) = (self.arrow, self.attribute);
        (self.arrow, self.attribute) = (false, false);
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ',' => self.steps = 0,
                ';' => (self.steps, self.open) = (0, 0),
                '#' => self.attribute = true,
                '>' if arrow => {}
                '>' if self.open > 0 => self.open -= 1,
                '<' | '|' => self.open += 1,
                sign => {
                    self.steps += 1;
                    self.arrow = matches!(sign, '-' | '=');
                }
            },
            TokenTree::Ident(ident) => {
                self.steps += usize::from(KEYWORDS.iter().any(|keyword| ident == keyword));
            }
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                if !(attribute && group.delimiter() == Delimiter::Bracket) {
                    self.steps += 1;
                    return Some(group.stream());
                }
            }
        }
        None
    }
}

fn check(tokens: TokenStream, refusal: &str) -> Result<()> {
    let mut levels = vec![Level::new(tokens)];
    // Steps of all levels, kept up to date so that many tokens take no longer each than few.
    let mut all = 0;
    while let Some(level) = levels.last_mut() {
        let before = level.steps + level.open;
        let Some(token) = level.tokens.next() else {
            all -= before;
            levels.pop();
            continue;
        };
        let span = token.span();
        let inner = level.take(token);
        all = all + level.steps + level.open - before;
        if all > MAX_STEPS {
            return Err(Error::new(span, refusal));
        }
        levels.extend(inner.map(Level::new));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> bool {
        arguments(&text.parse().unwrap()).is_ok()
    }

    #[test]
    fn what_nests_is_counted_whatever_it_is_written_with() {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{ a; ", "}"),
            ("!", ""),
            ("& ", ""),
            ("|a, b|", ""),
            ("a::<b, ", ">"),
            ("a = ", ""),
            ("a as ", ""),
            ("return ", ""),
            ("if a {", "}"),
            ("fn() -> ", ""),
        ] {
            let nested = |times| format!("{}a{}", open.repeat(times), close.repeat(times));
            assert!(taken(&nested(20)), "{open}");
            assert!(!taken(&nested(MAX_STEPS + 1)), "{open}");
        }
    }

    #[test]
    fn what_stands_side_by_side_is_not() {
        for part in [
            "(a.b(), c),",
            "a::<b>,",
            "{ a; }, ",
            "a = b;",
            "Vec<A>, ",
            "Fn(A) -> B,",
            "\"a\" ",
        ] {
            assert!(taken(&part.repeat(1_000)), "{part}");
        }
    }

    #[test]
    fn a_long_comment_and_a_long_body_are_no_depth() {
        let item = format!(
            "{} async fn f(a: A) -> R {{ {}a{} }}",
            "#[doc = \"a\"]".repeat(1_000),
            "(".repeat(1_000),
            ")".repeat(1_000)
        );
        assert!(signature(&item.parse().unwrap()).is_ok());
    }

    #[test]
    fn a_type_is_counted() {
        let item = format!("async fn f(a: {}A) -> R {{}}", "&".repeat(MAX_STEPS + 1));
        let error = signature(&item.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("write `type` with a name"));
    }
}
