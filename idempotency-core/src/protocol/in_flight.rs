//! What a call publishes to the duplicates in its process.

use std::sync::Arc;

use super::CallTerms;
use super::classify::is_expired;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// The progress of a call, as its duplicates in the same process see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    /// What the call is doing.
    pub stage: Stage,
    /// After this time duplicates ignore the call. With a claim it is the end of the lease; before that, the time when the call
    /// stops waiting.
    pub until: EpochMillis,
}

/// What a call is doing, as its duplicates in the same process see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It asks the store for its claim. Next it runs its handler or gets a response.
    Claiming,
    /// It runs its handler.
    Running,
    /// It asks the store to complete or release its claim. Next there is a response, or the key is free.
    Storing,
    /// It waits for a call in another process.
    Waiting {
        /// When the lease of the other process ends, if it has one.
        until: Option<EpochMillis>,
        /// Number of polls so far. A change shows followers that the call is still alive.
        round: u8,
    },
}

/// The key of single flight: calls with one record and one payload share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InFlightKey {
    id: RecordId,
    validation: Option<Arc<str>>,
}

impl InFlight {
    /// Returns the progress of a call that is about to claim.
    pub fn of(call: &CallTerms, now: EpochMillis) -> Self {
        Self {
            stage: Stage::Claiming,
            until: call.wait_end(now),
        }
    }

    /// Returns true if its lease has expired. Duplicates then no longer wait for it.
    pub fn is_expired(&self, now: EpochMillis) -> bool {
        is_expired(self.until, now)
    }

    /// Returns true if `other` should replace it as the leader: its lease has expired, or it is less advanced.
    pub fn is_superseded_by(&self, other: &Self, now: EpochMillis) -> bool {
        self.is_expired(now) || self.stage.rank() < other.stage.rank()
    }
}

impl Stage {
    /// Orders stages by how much a duplicate learns from them. `Running` ranks highest, because a running call can have taken
    /// over the claim of a call that is storing, and that completion then fails.
    fn rank(self) -> u8 {
        match self {
            Self::Claiming => 0,
            Self::Waiting { .. } => 1,
            Self::Storing => 2,
            Self::Running => 3,
        }
    }
}

impl InFlightKey {
    /// Returns the key of a call.
    pub fn of(call: &CallTerms) -> Self {
        Self {
            id: call.id.clone(),
            validation: call.validation.as_deref().map(Arc::from),
        }
    }
}
