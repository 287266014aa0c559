//! After the handler: the steps of the key are undone, one after the other, and then the key is completed with its final response.
//!
//! The decision is recorded before the first undo begins. From then on no run goes forward: a later one runs the handler only to learn
//! how its recorded steps are undone. A send of a write that arrives late changes nothing, because each write compares what the record
//! says of the undoing.

use super::super::CallTerms;
use super::super::classify::is_claim_of;
use super::super::effect::{Effect, WriteErrorKind, WriteResult};
use super::super::end::{
    CallEnd, ClaimEnd, HandlerEnd, HandlerResult, Refusal, RefusalDetail, StagedEnd,
};
use super::super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff};
use super::super::policy::OnTimeout;
use super::super::requests;
use super::super::undo::{HandlerUndo, UndoEnd, Undoing, named};
use super::claim::NOT_STARTED;
use super::completion::{FAILED, claim_lost, free_rejected, keep, send_completion};
use super::state::{
    Completing, DecidedUndo, HeldClaim, Next, State, Stopping, UndoPhase, UndoRun, Undone,
    Unstorable, finish,
};
use crate::error::ErrorKind;
use crate::record::{Data, Field, Record};
use crate::time::EpochMillis;

/// The recorded failure of an undoing whose run had no time left.
const NO_TIME: &str = "no time left";

/// Returns the error of a call whose steps are not undone, or not all. `why` names steps and types of errors.
pub(super) fn refusal(why: String) -> Refusal {
    Refusal::new(ErrorKind::StepNotUndone, RefusalDetail::NotUndone(why))
}

/// Records the decision of a handler that the steps of its key are undone. `staged` is true if it staged writes.
pub(super) fn decide(
    call: &CallTerms,
    held: HeldClaim,
    staged: bool,
    response: Result<Data, Unstorable>,
    undo: HandlerUndo,
) -> Next {
    let undoing = Undoing {
        left: undo.undoable,
        ..Undoing::default()
    };
    let run = UndoRun {
        held,
        phase: UndoPhase::Deciding,
        tries: 0,
        before: undoing.clone(),
        unstorable: response.as_ref().err().copied(),
        decided: DecidedUndo {
            undoing,
            response: response.ok(),
        },
        is_own: true,
        dropped: staged,
    };
    send(call, run)
}

/// Handles the end of a handler that ran only to learn how its steps are undone.
pub(super) fn run_ended(
    call: &CallTerms,
    now: EpochMillis,
    held: HeldClaim,
    decided: DecidedUndo,
    end: HandlerEnd,
) -> Next {
    let run = UndoRun {
        held,
        phase: UndoPhase::Undoing,
        tries: 0,
        before: decided.undoing.clone(),
        unstorable: decided
            .response
            .is_none()
            .then_some(Unstorable::OwnCallerOnly),
        decided,
        is_own: false,
        dropped: end.staged.is_some() || end.refused,
    };
    let undoable = end.undo.unwrap_or_default().undoable;
    match end.result {
        // No undo has begun. The caller gets the panic, or the handler's own error.
        HandlerResult::Panicked => stop(call, run, "panic", Some(CallEnd::own(None)), Count::Once),
        HandlerResult::NotStarted => {
            stop(call, run, NOT_STARTED, Some(CallEnd::own(None)), Count::No)
        }
        result => {
            let left = run.decided.undoing.left.iter();
            let unknown: Vec<_> = left.filter(|step| !undoable.contains(step)).collect();
            if unknown.is_empty() {
                return go_on(call, now, run);
            }
            // Nothing is undone: a step after the one that is not known may depend on it.
            let steps = named(unknown);
            let mut why = format!("not asked for, or not of its type, or without an undo: {steps}");
            if let HandlerResult::Failed(error) | HandlerResult::Unreported(error) = result {
                why += &format!(", after the handler ended in `{error}`");
            }
            stop(call, run, &why, None, Count::Once)
        }
    }
}

