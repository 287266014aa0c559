//! After the handler: the completion, or the release.

use std::time::Duration;

use super::super::classify::{
    RecordState, classify, is_claim_of, is_expired, response_of, same_payload,
};
use super::super::effect::{Effect, HandlerResult, WriteErrorKind, WriteResult};
use super::super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff};
use super::super::policy::{OnError, OnTimeout, Steps};
use super::super::requests;
use super::super::resolution::{Completion, Refusal, Resolution, Source};
use super::super::run::UNREPORTED;
use super::super::steps::StepsEnd;
use super::super::terms::CallTerms;
use super::claim::release_unrun;
use super::state::{
    Completing, HeldClaim, Next, READ, Releasing, State, Unstorable, finish, refuse, replay,
};
use super::transaction;
use crate::error::ErrorKind;
use crate::record::{Field, Record, Status};
use crate::time::EpochMillis;

/// The recorded failure of a handler that panicked.
const PANIC: &str = "panic";
/// The recorded failure of a run whose steps leave no room for its name.
const FAILED: &str = "failed";
/// What is recorded beside the steps of a run whose response is not stored.
const NOT_STORED: &str = "response not stored";

/// Handles the end of the handler.
pub(super) fn handler_done(
    call: &CallTerms,
    now: EpochMillis,
    held: HeldClaim,
    result: HandlerResult,
    staged: bool,
) -> Next {
    let mut held = held.for_requests_after(call, now);
    let (steps, result) = match result {
        HandlerResult::AfterSteps(steps, result) => (Some(steps), *result),
        result => (None, result),
    };
    held.has_steps |= steps.is_some();
    // A panic resumes in any case, and a claim that is gone cannot be released.
    if steps == Some(StepsEnd::ClaimLost) && result != HandlerResult::Panicked {
        return (State::ReadingAfterSteps(held.lease_end), READ);
    }
    // The effect of the step happened, and is not recorded: as after a panic, an operator must decide.
    held.has_lost_step = steps == Some(StepsEnd::NotRecorded);
    let reports_nothing = matches!(
        result,
        HandlerResult::Panicked | HandlerResult::Unreported(_)
    );
    held.has_unreported |= held.has_lost_step || reports_nothing;
    let releases = match result {
        HandlerResult::Failed(_) | HandlerResult::NotStored => true,
        HandlerResult::Unstorable => !staged,
        _ => false,
    };
    if held.has_lost_step && call.policy.on_timeout == OnTimeout::Hold && releases {
        return finish(Resolution::Own(Completion::Kept));
    }
    let free = |name: &str, returned| {
        let (failure, shorter) = if held.has_unreported {
            (format!("{UNREPORTED}: {name}"), UNREPORTED)
        } else {
            (name.to_owned(), FAILED)
        };
        let releasing = Releasing {
            returned,
            lease_end: held.lease_end,
            shorter: keeps_steps(call, held).then_some((shorter, held.claimed_at)),
        };
        let effect = free_key(call, now, &failure, held, returned);
        (State::Releasing(releasing), effect)
    };
    let (data, unstorable) = match result {
        HandlerResult::Returned(data) => (Some(data), None),
        HandlerResult::NotSerializable => (None, Some(Unstorable::NotSerializable)),
        HandlerResult::NotDeserializable => (None, Some(Unstorable::OwnCallerOnly)),
        // The caller gets this response as a success, so its writes must be applied.
        HandlerResult::Unstorable if staged => (None, Some(Unstorable::OwnCallerOnly)),
        HandlerResult::NotStored | HandlerResult::Unstorable => {
            return free(NOT_STORED, true);
        }
        // Such an end reports nothing. As after a kill, the effect may have happened.
        HandlerResult::Panicked | HandlerResult::Unreported(_)
            if call.policy.on_timeout == OnTimeout::Hold =>
        {
            return finish(Resolution::Own(Completion::Kept));
        }
        HandlerResult::Panicked => return free(PANIC, false),
        HandlerResult::NotStarted => {
            let releasing = Releasing {
                returned: false,
                lease_end: held.lease_end,
                shorter: None,
            };
            let HeldClaim {
                claimed_at,
                has_unreported,
                has_steps,
                ..
            } = held;
            let effect = release_unrun(call, now, claimed_at, has_unreported, has_steps);
            return (State::Releasing(releasing), effect);
        }
        HandlerResult::Failed(name) | HandlerResult::Unreported(name) => return free(&name, false),
        // One level is all that a driver makes.
        HandlerResult::AfterSteps(..) => return refuse(ErrorKind::Internal),
    };
    let completing = Completing {
        held,
        staged,
        tries: 0,
        conflicts: 0,
        maybe_applied: false,
        record: requests::completed(call, now, data.as_ref()),
        unstorable,
    };
    send_completion(call, completing)
}

