//! Deliberate faults of calls whose store fails.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::{
    CallEnd, CallTerms, Effect, InFlight, Input, Refusal, RefusalDetail, Resolution, Stage,
    WriteErrorKind, WriteResult,
};
use idempotency_core::time::EpochMillis;

use super::{CallView, Rules};

/// An open circuit counts as a claim.
pub(crate) struct OpenCircuitRuns;

impl Rules for OpenCircuitRuns {
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Finish(CallEnd {
                resolution:
                    Resolution::Refuse(Refusal {
                        detail: Some(RefusalDetail::CircuitOpen(_)),
                        ..
                    }),
                ..
            }) => Effect::RunUnprotected {
                maybe_claimed: false,
            },
            other => other,
        }
    }
}

/// A claim that failed is followed by a run, also under `fail`.
pub(crate) struct FailedClaimRuns;

impl Rules for FailedClaimRuns {
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Finish(end) if end.error_kind() == Some(ErrorKind::StoreFailed) => {
                Effect::RunUnprotected {
                    maybe_claimed: false,
                }
            }
            other => other,
        }
    }
}

/// A call whose staged writes may not have been applied ends in its handler's own result.
pub(crate) struct UnconfirmedWritesCountAsOwn;

impl Rules for UnconfirmedWritesCountAsOwn {
    fn requests(&self, _: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Finish(end)
                if view.ran && end.error_kind() == Some(ErrorKind::CompletionUnknown) =>
            {
                Effect::Finish(CallEnd::own(None).with_staged(end.staged))
            }
            other => other,
        }
    }
}

/// A refused claim counts as a failure of the store: the record that prevents it is forgotten.
pub(crate) struct RefusalCountsAsFailure;

impl Rules for RefusalCountsAsFailure {
    fn receives(
        &self,
        _: &CallTerms,
        view: CallView,
        now: EpochMillis,
        input: Input,
    ) -> (EpochMillis, Input) {
        match input {
            Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) if !view.ran => {
                let failed = WriteResult::Failed {
                    maybe_applied,
                    kind: WriteErrorKind::Transient,
                };
                (now, Input::Written(failed))
            }
            other => (now, other),
        }
    }
}

/// A call of the process that runs looks like one that only asks the store.
pub(crate) struct RunningLeaderIsOverlooked;

impl Rules for RunningLeaderIsOverlooked {
    fn receives(
        &self,
        _: &CallTerms,
        _: CallView,
        now: EpochMillis,
        input: Input,
    ) -> (EpochMillis, Input) {
        match input {
            Input::LeaderProgress(leader) => {
                let stage = Stage::Claiming;
                (now, Input::LeaderProgress(InFlight { stage, ..leader }))
            }
            other => (now, other),
        }
    }
}
