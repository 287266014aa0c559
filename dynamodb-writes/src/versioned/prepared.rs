//! A versioned write that is built and not sent: for `send`, and for a transaction of the caller.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::TransactWriteItem;

use idempotency_core::store::RejectedWrite;

use super::version::{Layout, TOKENS_KEPT};
use super::version::{Token, Version};
use super::{Conflict, VersionedError};
use crate::error::ConditionFailed;
use crate::item::{Hidden, Item};
use crate::send::{self, Reply};
use dynamodb_lean_client::sdk::SdkWrite;

/// A versioned write, ready to be sent or to be part of a transaction.
///
/// It has its token already, so it is the same write however often it is sent. `Debug` shows no attribute of the item.
///
/// # Examples
///
/// ```no_run
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use dynamodb_writes::versioned::{Version, Versioned};
///
/// # async fn example(client: aws_sdk_dynamodb::Client, read: Version) -> Result<(), Box<dyn std::error::Error>> {
/// let order = [("id", AttributeValue::S("o-1".into()))];
/// let ship = Versioned::by("version").update("orders", order, &read).expression("SET shipped = :yes").value(":yes", AttributeValue::Bool(true));
/// let ship = ship.prepare()?;
/// client.transact_write_items().transact_items(ship.transact_item()).send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PreparedWrite {
    pub(super) write: Hidden<SdkWrite>,
    pub(super) layout: Layout,
    /// The version that the write expects; `None` for a creation.
    pub(super) expected: Option<Version>,
    /// The version that the write makes; `None` for a deletion.
    pub(super) made: Option<(u64, Token)>,
    pub(super) returns_item: bool,
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
#[derive(Debug)]
pub struct WrittenItem {
    pub(super) version: Option<Version>,
    pub(super) item: Hidden<Option<Item>>,
    pub(super) by_earlier_send: bool,
}

impl WrittenItem {
    /// Returns the version that this write made: what the next write expects. [`Version::NONE`] after a deletion.
    pub fn version(&self) -> &Version {
        static NONE: Version = Version::NONE;
        self.version.as_ref().unwrap_or(&NONE)
    }

    /// Returns the item, if the write asked for it: after an update the new one, after a deletion the deleted one.
    ///
    /// If the reply was lost, it is the current item, which other writes may have changed since; after a deletion `None`.
    pub fn item(&self) -> Option<&Item> {
        self.item.as_ref()
    }

    /// Returns true if the reply was lost, and the write was recognised by its token.
    pub fn by_earlier_send(&self) -> bool {
        self.by_earlier_send
    }
}

impl PreparedWrite {
    /// Returns the write as a part of a transaction, which asks for the current item if its condition fails.
    #[must_use]
    pub fn transact_item(&self) -> TransactWriteItem {
        self.write.0.clone().into_transact_item()
    }

