//! Before the handler: the first request, the claim, and the records that prevent it.

use std::time::Duration;

use super::super::CallTerms;
use super::super::breaker::Admission;
use super::super::classify::{RecordState, classify, is_claim_of, is_expired};
use super::super::effect::{Consistency, Effect, Replaced, WriteErrorKind, WriteResult};
use super::super::end::{Refusal, RefusalDetail, Source};
use super::super::limits::{
    MAX_CLAIMS, REPLY_RESERVE, WAIT_RESERVE, backoff, less_reserve, time_limit,
};
use super::super::policy::{Lookup, OnInProgress};
use super::super::requests;
use super::super::run::{Run, UNREPORTED};
use super::super::undo::Undoing;
use super::state::{
    ClaimApplied, Claiming, DecidedUndo, GivingUp, HeldClaim, Next, READ, Running, State,
    Unreported, refuse, replay,
};
use crate::error::ErrorKind;
use crate::record::{Field, Record, RecordedSteps};
use crate::time::EpochMillis;

/// The recorded failure of a call that took over the steps of a run with a reported failure, and then did not run its own handler.
pub(super) const NOT_STARTED: &str = "not started";

/// Handles a record from this process's memory. It is classified like any other record.
pub(super) fn from_memory(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: Option<EpochMillis>,
    record: Record,
    source: Source,
) -> Next {
    match classify(&record, now, call) {
        RecordState::Replay => replay(record, source),
        RecordState::PayloadMismatch => refuse(ErrorKind::PayloadMismatch),
        // Its window has expired.
        _ => (State::Checking(wait_until), Effect::CheckInFlight),
    }
}

/// Sends the first request of a call: a claim, or under `read-first` an eventually consistent read.
///
/// An operation with a circuit breaker asks the breaker first, and is called again with its reply, `admission`. An open circuit ends the
/// call as a failure of the store, without a request. `wait_until` is `None` if the call has neither followed a leader nor asked the
/// breaker.
pub(super) fn start(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: Option<EpochMillis>,
    admission: Option<Admission>,
) -> Next {
    if let Some(Admission::Open { until }) = admission {
        let detail = RefusalDetail::CircuitOpen(until);
        return refuse(Refusal::new(ErrorKind::StoreFailed, detail));
    }
    if is_too_late(call, now) {
        return refuse(ErrorKind::NoTimeLeft);
    }
    let wait_until = wait_until.unwrap_or_else(|| call.wait_end(now));
    let requests_end = requests_end(call, now, wait_until);
    if call.policy.circuit_breaker && admission.is_none() {
        let effect = Effect::CheckCircuit(now.until(requests_end));
        return (State::AskingCircuit(wait_until), effect);
    }
    let claiming = Claiming {
        tries: 0,
        pauses: 0,
        other_lease_end: None,
        maybe_applied: false,
        claimed_at: now,
        wait_until,
        requests_end,
        run: Run::Unknown,
        resumes: false,
        is_full: false,
        undoing: false,
    };
    match call.policy.lookup {
        Lookup::ClaimFirst => send_claim(call, now, claiming, ErrorKind::Contended),
        Lookup::ReadFirst => (
            State::LookingUp(claiming),
            Effect::Read(Consistency::Eventual),
        ),
    }
}

/// Handles the result of the read before the claim. `existing` is `None` if there was no record, and if the read failed.
///
/// The read may be stale, so only a response that it finds counts: it was stored once, for this payload, and its window runs. An
/// operator may have deleted its record since. In every other case the claim decides.
pub(super) fn looked_up(
    call: &CallTerms,
    now: EpochMillis,
    claiming: Claiming,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(record) if classify(&record, now, call) == RecordState::Replay => {
            replay(record, Source::Store)
        }
        _ if is_too_late(call, now) => refuse(ErrorKind::NoTimeLeft),
        _ => send_claim(call, now, claiming, ErrorKind::Contended),
    }
}

/// Returns the end of the time for requests that begin now: `store_timeout` from now, and at most half of the time left, so
/// that there is time for the handler too.
fn requests_end(call: &CallTerms, now: EpochMillis, wait_until: EpochMillis) -> EpochMillis {
    now.plus(call.policy.store_timeout.min(now.until(wait_until) / 2))
}

