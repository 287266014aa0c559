//! Single flight: what a call does when another call of its process is in progress.

use std::time::Duration;

use super::super::CallTerms;
use super::super::classify::is_expired;
use super::super::effect::Effect;
use super::super::end::{Refusal, Source};
use super::super::in_flight::{InFlight, Stage};
use super::super::limits::{LONGEST_PAUSE, REPLY_TIMEOUT};
use super::super::policy::OnInProgress;
use super::claim::{from_memory, is_too_late, start, wait_left};
use super::state::{Following, Next, State, refuse};
use crate::error::ErrorKind;
use crate::record::Record;
use crate::time::EpochMillis;

/// A lease has expired one millisecond after its end.
const LEASE_GRACE: Duration = Duration::from_millis(1);

/// Handles the progress of the leader: another call with the same key and payload is in progress in this process.
pub(super) fn leader_found(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: Option<EpochMillis>,
    leader: InFlight,
) -> Next {
    if is_too_late(call, now) {
        return refuse(ErrorKind::NoTimeLeft);
    }
    let wait_until = wait_until.unwrap_or_else(|| call.wait_end(now));
    let start = || start(call, now, Some(wait_until), None);
    if leader.is_expired(now) {
        return start();
    }
    let left = wait_left(now, wait_until);
    let waits = call.policy.on_in_progress == OnInProgress::Wait;
    let at_most = match (leader.stage, left) {
        (Stage::Claiming | Stage::Storing, Some(left)) => left.min(REPLY_TIMEOUT),
        // The store knows more than this process.
        (Stage::Claiming | Stage::Storing, None) => return start(),
        (Stage::Running, Some(left)) if waits => left,
        // The leader publishes its next round when the store has replied after its pause.
        (Stage::Waiting { .. }, Some(left)) if waits => left.min(LONGEST_PAUSE + REPLY_TIMEOUT),
        (Stage::Running, _) => return in_progress(Some(leader.until)),
        // The other process's lease has expired. The leader will notice at its next read.
        (
            Stage::Waiting {
                until: Some(end), ..
            },
            _,
        ) if is_expired(end, now) => {
            return start();
        }
        (Stage::Waiting { until, .. }, _) => return in_progress(until),
    };
    let at_most = at_most.min(now.until(leader.until) + LEASE_GRACE);
    (
        State::Following(Following { wait_until, leader }),
        Effect::AwaitLeader(at_most),
    )
}

/// Handles the end of a wait whose leader is still in progress: the leader has advanced, or the wait timed out.
///
/// Progress that has not changed means a timeout.
pub(super) fn leader_progress(
    call: &CallTerms,
    now: EpochMillis,
    following: Following,
    leader: InFlight,
) -> Next {
    let wait_until = Some(following.wait_until);
    if leader == following.leader && leader.stage != Stage::Running {
        return start(call, now, wait_until, None);
    }
    leader_found(call, now, wait_until, leader)
}

/// Handles the end of the leader. Its confirmed record is classified like any other record.
pub(super) fn leader_done(
    call: &CallTerms,
    now: EpochMillis,
    following: Following,
    confirmed: Option<Record>,
) -> Next {
    let wait_until = Some(following.wait_until);
    match (confirmed, following.leader.stage) {
        (Some(record), _) => from_memory(call, now, wait_until, record, Source::ConcurrentCall),
        (None, Stage::Claiming) => start(call, now, wait_until, None),
        // One follower claims next and becomes the leader of the others.
        (None, Stage::Running | Stage::Storing | Stage::Waiting { .. }) => {
            (State::Checking(wait_until), Effect::CheckLocal)
        }
    }
}

fn in_progress(lease_end: Option<EpochMillis>) -> Next {
    refuse(Refusal::already_in_progress(lease_end))
}
