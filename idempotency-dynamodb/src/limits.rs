//! What DynamoDB and Lambda accept.

pub(crate) use dynamodb_lean_client::sdk::LARGEST_ITEM;

/// The longest name of an attribute, in bytes: that of a key attribute.
pub(crate) const LONGEST_NAME: usize = 255;

/// The longest value of a partition key, in bytes.
pub(crate) const LONGEST_PARTITION: usize = 2048;

/// The longest value of a sort key, in bytes.
pub(crate) const LONGEST_SORT: usize = 1024;

/// The largest text of a response, in bytes: what Lambda accepts from a function.
pub(crate) const LARGEST_RESPONSE: usize = 6_291_556;

/// The largest size of all items of a transaction, in bytes.
pub(crate) const LARGEST_TRANSACTION: usize = 4 * 1024 * 1024;
