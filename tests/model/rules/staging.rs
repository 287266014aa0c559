//! Deliberate faults of a completion with staged writes.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::protocol::{
    CallEnd, CallTerms, Effect, Input, StagedEnd, Write, WriteErrorKind, WriteResult,
};

use super::{CallView, Received, Receives, Requests, Rules};

/// The transaction has no condition on the record, so a repeated send is applied again.
pub(crate) const REPEATS_WITHOUT_FENCE: Requests = Requests(|_, _, effect| match effect {
    Effect::Transact(write, _) => Effect::Transact(write, Condition::All(Vec::new())),
    other => other,
});

/// The completion is written alone, and the staged writes are left out.
pub(crate) const COMPLETES_WITHOUT_THE_WRITES: Requests = Requests(|_, _, effect| match effect {
    Effect::Transact(write, condition) => Effect::Write(write, condition),
    other => other,
});

/// A rejection counts as final: the claim is not released, so an earlier send can still be applied.
pub(crate) const REJECTS_WITHOUT_A_RELEASE: Requests = Requests(|_, view, effect| match effect {
    Effect::Write(Write::Delete, _) if view.ran => {
        let rejected = CallEnd::refused(ErrorKind::TransactionRejected);
        Effect::Finish(rejected.with_staged(Some(StagedEnd::Rejected)))
    }
    other => other,
});

/// The release after a rejection deletes unconditionally.
pub(crate) const RELEASES_A_REJECTION_WITHOUT_FENCE: Requests =
    Requests(|_, view, effect| match effect {
        Effect::Write(Write::Delete, _) if view.ran => {
            Effect::Write(Write::Delete, Condition::All(Vec::new()))
        }
        other => other,
    });

/// The condition of a staged write decides before that of the record, and the rejection counts as final.
pub(crate) struct BusinessConditionDecidesFirst;

impl Rules for BusinessConditionDecidesFirst {
    fn receives(&self, _: &CallTerms, view: CallView, (now, input): Received) -> Received {
        match input {
            Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) if view.ran => {
                (now, Input::Written(WriteResult::Rejected { maybe_applied }))
            }
            other => (now, other),
        }
    }

    fn requests(&self, call: &CallTerms, view: CallView, effect: Effect) -> Effect {
        REJECTS_WITHOUT_A_RELEASE.requests(call, view, effect)
    }
}

/// The call does not know that another send of its claim may still arrive.
pub(crate) const FORGETS_A_LATE_CLAIM: Receives = Receives(|_, _, (now, input)| match input {
    Input::Written(WriteResult::Applied { replaced, .. }) => {
        let applied = WriteResult::Applied {
            replaced,
            maybe_again: false,
        };
        (now, Input::Written(applied))
    }
    other => (now, other),
});

/// A release that failed after a rejection counts as applied.
pub(crate) const FAILED_RELEASE_COUNTS_AS_RELEASED: Receives =
    Receives(|_, view, (now, input)| match input {
        // Only a release is sent once and fails for good here.
        Input::Written(WriteResult::Failed {
            kind: WriteErrorKind::Transient,
            ..
        }) if view.releases => (now, Input::Written(WriteResult::APPLIED)),
        other => (now, other),
    });