/// Returns how long a claim or a read may take: the time for requests, less what a release needs.
///
/// A request that begins when this time is nearly used up still gets 200 ms, if the deadline allows it.
pub(super) fn limit(now: EpochMillis, claiming: &Claiming) -> Duration {
    let minimum = REPLY_RESERVE.min(time_limit(now, claiming.wait_until));
    less_reserve(now.until(claiming.requests_end)).max(minimum)
}

/// Returns the time limit of the release before the handler ran: the rest of the time for requests, or a minimum.
pub(super) fn release_limit(now: EpochMillis, giving_up: &GivingUp) -> Duration {
    let by_deadline = time_limit(now, giving_up.wait_until);
    if now.until(giving_up.wait_until).is_zero() {
        // The handler will not run, so no time is kept for it. A claim that is not released would block the key.
        return by_deadline;
    }
    let left = now.until(giving_up.requests_end).max(REPLY_RESERVE);
    left.min(by_deadline)
}

/// Reads again after a pause. A wait is deliberate, so the time for requests begins again.
pub(super) fn read_again(call: &CallTerms, now: EpochMillis, claiming: Claiming) -> Next {
    let claiming = Claiming {
        requests_end: requests_end(call, now, claiming.wait_until),
        ..claiming
    };
    (State::Reading(claiming), READ)
}

/// Returns true if the deadline has expired. The call then neither claims nor waits.
pub(super) fn is_too_late(call: &CallTerms, now: EpochMillis) -> bool {
    call.deadline
        .is_some_and(|deadline| is_expired(deadline, now))
}

/// Returns how long a duplicate may still wait, or `None` if it may not.
pub(super) fn wait_left(now: EpochMillis, wait_until: EpochMillis) -> Option<Duration> {
    now.until(wait_until)
        .checked_sub(WAIT_RESERVE)
        .filter(|left| !left.is_zero())
}

/// Returns true if there is time for one more request and for the release after it.
fn has_time(now: EpochMillis, claiming: Claiming) -> bool {
    now.until(claiming.requests_end) > REPLY_RESERVE
}

/// Sends a claim. Every try has the same token, so a claim that arrives late is still this call's own.
fn send_claim(
    call: &CallTerms,
    now: EpochMillis,
    claiming: Claiming,
    exhausted: ErrorKind,
) -> Next {
    if claiming.tries == MAX_CLAIMS {
        return give_up(call, now, claiming, exhausted);
    }
    let claiming = Claiming {
        tries: claiming.tries + 1,
        claimed_at: now,
        run: Run::Unknown,
        // A takeover that was sent before can no longer be applied: its record is gone.
        undoing: false,
        ..claiming
    };
    (State::Claiming(claiming), requests::claim(call, now))
}

/// Takes over a claim that has steps, and keeps them. It counts as a claim: every try has the same token.
fn take_over(call: &CallTerms, now: EpochMillis, claiming: Claiming, existing: &Record) -> Next {
    // The lease of the takeover would have expired too.
    if is_too_late(call, now) {
        return give_up(call, now, claiming, ErrorKind::NoTimeLeft);
    }
    if claiming.tries == MAX_CLAIMS {
        return give_up(call, now, claiming, ErrorKind::Contended);
    }
    let Some(effect) = requests::take_over(call, now, existing, claiming.is_full) else {
        return give_up(call, now, claiming, ErrorKind::CorruptRecord);
    };
    // A second try can find this call's own claim.
    let run = if is_claim_of(existing, call) {
        claiming.run
    } else {
        Run::replacing(Some(existing), call)
    };
    let claiming = Claiming {
        tries: claiming.tries + 1,
        claimed_at: now,
        run,
        resumes: true,
        undoing: existing.is_undoing(),
        ..claiming
    };
    (State::Claiming(claiming), effect)
}

