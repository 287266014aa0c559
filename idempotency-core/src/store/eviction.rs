//! What became of a record that an operator deletes.

use super::{StoreError, StoreErrorKind, StoreReply};

/// Why a record was not deleted.
#[derive(Debug)]
pub enum NotEvicted {
    /// There is no record.
    Missing,
    /// It is no longer the record that was read.
    Changed,
    /// The request failed.
    Failed {
        /// Why it failed.
        error: StoreError,
        /// True if the record may have been deleted.
        maybe_applied: bool,
    },
}

impl NotEvicted {
    /// Returns what the reply to a [`Write::Delete`](super::Write::Delete) means, whose condition is that the record is still
    /// [the one that was read](crate::protocol::decision::evictable).
    ///
    /// # Errors
    ///
    /// If the record was not deleted, or if that is not known.
    pub fn check(reply: StoreReply) -> Result<(), Self> {
        match reply {
            // If an earlier send may have been applied, it most likely deleted the record.
            StoreReply::Applied { .. }
            | StoreReply::ConditionFailed {
                existing: None,
                maybe_applied: true,
                ..
            } => Ok(()),
            StoreReply::ConditionFailed { existing: None, .. } => Err(Self::Missing),
            StoreReply::ConditionFailed { .. } => Err(Self::Changed),
            StoreReply::Failed {
                error,
                maybe_applied,
            } => Err(Self::Failed {
                error,
                maybe_applied,
            }),
            StoreReply::Found { .. } | StoreReply::Rejected { .. } => Err(Self::Failed {
                error: StoreError::new(
                    StoreErrorKind::Rejected,
                    "the store replied to another request",
                ),
                maybe_applied: true,
            }),
        }
    }
}
