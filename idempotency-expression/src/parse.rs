//! Parses a text into a checked tree.

use crate::adapter::Adapter;
use crate::convert::convert;
use crate::limits;
use crate::tokens::{Kind, tokenize};
use crate::{Ast, SyntaxError};

/// Parses an expression and checks everything that can be checked without an event: the functions, the number of their
/// arguments, and slices.
///
/// # Errors
///
/// Returns a [`SyntaxError`] if the reference implementation would refuse the expression or could never evaluate it. Also if the
/// expression has more than 4096 bytes, 32 brackets inside one another, or 72 steps in a row (brackets and `*` count twice).
///
/// # Examples
///
/// ```
/// let error = idempotency_expression::parse("join(ids)").unwrap_err();
/// assert_eq!((error.offset, error.message.as_str()), (0, "`join` takes 2 arguments, not 1"));
/// ```
pub fn parse(text: &str) -> Result<Ast, SyntaxError> {
    if text.len() > limits::MAX_BYTES {
        let message = format!(
            "the expression has {} bytes; write at most {}",
            text.len(),
            limits::MAX_BYTES
        );
        return Err(SyntaxError::new(limits::MAX_BYTES, message));
    }
    let tokens = tokenize(text)?;
    if tokens.is_empty() {
        return Err(SyntaxError::new(0, "the expression is empty"));
    }
    limits::check(&tokens)?;
    let adapter = Adapter::new(tokens, text)?;
    let parsed = jmespath::parse(&adapter.text).map_err(|error| refused(&adapter, &error))?;
    convert(&adapter, parsed)
}

/// Returns the error of the `jmespath` crate in our words. Its own message quotes the text of the adapter, not the user's.
fn refused(adapter: &Adapter, error: &jmespath::JmespathError) -> SyntaxError {
    let offset = adapter.offset(error.offset);
    let found = match adapter.refused(error.offset) {
        None => "the expression ends here, but is not complete".to_owned(),
        Some(token) => match &token.kind {
            Kind::Symbol(symbol) => format!("`{symbol}` is not allowed here"),
            Kind::Identifier(name) => format!("`{name}` is not allowed here"),
            Kind::Quoted(_) => "a quoted name is not allowed here".to_owned(),
            Kind::Literal(_) => "a literal is not allowed here".to_owned(),
            Kind::Number(_) => {
                "a number can only be an index; write it between backticks".to_owned()
            }
        },
    };
    SyntaxError::new(offset, found)
}

#[cfg(test)]
mod tests;