    /// Returns what it means that the condition of this write failed in a transaction. `current` is the item of the
    /// cancellation reason; `maybe_applied` is true if an earlier send of the transaction may have been applied.
    #[must_use]
    pub fn refusal(&self, current: Option<Item>, maybe_applied: bool) -> VersionedRefusal {
        let conflict = |current, version, maybe_applied| {
            VersionedRefusal::Error(VersionedError::Conflict(Conflict {
                current: Hidden(current),
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
                item: Hidden(Some(item)),
                by_earlier_send: true,
            });
        }
        match &self.expected {
            Some(expected) if expected.matches(&version) => {
                VersionedRefusal::Error(VersionedError::ConditionFailed(ConditionFailed {
                    item: Hidden(Some(item)),
                    may_still_arrive: maybe_applied,
                }))
            }
            expected => {
                let not_applied = expected
                    .as_ref()
                    .is_some_and(|expected| self.proves_not_applied(&item, &version, expected));
                conflict(Some(item), Some(version), maybe_applied && !not_applied)
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

    /// Returns true if the tokens of the item prove that this write was not applied: the item was not created again since it was read,
    /// and its token for the version that this write would have made is that of another write.
    fn proves_not_applied(&self, item: &Item, current: &Version, expected: &Version) -> bool {
        let is_update = matches!(*self.write, SdkWrite::Update(_));
        let token = expected.token();
        is_update
            && token.is_some()
            && self.layout.token_in(item, expected.number()) == token
            && current.number() > expected.number()
            && current.number() - expected.number() < TOKENS_KEPT
    }

    /// Sends the write.
    pub(super) async fn send(&self, client: &Client) -> Result<WrittenItem, VersionedError> {
        let sent = send::write(client, self.write.0.clone(), self.returns_item).await;
        match sent.map_err(VersionedError::Request)? {
            Reply::Applied(item) => Ok(WrittenItem {
                version: self
                    .made
                    .map(|(number, token)| Version::new(number, Some(token))),
                item: Hidden(item),
                by_earlier_send: false,
            }),
            Reply::Refused {
                current,
                maybe_applied,
            } => match self.refusal(current, maybe_applied) {
                VersionedRefusal::Applied(mut written) => {
                    *written.item = written.item.take().filter(|_| self.returns_item);
                    Ok(written)
                }
                VersionedRefusal::Error(error) => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::versioned::Versioned;

    const READ: Token = [1; 16];
    const OTHER: Token = [2; 16];

    /// Returns an update of version 5, with the token that it will write.
    fn update(expected: &Version) -> (PreparedWrite, Token) {
        let key = [("id", AttributeValue::S("a".to_owned()))];
        let items = Versioned::by("version");
        let update = items
            .update("accounts", key, expected)
            .expression("REMOVE hold");
        let prepared = update.prepare().unwrap();
        let (_, token) = prepared.made.unwrap();
        (prepared, token)
    }

    /// Returns an item of this version, whose tokens are given from the newest to the oldest.
    fn item(number: u64, tokens: &[Token]) -> Item {
        let layout = Layout::new("version".to_owned());
        let mut item = Item::new();
        for (age, token) in tokens.iter().enumerate().rev() {
            item.extend(layout.attributes(number - age as u64, *token));
        }
        item
    }

    /// Returns what a refusal says, and whether the write may have been applied or may still arrive.
    fn meaning(refusal: VersionedRefusal) -> (&'static str, bool) {
        match refusal {
            VersionedRefusal::Applied(written) => ("applied", written.by_earlier_send()),
            VersionedRefusal::Error(VersionedError::Conflict(conflict)) => {
                ("conflict", conflict.maybe_applied())
            }
            VersionedRefusal::Error(VersionedError::ConditionFailed(failed)) => {
                ("condition", failed.may_still_arrive())
            }
            VersionedRefusal::Error(_) => ("other", false),
        }
    }

    /// Checks what it means that the update meets this item.
    #[track_caller]
    fn means(update: &PreparedWrite, item: Option<Item>, maybe: bool, says: (&'static str, bool)) {
        assert_eq!(meaning(update.refusal(item, maybe)), says);
    }

    #[test]
    fn a_write_finds_its_token_behind_up_to_three_later_writes() {
        let (update, own) = update(&Version::new(5, Some(READ)));
        let later = [OTHER; 4];
        for count in 0..4 {
            let mut tokens = later[..count].to_vec();
            tokens.push(own);
            let item = item(6 + count as u64, &tokens);
            means(&update, Some(item), true, ("applied", true));
        }
        means(&update, Some(item(10, &later)), true, ("conflict", true));
    }

    #[test]
    fn the_tokens_of_the_item_show_that_a_write_was_not_applied() {
        let (update, _) = update(&Version::new(5, Some(READ)));
        let mut tokens = vec![OTHER, READ];
        for number in 6..9 {
            let item = item(number, &tokens);
            means(&update, Some(item), true, ("conflict", false));
            tokens.insert(0, OTHER);
        }
    }

    #[test]
    fn an_item_that_was_created_again_leaves_open_what_happened_to_the_earlier_one() {
        let (update, _) = update(&Version::new(5, Some(READ)));
        let created_again = [5, 6, 2].map(|number| Some(item(number, &[OTHER; 2])));
        for current in created_again.into_iter().chain([None]) {
            for maybe in [true, false] {
                means(&update, current.clone(), maybe, ("conflict", maybe));
            }
        }
    }

    #[test]
    fn a_condition_of_the_caller_failed_if_the_version_is_the_expected_one() {
        for expected in [Version::new(5, Some(READ)), Version::from_number(5)] {
            let (update, _) = update(&expected);
            let current = Some(item(5, &[READ]));
            means(&update, current, true, ("condition", true));
        }
    }

    #[test]
    fn an_item_whose_version_is_no_number_is_a_conflict_without_a_version() {
        let (update, _) = update(&Version::NONE);
        let foreign = Item::from([("version".to_owned(), AttributeValue::S("v1".to_owned()))]);
        let VersionedRefusal::Error(VersionedError::Conflict(conflict)) =
            update.refusal(Some(foreign), false)
        else {
            panic!("a conflict is expected");
        };
        assert_eq!(conflict.version(), None);
        assert!(conflict.current().is_some());
    }

    #[test]
    fn a_rejection_that_is_no_condition_says_nothing_of_the_item() {
        let (update, _) = update(&Version::new(5, Some(READ)));
        let other = item(6, &[OTHER, READ]);
        for (code, says) in [
            (RejectedWrite::CONDITION, Some(("conflict", false))),
            ("TransactionConflict", None),
            ("ValidationError", None),
        ] {
            let write = RejectedWrite::new(0, "update", code).with_item(other.clone());
            assert_eq!(update.rejected(&write).map(meaning), says, "{code}");
        }
    }
}
