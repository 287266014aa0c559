//! Classifies a record that prevents a claim. Its tests are rows: `attempt/tests/records.txt`.

use super::CallTerms;
use super::condition::{claimable, may_be_claimable, replaceable, takeover};
use super::policy::OnTimeout;
use super::undo::Undoing;
use crate::record::{Field, OwnerToken, Record, Status};
use crate::time::EpochMillis;

/// What a record means to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// It is this call's own claim, and its lease runs.
    OwnClaim,
    /// It is this call's own claim, its lease has expired, and the policy lets no other call claim it.
    OwnClaimExpired,
    /// It can be claimed.
    Claimable,
    /// It can be taken over. It has steps, which the takeover keeps.
    Resumable,
    /// It belongs to another payload.
    PayloadMismatch,
    /// It holds the response.
    Replay,
    /// It is completed, but its response could not be stored.
    ResponseUnavailable,
    /// Its run ended without a completion, and the policy allows no second run.
    Unresolved,
    /// Another call is in progress.
    InProgress,
    /// It cannot be understood. Holds what is wrong with it.
    Corrupt(&'static str),
}

/// Returns what the record means to `call`, whose claim it prevents. The order of the rules is part of the protocol.
///
/// The same rules apply to records of the local cache.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{RecordState, classify};
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let lease_end = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(lease_end),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// // Another call's claim, whose lease ends at 30 s.
/// assert_eq!(classify(&claim, EpochMillis::new(30_000), &call), RecordState::InProgress);
/// assert_eq!(classify(&claim, EpochMillis::new(30_001), &call), RecordState::Claimable);
/// ```
pub fn classify(existing: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    let hold = call.policy.on_timeout == OnTimeout::Hold;
    if is_claim_of(existing, call) {
        match lease(existing, now) {
            LeaseState::Running => return RecordState::OwnClaim,
            // Under `hold` no other call frees the key. This call knows that it did not run, so it must release its claim.
            LeaseState::Expired if hold => return RecordState::OwnClaimExpired,
            LeaseState::Expired | LeaseState::Unknown => {}
        }
    }
    let is_claimable = || claimable(now, call.policy.on_timeout).holds(Some(existing));
    if may_be_claimable(existing, now) && is_claimable() {
        return claimable_state(existing, now, call);
    }
    if !same_payload(existing, call) {
        return RecordState::PayloadMismatch;
    }
    match existing.status.value() {
        Some(Status::Completed) => response_of(existing),
        Some(Status::InProgress) => match lease(existing, now) {
            // Under `rerun` it would be claimable, so this is `hold`.
            LeaseState::Expired => RecordState::Unresolved,
            LeaseState::Running => RecordState::InProgress,
            LeaseState::Unknown => RecordState::Corrupt(UNREADABLE_LEASE),
        },
        Some(Status::Undoing) => undoing_state(existing, now, call),
        Some(Status::Other(_)) => RecordState::Corrupt("its status is unknown"),
        None => RecordState::Corrupt("it has no status"),
    }
}

/// Returns what a claimable record means. Steps belong to a payload, so another payload cannot take them over.
fn claimable_state(existing: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    let on_timeout = call.policy.on_timeout;
    if !call.policy.steps.are_on() || replaceable(now, on_timeout).holds(Some(existing)) {
        return RecordState::Claimable;
    }
    if !same_payload(existing, call) {
        return RecordState::PayloadMismatch;
    }
    resumable_state(existing, call)
}

/// Returns what a record means that a call takes over, if it can be read.
fn resumable_state(existing: &Record, call: &CallTerms) -> RecordState {
    if existing.steps == Field::Unreadable {
        return RecordState::Corrupt(UNREADABLE_STEPS);
    }
    match takeover(existing, None, call.policy.on_timeout) {
        Some(_) => RecordState::Resumable,
        None => RecordState::Corrupt("it has steps, but its owner or its lease cannot be read"),
    }
}

/// Returns what a record means whose steps are being undone. No run may go forward over it, however long ago its last run ended.
fn undoing_state(existing: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    let Some(undoing) = Undoing::of(existing) else {
        return RecordState::Corrupt("which of its steps are undone cannot be read");
    };
    match lease(existing, now) {
        LeaseState::Running => return RecordState::InProgress,
        LeaseState::Unknown => return RecordState::Corrupt(UNREADABLE_LEASE),
        LeaseState::Expired => {}
    }
    if let defect @ RecordState::Corrupt(_) = response_of(existing) {
        return defect;
    }
    // Under `hold` an undo of a killed run may have had its effect.
    let killed = call.policy.on_timeout == OnTimeout::Hold && !existing.failure.exists();
    if undoing.held || killed || !call.policy.steps.are_on() {
        return RecordState::Unresolved;
    }
    resumable_state(existing, call)
}

/// Returns true if the record is a claim made with this call's token.
pub(super) fn is_claim_of(existing: &Record, call: &CallTerms) -> bool {
    is_claim_by(existing, &call.owner)
}

/// Returns true if the record is a claim made with this token.
pub(super) fn is_claim_by(existing: &Record, owner: &OwnerToken) -> bool {
    existing.is_claim() && existing.owner.value() == Some(owner)
}

/// Returns true if the record belongs to this call's payload, or if the operation does not validate payloads.
pub(super) fn same_payload(existing: &Record, call: &CallTerms) -> bool {
    call.validation
        .as_ref()
        .is_none_or(|mine| existing.validation.value() == Some(mine))
}

/// The defect of a record whose data the store cannot read. The store can say more.
pub(crate) const UNREADABLE_DATA: &str = "its data is of an unknown type";

/// The defect of a claim whose lease cannot be read.
const UNREADABLE_LEASE: &str = "it is in progress, but its lease cannot be read";

/// The defect of a record whose steps cannot be read.
const UNREADABLE_STEPS: &str = "the results of its steps cannot be read";

/// Returns what the data of a record means that is completed, or whose steps are being undone.
pub fn response_of(existing: &Record) -> RecordState {
    match &existing.data {
        Field::Value(data) if data.is_json() => RecordState::Replay,
        Field::Value(_) => RecordState::Corrupt("its data is not JSON"),
        Field::Unreadable => RecordState::Corrupt(UNREADABLE_DATA),
        Field::Absent => RecordState::ResponseUnavailable,
    }
}

/// Returns true if a lease has expired. The comparison is strict, like every comparison here: the last millisecond belongs to
/// the lease.
pub(super) fn is_expired(lease_end: EpochMillis, now: EpochMillis) -> bool {
    lease_end < now
}

enum LeaseState {
    Running,
    Expired,
    Unknown,
}

/// Returns the state of a claim's lease. A claim by another language may have no lease; its `expiration` is used instead.
fn lease(existing: &Record, now: EpochMillis) -> LeaseState {
    let expired = match (&existing.in_progress_expiration, &existing.expiration) {
        (Field::Value(end), _) => is_expired(*end, now),
        (Field::Absent, Field::Value(end)) => *end < now.floor_to_seconds(),
        _ => return LeaseState::Unknown,
    };
    if expired {
        LeaseState::Expired
    } else {
        LeaseState::Running
    }
}
