//! Deliberate faults of calls whose store fails.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::{
    CallEnd, Effect, InFlight, Input, Refusal, RefusalDetail, Resolution, Stage, WriteErrorKind,
    WriteResult,
};

use super::{Receives, Requests};

/// An open circuit counts as a claim.
pub(crate) const OPEN_CIRCUIT_RUNS: Requests = Requests(|_, _, effect| match effect {
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
});

/// A claim that failed is followed by a run, also under `fail`.
pub(crate) const FAILED_CLAIM_RUNS: Requests = Requests(|_, _, effect| match effect {
    Effect::Finish(end) if end.error_kind() == Some(ErrorKind::StoreFailed) => {
        Effect::RunUnprotected {
            maybe_claimed: false,
        }
    }
    other => other,
});

/// A call whose staged writes may not have been applied ends in its handler's own result.
pub(crate) const UNCONFIRMED_WRITES_COUNT_AS_OWN: Requests =
    Requests(|_, view, effect| match effect {
        Effect::Finish(end)
            if view.ran && end.error_kind() == Some(ErrorKind::CompletionUnknown) =>
        {
            Effect::Finish(CallEnd::own(None).with_staged(end.staged))
        }
        other => other,
    });

/// A refused claim counts as a failure of the store: the record that prevents it is forgotten.
pub(crate) const REFUSAL_COUNTS_AS_FAILURE: Receives =
    Receives(|_, view, (now, input)| match input {
        Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) if !view.ran => {
            let failed = WriteResult::Failed {
                maybe_applied,
                kind: WriteErrorKind::Transient,
            };
            (now, Input::Written(failed))
        }
        other => (now, other),
    });

/// A call of the process that runs looks like one that only asks the store.
pub(crate) const RUNNING_LEADER_IS_OVERLOOKED: Receives =
    Receives(|_, _, (now, input)| match input {
        Input::LeaderProgress(leader) => {
            let stage = Stage::Claiming;
            (now, Input::LeaderProgress(InFlight { stage, ..leader }))
        }
        other => (now, other),
    });
