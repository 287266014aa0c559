//! After the handler: the completion, or the release.

use super::super::Call;
use super::super::classify::{
    RecordState, answer_of, classify, is_claim_of, is_expired, same_payload,
};
use super::super::effect::{
    Completion, Effect, HandlerResult, Refusal, Resolution, Source, WriteErrorKind, WriteResult,
};
use super::super::policy::{OnError, OnTimeout};
use super::super::{REPLY_RESERVE, writes};
use super::{Completing, Held, Next, State, Unstorable, backoff, finish, refuse, replay};
use crate::record::{Field, Record, Status};
use crate::time::EpochMillis;

/// How often one call tries to have its completion confirmed.
const MAX_COMPLETIONS: u8 = 4;
/// What is recorded as the failure of a handler that panicked.
const PANIC: &str = "panic";

pub(super) fn ran_handler(call: &Call, now: EpochMillis, held: Held, ran: HandlerResult) -> Next {
    let releasing = |answered| State::Releasing {
        answered,
        lease_end: held.lease_end,
    };
    let (data, instead) = match ran {
        HandlerResult::Returned(data) => (Some(data), None),
        HandlerResult::NotSerializable => (None, Some(Unstorable::Unrepresentable)),
        HandlerResult::NotDeserializable => (None, Some(Unstorable::OwnCallerAlone)),
        HandlerResult::NotStored => {
            return (releasing(true), writes::release(call));
        }
        // A panic reports nothing: as after a kill, the effect may have happened.
        HandlerResult::Panicked if call.policy.on_timeout == OnTimeout::Hold => {
            return finish(Resolution::Own(Completion::Kept));
        }
        HandlerResult::Panicked => return (releasing(false), failed(call, PANIC, held)),
        HandlerResult::Failed(failure) => return (releasing(false), failed(call, &failure, held)),
    };
    let completing = Completing {
        held,
        tries: 0,
        maybe_applied: false,
        record: writes::completed(call, now, data.as_ref()),
        instead,
    };
    send_completion(call, completing)
}

/// Frees the key after a failed run, as the policy says.
fn failed(call: &Call, failure: &str, held: Held) -> Effect {
    match call.policy.on_error {
        OnError::Release => writes::release(call),
        OnError::Record => writes::record_failure(call, failure, held.claimed_at),
    }
}

pub(super) fn send_completion(call: &Call, mut completing: Completing) -> Next {
    completing.tries += 1;
    let effect = writes::complete(call, &completing.record);
    (State::Completing(completing), effect)
}

pub(super) fn completion_written(
    call: &Call,
    now: EpochMillis,
    mut completing: Completing,
    written: WriteResult,
) -> Next {
    match written {
        WriteResult::Applied => confirmed(completing),
        WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        } => {
            completing.maybe_applied |= maybe_applied;
            match existing {
                Some(existing) => completion_refused(call, now, completing, Some(existing)),
                None => (State::ReadingAfterCompletion(completing), Effect::Read),
            }
        }
        WriteResult::Failed {
            maybe_applied,
            kind,
        } => {
            completing.maybe_applied |= maybe_applied;
            match kind {
                // The effect has happened: the key is completed without its answer rather than freed to run again.
                WriteErrorKind::TooLarge if completing.record.data.exists() => {
                    completing.record.data = Field::Absent;
                    completing.instead = Some(Unstorable::OwnCallerAlone);
                    completing.tries = 0;
                    send_completion(call, completing)
                }
                // The caller must hear of it before the process is killed, and not after one more try.
                WriteErrorKind::Transient
                    if completing.tries < MAX_COMPLETIONS
                        && now.until(completing.held.lease_end)
                            > backoff(completing.tries) + REPLY_RESERVE =>
                {
                    let pause = backoff(completing.tries);
                    (State::RetryingCompletion(completing), Effect::Pause(pause))
                }
                _ => refuse(Refusal::CompletionUnknown),
            }
        }
    }
}

/// The record is no longer this call's claim, or there is none.
pub(super) fn completion_refused(
    call: &Call,
    now: EpochMillis,
    completing: Completing,
    existing: Option<Record>,
) -> Next {
    match existing {
        Some(existing) => after_completion(call, now, completing, existing),
        None if completing.maybe_applied || is_expired(completing.held.lease_end, now) => {
            refuse(Refusal::LostOwnership)
        }
        None => {
            let effect = writes::restore(call, &completing.record, completing.held.lease_end);
            (State::Restoring(completing), effect)
        }
    }
}

pub(super) fn restored(
    call: &Call,
    now: EpochMillis,
    completing: Completing,
    written: WriteResult,
) -> Next {
    match written {
        WriteResult::Applied => confirmed(completing),
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } => after_completion(call, now, completing, existing),
        WriteResult::ConditionFailed { existing: None, .. } | WriteResult::Failed { .. } => {
            refuse(Refusal::CompletionUnknown)
        }
    }
}

/// What a record found after the handler ran means to its caller.
fn after_completion(
    call: &Call,
    now: EpochMillis,
    completing: Completing,
    existing: Record,
) -> Next {
    if is_claim_of(&existing, call) {
        // The condition holds of this record, and yet it was refused: nobody can say what is stored.
        return refuse(Refusal::CompletionUnknown);
    }
    match stored_answer(call, now, &existing) {
        Some(RecordState::Replay) => replay(existing, Source::Completion),
        // An earlier send of a completion that carries no answer.
        Some(RecordState::ResponseUnavailable)
            if completing.instead.is_some() && existing.owner.value() == Some(&call.owner) =>
        {
            confirmed(completing)
        }
        _ => refuse(Refusal::LostOwnership),
    }
}

/// What a completed record of this payload, whose window still runs, answers.
fn stored_answer(call: &Call, now: EpochMillis, existing: &Record) -> Option<RecordState> {
    let completed = existing.status.value() == Some(&Status::Completed);
    let running = classify(existing, now, call) != RecordState::Claimable;
    (completed && running && same_payload(existing, call)).then(|| answer_of(existing))
}

fn confirmed(completing: Completing) -> Next {
    match completing.instead {
        None => finish(Resolution::Own(Completion::Stored(completing.record))),
        Some(Unstorable::OwnCallerAlone) => finish(Resolution::Own(Completion::WithoutResponse)),
        Some(Unstorable::Unrepresentable) => refuse(Refusal::Unrepresentable),
    }
}

pub(super) fn released(
    call: &Call,
    now: EpochMillis,
    answered: bool,
    written: WriteResult,
) -> Next {
    match written {
        WriteResult::Applied => finish(Resolution::Own(Completion::Released)),
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } if answered && stored_answer(call, now, &existing) == Some(RecordState::Replay) => {
            replay(existing, Source::Completion)
        }
        // Somebody else holds the key, or nobody does: there is nothing of ours to give up.
        WriteResult::ConditionFailed { .. } => finish(Resolution::Own(Completion::Released)),
        WriteResult::Failed { .. } => finish(Resolution::Own(Completion::NotReleased)),
    }
}
