//! A request as data, independent of the client that sends it.
//!
//! The store decides what a request contains. A [`Transport`](crate::transport::Transport) sends it: it converts the borrowed
//! names and values to the form of its client, and decides nothing. So every client sends the same requests.
//!
//! A request borrows from the record and from the condition of its write. The texts of its expressions are rendered once for
//! each *shape* and kept by the store ([`expression`]).

mod expression;

pub(crate) use expression::{Expressions, Shapes};

use crate::value::NamedValue;

/// One request for one item.
pub(crate) enum Request<'a> {
    /// `PutItem`: replaces the whole item if the condition holds.
    Put {
        /// The item, with its key.
        item: Vec<NamedValue<'a>>,
        /// The condition. It has no update.
        expressions: Expressions<'a>,
        /// True if a success brings back the item that it replaced.
        returns_replaced: bool,
        /// True if a failed condition brings back the current item.
        returns_existing: bool,
    },
    /// `UpdateItem`: changes attributes if the condition holds.
    Update {
        key: Vec<NamedValue<'a>>,
        /// The update and the condition.
        expressions: Expressions<'a>,
    },
    /// `DeleteItem`: deletes the item if the condition holds.
    Delete {
        key: Vec<NamedValue<'a>>,
        /// The condition. It has no update.
        expressions: Expressions<'a>,
    },
    /// `GetItem`: reads the item.
    Get {
        key: Vec<NamedValue<'a>>,
        /// True if the read sees every write that was applied before.
        consistent: bool,
    },
}

impl<'a> Request<'a> {
    /// Returns the value of the header `x-amz-target`.
    pub(crate) fn target(&self) -> &'static str {
        match self {
            Self::Put { .. } => "DynamoDB_20120810.PutItem",
            Self::Update { .. } => "DynamoDB_20120810.UpdateItem",
            Self::Delete { .. } => "DynamoDB_20120810.DeleteItem",
            Self::Get { .. } => GET,
        }
    }

    /// Returns the attributes that the request contains, without those that an update keeps. A value of a placeholder has an empty name.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = NamedValue<'a>> + '_ {
        let (item, expressions) = match self {
            Self::Put {
                item, expressions, ..
            }
            | Self::Update {
                key: item,
                expressions,
            }
            | Self::Delete {
                key: item,
                expressions,
            } => (item, Some(expressions)),
            Self::Get { key, .. } => (key, None),
        };
        let values = expressions.into_iter().flat_map(Expressions::values);
        let values = values.map(|(_, value)| ("", value));
        item.iter().copied().chain(values)
    }
}

/// The target of a read, which never changes a record.
pub(crate) const GET: &str = "DynamoDB_20120810.GetItem";

/// The target of a transaction. It needs the permissions of its writes.
pub(crate) const TRANSACT: &str = "DynamoDB_20120810.TransactWriteItems";

/// The target of the question whether a table is encrypted.
pub(crate) const DESCRIBE: &str = "DynamoDB_20120810.DescribeTable";

/// The targets of a page of a listing: of a whole table, and of one partition.
pub(crate) const SCAN: &str = "DynamoDB_20120810.Scan";
pub(crate) const QUERY: &str = "DynamoDB_20120810.Query";

/// Returns the IAM action of a target, such as `dynamodb:GetItem`.
pub(crate) fn iam_action(target: &str) -> String {
    target.replace("DynamoDB_20120810.", "dynamodb:")
}
