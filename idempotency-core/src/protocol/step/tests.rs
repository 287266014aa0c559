//! Helpers for the tests of the state machine.

mod circuit;
mod claim;
mod completion;
mod in_flight;
mod limits;
mod lookup;
mod operation;
mod steps;
mod transaction;
mod unprotected;
mod wait;

use super::super::condition::{Condition, Operand, claimable, held_by};
use super::super::fixtures::{NOW, another, call, claim_of, completed, me, now_plus, seconds};
use super::super::policy::{OnError, OnInProgress, OnStoreError, OnTimeout};
use super::super::{
    Change, ClaimEnd, Consistency, HandlerEnd, HandlerResult, Refusal, RefusalDetail, StagedEnd,
    StepEnd, Write,
};
use super::*;
use crate::record::{Attribute, Data, Field, Record, Status};
use crate::time::EpochMillis;

/// Feeds inputs at `NOW` and returns the last effect. A claim that is applied replaces nothing.
fn play(call: CallTerms, inputs: impl IntoIterator<Item = Input>) -> Effect {
    play_at(call, inputs.into_iter().map(|input| (NOW, input)))
}

fn play_at(call: CallTerms, inputs: impl IntoIterator<Item = (EpochMillis, Input)>) -> Effect {
    let (mut attempt, mut effect) = Attempt::begin(call);
    for (now, mut input) in inputs {
        if let Input::Written(WriteResult::Applied { replaced, .. }) = &mut input
            && matches!(effect, Effect::Write(Write::Put(_), _))
        {
            *replaced = Some(None);
        }
        (attempt, effect) = attempt.step(now, input);
    }
    effect
}

fn condition_failed(existing: Record) -> Input {
    Input::Written(WriteResult::ConditionFailed {
        existing: Some(existing),
        maybe_applied: false,
    })
}

fn failed(maybe_applied: bool, kind: WriteErrorKind) -> Input {
    Input::Written(WriteResult::Failed {
        maybe_applied,
        kind,
    })
}

fn maybe_applied() -> Input {
    failed(true, WriteErrorKind::Transient)
}

const READ: Effect = Effect::Read(Consistency::Strong);
const MISS: Input = Input::Local(None);
const APPLIED: Input = Input::Written(WriteResult::APPLIED);
const CONDITION_FAILED_WITHOUT_RECORD: Input = Input::Written(WriteResult::ConditionFailed {
    existing: None,
    maybe_applied: false,
});

/// Returns the release that leaves this failure in the record of a claim that was made at `NOW`.
fn failure_left(failure: &str) -> Effect {
    failure_left_at(NOW, failure)
}

/// Returns the same at another time.
fn failure_left_at(now: EpochMillis, failure: &str) -> Effect {
    let window = Duration::from_secs(3_600);
    let set = Record {
        expiration: Field::Value(now.floor_to_seconds().plus(window)),
        in_progress_expiration: Field::Value(now_plus(-1)),
        failure: Field::Value(failure.to_owned()),
        ..Record::default()
    };
    let remove = vec![Attribute::Owner];
    Effect::Write(Write::Update(Change { set, remove }), held_by(&me()))
}

fn returned() -> Input {
    ended(HandlerResult::Returned(Data::new("42")))
}

/// Returns the end of a handler without steps and staged writes.
fn ended(result: HandlerResult) -> Input {
    Input::HandlerEnded(result.into())
}

/// Returns the end of a handler that staged writes.
fn staging(result: HandlerResult) -> Input {
    Input::HandlerEnded(HandlerEnd {
        staged: true,
        ..result.into()
    })
}

/// Returns the end of a call whose caller gets the handler's own result, which is not stored.
fn own(claim: Option<ClaimEnd>) -> Effect {
    Effect::Finish(CallEnd::own(claim))
}

fn mine_completed(data: &str) -> Record {
    Record {
        owner: Field::Value(me()),
        ..completed(data)
    }
}

fn finished(refusal: impl Into<Refusal>) -> Effect {
    Effect::Finish(CallEnd::refused(refusal))
}
