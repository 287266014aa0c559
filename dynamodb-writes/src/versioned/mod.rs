//! Versioned items (optimistic locking): a write succeeds only if the item is still the one that was read.
//!
//! Each item has a number that each write raises by one, in an attribute such as `version`, and the random tokens of its last four writes. A write expects
//! the version that was read. If another write was first, the result is a [`Conflict`] with the current item: decide again.
//!
//! - **A lost reply is no conflict.** The SDK sends a write again if its reply is lost, and the condition of the second send fails
//!   because of the first. The token of the write is in the item then, also if up to three other writes followed: the result is a
//!   success. If it cannot be known, [`Conflict::maybe_applied`] is true.
//! - **A key that is used again is noticed.** An item that was deleted and created again has other tokens, so neither an update nor
//!   a deletion of the earlier item is applied to it.
//! - **Deleting what is absent is a success.**
//!
//! The attributes `version` and `version_w0` to `version_w3` take at most 120 bytes of the item. All writers of the item must use
//! this module, or raise `version` by one under the condition that it is what they read.
//!
//! # Examples
//!
//! ```no_run
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use dynamodb_writes::versioned::{Versioned, VersionedError};
//!
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let accounts = Versioned::by("version");
//! let key = || [("id", AttributeValue::S("a-1".into()))];
//! let made = accounts.create("accounts", key()).attribute("balance", AttributeValue::N("100".into())).send(&client).await?;
//!
//! let mut version = made.version().clone();
//! loop {
//!     let debit = accounts.update("accounts", key(), &version)
//!         .expression("SET balance = balance - :n")
//!         .condition("balance >= :n")
//!         .value(":n", AttributeValue::N("30".into()));
//!     match debit.send(&client).await {
//!         Ok(_) => break,
//!         Err(VersionedError::Conflict(conflict)) if !conflict.maybe_applied() => match conflict.version() {
//!             Some(current) => version = current.clone(),
//!             None => return Err("the account is closed".into()),
//!         },
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;
use change::Change;
use idempotency_core::random::{Random, RandomError};
use idempotency_core::system::SystemRandom;
use version::{Layout, Token};

use crate::error::{ConditionFailed, InvalidExpression, RequestError, not_applied};
use crate::expression::{self, UserExpressions};
use crate::item::{Hidden, Item};

mod change;
mod prepared;
mod version;

pub use change::{Create, Delete, Update};
pub use prepared::{PreparedWrite, VersionedRefusal, WrittenItem};
pub use version::Version;

/// Versioned items, by the name of their version attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    layout: Layout,
}

impl Versioned {
    /// Returns versioned items with this version attribute. The tokens are in attributes of this name with `_w0` to `_w3`.
    pub fn by(attribute: impl Into<String>) -> Self {
        let layout = Layout::new(attribute.into());
        Self { layout }
    }

    /// Returns the version of an item that was read.
    ///
    /// # Errors
    ///
    /// If the version attribute is not a whole number from 0 to 2^64 - 1. An item without the attribute has [`Version::NONE`].
    pub fn version(&self, item: &Item) -> Result<Version, InvalidExpression> {
        self.layout.version(item)
    }

    /// Creates an item with version 1. If there is an item with this key, that is a [`Conflict`].
    pub fn create<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
    ) -> Create {
        Create {
            layout: self.layout.clone(),
            table: table.into(),
            key: Hidden(expression::key(key)),
            attributes: Hidden(Item::new()),
        }
    }

    /// Updates an item that has the version `expected`, and raises the version by one.
    ///
    /// With [`Version::NONE`], the item must exist without a version: that is how an existing item becomes a versioned one.
    pub fn update<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
        expected: &Version,
    ) -> Update {
        Update(self.change(table, key, expected))
    }

    /// Deletes an item that has the version `expected`. If there is no item, that is a success.
    pub fn delete<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
        expected: &Version,
    ) -> Delete {
        Delete(self.change(table, key, expected))
    }

    fn change<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
        expected: &Version,
    ) -> Change {
        Change {
            layout: self.layout.clone(),
            table: table.into(),
            key: Hidden(expression::key(key)),
            expected: expected.clone(),
            user: Hidden(UserExpressions::default()),
            returns_item: false,
        }
    }
}

/// Returns the token of a new write. It is from the operating system: processes that were restored from one snapshot get different ones.
fn new_token() -> Result<Token, VersionedError> {
    SystemRandom.bytes().map_err(VersionedError::Random)
}

// The errors of versioned writes.

/// A versioned write did not succeed.
#[derive(Debug)]
#[non_exhaustive]
pub enum VersionedError {
    /// Another write was first: the item has another version, or is absent, or [`create`](Versioned::create) found an item. Carries
    /// the current item.
    Conflict(Conflict),
    /// The version is the expected one, and the condition of the caller does not hold. Carries the current item. Nothing was
    /// applied.
    ConditionFailed(ConditionFailed),
    /// An expression, a placeholder or an attribute is wrong. Nothing was sent.
    Invalid(InvalidExpression),
    /// The source of randomness failed. Nothing was sent.
    Random(RandomError),
    /// The request failed. [`RequestError::maybe_applied`] says whether the write may have been applied.
    Request(RequestError),
}

/// The current item differs from what the write expected.
///
/// `Debug` and `Display` show versions, and no attribute of the item.
#[derive(Debug)]
pub struct Conflict {
    current: Hidden<Option<Item>>,
    version: Option<Version>,
    maybe_applied: bool,
}

impl Conflict {
    /// Returns the current item. `None` if there is no item, for an update of an item that was deleted.
    pub fn current(&self) -> Option<&Item> {
        self.current.as_ref()
    }

    /// Returns the version of the current item: what the next try expects. `None` if there is no item, or if its version
    /// attribute is not a whole number.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Returns true if this write may have been applied before the other one.
    ///
    /// That needs a lost reply, and then more than three other writes, or a deletion, before the write was sent again. In all
    /// other cases the write was not applied. If this is true, look at the item before another try.
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

impl fmt::Display for VersionedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => {
                match (&*conflict.current, &conflict.version) {
                    (None, _) => f.write_str("there is no item")?,
                    (_, Some(version)) => write!(f, "the item has version {}", version.number())?,
                    (_, None) => {
                        f.write_str("the version attribute of the item is not a whole number")?
                    }
                }
                f.write_str(if conflict.maybe_applied {
                    ", and this write may have been applied before: look at the item before another try"
                } else {
                    ", and this write was not applied: decide again with the current item"
                })
            }
            Self::ConditionFailed(failed) => write!(
                f,
                "the condition does not hold for the item, which has the expected version; this write {}",
                not_applied(failed.may_still_arrive)
            ),
            Self::Invalid(error) => error.fmt(f),
            Self::Random(error) => write!(f, "{error}; nothing was sent"),
            Self::Request(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for VersionedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Random(error) => Some(error),
            Self::Request(error) => error.source(),
            _ => None,
        }
    }
}
