//! Beside another call of this process: duplicates that meet in memory.

use std::time::Duration;

use super::super::Call;
use super::super::classify::is_expired;
use super::super::effect::{Effect, Refusal, Source};
use super::super::in_flight::{InFlight, Stage};
use super::super::policy::OnInProgress;
use super::super::writes;
use super::claim::{is_too_late, remembered, start, wait_left};
use super::{Following, LONGEST_PAUSE, Next, State, refuse};
use crate::record::Record;
use crate::time::EpochMillis;

/// How long a duplicate waits for the store's reply to another, before it asks the store itself: the request may hang, or
/// nobody may be polling the other call.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// A lease is over one millisecond after its end.
const LEASE_GRACE: Duration = Duration::from_millis(1);

/// Another call with the same key and payload is under way in this process.
pub(super) fn met(
    call: &Call,
    now: EpochMillis,
    wait_until: Option<EpochMillis>,
    flight: InFlight,
) -> Next {
    if is_too_late(call, now) {
        return refuse(Refusal::NoTimeLeft);
    }
    let wait_until = wait_until.unwrap_or_else(|| writes::lease_end(call, now));
    if flight.is_expired(now) {
        return start(call, now, wait_until);
    }
    let left = wait_left(now, wait_until);
    let waits = call.policy.on_in_progress == OnInProgress::Wait;
    let at_most = match (flight.stage, left) {
        (Stage::Claiming | Stage::Storing, Some(left)) => left.min(REPLY_TIMEOUT),
        // The store can say more than this process.
        (Stage::Claiming | Stage::Storing, None) => return start(call, now, wait_until),
        (Stage::Running, Some(left)) if waits => left,
        // It is heard of again when the store has replied after its pause.
        (Stage::Waiting { .. }, Some(left)) if waits => left.min(LONGEST_PAUSE + REPLY_TIMEOUT),
        (Stage::Running, _) => return in_progress(Some(flight.until)),
        // The other process's lease is over, and whoever waits for it will see.
        (
            Stage::Waiting {
                until: Some(end), ..
            },
            _,
        ) if is_expired(end, now) => {
            return start(call, now, wait_until);
        }
        (Stage::Waiting { until, .. }, _) => return in_progress(until),
    };
    let at_most = at_most.min(now.until(flight.until) + LEASE_GRACE);
    (
        State::Following(Following { wait_until, flight }),
        Effect::AwaitLeader(at_most),
    )
}

/// It is still under way: it has come further, or the time is over. No call is twice at the same.
pub(super) fn met_again(
    call: &Call,
    now: EpochMillis,
    following: Following,
    flight: InFlight,
) -> Next {
    if flight == following.flight && flight.stage != Stage::Running {
        return start(call, now, following.wait_until);
    }
    met(call, now, Some(following.wait_until), flight)
}

/// It is over. Only a confirmed, stored answer is shared; like any other record it is judged.
pub(super) fn landed(
    call: &Call,
    now: EpochMillis,
    following: Following,
    answer: Option<Record>,
) -> Next {
    let wait_until = Some(following.wait_until);
    match (answer, following.flight.stage) {
        (Some(answer), _) => remembered(call, now, wait_until, answer, Source::ConcurrentCall),
        (None, Stage::Claiming) => start(call, now, following.wait_until),
        // One of those who waited claims next, and the others meet it.
        (None, Stage::Running | Stage::Storing | Stage::Waiting { .. }) => {
            (State::Looking(wait_until), Effect::CheckLocal)
        }
    }
}

fn in_progress(until: Option<EpochMillis>) -> Next {
    refuse(Refusal::AlreadyInProgress { until })
}
