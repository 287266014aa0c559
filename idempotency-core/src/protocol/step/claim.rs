//! Before the handler: the claim, and what stands in its way.

use super::super::Call;
use super::super::classify::{RecordState, classify, is_expired};
use super::super::effect::{Effect, Refusal, Source, WriteResult};
use super::super::policy::OnInProgress;
use super::super::{REPLY_RESERVE, all_but_a_reserve, time_limit, writes};
use super::{Claiming, GivingUp, Held, Next, State, backoff, refuse, replay};
use crate::record::Record;
use crate::time::EpochMillis;
use std::time::Duration;

/// How often one call tries to claim before it gives up, not counting the tries after a wait.
const MAX_CLAIMS: u8 = 4;
/// A duplicate stops waiting when less than this is left of its deadline.
const WAIT_RESERVE: Duration = Duration::from_millis(250);

/// What this process has kept of the key; it is judged like any other record.
pub(super) fn remembered(
    call: &Call,
    now: EpochMillis,
    wait_until: Option<EpochMillis>,
    record: Record,
    source: Source,
) -> Next {
    match classify(&record, now, call) {
        RecordState::Replay => replay(record, source),
        RecordState::PayloadMismatch => refuse(Refusal::PayloadMismatch),
        // Its window is over.
        _ => (State::Looking(wait_until), Effect::CheckInFlight),
    }
}

/// This process knows nothing of the key.
pub(super) fn unknown(call: &Call, now: EpochMillis, wait_until: Option<EpochMillis>) -> Next {
    let wait_until = wait_until.unwrap_or_else(|| writes::lease_end(call, now));
    start(call, now, wait_until)
}

/// Goes to the store.
pub(super) fn start(call: &Call, now: EpochMillis, wait_until: EpochMillis) -> Next {
    if is_too_late(call, now) {
        return refuse(Refusal::NoTimeLeft);
    }
    send_claim(
        call,
        now,
        Claiming {
            tries: 0,
            pauses: 0,
            other: None,
            maybe_applied: false,
            claimed_at: now,
            wait_until,
            requests_end: requests_end(call, now, wait_until),
        },
        Refusal::Contended,
    )
}

/// Until when the requests that begin now may take: `store_timeout`, and never more than half of what is left, so that
/// time for the handler is left too.
fn requests_end(call: &Call, now: EpochMillis, wait_until: EpochMillis) -> EpochMillis {
    now.plus(call.policy.store_timeout.min(now.until(wait_until) / 2))
}

/// How long a claim or a read may take: the time for requests less what giving up the claim needs.
///
/// A request that begins when this time is nearly used up is given some all the same, as far as the deadline leaves it.
pub(super) fn limit(now: EpochMillis, claiming: &Claiming) -> Duration {
    let some = REPLY_RESERVE.min(time_limit(now, claiming.wait_until));
    all_but_a_reserve(now.until(claiming.requests_end)).max(some)
}

/// How long the release may take that ends a call before its handler: the rest of the time for requests, or some time.
pub(super) fn limit_of_giving_up(now: EpochMillis, giving_up: &GivingUp) -> Duration {
    let by_deadline = time_limit(now, giving_up.wait_until);
    if now.until(giving_up.wait_until).is_zero() {
        // No time for the handler need be left any more, and a claim that stays is worse.
        return by_deadline;
    }
    let left = now.until(giving_up.requests_end).max(REPLY_RESERVE);
    left.min(by_deadline)
}

/// Reads again after a pause. A wait is deliberate, so the time for requests begins anew.
pub(super) fn look_again(call: &Call, now: EpochMillis, claiming: Claiming) -> Next {
    let claiming = Claiming {
        requests_end: requests_end(call, now, claiming.wait_until),
        ..claiming
    };
    (State::Reading(claiming), Effect::Read)
}

/// A deadline that has passed is a deadline: nothing is claimed, and nobody is waited for.
pub(super) fn is_too_late(call: &Call, now: EpochMillis) -> bool {
    call.deadline
        .is_some_and(|deadline| is_expired(deadline, now))
}

/// For how long a duplicate may still wait, if at all.
pub(super) fn wait_left(now: EpochMillis, wait_until: EpochMillis) -> Option<Duration> {
    now.until(wait_until)
        .checked_sub(WAIT_RESERVE)
        .filter(|left| !left.is_zero())
}

/// Whether there is time for one more request, and for giving up the claim afterwards.
fn has_time(now: EpochMillis, claiming: Claiming) -> bool {
    now.until(claiming.requests_end) > REPLY_RESERVE
}

/// Claims, the same token in every try: a late arrival of an earlier one is then still this call's own.
fn send_claim(call: &Call, now: EpochMillis, claiming: Claiming, exhausted: Refusal) -> Next {
    if claiming.tries == MAX_CLAIMS {
        return give_up(call, claiming, exhausted);
    }
    let claiming = Claiming {
        tries: claiming.tries + 1,
        claimed_at: now,
        ..claiming
    };
    (State::Claiming(claiming), writes::claim(call, now))
}

