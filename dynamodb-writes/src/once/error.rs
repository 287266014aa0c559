//! The errors of updates that count once.

use std::fmt;
use std::time::Duration;

use crate::error::{InvalidExpression, RequestError};
use crate::send::Item;

/// An update that counts once did not succeed.
///
/// To send it again with the same idempotency key is safe after each of them, except if [`ClockBehind::maybe_applied`] is true.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceError {
    /// The condition of the caller does not hold, and the key is not known. Nothing was applied.
    ConditionFailed(OnceConditionFailed),
    /// An expression, a placeholder or the key is wrong. Nothing was sent.
    Invalid(InvalidExpression),
    /// The clock of this process is behind that of another writer by more than the plan allows, or the request arrived late.
    /// [`ClockBehind::maybe_applied`] says whether the update may have been applied.
    ClockBehind(ClockBehind),
    /// The item was written under another plan, which keeps its keys elsewhere. Nothing was applied.
    OtherPlan(OtherPlan),
    /// An attribute that holds keys was written by another program. Nothing was applied.
    Foreign {
        /// The name of the attribute.
        attribute: String,
    },
    /// The item would be larger than 400 KB: it has more writes than the plan says, or more own data. Nothing was applied.
    ItemTooLarge(Box<ItemFull>),
    /// Other writers removed old keys each time that this writer tried to. Nothing was applied.
    Contended,
    /// The request failed. [`RequestError::maybe_applied`] says whether the update may have been applied.
    Request(RequestError),
}

/// The condition of the caller does not hold, and the item does not know the key.
///
/// `Debug` shows no attribute of the item.
pub struct OnceConditionFailed {
    pub(super) item: Option<Item>,
    pub(super) may_still_arrive: bool,
}

impl OnceConditionFailed {
    /// Returns the present item, without what this module keeps in it. `None` if there is no item.
    #[must_use]
    pub fn item(&self) -> Option<&Item> {
        self.item.as_ref()
    }

    /// Returns the item, by value.
    #[must_use]
    pub fn into_item(self) -> Option<Item> {
        self.item
    }

    /// Returns true if an earlier send of this call got no reply. It was not applied until now. If it arrives later and the
    /// condition holds then, it will be.
    #[must_use]
    pub fn may_still_arrive(&self) -> bool {
        self.may_still_arrive
    }
}

impl fmt::Debug for OnceConditionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceConditionFailed")
            .field("may_still_arrive", &self.may_still_arrive)
            .finish_non_exhaustive()
    }
}

/// How far the clock of this process is behind that of another writer of the item, or that the clock is before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockBehind {
    pub(super) at_least: Duration,
    pub(super) maybe_applied: bool,
}

impl ClockBehind {
    /// Returns a lower bound of the difference between the two clocks.
    #[must_use]
    pub fn at_least(&self) -> Duration {
        self.at_least
    }

    /// Returns true if an earlier send of this call got no reply. It may have been applied so long ago that its key is forgotten:
    /// the process stood still between the two sends. Look at the item before another try.
    #[must_use]
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

/// An item that has no room for another key.
#[derive(Debug)]
pub struct ItemFull {
    pub(super) room_within: Duration,
    pub(super) error: RequestError,
}

impl ItemFull {
    /// Returns how long after a burst the next update is applied at the latest, if its keys fill the item: they leave it then. Own
    /// data does not leave by itself.
    #[must_use]
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
            Self::ConditionFailed(_) => {
                f.write_str("the condition does not hold for the item, which does not know the key; the update was not applied")
            }
            Self::Invalid(error) => error.fmt(f),
            Self::ClockBehind(behind) => write!(
                f,
                "the clock of this process is at least {} s behind that of another writer of the item, or the request arrived \
                 late; {}: set the clocks, or allow a larger `clock_skew`",
                behind.at_least.as_secs(),
                if behind.maybe_applied {
                    "an earlier send of the update may have been applied, and its key forgotten: look at the item before another try"
                } else {
                    "the update was not applied"
                }
            ),
            Self::OtherPlan(plan) => write!(
                f,
                "the item keeps its keys by the plan `{}` and not by `{}`; the update was not applied: use the plan of before, or \
                 `attributes` with another name once no key of before can be sent again",
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
                 was not applied: the keys of a burst leave the item within {:.1} h, so keep the event for longer and send it again \
                 with the same key; own data must be made smaller",
                full.room_within.as_secs_f64() / 3_600.0
            ),
            Self::Contended => f.write_str(
                "other writers removed old keys each time; the update was not applied: send it again with the same key",
            ),
            Self::Request(error) => write!(f, "{error}: send it again with the same key"),
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

impl From<InvalidExpression> for OnceError {
    fn from(error: InvalidExpression) -> Self {
        Self::Invalid(error)
    }
}

impl From<RequestError> for OnceError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}