/// Handles the result of a claim, or of a takeover.
pub(super) fn claim_written(
    call: &CallTerms,
    now: EpochMillis,
    mut claiming: Claiming,
    result: WriteResult,
) -> Next {
    if let WriteResult::Applied { replaced, .. } = &result {
        match replaced {
            Replaced::Unknown => {}
            Replaced::Nothing => claiming.run = Run::replacing(None, call),
            Replaced::Record(record) => claiming.run = Run::replacing(Some(record), call),
        }
    }
    match result {
        // Only a read after the takeover sees the steps that this run needs: the earlier owner may have recorded one before it.
        WriteResult::Applied { .. } if claiming.resumes => {
            claiming.maybe_applied = true;
            (State::Reading(claiming), READ)
        }
        WriteResult::Applied { maybe_again, .. } => {
            claiming.maybe_applied |= maybe_again;
            let lease_end = call.lease.end(claiming.claimed_at);
            run_claimed(
                call,
                now,
                claiming,
                lease_end,
                (RecordedSteps::default(), None),
            )
        }
        WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        } => {
            claiming.maybe_applied |= maybe_applied;
            match existing {
                Some(existing) => record_found(call, now, claiming, existing),
                None => (State::Reading(claiming), READ),
            }
        }
        // Steps fill the record. A read finds the claim to take over again.
        WriteResult::Failed {
            maybe_applied,
            kind: WriteErrorKind::TooLarge,
        } if claiming.resumes && !claiming.is_full => {
            claiming.maybe_applied |= maybe_applied;
            claiming.is_full = true;
            (State::Reading(claiming), READ)
        }
        // A claim has no staged writes that could be rejected: such a reply says no more than a failure.
        WriteResult::Rejected { maybe_applied } | WriteResult::Failed { maybe_applied, .. } => {
            // Every send of the call counts, not only the last one.
            claiming.maybe_applied |= maybe_applied;
            // The transaction of another call has the record: only a read shows what it is.
            let is_conflict = matches!(
                result,
                WriteResult::Failed {
                    kind: WriteErrorKind::Conflict,
                    ..
                }
            );
            if (is_conflict || claiming.maybe_applied) && has_time(now, claiming) {
                (State::Reading(claiming), READ)
            } else {
                give_up(call, now, claiming, ErrorKind::StoreFailed)
            }
        }
    }
}

/// Handles the result of a read.
pub(super) fn read_done(
    call: &CallTerms,
    now: EpochMillis,
    claiming: Claiming,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(existing) => record_found(call, now, claiming, existing),
        // A missing record is not proof: a claim whose reply was lost may still be applied.
        None if !claiming.maybe_applied || has_time(now, claiming) => {
            // There is no competing record, so repeated failure is reported as a store failure, not as contention.
            send_claim(call, now, claiming, ErrorKind::StoreFailed)
        }
        None => give_up(call, now, claiming, ErrorKind::StoreFailed),
    }
}

/// Handles a failed read. A wait goes on, because the record was in progress at the last read.
pub(super) fn read_failed(call: &CallTerms, now: EpochMillis, claiming: Claiming) -> Next {
    // A pause sets `tries` to zero, and each claim adds one. So zero means that the read belongs to a wait.
    let waits = claiming.tries == 0;
    match wait_left(now, claiming.wait_until).filter(|_| waits) {
        Some(left) => pause(claiming, left),
        None => give_up(call, now, claiming, ErrorKind::StoreFailed),
    }
}

fn record_found(call: &CallTerms, now: EpochMillis, claiming: Claiming, existing: Record) -> Next {
    match classify(&existing, now, call) {
        RecordState::OwnClaim => {
            let lease_end = existing
                .in_progress_expiration
                .value()
                .copied()
                .unwrap_or_else(|| call.lease.end(claiming.claimed_at));
            match recorded(existing) {
                Some(recorded) => run_claimed(call, now, claiming, lease_end, recorded),
                None => release(call, now, claiming, ErrorKind::CorruptRecord),
            }
        }
        RecordState::OwnClaimExpired => release(call, now, claiming, ErrorKind::NoTimeLeft),
        RecordState::Claimable => send_claim(call, now, claiming, ErrorKind::Contended),
        RecordState::Resumable => take_over(call, now, claiming, &existing),
        RecordState::PayloadMismatch => refuse(ErrorKind::PayloadMismatch),
        RecordState::Replay => replay(existing, Source::Store),
        RecordState::ResponseUnavailable => refuse(ErrorKind::ResponseUnavailable),
        RecordState::Unresolved => refuse(ErrorKind::Unresolved),
        RecordState::InProgress => in_progress(call, now, claiming, &existing),
        RecordState::Corrupt(defect) => refuse(Refusal::new(
            ErrorKind::CorruptRecord,
            RefusalDetail::Defect(defect),
        )),
    }
}

