//! The limits of a transaction. A write beyond them is refused when it is staged, before a request is sent.

use std::error::Error as StdError;
use std::fmt;

/// The largest size of all items of a transaction, in bytes.
pub(super) const LARGEST_TRANSACTION: usize = 4 * 1024 * 1024;

/// A write cannot be a part of a transaction. It was not staged, and nothing was sent.
///
/// The text names the write by its position and its table, never by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    message: String,
}

impl LimitError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for LimitError {}
