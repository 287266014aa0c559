//! What a record that stands in the way of a claim means.

use super::Call;
use super::condition::claimable;
use super::policy::OnTimeout;
use crate::record::{Data, Field, Record, Status};
use crate::time::EpochMillis;

/// What a record means to a call that met it.
///
/// ```
/// use idempotency_core::protocol::{RecordState, classify};
/// use idempotency_core::protocol::Call;
/// use idempotency_core::protocol::policy::Policy;
/// use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// let call = Call {
///     id: RecordId::new("a#1"),
///     owner: OwnerToken::from_bytes([1; 16]),
///     validation: None,
///     deadline: None,
///     operation: None,
///     policy: Policy::default(),
/// };
/// let completed = Record {
///     status: Field::Value(Status::Completed),
///     expiration: Field::Value(EpochSeconds::new(2_000)),
///     data: Field::Value(Data::new("0")),
///     ..Record::default()
/// };
/// assert_eq!(classify(&completed, EpochMillis::new(1_000_000), &call), RecordState::Replay);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// It is this call's own claim, and its lease runs.
    OwnClaim,
    /// It is this call's own claim, but its lease is over and the policy lets nobody claim it again.
    OwnClaimExpired,
    /// It can be claimed by now.
    Claimable,
    /// It belongs to another payload.
    PayloadMismatch,
    /// It holds the answer.
    Replay,
    /// It is completed, but the answer could not be stored.
    ResponseUnavailable,
    /// Its run ended without a completion, and the policy lets nobody run again.
    Unresolved,
    /// Another call is running.
    InProgress,
    /// It cannot be understood; what is wrong with it.
    Corrupt(&'static str),
}

/// Judges the record that stands in the way of `call`'s claim. The order of the rules is part of the protocol.
///
/// Records of the local cache are judged by the same rules.
///
/// ```
/// use idempotency_core::protocol::{RecordState, classify, Call};
/// # use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let until = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(until),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// // Another call's claim, whose lease ends at 30 s.
/// assert_eq!(classify(&claim, EpochMillis::new(30_000), &call), RecordState::InProgress);
/// assert_eq!(classify(&claim, EpochMillis::new(30_001), &call), RecordState::Claimable);
/// ```
pub fn classify(existing: &Record, now: EpochMillis, call: &Call) -> RecordState {
    let hold = call.policy.on_timeout == OnTimeout::Hold;
    if is_claim_of(existing, call) {
        match lease(existing, now) {
            Lease::Running => return RecordState::OwnClaim,
            // `hold` frees nothing by itself, so this call must give up its own claim: it knows that it did not run.
            Lease::Over if hold => return RecordState::OwnClaimExpired,
            Lease::Over | Lease::Unknown => {}
        }
    }
    if claimable(now, call.policy.on_timeout).holds(Some(existing)) {
        return RecordState::Claimable;
    }
    if !same_payload(existing, call) {
        return RecordState::PayloadMismatch;
    }
    match existing.status.value() {
        Some(Status::Completed) => answer_of(existing),
        Some(Status::InProgress) => match lease(existing, now) {
            // Under `rerun` it was claimable, so this is `hold`.
            Lease::Over => RecordState::Unresolved,
            Lease::Running => RecordState::InProgress,
            Lease::Unknown => {
                RecordState::Corrupt("it is in progress, but its lease cannot be read")
            }
        },
        Some(Status::Other(_)) => RecordState::Corrupt("its status is unknown"),
        None => RecordState::Corrupt("it has no status"),
    }
}

/// Whether the record is a claim made with this call's token.
pub(super) fn is_claim_of(existing: &Record, call: &Call) -> bool {
    existing.owner.value() == Some(&call.owner)
        && existing.status.value() == Some(&Status::InProgress)
}

/// Whether the record belongs to this call's payload, as far as the operation validates it.
pub(super) fn same_payload(existing: &Record, call: &Call) -> bool {
    call.validation
        .as_ref()
        .is_none_or(|mine| existing.validation.value() == Some(mine))
}

/// What a completed record answers.
pub(super) fn answer_of(existing: &Record) -> RecordState {
    match &existing.data {
        Field::Value(data) if is_json(data) => RecordState::Replay,
        Field::Value(_) => RecordState::Corrupt("its data is not JSON"),
        Field::Unreadable => RecordState::Corrupt("its data is of an unknown type"),
        Field::Absent => RecordState::ResponseUnavailable,
    }
}

fn is_json(data: &Data) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(data.as_str()).is_ok()
}

/// Whether a lease is over. Strict, like every comparison here: at its last millisecond it still runs.
pub(super) fn is_expired(lease_end: EpochMillis, now: EpochMillis) -> bool {
    lease_end < now
}

enum Lease {
    Running,
    Over,
    Unknown,
}

/// Another language may claim without a lease: then the record's own end is the lease's.
fn lease(existing: &Record, now: EpochMillis) -> Lease {
    let over = match (&existing.in_progress_expiration, &existing.expiration) {
        (Field::Value(end), _) => is_expired(*end, now),
        (Field::Absent, Field::Value(end)) => *end < now.floor_to_seconds(),
        _ => return Lease::Unknown,
    };
    if over { Lease::Over } else { Lease::Running }
}

#[cfg(test)]
mod tests;
