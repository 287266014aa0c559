//! Limits the depth of the tokens that `syn` parses.
//!
//! `syn` recurses. Without optimisation, as most builds compile a macro, one of its frames takes up to 40 KB, and the stack of
//! rustc has 8 MB: some hundreds of `&` would crash the compiler without a message.
//!
//! A function's body needs no limit: it is not parsed here, and rustc has already parsed it.

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};
use syn::{Error, Result};

/// The most operators, brackets and keywords that may stand inside or after one another.
const MAX_STEPS: usize = 128;

/// Keywords that begin or join expressions: a parser may recurse at each, without an operator between them.
const KEYWORDS: [&str; 10] = [
    "as", "become", "break", "if", "in", "let", "match", "return", "while", "yield",
];

/// Checks that the arguments are not too deep to parse.
pub(crate) fn arguments(arguments: &TokenStream) -> Result<()> {
    check(
        arguments.clone(),
        "this is nested too deeply to be read here: give it a name outside of the attribute, and write the name here",
    )
}

/// Checks that a function's signature is not too deep to parse.
pub(crate) fn signature(item: &TokenStream) -> Result<()> {
    let mut tokens: Vec<_> = item.clone().into_iter().collect();
    let braces = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    // The last group in braces is the body.
    tokens.pop_if(|last| braces(last));
    check(
        tokens.into_iter().collect(),
        "this type is nested too deeply to be read here: give it a name with `type`, and write the name here",
    )
}

/// The state of one open group of tokens.
struct Level {
    tokens: token_stream::IntoIter,
    /// The operators, brackets and keywords since the last comma.
    steps: usize,
    /// The number of `<` without a `>`, and of `|`. A comma does not end these: it may stand inside generics, and between the
    /// parameters of a closure.
    open: usize,
    /// True if a `>` would be the head of an arrow (`->`, `=>`).
    arrow: bool,
    /// True if brackets would be those of an attribute. Any number of attributes may stand in a row, and their content is not
    /// parsed here.
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

    /// Counts a token. Returns the content of a group, which is checked next.
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

/// Returns an error with this message if the tokens are too deep.
fn check(tokens: TokenStream, message: &str) -> Result<()> {
    let mut levels = vec![Level::new(tokens)];
    // The steps of all levels. The sum is kept, because adding all levels at each token would take quadratic time.
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
            return Err(Error::new(span, message));
        }
        levels.extend(inner.map(Level::new));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted(text: &str) -> bool {
        arguments(&text.parse().unwrap()).is_ok()
    }

    #[test]
    fn nesting_of_every_kind_is_counted() {
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
            assert!(is_accepted(&nested(20)), "{open}");
            assert!(!is_accepted(&nested(MAX_STEPS + 1)), "{open}");
        }
    }

    #[test]
    fn tokens_side_by_side_are_not_counted() {
        for part in [
            "(a.b(), c),",
            "a::<b>,",
            "{ a; }, ",
            "a = b;",
            "Vec<A>, ",
            "Fn(A) -> B,",
            "\"a\" ",
        ] {
            assert!(is_accepted(&part.repeat(1_000)), "{part}");
        }
    }

    #[test]
    fn a_long_comment_and_a_deep_body_are_not_counted() {
        let item = format!(
            "{} async fn f(a: A) -> R {{ {}a{} }}",
            "#[doc = \"a\"]".repeat(1_000),
            "(".repeat(1_000),
            ")".repeat(1_000)
        );
        assert!(signature(&item.parse().unwrap()).is_ok());
    }

    #[test]
    fn a_deep_type_is_counted() {
        let item = format!("async fn f(a: {}A) -> R {{}}", "&".repeat(MAX_STEPS + 1));
        let error = signature(&item.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("give it a name with `type`"));
    }
}