/// Returns true if the release keeps the steps.
fn keeps_steps(call: &CallTerms, held: HeldClaim) -> bool {
    held.has_steps && call.policy.steps == Steps::Keep
}

/// Returns the write that frees the key after a run without a stored response, or after a rejected transaction. `returned` is true if
/// the handler returned a response that is not stored.
///
/// It deletes the record, unless a later run needs something of it: the steps, the mark of an effect that no run has reported, or a
/// failure that must be recorded.
pub(super) fn free_key(
    call: &CallTerms,
    now: EpochMillis,
    failure: &str,
    held: HeldClaim,
    returned: bool,
) -> Effect {
    let keeps_steps = keeps_steps(call, held);
    let records = call.policy.on_error == OnError::Record && !returned;
    if keeps_steps || held.has_unreported || records {
        requests::record_failure(call, now, failure, held.claimed_at, keeps_steps)
    } else {
        requests::release(call)
    }
}

/// Sends the completion.
pub(super) fn send_completion(call: &CallTerms, mut completing: Completing) -> Next {
    completing.tries += 1;
    let effect = requests::complete(call, &completing.record, completing.staged);
    (State::Completing(completing), effect)
}

/// Handles the result of a completion.
pub(super) fn completion_written(
    call: &CallTerms,
    now: EpochMillis,
    mut completing: Completing,
    result: WriteResult,
) -> Next {
    match result {
        WriteResult::Applied { .. } => confirmed(completing),
        WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        } => {
            completing.maybe_applied |= maybe_applied;
            match existing {
                Some(existing) => claim_gone(call, now, completing, Some(existing)),
                None => (State::ReadingAfterCompletion(completing), READ),
            }
        }
        WriteResult::Rejected { maybe_applied } => {
            completing.maybe_applied |= maybe_applied;
            transaction::reject(call, now, completing)
        }
        WriteResult::Failed {
            maybe_applied,
            kind,
        } => {
            completing.maybe_applied |= maybe_applied;
            match kind {
                // The effect has happened: complete the key without its response rather than let it run again.
                WriteErrorKind::TooLarge if completing.record.data.exists() => {
                    completing.record.data = Field::Absent;
                    completing.unstorable = Some(Unstorable::OwnCallerOnly);
                    completing.tries = 0;
                    send_completion(call, completing)
                }
                WriteErrorKind::Transient | WriteErrorKind::Refused
                    if completing.tries < MAX_COMPLETIONS
                        && has_time_for(backoff(completing.tries), now, &completing) =>
                {
                    let pause = backoff(completing.tries);
                    (State::RetryingCompletion(completing), Effect::Pause(pause))
                }
                WriteErrorKind::Conflict => transaction::conflict(call, now, completing),
                WriteErrorKind::TooLarge | WriteErrorKind::Permanent if completing.staged => {
                    transaction::reject(call, now, completing)
                }
                WriteErrorKind::Transient => transaction::give_up(call, now, completing),
                _ => not_stored(&completing, ErrorKind::CompletionUnknown),
            }
        }
    }
}

/// Returns true if the lease leaves time for a pause, one more try and its reply. The caller must get its error before the
/// process is killed.
pub(super) fn has_time_for(pause: Duration, now: EpochMillis, completing: &Completing) -> bool {
    now.until(completing.held.lease_end) > pause + REPLY_RESERVE
}

/// Handles a claim that is gone: `existing` is not this call's claim any more, or there is no record.
pub(super) fn claim_gone(
    call: &CallTerms,
    now: EpochMillis,
    completing: Completing,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(existing) => other_record(call, now, completing, existing),
        // Nothing of a transaction was applied, so its response need not be stored. And "no record" is no fence: a send that arrives
        // after the window would be applied again.
        None if completing.staged => refuse(ErrorKind::LostOwnership),
        None if completing.maybe_applied || is_expired(completing.held.lease_end, now) => {
            not_stored(&completing, ErrorKind::LostOwnership)
        }
        None => {
            let effect = requests::restore(call, &completing.record, completing.held.lease_end);
            (State::Restoring(completing), effect)
        }
    }
}

/// Handles the record of a call whose claim was gone before the handler had ended. A response that another call has stored is the
/// response of this call too.
pub(super) fn claim_lost(call: &CallTerms, now: EpochMillis, existing: Option<Record>) -> Next {
    match existing {
        Some(existing) if completed_state(call, now, &existing) == Some(RecordState::Replay) => {
            replay(existing, Source::Completion)
        }
        _ => refuse(Refusal::lost_in_a_step()),
    }
}

