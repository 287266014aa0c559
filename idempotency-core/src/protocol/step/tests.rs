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
    Completion, Consistency, HandlerResult, Refusal, RefusalDetail, Resolution, Write,
    WriteErrorKind, WriteResult,
};
use super::*;
use crate::record::Record;
use crate::record::{Data, Field, Status};
use crate::time::EpochMillis;

/// Feeds inputs at `NOW` and returns the last effect.
fn play(call: CallTerms, inputs: impl IntoIterator<Item = Input>) -> Effect {
    play_at(call, inputs.into_iter().map(|input| (NOW, input)))
}

fn play_at(call: CallTerms, inputs: impl IntoIterator<Item = (EpochMillis, Input)>) -> Effect {
    let (mut attempt, mut effect) = Attempt::begin(call);
    for (now, input) in inputs {
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
const APPLIED: Input = Input::Written(WriteResult::Applied);
const CONDITION_FAILED_WITHOUT_RECORD: Input = Input::Written(WriteResult::ConditionFailed {
    existing: None,
    maybe_applied: false,
});

fn returned() -> Input {
    Input::HandlerDone(HandlerResult::Returned(Data::new("42")))
}

fn mine_completed(data: &str) -> Record {
    Record {
        owner: Field::Value(me()),
        ..completed(data)
    }
}

fn finished(refusal: impl Into<Refusal>) -> Effect {
    Effect::Finish(Resolution::Refuse(refusal.into()))
}