/// Undoes the next step, or completes the key if none is left.
fn go_on(call: &CallTerms, now: EpochMillis, run: UndoRun) -> Next {
    let undoing = &run.decided.undoing;
    let Some(next) = undoing.left.first().cloned() else {
        return complete(call, now, run);
    };
    if now.until(run.held.lease_end) <= REPLY_RESERVE {
        // A run that never has the time for one undo must not be repeated for ever.
        let count = match run.before == run.decided.undoing {
            true => Count::Once,
            false => Count::No,
        };
        return stop(call, run, NO_TIME, None, count);
    }
    let phase = UndoPhase::Undoing;
    (state(UndoRun { phase, ..run }), Effect::Undo(next))
}

/// Handles the end of the undo of a step.
pub(super) fn undone(call: &CallTerms, now: EpochMillis, mut run: UndoRun, end: UndoEnd) -> Next {
    let step = run
        .decided
        .undoing
        .left
        .first()
        .cloned()
        .unwrap_or_default();
    let holds = call.policy.on_timeout == OnTimeout::Hold;
    match end {
        UndoEnd::Undone => {
            run.before = run.decided.undoing.clone();
            run.decided.undoing = run.before.after_undo();
            if run.decided.undoing.left.is_empty() {
                return complete(call, now, run);
            }
            let phase = UndoPhase::Recording;
            send(call, UndoRun { phase, ..run })
        }
        UndoEnd::Failed(error) => {
            let why = format!("the undo of `{step}` failed: {error}");
            stop(call, run, &why, None, Count::Once)
        }
        // It may have had its effect.
        UndoEnd::Panicked => {
            let count = if holds { Count::Last } else { Count::Once };
            let why = format!("the undo of `{step}` panicked");
            stop(call, run, &why, None, count)
        }
    }
}

/// Sends the current write.
pub(super) fn send(call: &CallTerms, mut run: UndoRun) -> Next {
    run.tries += 1;
    let effect = match run.phase {
        UndoPhase::Deciding => {
            let DecidedUndo { undoing, response } = &run.decided;
            requests::decide_undo(call, run.held.lease_end, undoing, response.as_ref())
        }
        // The others are sent once, and not by this function.
        UndoPhase::Recording | UndoPhase::Undoing | UndoPhase::Stopping(_) => {
            requests::record_undo(call, &run.before, &run.decided.undoing)
        }
    };
    (state(run), effect)
}

/// Handles the result of a write.
pub(super) fn written(
    call: &CallTerms,
    now: EpochMillis,
    mut run: UndoRun,
    result: WriteResult,
) -> Next {
    if let UndoPhase::Stopping(stopping) = run.phase.clone() {
        return stopped(call, run, *stopping, &result);
    }
    let decides = run.phase == UndoPhase::Deciding;
    match result {
        WriteResult::Applied { .. } => recorded(call, now, run),
        WriteResult::ConditionFailed { existing, .. } => match existing {
            // An earlier send was applied.
            Some(existing) if is_in(&run, call, &existing) => recorded(call, now, run),
            existing => claim_lost(call, now, run.dropped, existing),
        },
        // Nothing of it was applied: the record has no room for the response, or not even for the decision.
        WriteResult::Failed {
            kind: WriteErrorKind::TooLarge,
            ..
        } if decides => {
            if run.decided.response.take().is_some() {
                run.unstorable = Some(Unstorable::OwnCallerOnly);
                run.tries = 0;
                return send(call, run);
            }
            let why = "nothing is undone, because the record has no room for the decision: return less from the steps";
            let completing = completing(call, now, run);
            free_rejected(call, now, completing, refusal(why.to_owned()))
        }
        WriteResult::Failed { kind, .. } if kind.may_pass() && has_time(&run, now) => {
            let pause = Effect::Pause(backoff(run.tries));
            (state(run), pause)
        }
        // No undo has begun: the decision may be recorded.
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } if decides => not_recorded(
            call,
            now,
            &run,
            "the decision may not be recorded, so nothing is undone",
        ),
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } => {
            let step = run
                .decided
                .undoing
                .undone
                .last()
                .cloned()
                .unwrap_or_default();
            let why = format!("`{step}` is undone, and this may not be recorded");
            not_recorded(call, now, &run, &why)
        }
    }
}

/// Ends a call whose current write may not be applied. Under `hold` no run follows, so its lease ends at once.
fn not_recorded(call: &CallTerms, now: EpochMillis, run: &UndoRun, why: &str) -> Next {
    let end = CallEnd::refused(refusal(why.to_owned())).with_staged(dropped(run));
    match call.policy.on_timeout {
        OnTimeout::Hold => keep(call, now, run.held, end),
        OnTimeout::Rerun => finish(end),
    }
}

