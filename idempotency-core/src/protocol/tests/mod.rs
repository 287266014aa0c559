//! The fixed values that the tests of the protocol share. `script` is the language of their tables.

pub(crate) mod script;

use std::time::Duration;

use super::{CallTerms, Lease, StoreLimits};
use crate::example;
use crate::record::{Data, Field, OwnerToken, Record, RecordId, Status};
use crate::time::{EpochMillis, EpochSeconds};

/// The time of the tests.
pub(crate) const NOW: EpochMillis = EpochMillis::new(1_700_000_000_500);

pub(crate) fn now_plus(milliseconds: i64) -> EpochMillis {
    EpochMillis::new(NOW.get() + milliseconds)
}

pub(crate) fn now_plus_seconds(offset: i64) -> EpochSeconds {
    EpochSeconds::new(NOW.floor_to_seconds().get() + offset)
}

/// The limits of the store.
pub(crate) const LIMITS: StoreLimits = StoreLimits {
    record: Some(409_600),
    beside_event: Some(262_144),
    steps: Some(1_000),
    token: Duration::from_secs(600),
};

/// Returns the owner token of the call under test.
pub(crate) fn me() -> OwnerToken {
    OwnerToken::from_bytes([1; 16])
}

pub(crate) fn another() -> OwnerToken {
    OwnerToken::from_bytes([2; 16])
}

/// Returns a call with 30 s left.
pub(crate) fn call() -> CallTerms {
    CallTerms {
        id: RecordId::new("charge#1"),
        deadline: Some(now_plus(30_000)),
        lease: Lease::Until(now_plus(30_000)),
        limits: LIMITS,
        ..example::call()
    }
}

pub(crate) fn claim_of(owner: OwnerToken, lease_end: EpochMillis) -> Record {
    Record {
        expiration: Field::Value(now_plus_seconds(3_600)),
        in_progress_expiration: Field::Value(lease_end),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(owner),
        ..Record::default()
    }
}

pub(crate) fn completed(data: &str) -> Record {
    Record {
        expiration: Field::Value(now_plus_seconds(3_600)),
        in_progress_expiration: Field::Value(now_plus(30_000)),
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(data)),
        owner: Field::Value(another()),
        ..Record::default()
    }
}
