//! The user's writes and the completion in one `TransactWriteItems`.
//!
//! A handler stages writes with the builders of the SDK. When it has returned its response, they and the completion of its key go
//! out as one request: all of them are applied and the response is stored, or nothing is.
//!
//! | module | what it does |
//! |---|---|
//! | `handler` | `call.transaction()` |
//! | `staged` | one staged write: its table, its key, its size, its name in errors |
//! | `reasons` | says what the cancellation of a transaction means |

mod handler;
mod reasons;
mod staged;

pub use handler::{NotStaged, Transaction, Transactional};
pub(crate) use reasons::Cancellation;

use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::types::TransactWriteItem;
use idempotency_core::store::{Staged, StagedWrites};

use crate::item::Item;
use staged::Write;

/// The most writes that a handler can stage. DynamoDB accepts 100 items, and the record of the call is one of them.
pub const MAX_STAGED: usize = 99;

/// The largest size of all items of a transaction, in bytes.
const LARGEST_TRANSACTION: usize = 4 * 1024 * 1024;

/// A write cannot be a part of a transaction. It was not staged, and nothing was sent.
///
/// The text names the write by its position and its table, never by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    message: String,
}

impl LimitError {
    fn new(message: impl Into<String>) -> Self {
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

/// The staged writes of one call.
#[derive(Default)]
pub(crate) struct Writes {
    items: Vec<TransactWriteItem>,
    /// The estimated size of all items, in bytes.
    bytes: usize,
}

impl Writes {
    /// Stages a write.
    ///
    /// # Errors
    ///
    /// If the transaction would exceed a limit of DynamoDB. Then nothing is staged.
    pub(crate) fn push(&mut self, item: TransactWriteItem) -> Result<(), LimitError> {
        let number = self.items.len() + 1;
        if number > MAX_STAGED {
            return Err(LimitError::new(format!(
                "a transaction has at most 100 items, one of which is the record of the call, so at most {MAX_STAGED} writes can \
                 be staged"
            )));
        }
        let write = Write::of(&item).ok_or_else(|| {
            LimitError::new(format!(
                "write {number} must be exactly one put, update, delete or condition check"
            ))
        })?;
        write.check(number)?;
        let bytes = self.bytes + write.bytes();
        if bytes > LARGEST_TRANSACTION {
            return Err(LimitError::new(format!(
                "with write {number} ({}) the items of the transaction have about {bytes} bytes, and DynamoDB accepts at most 4 MB",
                write.name()
            )));
        }
        if let Some(other) = self.same_item(&write) {
            return Err(LimitError::new(format!(
                "write {number} ({}) and write {} have the same item: DynamoDB accepts one operation for each item of a transaction",
                write.name(),
                other + 1
            )));
        }
        self.bytes = bytes;
        self.items.push(item);
        Ok(())
    }

    /// Returns the position of the staged write of the same item, counted from zero.
    ///
    /// Two puts can be compared only if another write of their table shows which attributes are its key. What is not found here is
    /// refused by DynamoDB.
    fn same_item(&self, write: &Write<'_>) -> Option<usize> {
        let staged = || self.items.iter().filter_map(Write::of);
        let keys = staged().chain(Some(*write));
        let key_names: Vec<&str> = keys
            .filter(|other| other.table() == write.table())
            .find_map(|other| other.key())
            .map(|key| key.keys().map(String::as_str).collect())
            .unwrap_or_default();
        if key_names.is_empty() {
            return None;
        }
        staged().position(|other| other.is_at(write, &key_names))
    }

    /// Returns the position of the staged write of this item, counted from zero.
    pub(crate) fn position_of(&self, table: &str, key: &Item) -> Option<usize> {
        let names: Vec<&str> = key.keys().map(String::as_str).collect();
        let mut writes = self.items.iter().filter_map(Write::of);
        writes.position(|write| write.has(table, key, &names))
    }

    /// Returns the items of the request.
    pub(crate) fn items(&self) -> &[TransactWriteItem] {
        &self.items
    }

    /// Returns the estimated size of all items, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the name of a staged write in errors, such as ``update of table `accounts` ``.
    pub(crate) fn name(&self, index: usize) -> String {
        let write = self.items.get(index).and_then(Write::of);
        write.map_or_else(|| "unknown".to_owned(), |write| write.name().to_string())
    }
}

impl StagedWrites for Writes {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn what(&self) -> &'static str {
        "writes of DynamoDB items"
    }
}

/// Returns these writes as the staged writes of a transaction, for a test of a store. A handler stages with its call.
///
/// # Errors
///
/// If a limit of DynamoDB is exceeded.
pub fn staged(items: impl IntoIterator<Item = TransactWriteItem>) -> Result<Staged, LimitError> {
    let mut writes = Writes::default();
    for item in items {
        writes.push(item)?;
    }
    Ok(Staged::new(writes))
}

/// Returns the error of a transaction that would be too large with its record, if it would be.
pub(crate) fn too_large(staged: usize, record: usize) -> Option<LimitError> {
    let bytes = staged + record;
    (bytes > LARGEST_TRANSACTION).then(|| {
        LimitError::new(format!(
            "the staged writes and the record have about {bytes} bytes, and DynamoDB accepts at most 4 MB"
        ))
    })
}

#[cfg(test)]
mod tests;
