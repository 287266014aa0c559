//! After the handler: the first request of a call that follows the end of its run.

use super::super::CallTerms;
use super::super::end::{
    CallEnd, ClaimEnd, Commits, HandlerEnd, HandlerResult, StagedEnd, StepEnd,
};
use super::super::policy::OnTimeout;
use super::super::requests;
use super::super::run::UNREPORTED;
use super::super::undo::{HandlerUndo, named};
use super::claim::release_unrun;
use super::completion::{FAILED, free_key, free_rejected, keep, keeps_steps, send_completion};
use super::state::{Completing, HeldClaim, Next, READ, Releasing, State, Unreported, Unstorable};
use super::undo;
use crate::error::ErrorKind;
use crate::record::Data;
use crate::time::EpochMillis;

/// The recorded failure of a handler that panicked.
const PANIC: &str = "panic";
/// What is recorded beside the steps of a run whose response is not stored.
const NOT_STORED: &str = "response not stored";

/// What a call does when its handler has ended.
enum AfterRun {
    /// It completes its key with this response, or without one.
    Complete(Result<Data, Unstorable>),
    /// It frees its key. `returned` is true after a response, which is not stored.
    Release { failure: String, returned: bool },
    /// It frees its key as after a rejected transaction: the response counts on a write that was refused when it was staged.
    Reject,
    /// It frees its key as if the handler had not run.
    ReleaseUnrun,
    /// It keeps its claim: an operator decides.
    Keep,
    /// It reads the record: its claim is gone.
    ReadRecord,
    /// It records that its steps are undone, with this final response.
    Undo(Result<Data, Unstorable>, HandlerUndo),
    /// It frees its key as after a failure, because the decision of its handler to undo the steps cannot be followed.
    RefuseUndo(String),
}

/// Returns what follows the end of a handler. The first line that matches decides.
fn after_run(on_timeout: OnTimeout, unreported: Unreported, end: HandlerEnd) -> AfterRun {
    let holds = on_timeout == OnTimeout::Hold;
    let release = |failure: &str, returned| AfterRun::Release {
        failure: failure.to_owned(),
        returned,
    };
    match end.result {
        // A panic reports nothing: as after a kill, the effect may have happened. It resumes in any case.
        HandlerResult::Panicked if holds => AfterRun::Keep,
        HandlerResult::Panicked => release(PANIC, false),
        // A claim that is gone can be neither completed nor released.
        _ if end.steps == Some(StepEnd::ClaimLost) => AfterRun::ReadRecord,
        // The writes that the handler staged are dropped, also one that was refused.
        result @ (HandlerResult::Returned(_)
        | HandlerResult::NotSerializable
        | HandlerResult::NotDeserializable
        | HandlerResult::NotStored
        | HandlerResult::Unstorable)
            if decides_undo(end.undo.as_deref(), unreported) =>
        {
            undo(result, unreported, *end.undo.unwrap_or_default())
        }
        HandlerResult::Returned(_)
        | HandlerResult::NotSerializable
        | HandlerResult::NotDeserializable
        | HandlerResult::Unstorable
            if end.refused =>
        {
            AfterRun::Reject
        }
        HandlerResult::Returned(data) => AfterRun::Complete(Ok(data)),
        HandlerResult::NotSerializable => AfterRun::Complete(Err(Unstorable::NotSerializable)),
        HandlerResult::NotDeserializable => AfterRun::Complete(Err(Unstorable::OwnCallerOnly)),
        // The caller gets this response as a success, so its writes must be applied.
        HandlerResult::Unstorable if end.staged.is_some() => {
            AfterRun::Complete(Err(Unstorable::OwnCallerOnly))
        }
        HandlerResult::NotStarted => AfterRun::ReleaseUnrun,
        // The effect may have happened, or that of a step has happened and is not recorded: as after a panic, an operator decides.
        HandlerResult::Unreported(_) if holds => AfterRun::Keep,
        _ if holds && unreported == Unreported::Step => AfterRun::Keep,
        HandlerResult::NotStored | HandlerResult::Unstorable => release(NOT_STORED, true),
        HandlerResult::Failed(failure) | HandlerResult::Unreported(failure) => AfterRun::Release {
            failure,
            returned: false,
        },
    }
}

/// Returns true if the handler decided that its steps are undone, and there is one that may have had an effect. Otherwise its response is
/// one like any other.
fn decides_undo(undo: Option<&HandlerUndo>, unreported: Unreported) -> bool {
    let decided = undo.filter(|undo| undo.decided);
    decided.is_some_and(|undo| unreported == Unreported::Step || undo.has_steps())
}

