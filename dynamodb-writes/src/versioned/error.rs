//! The errors of versioned writes.

use std::fmt;

use idempotency_core::random::RandomError;

use super::Version;
use crate::error::{InvalidExpression, RequestError};
use crate::send::Item;

/// A versioned write did not succeed.
#[derive(Debug)]
#[non_exhaustive]
pub enum VersionedError {
    /// Another write was first: the item has another version, or is absent, or [`create`](super::create) found an item. Carries
    /// the current item.
    Conflict(Conflict),
    /// The version is the expected one, and the condition of the caller does not hold. Carries the current item. Nothing was
    /// applied.
    ConditionFailed(VersionedConditionFailed),
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
pub struct Conflict {
    pub(super) current: Option<Item>,
    pub(super) version: Option<Version>,
    pub(super) maybe_applied: bool,
}

impl Conflict {
    /// Returns the current item. `None` if there is no item, for an update of an item that was deleted.
    #[must_use]
    pub fn current(&self) -> Option<&Item> {
        self.current.as_ref()
    }

    /// Returns the current item, by value.
    #[must_use]
    pub fn into_current(self) -> Option<Item> {
        self.current
    }

    /// Returns the version of the current item: what the next try expects. `None` if there is no item, or if its version
    /// attribute is not a whole number.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Returns true if this write may have been applied before the other one.
    ///
    /// That needs a lost reply, and then more than three other writes, or a deletion, before the write was sent again. In all
    /// other cases the write was not applied. If this is true, look at the item before another try.
    #[must_use]
    pub fn maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

impl fmt::Debug for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conflict")
            .field("version", &self.version)
            .field("maybe_applied", &self.maybe_applied)
            .finish_non_exhaustive()
    }
}

/// The version is the expected one, and the condition of the caller does not hold.
///
/// `Debug` shows no attribute of the item.
pub struct VersionedConditionFailed {
    pub(super) current: Item,
    pub(super) may_still_arrive: bool,
}

impl VersionedConditionFailed {
    /// Returns the current item.
    #[must_use]
    pub fn current(&self) -> &Item {
        &self.current
    }

    /// Returns the current item, by value.
    #[must_use]
    pub fn into_current(self) -> Item {
        self.current
    }

    /// Returns true if an earlier send of this write got no reply. It was not applied until now. If it arrives later, and version
    /// and condition hold then, it will be.
    #[must_use]
    pub fn may_still_arrive(&self) -> bool {
        self.may_still_arrive
    }
}

impl fmt::Debug for VersionedConditionFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedConditionFailed")
            .field("may_still_arrive", &self.may_still_arrive)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for VersionedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => {
                match (&conflict.current, &conflict.version) {
                    (None, _) => f.write_str("there is no item")?,
                    (_, Some(version)) => write!(f, "the item has version {}", version.number())?,
                    (_, None) => f.write_str("the version attribute of the item is not a whole number")?,
                }
                f.write_str(if conflict.maybe_applied {
                    ", and this write may have been applied before: look at the item before another try"
                } else {
                    ", and this write was not applied: decide again with the current item"
                })
            }
            Self::ConditionFailed(_) => f.write_str(
                "the condition does not hold for the item, which has the expected version; this write was not applied",
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

impl From<InvalidExpression> for VersionedError {
    fn from(error: InvalidExpression) -> Self {
        Self::Invalid(error)
    }
}

impl From<RequestError> for VersionedError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}
