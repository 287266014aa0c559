//! The errors of updates that count once.

use std::fmt;
use std::time::Duration;

use crate::error::{ConditionFailed, InvalidExpression, RequestError, not_applied};

/// An update that counts once did not succeed.
///
/// After each of these errors it is safe to send the update again with the same idempotency key within the lifetime of the plan, except
/// [`ClockBehind`](Self::ClockBehind) with `maybe_applied`.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError {
    /// The condition of the caller does not hold, and the item does not have the key. Nothing was applied so far
    /// ([`ConditionFailed::may_still_arrive`]).
    ConditionFailed(ConditionFailed),
    /// An expression, a placeholder or the key is wrong. Nothing was sent.
    Invalid(InvalidExpression),
    /// The clock of this process is behind that of another writer by more than the plan allows, or the request arrived late.
    ClockBehind {
        /// A lower bound of the difference between the two clocks.
        at_least: Duration,
        /// True if an earlier send of this call got no reply. It may have been applied so long ago that its key is forgotten: the
        /// process stood still between the two sends. Look at the item before another try.
        maybe_applied: bool,
    },
    /// The item was written under another plan, with buckets or digests of another length. Nothing was applied.
    OtherPlan(OtherPlan),
    /// An attribute that holds keys was written by another program. Nothing was applied.
    Foreign {
        /// The name of the attribute.
        attribute: String,
    },
    /// The item would be larger than 400 KB: it has more writes than the plan says, or more own data. Nothing was applied.
    ItemTooLarge(Box<ItemFull>),
    /// Other writers removed old keys each time that this writer tried to. Nothing was applied so far.
    Contended,
    /// The request failed. [`RequestError::maybe_applied`] says whether the update may have been applied.
    Request(RequestError),
}

/// An item that has no room for another key.
#[derive(Debug)]
pub struct ItemFull {
    pub(super) room_within: Duration,
    pub(super) error: RequestError,
}

impl ItemFull {
    /// Returns the time within which the keys of a burst leave the item. If keys fill the item, an update that is sent again after that
    /// time has room. Own data stays in the item.
    pub fn room_within(&self) -> Duration {
        self.room_within
    }
}

/// The plan that an item was written under, and that of this writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherPlan {
    pub(super) stored: String,
    pub(super) own: String,
}

impl fmt::Display for OnceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConditionFailed(failed) => write!(
                f,
                "the condition does not hold for the item, which does not have the key; the update {}",
                not_applied(failed.may_still_arrive)
            ),
            Self::Invalid(error) => error.fmt(f),
            Self::ClockBehind {
                at_least,
                maybe_applied,
            } => write!(
                f,
                "the clock of this process is at least {} s behind (another writer of the item was ahead by that, or the clock is \
                 before 1970), or the request arrived late; {}: set the clocks; for a larger `clock_skew`, which is another plan, take another name \
                 with `attributes` when no earlier key can be sent again",
                at_least.as_secs(),
                if *maybe_applied {
                    "an earlier send of the update may have been applied, and its key forgotten: look at the item before another try"
                } else {
                    "the update was not applied"
                }
            ),
            Self::OtherPlan(plan) => write!(
                f,
                "the item keeps its keys by the plan `{}` and not by `{}`; the update was not applied: use the earlier plan, or, \
                 when no earlier key can be sent again, another name with `attributes`",
                plan.stored, plan.own
            ),
            Self::Foreign { attribute } => write!(
                f,
                "the attribute `{attribute}` of the item was written by another program; the update was not applied: choose \
                 another name with `attributes`"
            ),
            Self::ItemTooLarge(full) => write!(
                f,
                "the item would be larger than 400 KB, because it has more writes or more own data than its plan says; the update \
                 was not applied: the keys of a burst leave the item within {} h, so keep the event for longer and send it again \
                 with the same key; own data must be made smaller",
                full.room_within.as_secs().div_ceil(3_600)
            ),
            Self::Contended => f.write_str(
                "other writers removed old keys each time; the update was not applied so far: send it again with the same key",
            ),
            Self::Request(error) => write!(
                f,
                "{error}: within the lifetime of the plan it is safe to send it again with the same key"
            ),
        }
    }
}

impl std::error::Error for OnceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ItemTooLarge(full) => Some(&full.error),
            Self::Request(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}
