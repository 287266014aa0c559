//! Splits an expression into tokens, as far as its placeholders, clauses and parentheses need it.

use crate::error::InvalidExpression;

/// A token of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a function, an attribute name without a placeholder, or an index.
    Word(&'a str),
    /// A placeholder of a name, with its `#`.
    Name(&'a str),
    /// A placeholder of a value, with its `:`.
    Value(&'a str),
    /// Punctuation.
    Mark(char),
}

/// Returns the tokens of an expression, each with its offset in bytes.
pub(super) fn split<'a>(
    what: &str,
    text: &'a str,
) -> Result<Vec<(usize, Token<'a>)>, InvalidExpression> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        let length = match first {
            '#' | ':' => 1 + word(&rest[1..]),
            _ if is_word(first) => word(rest),
            '(' | ')' | '[' | ']' | ',' | '.' | '=' | '<' | '>' | '+' | '-' => 1,
            _ => {
                let text =
                    format!("the {what} has a character at byte {at} that no expression can have");
                return Err(InvalidExpression::new(text));
            }
        };
        let (token, after) = rest.split_at(length);
        tokens.push((
            at,
            match first {
                '#' | ':' if length == 1 => {
                    let text = format!("the {what} has a placeholder without a name at byte {at}");
                    return Err(InvalidExpression::new(text));
                }
                '#' => Token::Name(token),
                ':' => Token::Value(token),
                _ if is_word(first) => Token::Word(token),
                mark => Token::Mark(mark),
            },
        ));
        rest = after;
    }
}

/// Returns the error of an expression with a parenthesis that has no partner.
pub(super) fn unmatched(what: &str) -> InvalidExpression {
    InvalidExpression::new(format!("the parentheses of the {what} do not match"))
}

/// Returns true if placeholders can have this name after their `#` or `:`.
pub(super) fn is_placeholder(name: &str) -> bool {
    !name.is_empty() && word(name) == name.len()
}

fn word(text: &str) -> usize {
    text.find(|character| !is_word(character))
        .unwrap_or(text.len())
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