pub(super) fn claimed(
    call: &Call,
    now: EpochMillis,
    mut claiming: Claiming,
    written: WriteResult,
) -> Next {
    match written {
        WriteResult::Applied => {
            let lease_end = writes::lease_end(call, claiming.claimed_at);
            hold(call, now, claiming, lease_end)
        }
        WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        } => {
            claiming.maybe_applied |= maybe_applied;
            match existing {
                Some(existing) => judged(call, now, claiming, existing),
                None => (State::Reading(claiming), Effect::Read),
            }
        }
        WriteResult::Failed { maybe_applied, .. } => {
            claiming.maybe_applied |= maybe_applied;
            // The last error alone proves nothing: it is the whole call that must have lost no send.
            if claiming.maybe_applied && has_time(now, claiming) {
                (State::Reading(claiming), Effect::Read)
            } else {
                give_up(call, claiming, Refusal::StoreFailed)
            }
        }
    }
}

pub(super) fn read(
    call: &Call,
    now: EpochMillis,
    claiming: Claiming,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(existing) => judged(call, now, claiming, existing),
        // Nothing there proves nothing: a lost claim may still arrive.
        None if !claiming.maybe_applied || has_time(now, claiming) => {
            // Nobody stands in the way: if this goes on, it is the store that fails.
            send_claim(call, now, claiming, Refusal::StoreFailed)
        }
        None => give_up(call, claiming, Refusal::StoreFailed),
    }
}

/// Takes a read that failed. In a wait it is no news: the record was in progress when it was read last, so the wait goes on.
pub(super) fn unread(call: &Call, now: EpochMillis, claiming: Claiming) -> Next {
    // A wait sends no claim, so a read that belongs to a claim has a try before it.
    let waits = claiming.tries == 0;
    match wait_left(now, claiming.wait_until).filter(|_| waits) {
        Some(left) => pause(claiming, left),
        None => give_up(call, claiming, Refusal::StoreFailed),
    }
}

fn judged(call: &Call, now: EpochMillis, claiming: Claiming, existing: Record) -> Next {
    match classify(&existing, now, call) {
        RecordState::OwnClaim => {
            let lease_end = existing
                .in_progress_expiration
                .value()
                .copied()
                .unwrap_or_else(|| writes::lease_end(call, claiming.claimed_at));
            hold(call, now, claiming, lease_end)
        }
        RecordState::OwnClaimExpired => abandon(call, claiming, Refusal::NoTimeLeft),
        RecordState::Claimable => send_claim(call, now, claiming, Refusal::Contended),
        RecordState::PayloadMismatch => refuse(Refusal::PayloadMismatch),
        RecordState::Replay => replay(existing, Source::Store),
        RecordState::ResponseUnavailable => refuse(Refusal::ResponseUnavailable),
        RecordState::Unresolved => refuse(Refusal::Unresolved),
        RecordState::InProgress => in_progress(call, now, claiming, &existing),
        RecordState::Corrupt(what) => refuse(Refusal::CorruptRecord(what)),
    }
}

fn in_progress(call: &Call, now: EpochMillis, claiming: Claiming, existing: &Record) -> Next {
    match (
        call.policy.on_in_progress,
        wait_left(now, claiming.wait_until),
    ) {
        (OnInProgress::Wait, Some(left)) => {
            let other = existing.in_progress_expiration.value().copied();
            pause(Claiming { other, ..claiming }, left)
        }
        _ => refuse(Refusal::AlreadyInProgress {
            until: existing.in_progress_expiration.value().copied(),
        }),
    }
}

/// Pauses before the next read of a wait.
fn pause(claiming: Claiming, left: Duration) -> Next {
    let claiming = Claiming {
        // A wait is bounded by the deadline, not by tries.
        tries: 0,
        pauses: claiming.pauses.saturating_add(1),
        ..claiming
    };
    let pause = backoff(claiming.pauses).min(left);
    (State::Waiting(claiming), Effect::Pause(pause))
}

/// The claim is this call's. No handler starts on a lease that is over.
fn hold(call: &Call, now: EpochMillis, claiming: Claiming, lease_end: EpochMillis) -> Next {
    if is_expired(lease_end, now) {
        return abandon(call, claiming, Refusal::NoTimeLeft);
    }
    let held = Held {
        claimed_at: claiming.claimed_at,
        lease_end,
    };
    (State::Running(held), Effect::Run)
}

/// Ends a call that has no claim it knows of; one that may have been applied is given up, as well as it can be.
pub(super) fn give_up(call: &Call, claiming: Claiming, refusal: Refusal) -> Next {
    if claiming.maybe_applied {
        abandon(call, claiming, refusal)
    } else {
        refuse(refusal)
    }
}

fn abandon(call: &Call, claiming: Claiming, refusal: Refusal) -> Next {
    let giving_up = GivingUp {
        refusal,
        wait_until: claiming.wait_until,
        requests_end: claiming.requests_end,
    };
    (State::GivingUp(giving_up), writes::release(call))
}
