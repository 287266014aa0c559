//! Where an item keeps its keys: sets by time, and which of them a write looks at, adds to and removes.
//!
//! Time is cut into buckets. An item has nine slots, so every ninth bucket has the same one. A slot is a set of digests, and beside it
//! the number of the bucket that wrote it last.
//!
//! | bucket, from that of the writer | what a write does with its slot |
//! |---|---|
//! | the six before | looks for its key |
//! | its own | looks for its key, and adds it |
//! | the next one, of writers whose clocks are ahead | looks for its key |
//! | the one after the next | removes it: it has the keys of the seventh before |
//!
//! A digest depends on the bucket. So an old key that is still in a slot is not mistaken for a current one.
//!
//! # Why a late request cannot count twice
//!
//! A request can arrive after its key was removed from the item. It must not count then. Let `M` be the highest number in the item.
//!
//! 1. *`M` never becomes lower.* A write in `d` leaves the number `d`, and every number that it removes or replaces is not higher than
//!    `d`. The ninth slot has a number below `d + 2`, and equal to it modulo nine. A slot with old keys has a number below the one that is
//!    expected there, which is `d + 1` at most, and equal to it modulo nine. Its own slot has `d` at most.
//! 2. *A write in `d` is applied only if `M` is `d + 1` at most.* The nine slots are all residues, so one of them has the number `M`. If `M`
//!    is `d + 2` or more, it is higher than what is expected in that slot, or it is what the ninth slot must not have.
//! 3. *A key of bucket `b` is removed only by a write in `b + 7` or later.* As the ninth slot: `d + 2` is above `b` and equal to it modulo
//!    nine. As a slot with old keys: its expected number is above `b`, thus `b + 9` at least, and `d + 1` at most.
//! 4. So take a key that was applied in `b`, and a request of `d` with the same key, which arrives at any later time. Let `d` be `b + 5` at
//!    most. If the key was removed, `M` is `b + 7` at least, which is `d + 2` or more: refused. If the key is there, and `b` is in sight, it
//!    is found: refused. If `b` is not in sight, it is above `d + 1`, and so is `M`: refused.
//!
//! The two are at most five buckets apart if they were built within the lifetime, by clocks within the skew. The sixth bucket in sight is
//! there for this proof alone. `docs/design/0037-keys-in-the-item.md` says what else was tried.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::time::EpochMillis;
use sha2::{Digest, Sha256};

use crate::item::Item;

/// The buckets behind the current one that a write looks at.
pub(super) const BEHIND: i64 = 6;

/// The buckets that lifetime and skew span. One less than [`BEHIND`]: the writer that removes a key is then at least two buckets
/// ahead of each duplicate that began within the lifetime, so that a request of the duplicate is refused however late it arrives.
pub(super) const PROMISED: i64 = BEHIND - 1;

/// The slots: the current bucket, those behind, one ahead, and one that is empty.
const SLOTS: i64 = BEHIND + 3;

/// The number of old keys in one slot that are worth a request of their own to remove them. Fewer stay until their slot is
/// removed.
pub(super) const FEW: usize = 4;

/// The most old keys that stay in an item: fewer than [`FEW`] in each slot that can be in use after a write.
pub(super) const MOST_OLD: u64 = (FEW as u64 - 1) * (SLOTS as u64 - 1);

/// How an item keeps its keys: the names of their attributes, the length of a bucket and that of a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) prefix: String,
    /// The length of a bucket, in seconds.
    pub(super) bucket: i64,
    /// The bytes of a digest.
    pub(super) key_bytes: usize,
}

impl Layout {
    /// Returns the bucket of a point in time. `None` before 1970.
    pub(super) fn bucket_at(&self, now: EpochMillis) -> Option<i64> {
        let seconds = now.floor_to_seconds().get();
        (seconds >= 0).then(|| seconds / self.bucket)
    }

    /// Iterates over the buckets that a write in this bucket looks at.
    pub(super) fn seen_from(&self, bucket: i64) -> std::ops::RangeInclusive<i64> {
        bucket - BEHIND..=bucket + 1
    }

    /// Returns the bucket whose slot a write in this bucket removes.
    pub(super) fn removed_from(&self, bucket: i64) -> i64 {
        bucket + 2
    }

    /// Returns the time after which the next write removes a key at the latest.
    pub(super) fn removed_within(&self) -> Duration {
        let buckets = BEHIND.unsigned_abs() + 1;
        Duration::from_secs(buckets.saturating_mul(self.bucket.unsigned_abs()))
    }

    /// Returns the slot of a bucket.
    pub(super) fn slot(&self, bucket: i64) -> i64 {
        bucket.rem_euclid(SLOTS)
    }

    /// Returns the name of the attribute with the digests of this bucket.
    pub(super) fn set(&self, bucket: i64) -> String {
        format!("{}{}", self.prefix, self.slot(bucket))
    }

    /// Returns the name of the attribute with the number of the bucket that wrote the set last.
    pub(super) fn number(&self, bucket: i64) -> String {
        format!("{}{}b", self.prefix, self.slot(bucket))
    }

    /// Returns the name of the attribute that says how the keys are kept.
    pub(super) fn plan(&self) -> String {
        format!("{}plan", self.prefix)
    }

    /// Returns how the keys are kept. Writers that differ in it would not find each other's keys.
    pub(super) fn plan_text(&self) -> String {
        format!("{}x{}s {}B", BEHIND, self.bucket, self.key_bytes)
    }

