//! The error of an expression, with its place.

use std::fmt;

/// The error of an expression that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntaxError {
    /// The place of the error, in bytes from the start of the expression.
    pub offset: usize,
    /// The message, in one line.
    pub message: String,
}

impl SyntaxError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
        }
    }

    /// Returns the line of the expression, and below it the message with a caret at the place.
    pub fn render(&self, expression: &str) -> String {
        let mut offset = self.offset.min(expression.len());
        while !expression.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = expression[..offset]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let end = expression[offset..]
            .find('\n')
            .map_or(expression.len(), |newline| offset + newline);
        // Tabs stay tabs, so that the caret is below its character at any tab width.
        let indent: String = expression[start..offset]
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        format!("{}\n{indent}^ {}", &expression[start..end], self.message)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}
