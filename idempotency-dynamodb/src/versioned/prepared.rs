//! A versioned write that is built and not sent: for `send`, and for a transaction of the caller.

use std::fmt;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use idempotency_core::store::RejectedWrite;

use super::error::{Conflict, VersionedConditionFailed, VersionedError};
use super::layout::{Layout, TOKENS};
use super::version::{Token, Version};
use crate::business::{self, Reply, RequestError};
use crate::item::Item;

/// A versioned write, ready to be sent or to be part of a transaction.
///
/// It has its token already, so it is the same write however often it is sent. `Debug` shows the versions alone.
///
/// # Examples
///
/// ```no_run
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use idempotency_dynamodb::versioned::{self, Version};
///
/// # async fn example(client: aws_sdk_dynamodb::Client, read: Version) -> Result<(), Box<dyn std::error::Error>> {
/// let order = [("id", AttributeValue::S("o-1".into()))];
/// let ship = versioned::update("orders", order, &read).expression("SET shipped = :yes").value(":yes", AttributeValue::Bool(true));
/// let ship = ship.prepare()?;
/// client.transact_write_items().transact_items(ship.transact_item()).send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PreparedWrite {
    pub(super) write: Write,
    pub(super) layout: Layout,
    /// The version that the write expects; `None` for a creation.
    pub(super) expected: Option<Version>,
    /// The version that the write makes; `None` for a deletion.
    pub(super) made: Option<(u64, Token)>,
    pub(super) returns_item: bool,
}

/// The write, as the SDK's part of a transaction.
#[derive(Clone)]
pub(super) enum Write {
    Create(Put),
    Update(Update),
    Delete(Delete),
}

/// What a failed condition of a write means.
#[derive(Debug)]
#[non_exhaustive]
pub enum VersionedRefusal {
    /// The write was applied by an earlier send of it. The item is the current one; `None` after a deletion.
    Applied(WrittenItem),
    /// Another write was first, or the condition of the caller does not hold.
    Error(VersionedError),
}

/// A write that was applied.
///
/// `Debug` shows no attribute of the item.
pub struct WrittenItem {
    pub(super) version: Option<Version>,
    pub(super) item: Option<Item>,
    pub(super) by_earlier_send: bool,
}

impl WrittenItem {
    /// Returns the version that this write made: what the next write expects. [`Version::NONE`] after a deletion.
    #[must_use]
    pub fn version(&self) -> &Version {
        static NONE: Version = Version::NONE;
        self.version.as_ref().unwrap_or(&NONE)
    }

    /// Returns the item, if the write asked for it: after an update the new one, after a deletion the deleted one.
    ///
    /// If the reply was lost, it is the current item, which other writes may have changed since; after a deletion `None`.
    #[must_use]
    pub fn item(&self) -> Option<&Item> {
        self.item.as_ref()
    }

    /// Returns the item, by value.
    #[must_use]
    pub fn into_item(self) -> Option<Item> {
        self.item
    }

    /// Returns true if the reply was lost, and the write was recognised by its token.
    #[must_use]
    pub fn by_earlier_send(&self) -> bool {
        self.by_earlier_send
    }
}

impl fmt::Debug for WrittenItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenItem")
            .field("version", &self.version)
            .field("by_earlier_send", &self.by_earlier_send)
            .finish_non_exhaustive()
    }
}

impl PreparedWrite {
    /// Returns the write as a part of a transaction, which asks for the current item if its condition fails.
    #[must_use]
    pub fn transact_item(&self) -> TransactWriteItem {
        let all_old = Some(ReturnValuesOnConditionCheckFailure::AllOld);
        let item = TransactWriteItem::builder();
        match &self.write {
            Write::Create(put) => {
                let mut put = put.clone();
                put.return_values_on_condition_check_failure = all_old;
                item.put(put)
            }
            Write::Update(update) => {
                let mut update = update.clone();
                update.return_values_on_condition_check_failure = all_old;
                item.update(update)
            }
            Write::Delete(delete) => {
                let mut delete = delete.clone();
                delete.return_values_on_condition_check_failure = all_old;
                item.delete(delete)
            }
        }
        .build()
    }

    /// Returns what it means that the condition of this write failed in a transaction. `current` is the item of the
    /// cancellation reason; `maybe_applied` is true if an earlier send of the transaction may have been applied.
    #[must_use]
    pub fn refusal(&self, current: Option<Item>, maybe_applied: bool) -> VersionedRefusal {
        let conflict = |current, version, maybe_applied| {
            VersionedRefusal::Error(VersionedError::Conflict(Conflict {
                current,
                version,
                maybe_applied,
            }))
        };
        let Some(item) = current else {
            return conflict(None, None, maybe_applied);
        };
        let Ok(version) = self.layout.version(&item) else {
            return conflict(Some(item), None, maybe_applied);
        };
        if let Some((number, token)) = self.made
            && self.layout.token_in(&item, number) == Some(token)
        {
            return VersionedRefusal::Applied(WrittenItem {
                version: Some(Version::new(number, Some(token))),
                item: Some(item),
                by_earlier_send: true,
            });
        }
        match &self.expected {
            Some(expected) if expected.matches(&version) => {
                VersionedRefusal::Error(VersionedError::ConditionFailed(VersionedConditionFailed {
                    current: item,
                    may_still_arrive: maybe_applied,
                }))
            }
            expected => {
                let excluded = expected
                    .as_ref()
                    .is_some_and(|expected| self.excluded(&item, &version, expected));
                conflict(Some(item), Some(version), maybe_applied && !excluded)
            }
        }
    }

    /// Returns what it means that the transaction of a protected handler was rejected for this write, or `None` if its condition is
    /// not the reason.
    ///
    /// `write` is from [`Error::rejection`](idempotency_core::error::Error::rejection). No earlier send of that transaction was applied.
    #[must_use]
    pub fn rejected(&self, write: &RejectedWrite) -> Option<VersionedRefusal> {
        let is_condition = write.is_condition();
        is_condition.then(|| self.refusal(write.item::<Item>().cloned(), false))
    }

    /// Returns true if the tokens of the item prove that this write was not applied: the item is the one that was read, and the
    /// token of the version that this write would have made is there and another one.
    fn excluded(&self, item: &Item, current: &Version, expected: &Version) -> bool {
        let is_update = matches!(self.write, Write::Update(_));
        let token = expected.token();
        is_update
            && token.is_some()
            && self.layout.token_in(item, expected.number()) == token
            && current.number() > expected.number()
            && current.number() - expected.number() < TOKENS
    }

    /// Sends the write.
    pub(super) async fn send(&self, client: &Client) -> Result<WrittenItem, VersionedError> {
        let reply: Result<_, RequestError> = match self.write.clone() {
            Write::Create(put) => business::put(client, put).await,
            Write::Update(update) => business::update(client, update, self.returns_item).await,
            Write::Delete(delete) => business::delete(client, delete, self.returns_item).await,
        };
        match reply? {
            Reply::Applied(item) => Ok(WrittenItem {
                version: self
                    .made
                    .map(|(number, token)| Version::new(number, Some(token))),
                item,
                by_earlier_send: false,
            }),
            Reply::Refused {
                current,
                maybe_applied,
            } => match self.refusal(current, maybe_applied) {
                VersionedRefusal::Applied(mut written) => {
                    written.item = written.item.filter(|_| self.returns_item);
                    Ok(written)
                }
                VersionedRefusal::Error(error) => Err(error),
            },
        }
    }
}

impl fmt::Debug for PreparedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedWrite")
            .field("expected", &self.expected)
            .field("makes", &self.made.map(|(number, _)| number))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
