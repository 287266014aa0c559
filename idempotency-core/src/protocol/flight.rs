//! Single flight: what a call tells the others of its process, and which of them it concerns.

use super::judge::is_over;
use super::policy::Call;
use super::writes;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// How far a call of this process has come, as far as its duplicates are concerned.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Flight, Input, Refusal, Verdict, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, policy: Policy::default() };
/// // The other call runs its handler: this one is refused by it, and the store is not asked.
/// let flight = Flight { in_progress: true, until: EpochMillis::new(30_000) };
/// let (_, effect) = Attempt::begin(call).0.step(EpochMillis::new(0), Input::InFlight(flight));
/// let refusal = Refusal::AlreadyInProgress { until: Some(EpochMillis::new(30_000)) };
/// assert_eq!(effect, Effect::Finish(Verdict::Refuse(refusal)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// Whether the key is known to be in progress: the call holds the claim, or waits for somebody who does. Before that
    /// it is about to find out, and may as well find an answer.
    pub in_progress: bool,
    /// When its lease ends. After that it concerns nobody any more.
    pub until: EpochMillis,
}

/// Which calls of a process share a flight: those with one record and one payload.
///
/// ```
/// use idempotency_core::protocol::{FlightKey, policy::*};
/// # use idempotency_core::{owner::OwnerToken, record::RecordId};
/// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
/// #     deadline: None, policy: Policy::default() };
/// let duplicate = Call { owner: OwnerToken::from_bytes([2; 16]), ..call.clone() };
/// assert_eq!(FlightKey::of(&call), FlightKey::of(&duplicate));
/// // Whoever sends another payload under the key is to hear of that, and not of the flight.
/// let other_payload = Call { validation: Some("9f2c".to_owned()), ..call.clone() };
/// assert_ne!(FlightKey::of(&call), FlightKey::of(&other_payload));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey {
    id: RecordId,
    validation: Option<String>,
}

impl Flight {
    /// The flight of a call that is about to claim.
    ///
    /// ```
    /// # use idempotency_core::protocol::{Flight, policy::*};
    /// # use idempotency_core::{owner::OwnerToken, record::RecordId, time::EpochMillis};
    /// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
    /// #     deadline: None, policy: Policy::default() };
    /// let call = Call { deadline: Some(EpochMillis::new(30_000)), ..call };
    /// let flight = Flight::of(&call, EpochMillis::new(0));
    /// assert_eq!(flight, Flight { in_progress: false, until: EpochMillis::new(30_000) });
    /// ```
    pub fn of(call: &Call, now: EpochMillis) -> Self {
        Self {
            in_progress: false,
            until: writes::lease_end(call, now),
        }
    }

    /// Whether its lease is over, so that it holds nobody up.
    ///
    /// ```
    /// # use idempotency_core::{protocol::Flight, time::EpochMillis};
    /// let flight = Flight { in_progress: true, until: EpochMillis::new(30_000) };
    /// assert!(!flight.is_over(EpochMillis::new(30_000)));
    /// assert!(flight.is_over(EpochMillis::new(30_001)));
    /// ```
    pub fn is_over(&self, now: EpochMillis) -> bool {
        is_over(self.until, now)
    }
}

impl FlightKey {
    /// The key of a call's flight.
    ///
    /// ```
    /// # use idempotency_core::protocol::{FlightKey, policy::*};
    /// # use idempotency_core::{owner::OwnerToken, record::RecordId};
    /// # let call = Call { id: RecordId::new("a#1"), owner: OwnerToken::from_bytes([1; 16]), validation: None,
    /// #     deadline: None, policy: Policy::default() };
    /// assert_eq!(FlightKey::of(&call), FlightKey::of(&call.clone()));
    /// ```
    pub fn of(call: &Call) -> Self {
        Self {
            id: call.id.clone(),
            validation: call.validation.clone(),
        }
    }
}