/// Returns what follows the decision of a handler that its steps are undone.
fn undo(result: HandlerResult, unreported: Unreported, undo: HandlerUndo) -> AfterRun {
    let refuse = |why: &str| AfterRun::RefuseUndo(format!("nothing is undone, because {why}"));
    let response = match result {
        // The effect of that step may have happened, and nothing could undo it.
        _ if unreported == Unreported::Step => {
            return refuse(
                "a step of this run has no record: do not give a final response after a step whose end is not known, and let all \
                 steps end before the handler does",
            );
        }
        // No later run asks for them either, so the decision could not be followed.
        _ if !undo.unreached.is_empty() => {
            let steps = named(&undo.unreached);
            return refuse(&format!(
                "the run did not get the results of {steps}: ask for each step before the decision, with its type, and return the \
                 error of a step"
            ));
        }
        HandlerResult::Returned(response) => Ok(response),
        HandlerResult::NotSerializable => Err(Unstorable::NotSerializable),
        HandlerResult::NotDeserializable => Err(Unstorable::OwnCallerOnly),
        _ => {
            return refuse("the final response is one that is not stored: give one that is");
        }
    };
    AfterRun::Undo(response, undo)
}

/// Returns the worst effect of a run that its end does not report.
fn unreported(end: &HandlerEnd) -> Unreported {
    match (end.steps, &end.result) {
        (Some(StepEnd::TooLarge | StepEnd::NotRecorded), _) => Unreported::Step,
        // A response that is not stored says that the run had an effect, or that a layer did: only an error of the handler is a report.
        (
            _,
            HandlerResult::Panicked
            | HandlerResult::Unreported(_)
            | HandlerResult::NotStored
            | HandlerResult::Unstorable,
        ) => Unreported::Effect,
        _ => Unreported::Nothing,
    }
}

/// Handles the end of the handler.
pub(super) fn handler_ended(
    call: &CallTerms,
    now: EpochMillis,
    held: HeldClaim,
    mut end: HandlerEnd,
) -> Next {
    let mut held = held.for_requests_after(call, now);
    held.has_steps |= end.steps.is_some();
    held.unreported = held.unreported.max(unreported(&end));
    let (staged, window) = (end.staged.is_some() || end.refused, end.window);
    // A decision to undo drops the writes that the handler staged, also one that was refused.
    let decided = end.undo.as_ref().is_some_and(|undo| undo.decided);
    if decided {
        (end.staged, end.refused) = (None, false);
    }
    let commits = end.staged.or(end.refused.then_some(Commits::Again));
    let lease_end = held.lease_end;
    let releasing = |returned, shorter| Releasing {
        returned,
        staged,
        lease_end,
        shorter,
    };
    let completing = |response: Result<Data, Unstorable>| {
        Box::new(Completing {
            held,
            staged: commits,
            tries: 0,
            conflicts: 0,
            maybe_applied: false,
            unstorable: response.as_ref().err().copied(),
            undone: None,
            dropped: staged && decided,
            record: requests::completed(call, now, held.claimed_at, response.ok(), window),
        })
    };
    match after_run(call.policy.on_timeout, held.unreported, end) {
        AfterRun::Complete(response) => send_completion(call, completing(response)),
        AfterRun::Reject => {
            let completing = completing(Err(Unstorable::OwnCallerOnly));
            free_rejected(call, now, completing, ErrorKind::TransactionRejected.into())
        }
        AfterRun::Undo(response, undo) => undo::decide(call, held, staged, response, undo),
        AfterRun::RefuseUndo(why) => {
            let completing = completing(Err(Unstorable::OwnCallerOnly));
            free_rejected(call, now, completing, undo::refusal(why))
        }
        AfterRun::Release { failure, returned } => {
            let (failure, shorter) = if held.has_unreported() {
                (format!("{UNREPORTED}: {failure}"), UNREPORTED)
            } else {
                (failure, FAILED)
            };
            let shorter = keeps_steps(call, held).then_some((shorter, held.claimed_at));
            let effect = free_key(call, now, &failure, held, returned);
            (State::Releasing(releasing(returned, shorter)), effect)
        }
        AfterRun::ReleaseUnrun => {
            let effect = release_unrun(
                call,
                now,
                held.claimed_at,
                held.has_unreported(),
                held.has_steps,
            );
            (State::Releasing(releasing(false, None)), effect)
        }
        AfterRun::Keep => {
            let dropped = staged.then_some(StagedEnd::Dropped);
            keep(
                call,
                now,
                held,
                CallEnd::own(Some(ClaimEnd::Kept)).with_staged(dropped),
            )
        }
        AfterRun::ReadRecord => (State::ReadingAfterSteps { lease_end, staged }, READ),
    }
}
