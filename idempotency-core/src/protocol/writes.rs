//! The writes of the protocol: what each puts into the record.

use std::time::Duration;

use super::Call;
use super::Effect;
use super::condition::{Condition, claimable, held_by};
use super::policy::OnTimeout;
use crate::record::{Attribute, Data, Field, Record, Status};
use crate::store::Change;
use crate::time::EpochMillis;

/// How far beyond its lease a claim under `hold` is kept from the table's TTL: ten years.
const HELD: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The most bytes of an operation's path that a record names.
const LONGEST_PATH: usize = 128;

/// When the lease of a claim made now ends.
pub(super) fn lease_end(call: &Call, now: EpochMillis) -> EpochMillis {
    call.deadline.unwrap_or_else(|| now.plus(call.policy.lease))
}

/// Returns what a record names of the operation at `path`: its first 128 bytes, since each claim pays for them.
pub(crate) fn recorded_path(path: &str) -> &str {
    &path[..path.floor_char_boundary(LONGEST_PATH)]
}

fn operation(call: &Call) -> Field<String> {
    let path = call.operation.as_deref();
    path.map(|path| recorded_path(path).to_owned()).into()
}

/// The claim: puts a record in progress over nothing, or over what is claimable.
pub(super) fn claim(call: &Call, now: EpochMillis) -> Effect {
    let lease_end = lease_end(call, now);
    let window_end = now.floor_to_seconds().plus(call.policy.expires_after);
    let kept_until = match call.policy.on_timeout {
        OnTimeout::Rerun => lease_end.ceil_to_seconds(),
        OnTimeout::Hold => lease_end.ceil_to_seconds().plus(HELD),
    };
    Effect::Put(
        Record {
            expiration: Field::Value(window_end.max(kept_until)),
            in_progress_expiration: Field::Value(lease_end),
            status: Field::Value(Status::InProgress),
            validation: call.validation.clone().into(),
            owner: Field::Value(call.owner.clone()),
            operation: operation(call),
            ..Record::default()
        },
        claimable(now, call.policy.on_timeout),
    )
}

/// The attributes of this call's completed record. Without data where the answer cannot be stored.
pub(super) fn completed(call: &Call, now: EpochMillis, data: Option<&Data>) -> Record {
    Record {
        expiration: Field::Value(now.floor_to_seconds().plus(call.policy.expires_after)),
        status: Field::Value(Status::Completed),
        data: data.cloned().into(),
        validation: call.validation.clone().into(),
        operation: operation(call),
        ..Record::default()
    }
}

/// The completion: only while the record is still this call's claim, which names the operation already.
pub(super) fn complete(call: &Call, record: &Record) -> Effect {
    Effect::Update(
        Change {
            set: Record {
                operation: Field::Absent,
                ..record.clone()
            },
            remove: Vec::new(),
        },
        held_by(&call.owner),
    )
}

/// The completion of a claim that was evicted while the handler ran: only while nothing has taken its place.
pub(super) fn restore(call: &Call, record: &Record, lease_end: EpochMillis) -> Effect {
    Effect::Put(
        Record {
            owner: Field::Value(call.owner.clone()),
            in_progress_expiration: Field::Value(lease_end),
            ..record.clone()
        },
        Condition::NoRecord,
    )
}

/// The release: deletes the record while it is still this call's claim.
pub(super) fn release(call: &Call) -> Effect {
    Effect::Delete(held_by(&call.owner))
}

/// A recorded failure: ends the lease at the moment of the claim, so that every policy and every language can claim
/// the key again, and gives up the token.
pub(super) fn record_failure(call: &Call, failure: &str, claimed_at: EpochMillis) -> Effect {
    Effect::Update(
        Change {
            set: Record {
                failure: Field::Value(failure.to_owned()),
                in_progress_expiration: Field::Value(claimed_at),
                ..Record::default()
            },
            remove: vec![Attribute::Owner],
        },
        held_by(&call.owner),
    )
}