    /// Returns true if only this module may write the attribute.
    pub(super) fn is_ours(&self, attribute: &str) -> bool {
        let mut slots = 0..SLOTS;
        attribute == self.plan()
            || slots.any(|slot| attribute == self.set(slot) || attribute == self.number(slot))
    }

    /// Returns the digest of a key in this bucket.
    pub(super) fn digest(&self, bucket: i64, key: &[u8]) -> Vec<u8> {
        let mut hash = Sha256::new();
        hash.update(bucket.to_be_bytes());
        hash.update(key);
        let mut digest = hash.finalize().to_vec();
        digest.truncate(self.key_bytes);
        digest
    }

    /// Returns the bytes that these attributes take of an item with this number of keys.
    ///
    /// DynamoDB does not document what a set takes besides its elements. As for a list, three bytes and one for each element are
    /// counted. After a write all slots but one can be in use.
    pub(super) fn size(&self, keys: u64) -> u64 {
        let attributes: usize = (1..SLOTS)
            .map(|slot| self.set(slot).len() + 3 + self.number(slot).len() + NUMBER)
            .sum();
        let plan = self.plan().len() + self.plan_text().len();
        keys.saturating_mul(self.bytes_per_key())
            .saturating_add((attributes + plan) as u64)
    }

    /// Returns what one key takes, in bytes.
    pub(super) fn bytes_per_key(&self) -> u64 {
        self.key_bytes as u64 + 1
    }
}

/// The stored bytes of a bucket's number, which has at most ten digits.
const NUMBER: usize = 6;

// What the attributes of an item say, when a condition failed.

/// A slot of the current item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// The bucket that wrote it last.
    pub(super) number: Option<i64>,
    /// The number of its digests.
    pub(super) keys: usize,
    /// True if it has the digest of the key.
    pub(super) has_key: bool,
}

/// Reads a slot. The error is the name of an attribute that this module has not written.
pub(super) fn slot(
    layout: &Layout,
    item: &Item,
    bucket: i64,
    digest: &[u8],
) -> Result<Slot, String> {
    let (number, set) = (layout.number(bucket), layout.set(bucket));
    let mut slot = Slot::default();
    match item.get(&number) {
        None => {}
        Some(AttributeValue::N(text)) => slot.number = Some(text.parse().map_err(|_| number)?),
        Some(_) => return Err(number),
    }
    match item.get(&set) {
        None => {}
        Some(AttributeValue::Bs(digests)) => {
            slot.keys = digests.len();
            slot.has_key = digests.iter().any(|known| known.as_ref() == digest);
        }
        Some(_) => return Err(set),
    }
    Ok(slot)
}

/// Returns the plan that the item names. The error is the name of an attribute that this module has not written.
pub(super) fn plan<'a>(layout: &Layout, item: &'a Item) -> Result<Option<&'a str>, String> {
    match item.get(&layout.plan()) {
        None => Ok(None),
        Some(AttributeValue::S(plan)) if is_plan(plan) => Ok(Some(plan)),
        Some(_) => Err(layout.plan()),
    }
}

/// Returns true if the text has the form of [`Layout::plan_text`]. Errors show it, and must not show a value of another program.
fn is_plan(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let parts = text
        .strip_suffix('B')
        .and_then(|text| text.split_once("s "))
        .and_then(|(times, key)| Some((times.split_once('x')?, key)));
    parts.is_some_and(|((buckets, seconds), key)| [buckets, seconds, key].into_iter().all(number))
}

/// Removes what this module keeps in an item, so that the values of the caller are left.
pub(super) fn without_keys(layout: &Layout, mut item: Item) -> Item {
    item.retain(|name, _| !layout.is_ours(name));
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            prefix: "once_".to_owned(),
            bucket: 915,
            key_bytes: 12,
        }
    }

    #[test]
    fn the_slots_of_one_write_are_all_slots() {
        let layout = layout();
        for bucket in [0, 1, 8, 9, 1_857_923] {
            let mut slots: Vec<_> = layout
                .seen_from(bucket)
                .chain([layout.removed_from(bucket)])
                .map(|bucket| layout.slot(bucket))
                .collect();
            assert_eq!(
                layout.slot(layout.removed_from(bucket)),
                layout.slot(bucket - 7)
            );
            slots.sort_unstable();
            assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_bucket_begins_with_its_first_millisecond() {
        let at = |milliseconds| layout().bucket_at(EpochMillis::new(milliseconds));
        assert_eq!(at(0), Some(0));
        assert_eq!(at(914_999), Some(0));
        assert_eq!(at(915_000), Some(1));
        assert_eq!(at(-1), None);
    }

    #[test]
    fn digests_are_frozen_and_depend_on_the_bucket() {
        let layout = layout();
        assert_eq!(layout.digest(7, b"evt-1").len(), 12);
        assert_ne!(layout.digest(7, b"evt-1"), layout.digest(8, b"evt-1"));
        assert_ne!(layout.digest(7, b"evt-1"), layout.digest(7, b"evt-2"));
        let hex: String = layout
            .digest(7, b"evt-1")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "bc498b0e186d2a1576fd0d41");
    }

    #[test]
    fn only_the_slots_and_the_plan_are_ours() {
        for ours in ["once_0", "once_8", "once_3b", "once_plan"] {
            assert!(layout().is_ours(ours), "{ours}");
        }
        for other in ["once_9", "once_", "once", "units", "once_0c"] {
            assert!(!layout().is_ours(other), "{other}");
        }
    }
}
