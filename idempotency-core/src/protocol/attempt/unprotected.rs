//! After a failure of the store, under `run-unprotected`: whether the handler runs without a confirmed claim.
//!
//! The policy is for calls that know nothing of their key, because the store failed. A call that has met another call of its key, in the
//! store or in its process, ends in an error: its run would be a second one.

use super::super::CallTerms;
use super::super::classify::{RecordState, classify, is_expired};
use super::super::effect::{Effect, Input, WriteErrorKind, WriteResult};
use super::super::end::{CallEnd, HandlerEnd, HandlerResult, Refusal, StagedEnd};
use super::super::in_flight::{InFlight, Stage};
use super::super::run::Run;
use super::claim::{is_too_late, release_unrun};
use super::state::{
    ClaimApplied, GivingUp, HeldClaim, Next, Running, State, Unclaimed, Unreported, finish, refuse,
};
use crate::error::ErrorKind;
use crate::record::RecordedSteps;
use crate::time::EpochMillis;

/// Returns true if a call that has received this input may still run unprotected.
///
/// It may not after it has met another call of its key, nor after a failure that an operator must correct: a missing table would
/// switch the protection off for good.
pub(super) fn may_still_run(call: &CallTerms, now: EpochMillis, input: &Input) -> bool {
    match input {
        Input::LeaderProgress(leader) => leader.stage == Stage::Claiming,
        // The leader may have run since its last known progress.
        Input::LeaderDone(_)
        | Input::Written(WriteResult::ConditionFailed { .. } | WriteResult::Rejected { .. }) => {
            false
        }
        Input::Written(WriteResult::Failed { kind, .. }) => *kind == WriteErrorKind::Transient,
        Input::Read(Some(record)) => classify(record, now, call) == RecordState::Claimable,
        Input::Local(_)
        | Input::Circuit(_)
        | Input::Written(WriteResult::Applied { .. })
        | Input::Read(None)
        | Input::ReadFailed
        | Input::Paused
        | Input::HandlerEnded(_)
        | Input::Undone(_) => true,
    }
}

/// Returns what a call does instead of ending in `StoreFailed`: it looks once more for another call in its process. Every
/// other transition stays as it is.
pub(super) fn instead_of_failing(
    call: &CallTerms,
    now: EpochMillis,
    wait_until: EpochMillis,
    next: Next,
) -> Next {
    let giving_up = match &next {
        (State::GivingUp(giving_up), _) if giving_up.kind == ErrorKind::StoreFailed => {
            Some(giving_up.clone())
        }
        (_, Effect::Finish(end)) if end.error_kind() == Some(ErrorKind::StoreFailed) => None,
        _ => return next,
    };
    let unclaimed = Unclaimed {
        wait_until,
        giving_up,
    };
    if is_too_late(call, now) || is_expired(run_until(call, &unclaimed), now) {
        return next;
    }
    (State::BeforeUnprotected(unclaimed), Effect::CheckInFlight)
}

/// Runs the handler without a confirmed claim: no other call of this key runs in this process.
pub(super) fn run_unclaimed(call: &CallTerms, unclaimed: &Unclaimed) -> Next {
    let until = run_until(call, unclaimed);
    let Some(giving_up) = &unclaimed.giving_up else {
        let effect = Effect::RunUnprotected {
            maybe_claimed: false,
        };
        return (State::RunningUnclaimed(until), effect);
    };
    // The steps of such a run are not recorded, because there may be no record for them. The call took over no steps: a call that
    // takes steps over has met another call, and does not run unprotected.
    let running = Running {
        held: HeldClaim {
            claimed_at: giving_up.claimed_at,
            lease_end: until,
            applied: ClaimApplied::Unknown,
            has_steps: false,
            unreported: Unreported::Effect,
            undoing: false,
        },
        steps: RecordedSteps::default(),
        run: Run::Unprotected,
        undo: None,
    };
    let effect = Effect::RunUnprotected {
        maybe_claimed: true,
    };
    (State::Running(running), effect)
}

/// Ends a call whose handler ran without any claim. A response that counts on a write which was refused is no success.
pub(super) fn unclaimed_ended(end: &HandlerEnd) -> Next {
    let undoes = end.undo.as_ref().is_some_and(|undo| undo.decided);
    // A decision to undo drops such a write too.
    if undoes && end.refused {
        return finish(CallEnd::own(None).with_staged(Some(StagedEnd::Dropped)));
    }
    if end.refused && end.result == HandlerResult::NotStored {
        let refused = CallEnd::refused(ErrorKind::TransactionRejected);
        return finish(refused.with_staged(Some(StagedEnd::Rejected)));
    }
    finish(CallEnd::own(None))
}

/// Handles another call of this key in this process. If it only asks the store, this call runs first, and the other one will find
/// it. Otherwise this call ends, and releases the claim that it may have.
pub(super) fn other_found(
    call: &CallTerms,
    now: EpochMillis,
    unclaimed: Unclaimed,
    other: InFlight,
) -> Next {
    let lease_end = match other.stage {
        Stage::Claiming => return run_unclaimed(call, &unclaimed),
        Stage::Running | Stage::Storing => Some(other.until),
        Stage::Waiting { until, .. } => until,
    };
    // If the lease of the other call has expired, it is not known whether that call still runs.
    let is_late = other.is_expired(now) || lease_end.is_some_and(|end| is_expired(end, now));
    let refusal = if is_late {
        Refusal::from(ErrorKind::StoreFailed)
    } else {
        Refusal::already_in_progress(lease_end)
    };
    match unclaimed.giving_up {
        Some(giving_up) => {
            let kind = refusal.kind;
            let giving_up = GivingUp { kind, ..giving_up };
            let effect = release_unrun(call, now, giving_up.claimed_at, true, false);
            (State::GivingUp(giving_up), effect)
        }
        None => refuse(refusal),
    }
}

/// Returns until when duplicates in this process count the run as in progress: the end of the lease that the call has, or would have.
fn run_until(call: &CallTerms, unclaimed: &Unclaimed) -> EpochMillis {
    match &unclaimed.giving_up {
        Some(giving_up) => call.lease.end(giving_up.claimed_at),
        None => unclaimed.wait_until,
    }
}
