//! What the writes to the user's own items share: the user's expressions, the sends, the errors.
//!
//! A business item is an item of the user's own table, not a record.
//!
//! | module | what it does |
//! |---|---|
//! | `tokens`, `clauses`, `expressions` | check the user's expressions and add ours |
//! | `send` | sends one write, and notes whether it may have been applied |
//! | `error` | the errors that all writes share |

mod clauses;
mod error;
mod expressions;
mod send;
mod tokens;

pub(crate) use clauses::Clause;
pub use error::{InvalidExpression, RequestError};
pub(crate) use expressions::{Checked, UserExpressions, check_length};
pub(crate) use send::{Reply, delete, put, read, update};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::item::Item;

/// Collects the attributes of a key.
pub(crate) fn key<N: Into<String>>(
    attributes: impl IntoIterator<Item = (N, AttributeValue)>,
) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| (name.into(), value))
        .collect()
}

/// Checks that no attribute of the key is one that only this library may write: a write would change the key, and so another item.
pub(crate) fn check_key(
    key: &Item,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), InvalidExpression> {
    match key.keys().find(|name| is_ours(name)) {
        Some(name) => Err(InvalidExpression::new(format!(
            "the key has the attribute `{name}`, which only this library may write: choose another name for its attributes"
        ))),
        None => Ok(()),
    }
}

/// Returns the error of a write that the SDK's builder does not make.
pub(crate) fn not_built(error: aws_sdk_dynamodb::error::BuildError) -> InvalidExpression {
    InvalidExpression::new(format!("the write could not be built: {error}"))
}
