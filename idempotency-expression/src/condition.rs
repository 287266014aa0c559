//! Mistakes in a condition that would make it false for each response.

use crate::error::SyntaxError;
use crate::tokens::{Kind, Token, tokenize};

/// Returns the error of a condition with a value that it writes as the name of a field: `true` without backticks, or a text in double
/// quotes. No response has such a field, so the condition would not hold for one.
///
/// A field of this name is written behind a dot, as in `@.true`.
pub fn refuse_condition(text: &str) -> Option<SyntaxError> {
    let tokens = tokenize(text).ok()?;
    let symbol = |at: Option<usize>| match &tokens.get(at?)?.kind {
        Kind::Symbol(symbol) => Some(*symbol),
        _ => None,
    };
    tokens.iter().enumerate().find_map(|(at, token)| {
        let (before, after) = (at.checked_sub(1), symbol(Some(at + 1)));
        let is_compared = || matches!(symbol(before), Some("==" | "!="));
        let is_literal = |token: &Token| matches!(token.kind, Kind::Literal(_));
        let message = match &token.kind {
            Kind::Identifier(name) if matches!(name.as_str(), "true" | "false" | "null") => {
                let is_field = symbol(before) == Some(".") || after == Some(":");
                (!is_field)
                    .then_some("this is the name of a field: write the value between backticks")
            }
            Kind::Quoted(_) if is_compared() && !matches!(after, Some("." | "[" | "[?" | "[]")) => {
                let other = at.checked_sub(2).and_then(|at| tokens.get(at));
                (!other.is_some_and(is_literal))
                    .then_some("this is the name of a field: write a text in single quotes")
            }
            _ => None,
        };
        message.map(|message| SyntaxError::new(token.offset, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_written_as_the_name_of_a_field_is_found() {
        for (text, at) in [
            ("true", 0),
            ("paid == true", 8),
            ("error == null || paid", 9),
            ("status == \"paid\"", 10),
            ("a && status != \"paid\" && b", 15),
        ] {
            let offset = refuse_condition(text).map(|error| error.offset);
            assert_eq!(offset, Some(at), "{text}");
        }
        for text in [
            "`true`",
            "paid == `true`",
            "@.true",
            "{true: a}.true",
            "status == 'paid'",
            "\"status\" == 'paid'",
            "'paid' == \"status\"",
            "a == \"b\".c",
            "a == @.\"b\"",
            "paid",
        ] {
            assert_eq!(refuse_condition(text), None, "{text}");
        }
    }
}