/// Returns the steps of a claim, and what was decided about them. `None` if they cannot be read.
fn recorded(claim: Record) -> Option<(RecordedSteps, Option<Box<DecidedUndo>>)> {
    let steps = match claim.steps {
        Field::Absent => RecordedSteps::default(),
        Field::Value(ref steps) => steps.clone(),
        Field::Unreadable => return None,
    };
    if !claim.is_undoing() {
        return Some((steps, None));
    }
    let undoing = Undoing::of(&claim)?;
    let response = match claim.data {
        Field::Absent => None,
        Field::Value(response) => Some(response),
        Field::Unreadable => return None,
    };
    let decided = DecidedUndo { undoing, response };
    Some((steps, Some(Box::new(decided))))
}

fn in_progress(call: &CallTerms, now: EpochMillis, claiming: Claiming, existing: &Record) -> Next {
    let other_lease_end = existing.in_progress_expiration.value().copied();
    match (
        call.policy.on_in_progress,
        wait_left(now, claiming.wait_until),
    ) {
        (OnInProgress::Wait, Some(left)) => pause(
            Claiming {
                other_lease_end,
                ..claiming
            },
            left,
        ),
        _ => refuse(Refusal::already_in_progress(other_lease_end)),
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

/// Runs the handler under this call's confirmed claim, unless its lease has expired.
fn run_claimed(
    call: &CallTerms,
    now: EpochMillis,
    claiming: Claiming,
    lease_end: EpochMillis,
    (steps, undo): (RecordedSteps, Option<Box<DecidedUndo>>),
) -> Next {
    if is_expired(lease_end, now) {
        return release(call, now, claiming, ErrorKind::NoTimeLeft);
    }
    let held = HeldClaim {
        claimed_at: claiming.claimed_at,
        lease_end,
        applied: if claiming.maybe_applied {
            ClaimApplied::MaybeAgain
        } else {
            ClaimApplied::Once
        },
        has_steps: !steps.is_empty(),
        unreported: match claiming.run {
            Run::First => Unreported::Nothing,
            _ => Unreported::Effect,
        },
        undoing: undo.is_some(),
    };
    let running = Running {
        held,
        steps,
        run: claiming.run,
        undo,
    };
    (State::Running(running), Effect::Run)
}

/// Ends a call without a confirmed claim. If a claim may have been applied, tries to release it first.
fn give_up(call: &CallTerms, now: EpochMillis, claiming: Claiming, kind: ErrorKind) -> Next {
    if claiming.maybe_applied {
        release(call, now, claiming, kind)
    } else {
        refuse(kind)
    }
}

/// Releases the claim before the handler ran. The caller gets `kind`, also if the release fails.
fn release(call: &CallTerms, now: EpochMillis, claiming: Claiming, kind: ErrorKind) -> Next {
    let giving_up = GivingUp {
        kind,
        claimed_at: claiming.claimed_at,
        wait_until: claiming.wait_until,
        requests_end: claiming.requests_end,
    };
    let Claiming {
        claimed_at,
        run,
        resumes,
        undoing,
        ..
    } = claiming;
    let effect = if undoing {
        requests::stop_undo(call, claimed_at, NOT_STARTED, None)
    } else {
        release_unrun(call, now, claimed_at, run != Run::First, resumes)
    };
    (State::GivingUp(giving_up), effect)
}

/// Returns the release of a claim whose handler did not run. `has_unreported` is true unless it was certainly the claim of a first run:
/// an effect of an earlier one may be unreported.
pub(super) fn release_unrun(
    call: &CallTerms,
    now: EpochMillis,
    claimed_at: EpochMillis,
    has_unreported: bool,
    keeps_steps: bool,
) -> Effect {
    let failure = match (has_unreported, keeps_steps) {
        (true, _) => UNREPORTED,
        (false, true) => NOT_STARTED,
        (false, false) => return requests::release(call),
    };
    requests::record_failure(call, now, failure, claimed_at, keeps_steps)
}
