//! The read before the first claim, under `read-first`.
//!
//! The read may be stale, so it can only find a response. It proves nothing else: in every other case the claim decides.

use std::time::Duration;

use super::super::classify::{RecordState, classify};
use super::super::effect::Effect;
use super::super::read::Consistency;
use super::super::resolution::Source;
use super::super::terms::CallTerms;
use super::claim::{first_claim, is_too_late, limit};
use super::state::{LookingUp, Next, State, refuse, replay};
use crate::error::ErrorKind;
use crate::record::Record;
use crate::time::EpochMillis;

/// Reads the record, eventually consistently.
pub(super) fn start(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: EpochMillis,
    requests_end: EpochMillis,
) -> Next {
    if is_too_late(call, now) {
        return refuse(ErrorKind::NoTimeLeft);
    }
    let looking_up = LookingUp {
        wait_until,
        requests_end,
    };
    (
        State::LookingUp(looking_up),
        Effect::Read(Consistency::Eventual),
    )
}

/// Returns how long the read may take: half as long as a claim, so that the claim after a read that hangs has time too.
pub(super) fn read_limit(now: EpochMillis, looking_up: &LookingUp) -> Duration {
    limit(now, looking_up.wait_until, looking_up.requests_end) / 2
}

/// Handles the result of the read. `existing` is `None` if there was no record, and if the read failed.
///
/// A response that was found is replayed: it was stored once, for this payload, and its window runs. An operator may have
/// deleted its record since.
pub(super) fn read_done(
    call: &CallTerms,
    now: EpochMillis,
    looking_up: LookingUp,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(record) if classify(&record, now, call) == RecordState::Replay => {
            replay(record, Source::Store)
        }
        _ => first_claim(call, now, looking_up.wait_until, looking_up.requests_end),
    }
}
