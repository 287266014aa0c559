//! One run of the handler: how it starts, and what it leaves when it has ended.

use super::Errors;
use super::call::{Call, OpenCall};
use super::driver::Driver;
use super::handler::{self, HandlerOutput, StoreWhen};
use super::request::Reasons;
use crate::event::Report;
use crate::protocol::{Attempt, HandlerEnd, HandlerResult, HandlerUndo, Run, StagedEnd};
use crate::store::Staged;

/// What a run of the handler has left.
pub(super) struct Ran<R, E> {
    pub(super) output: HandlerOutput<R, E>,
    pub(super) staged: Option<Staged>,
    /// Why a write was refused when the handler staged it.
    pub(super) refused: Option<&'static str>,
}

impl<R> Driver<'_, R> {
    /// Starts the run that `attempt` asks for: returns its call, and the future of its handler.
    pub(super) fn start<F>(
        &self,
        attempt: &Attempt,
        handler: impl FnOnce(Call) -> F,
        reasons: &mut Reasons,
        report: &mut Report<'_>,
    ) -> (OpenCall, F) {
        // The errors before the run do not explain its end.
        let error = reasons.error.take();
        let run = attempt.run().unwrap_or(Run::Unknown);
        let call = Call::of_key(
            self.backend,
            &self.call,
            run,
            attempt.steps(),
            attempt.undoes(),
        );
        let call = OpenCall::new(call);
        call.lasts_until(attempt.lease_end());
        let handler = call.enter(|| handler(call.handle()));
        match run {
            Run::Rerun { .. } => report.took_over(),
            Run::Unprotected => report.runs_unprotected(error.as_ref()),
            Run::First | Run::Unknown => {}
        }
        (call, handler)
    }

    /// Ends a run. `is_stored` is false if it has no claim, so that nothing of its response can be stored.
    pub(super) fn end_run<E>(
        &self,
        call: &OpenCall,
        output: HandlerOutput<R, E>,
        is_stored: bool,
        errors: Errors<E>,
        report: &mut Report<'_>,
    ) -> (HandlerEnd, Ran<R, E>) {
        let closed = call.end();
        let result = if is_stored {
            // A final response is the response of its key. The policy is about others.
            let any = StoreWhen {
                expression: None,
                memory_limit: 0,
            };
            let store_when = if call.decided_undo() {
                &any
            } else {
                &self.store_when
            };
            handler::result_of(&output, self.codec, errors, store_when, report)
        } else {
            HandlerResult::NotStored
        };
        report_staged(closed.staged.as_ref(), &result, &output, report);
        let returned = matches!(result, HandlerResult::Returned(_));
        let window = call.window().unwrap_or_else(|why| {
            if returned {
                report.note(why);
            }
            None
        });
        let steps = call.steps();
        let (steps, undo) = steps.map_or((None, None), |steps| steps.report(returned, report));
        let undo = undo.or_else(|| call.decided_undo().then(HandlerUndo::nothing));
        let end = HandlerEnd {
            result,
            steps,
            undo: undo.map(Box::new),
            staged: closed.staged.as_ref().map(Staged::commits),
            refused: closed.refused.is_some(),
            window,
        };
        let ran = Ran {
            output,
            staged: closed.staged,
            refused: closed.refused,
        };
        (end, ran)
    }
}

/// Reports what is known of the staged writes when the handler has ended, because the call can be dropped before its own end.
fn report_staged<R, E>(
    staged: Option<&Staged>,
    result: &HandlerResult,
    output: &HandlerOutput<R, E>,
    report: &mut Report<'_>,
) {
    match (staged, result, output) {
        (None, ..) => {}
        (Some(staged), HandlerResult::NotStored | HandlerResult::Unreported(_), Ok(Ok(_))) => {
            report.drops(staged)
        }
        _ => report.staged(StagedEnd::Unknown),
    }
}
