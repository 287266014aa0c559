//! What DynamoDB and Lambda accept.

use std::time::Duration;

pub(crate) use dynamodb_lean_client::sdk::LARGEST_ITEM;
use idempotency_core::record::StoredEvent;
use idempotency_core::store::TransactionRequest;

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

/// The longest response that an item has beside an event, in bytes of JSON text.
pub(crate) const LONGEST_BESIDE_EVENT: usize = 256 * 1024;

/// How long a client request token is remembered (`TransactWriteItems` in the API reference).
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The characters of the longest client request token.
const LONGEST_TOKEN: usize = 36;

const _: () = assert!(TransactionRequest::LONGEST_TOKEN <= LONGEST_TOKEN);

// The longest response and the longest event fit one item, compressed or not, beside 4 KB of other attributes.
const _: () = assert!(LONGEST_BESIDE_EVENT + StoredEvent::LONGEST_STORED + 4096 <= LARGEST_ITEM);
