//! Single flight: what a call tells the others of its process, and which of them it concerns.

use super::Call;
use super::classify::is_expired;
use super::writes;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// How far a call of this process has come, as far as its duplicates are concerned.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, InFlight, Input, Refusal, Stage, Resolution, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// // The other call runs its handler: this one is refused by it, and the store is not asked.
/// let flight = InFlight { stage: Stage::Running, until: EpochMillis::new(30_000) };
/// let (_, effect) = Attempt::begin(call).0.step(EpochMillis::new(0), Input::LeaderProgress(flight));
/// let refusal = Refusal::AlreadyInProgress { until: Some(EpochMillis::new(30_000)) };
/// assert_eq!(effect, Effect::Finish(Resolution::Refuse(refusal)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    /// What it is at.
    pub stage: Stage,
    /// When its lease ends, or as long as it has no claim, its time. After that it concerns nobody any more.
    pub until: EpochMillis,
}

/// What a call is at, as far as its duplicates are concerned.
///
/// ```
/// use idempotency_core::protocol::{InFlight, Stage};
/// # use idempotency_core::time::EpochMillis;
/// # let until = EpochMillis::new(30_000);
/// # let now = EpochMillis::new(0);
/// // Duplicates rather meet a call that runs than one whose claim has not been answered.
/// let (claims, runs) = (InFlight { stage: Stage::Claiming, until }, InFlight { stage: Stage::Running, until });
/// assert!(claims.is_superseded_by(&runs, now) && !runs.is_superseded_by(&claims, now));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It asks the store for its claim: in a moment it will run, or have an answer.
    Claiming,
    /// Its handler runs.
    Running,
    /// It asks the store to take its answer, or its claim back: in a moment there is an answer, or the key is free.
    Storing,
    /// It waits for another process that is at it.
    Waiting {
        /// When the lease of the other process ends, where it has one.
        until: Option<EpochMillis>,
        /// How often it has asked: whoever follows it knows by this that it goes on.
        round: u8,
    },
}

/// Which calls of a process share a flight: those with one record and one payload.
///
/// ```
/// use idempotency_core::protocol::{InFlightKey, Call};
/// # use idempotency_core::{owner::OwnerToken, record::RecordId};
/// # let call = idempotency_core::example::call();
/// let duplicate = Call { owner: OwnerToken::from_bytes([2; 16]), ..call.clone() };
/// assert_eq!(InFlightKey::of(&call), InFlightKey::of(&duplicate));
/// // Whoever sends another payload under the key is to hear of that, and not of the flight.
/// let other_payload = Call { validation: Some("9f2c".to_owned()), ..call.clone() };
/// assert_ne!(InFlightKey::of(&call), InFlightKey::of(&other_payload));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlightKey {
    id: RecordId,
    validation: Option<String>,
}

impl InFlight {
    /// The flight of a call that is about to claim.
    ///
    /// ```
    /// # use idempotency_core::protocol::{InFlight, Stage, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::RecordId, time::EpochMillis};
    /// # let call = idempotency_core::example::call();
    /// let call = Call { deadline: Some(EpochMillis::new(30_000)), ..call };
    /// let flight = InFlight::of(&call, EpochMillis::new(0));
    /// assert_eq!(flight, InFlight { stage: Stage::Claiming, until: EpochMillis::new(30_000) });
    /// ```
    pub fn of(call: &Call, now: EpochMillis) -> Self {
        Self {
            stage: Stage::Claiming,
            until: writes::lease_end(call, now),
        }
    }

    /// Whether its lease is over, so that it holds nobody up.
    ///
    /// ```
    /// # use idempotency_core::{protocol::{InFlight, Stage}, time::EpochMillis};
    /// let flight = InFlight { stage: Stage::Running, until: EpochMillis::new(30_000) };
    /// assert!(!flight.is_expired(EpochMillis::new(30_000)));
    /// assert!(flight.is_expired(EpochMillis::new(30_001)));
    /// ```
    pub fn is_expired(&self, now: EpochMillis) -> bool {
        is_expired(self.until, now)
    }

    /// Whether duplicates are to meet `other` instead: this one's lease is over, or it has not come as far.
    ///
    /// ```
    /// # use idempotency_core::{protocol::{InFlight, Stage}, time::EpochMillis};
    /// let until = EpochMillis::new(30_000);
    /// let (first, second) = (InFlight { stage: Stage::Claiming, until }, InFlight { stage: Stage::Claiming, until });
    /// assert!(!first.is_superseded_by(&second, EpochMillis::new(30_000)));
    /// assert!(first.is_superseded_by(&second, EpochMillis::new(30_001)));
    /// ```
    pub fn is_superseded_by(&self, other: &Self, now: EpochMillis) -> bool {
        self.is_expired(now) || self.stage.rank() < other.stage.rank()
    }
}

impl Stage {
    /// How much it says of the key. A run comes last: while another runs, what is being stored may be refused.
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
    /// The key of a call's flight.
    ///
    /// ```
    /// # use idempotency_core::protocol::{InFlightKey, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::RecordId};
    /// # let call = idempotency_core::example::call();
    /// assert_eq!(InFlightKey::of(&call), InFlightKey::of(&call.clone()));
    /// ```
    pub fn of(call: &Call) -> Self {
        Self {
            id: call.id.clone(),
            validation: call.validation.clone(),
        }
    }
}