fn state(run: UndoRun) -> State {
    State::Undoing(Box::new(run))
}

fn dropped(run: &UndoRun) -> Option<StagedEnd> {
    run.dropped.then_some(StagedEnd::Dropped)
}

fn has_time(run: &UndoRun, now: EpochMillis) -> bool {
    let needed = backoff(run.tries) + REPLY_RESERVE;
    run.tries < MAX_COMPLETIONS && now.until(run.held.lease_end) > needed
}

/// Returns true if the record has the current write.
fn is_in(run: &UndoRun, call: &CallTerms, existing: &Record) -> bool {
    let undoing = Undoing::of(existing);
    is_claim_of(existing, call) && undoing.as_ref() == Some(&run.decided.undoing)
}

/// Goes on after a write that was applied.
fn recorded(call: &CallTerms, now: EpochMillis, mut run: UndoRun) -> Next {
    run.tries = 0;
    run.held.undoing = true;
    go_on(call, now, run)
}

/// Returns the data of the completion.
fn completing(call: &CallTerms, now: EpochMillis, run: UndoRun) -> Box<Completing> {
    let DecidedUndo { undoing, response } = run.decided;
    let mut record = requests::completed(call, now, run.held.claimed_at, response, None);
    record.undo = Field::Value(undoing.to_json());
    Box::new(Completing {
        held: run.held,
        staged: None,
        tries: 0,
        conflicts: 0,
        maybe_applied: false,
        record,
        unstorable: run.unstorable,
        undone: Some(Box::new(Undone {
            before: run.before.to_json(),
            is_own: run.is_own,
        })),
        dropped: run.dropped,
    })
}

/// Completes the key: all of its steps are undone. The completion records the undo of the last one too.
fn complete(call: &CallTerms, now: EpochMillis, run: UndoRun) -> Next {
    send_completion(call, completing(call, now, run))
}

/// Whether a stop counts as a failure.
#[derive(Clone, Copy)]
enum Count {
    No,
    Once,
    /// An operator must decide at once.
    Last,
}

/// Stops an undoing, and says why in the record. `own` is how the call ends if its caller gets the handler's own result.
fn stop(call: &CallTerms, run: UndoRun, why: &str, own: Option<CallEnd>, count: Count) -> Next {
    let before = &run.decided.undoing;
    let after = match count {
        Count::No => None,
        Count::Once => Some(before.after_failure(false)),
        Count::Last => Some(before.after_failure(true)),
    };
    let held = after.as_ref().is_some_and(|after| after.held);
    let (claim, next) = if held {
        (ClaimEnd::Kept, ": an operator must decide")
    } else {
        (ClaimEnd::Released, "")
    };
    let end = own.unwrap_or_else(|| CallEnd::refused(refusal(format!("{why}{next}"))));
    let end = CallEnd {
        claim: Some(claim),
        ..end.with_staged(dropped(&run))
    };
    let stopping = Stopping {
        end,
        after,
        is_short: false,
    };
    send_stop(call, run, stopping, why)
}

fn send_stop(call: &CallTerms, run: UndoRun, stopping: Stopping, failure: &str) -> Next {
    let after = stopping.after.as_ref();
    let effect = requests::stop_undo(call, run.held.claimed_at, failure, after);
    let phase = UndoPhase::Stopping(Box::new(stopping));
    (state(UndoRun { phase, ..run }), effect)
}

/// Ends a call that has stopped undoing.
fn stopped(call: &CallTerms, run: UndoRun, stopping: Stopping, result: &WriteResult) -> Next {
    match result {
        WriteResult::Applied { .. } => finish(stopping.end),
        // The record is full. A stop that is not recorded would not count.
        WriteResult::Failed {
            kind: WriteErrorKind::TooLarge,
            ..
        } if !stopping.is_short => {
            let stopping = Stopping {
                is_short: true,
                ..stopping
            };
            send_stop(call, run, stopping, FAILED)
        }
        _ => finish(CallEnd {
            claim: Some(ClaimEnd::NotReleased),
            ..stopping.end
        }),
    }
}
