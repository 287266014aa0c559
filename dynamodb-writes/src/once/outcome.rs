//! The result of an update that counts once.

use std::fmt;

use crate::send::Item;

/// The result of an update that counts once. In both cases the update is applied now, and was applied once.
///
/// `Debug` shows no attribute of the item.
#[derive(Debug)]
#[must_use = "`AlreadyApplied` is a duplicate"]
pub enum OnceOutcome {
    /// This call applied the update.
    Applied(Applied),
    /// The item knows the key: an earlier call with this key applied its update, or an earlier send of this call did, whose reply
    /// was lost. Nothing was applied now.
    AlreadyApplied(AlreadyApplied),
}

impl OnceOutcome {
    /// Returns the present item, without what this module keeps in it. `None` if this call applied the update and did not ask
    /// with [`return_item`](super::OnceUpdate::return_item).
    #[must_use]
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Applied(applied) => applied.item.as_ref(),
            Self::AlreadyApplied(already) => Some(&already.item),
        }
    }

    /// Returns the item, by value.
    #[must_use]
    pub fn into_item(self) -> Option<Item> {
        match self {
            Self::Applied(applied) => applied.item,
            Self::AlreadyApplied(already) => Some(already.item),
        }
    }

    /// Returns true for [`OnceOutcome::Applied`].
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

/// An update that this call applied.
pub struct Applied {
    pub(super) item: Option<Item>,
}

/// An update that was applied before.
pub struct AlreadyApplied {
    pub(super) item: Item,
    pub(super) maybe_by_this_call: bool,
}

impl AlreadyApplied {
    /// Returns true if a reply to this call was lost, so that the earlier send can be its own. False if it was another call.
    #[must_use]
    pub fn maybe_by_this_call(&self) -> bool {
        self.maybe_by_this_call
    }
}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applied").finish_non_exhaustive()
    }
}

impl fmt::Debug for AlreadyApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlreadyApplied")
            .field("maybe_by_this_call", &self.maybe_by_this_call)
            .finish_non_exhaustive()
    }
}
