//! Deliberate faults of a completion with staged writes.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::protocol::{
    CallEnd, CallTerms, Effect, Input, StagedEnd, Write, WriteErrorKind, WriteResult,
};
use idempotency_core::time::EpochMillis;

use super::{CallView, Rules};

/// The transaction has no condition on the record, so a repeated send is applied again.
pub(crate) struct RepeatsWithoutFence;

impl Rules for RepeatsWithoutFence {
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Transact(write, _) => Effect::Transact(write, Condition::All(Vec::new())),
            other => other,
        }
    }
}

/// The completion is written alone, and the staged writes are left out.
pub(crate) struct CompletesWithoutTheWrites;

impl Rules for CompletesWithoutTheWrites {
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Transact(write, condition) => Effect::Write(write, condition),
            other => other,
        }
    }
}

/// A rejection counts as final: the claim is not released, so an earlier send can still be applied.
pub(crate) struct RejectsWithoutARelease;

impl Rules for RejectsWithoutARelease {
    fn requests(&self, _: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Write(Write::Delete, _) if view.ran => {
                let rejected = CallEnd::refused(ErrorKind::TransactionRejected);
                Effect::Finish(rejected.with_staged(Some(StagedEnd::Rejected)))
            }
            other => other,
        }
    }
}

/// The release after a rejection deletes unconditionally.
pub(crate) struct ReleasesARejectionWithoutFence;

impl Rules for ReleasesARejectionWithoutFence {
    fn requests(&self, _: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Write(Write::Delete, _) if view.ran => {
                Effect::Write(Write::Delete, Condition::All(Vec::new()))
            }
            other => other,
        }
    }
}

/// The condition of a staged write decides before that of the record, and the rejection counts as final.
pub(crate) struct BusinessConditionDecidesFirst;

impl Rules for BusinessConditionDecidesFirst {
    fn receives(
        &self,
        _: &CallTerms,
        view: CallView,
        now: EpochMillis,
        input: Input,
    ) -> (EpochMillis, Input) {
        match input {
            Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) if view.ran => {
                (now, Input::Written(WriteResult::Rejected { maybe_applied }))
            }
            other => (now, other),
        }
    }

    fn requests(&self, call: &CallTerms, view: CallView, effect: Effect) -> Effect {
        RejectsWithoutARelease.requests(call, view, effect)
    }
}

/// The call does not know that another send of its claim may still arrive.
pub(crate) struct ForgetsALateClaim;

impl Rules for ForgetsALateClaim {
    fn receives(
        &self,
        _: &CallTerms,
        _: CallView,
        now: EpochMillis,
        input: Input,
    ) -> (EpochMillis, Input) {
        match input {
            Input::Written(WriteResult::Applied { replaced, .. }) => {
                let applied = WriteResult::Applied {
                    replaced,
                    maybe_again: false,
                };
                (now, Input::Written(applied))
            }
            other => (now, other),
        }
    }
}

/// A release that failed after a rejection counts as applied.
pub(crate) struct FailedReleaseCountsAsReleased;

impl Rules for FailedReleaseCountsAsReleased {
    fn receives(
        &self,
        _: &CallTerms,
        view: CallView,
        now: EpochMillis,
        input: Input,
    ) -> (EpochMillis, Input) {
        match input {
            // Only a release is sent once and fails for good here.
            Input::Written(WriteResult::Failed {
                kind: WriteErrorKind::Transient,
                ..
            }) if view.releases => (now, Input::Written(WriteResult::APPLIED)),
            other => (now, other),
        }
    }
}