/// Handles the result of a restored completion.
pub(super) fn restored(
    call: &CallTerms,
    now: EpochMillis,
    completing: Completing,
    result: WriteResult,
) -> Next {
    match result {
        WriteResult::Applied { .. } => confirmed(completing),
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } => other_record(call, now, completing, existing),
        WriteResult::ConditionFailed { existing: None, .. }
        | WriteResult::Rejected { .. }
        | WriteResult::Failed { .. } => not_stored(&completing, ErrorKind::CompletionUnknown),
    }
}

/// Handles a record that prevented the completion.
fn other_record(
    call: &CallTerms,
    now: EpochMillis,
    completing: Completing,
    existing: Record,
) -> Next {
    if is_claim_of(&existing, call) {
        // The condition holds for this record, and yet it failed: what is stored is unknown.
        return not_stored(&completing, ErrorKind::CompletionUnknown);
    }
    stored(call, now, &completing, existing)
        .unwrap_or_else(|| not_stored(&completing, ErrorKind::LostOwnership))
}

/// Returns the end of the call by a stored response, or by its own completion without a response. `None` if the record has neither.
pub(super) fn stored(
    call: &CallTerms,
    now: EpochMillis,
    completing: &Completing,
    existing: Record,
) -> Option<Next> {
    match (
        completed_state(call, now, &existing)?,
        completing.unstorable,
    ) {
        (RecordState::Replay, _) => Some(replay(existing, Source::Completion)),
        // An earlier send of this call's own completion without a response was applied.
        (RecordState::ResponseUnavailable, Some(why))
            if existing.owner.value() == Some(&call.owner) =>
        {
            Some(confirmed_without(why))
        }
        _ => None,
    }
}

/// Ends a call whose response is not stored, or of which that is not known.
///
/// A run under a claim that was never confirmed promised its caller no agreed response, so the caller gets its own result. But not
/// if it staged writes, which may not have been applied.
pub(super) fn not_stored(completing: &Completing, kind: ErrorKind) -> Next {
    if completing.held.is_confirmed || completing.staged {
        refuse(kind)
    } else {
        finish(Resolution::Own(Completion::Unclaimed))
    }
}

/// Returns the state of a completed record of this payload whose window still runs, or `None` if it is not such a record.
fn completed_state(call: &CallTerms, now: EpochMillis, existing: &Record) -> Option<RecordState> {
    let completed = existing.status.value() == Some(&Status::Completed);
    let runs = classify(existing, now, call) != RecordState::Claimable;
    (completed && runs && same_payload(existing, call)).then(|| response_of(existing))
}

fn confirmed(completing: Completing) -> Next {
    match completing.unstorable {
        None => finish(Resolution::Own(Completion::Stored(completing.record))),
        Some(why) => confirmed_without(why),
    }
}

/// Ends a call whose key is completed without a response.
fn confirmed_without(why: Unstorable) -> Next {
    match why {
        Unstorable::OwnCallerOnly => finish(Resolution::Own(Completion::WithoutResponse)),
        Unstorable::NotSerializable => refuse(ErrorKind::ResponseNotSerializable),
    }
}

/// Handles the result of a release after the handler ran.
pub(super) fn released(
    call: &CallTerms,
    now: EpochMillis,
    releasing: Releasing,
    result: WriteResult,
) -> Next {
    let Releasing {
        returned, shorter, ..
    } = releasing;
    match (result, shorter) {
        // Steps fill the record. The shorter failure needs less room than the owner token that it replaces.
        (
            WriteResult::Failed {
                kind: WriteErrorKind::TooLarge,
                ..
            },
            Some((failure, claimed_at)),
        ) => {
            let releasing = Releasing {
                shorter: None,
                ..releasing
            };
            let effect = requests::record_failure(call, now, failure, claimed_at, true);
            (State::Releasing(releasing), effect)
        }
        (result, _) => release_ended(call, now, returned, result),
    }
}

/// Handles the result of the last release. `returned` is true if the handler returned a response.
fn release_ended(call: &CallTerms, now: EpochMillis, returned: bool, result: WriteResult) -> Next {
    match result {
        WriteResult::Applied { .. } => finish(Resolution::Own(Completion::Released)),
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } if returned && completed_state(call, now, &existing) == Some(RecordState::Replay) => {
            replay(existing, Source::Completion)
        }
        // The record is not this call's claim any more, so there is nothing to release.
        WriteResult::ConditionFailed { .. } => finish(Resolution::Own(Completion::Released)),
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } => {
            finish(Resolution::Own(Completion::NotReleased))
        }
    }
}
