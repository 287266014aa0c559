//! Beside another call of this process: duplicates that meet in memory.

use std::time::Duration;

use super::super::effect::{Effect, Refusal, Source};
use super::super::flight::Flight;
use super::super::policy::{Call, OnInProgress};
use super::super::writes;
use super::claim::{is_too_late, patience_left, remembered, start};
use super::{Following, Next, State, refuse};
use crate::record::Record;
use crate::time::EpochMillis;

/// How long a duplicate waits for another's claim, before it asks the store itself: that claim may hang, or nobody may be
/// polling it.
const A_CLAIM: Duration = Duration::from_secs(1);
/// A lease is over one millisecond after its end.
const JUST_AFTER: Duration = Duration::from_millis(1);

/// Another call with the same key and payload is under way in this process.
pub(super) fn met(
    call: &Call,
    now: EpochMillis,
    patience: Option<EpochMillis>,
    flight: Flight,
) -> Next {
    if is_too_late(call, now) {
        return refuse(Refusal::NoTimeLeft);
    }
    let patience = patience.unwrap_or_else(|| writes::lease_end(call, now));
    if flight.is_over(now) {
        return start(call, now, patience);
    }
    let left = patience_left(now, patience);
    let at_most = match (flight.in_progress, call.policy.on_in_progress, left) {
        (true, OnInProgress::Wait, Some(left)) => left,
        (true, ..) => {
            return refuse(Refusal::AlreadyInProgress {
                until: Some(flight.until),
            });
        }
        (false, _, Some(left)) => left.min(A_CLAIM),
        (false, _, None) => return start(call, now, patience),
    };
    let following = Following {
        patience,
        in_progress: flight.in_progress,
    };
    let at_most = at_most.min(now.until(flight.until) + JUST_AFTER);
    (State::Following(following), Effect::Follow(at_most))
}

/// It is still under way: it has come further, or the time is over.
pub(super) fn met_again(
    call: &Call,
    now: EpochMillis,
    following: Following,
    flight: Flight,
) -> Next {
    if !following.in_progress && !flight.in_progress {
        return start(call, now, following.patience);
    }
    met(call, now, Some(following.patience), flight)
}

/// It is over. Only a confirmed, stored answer is shared; like any other record it is judged.
pub(super) fn landed(
    call: &Call,
    now: EpochMillis,
    following: Following,
    answer: Option<Record>,
) -> Next {
    let Following {
        patience,
        in_progress,
    } = following;
    if answer.is_none() && in_progress {
        // One of those who waited claims next, and the others meet it.
        return (State::Looking(Some(patience)), Effect::Look);
    }
    remembered(call, now, Some(patience), answer, Source::Flight)
}
