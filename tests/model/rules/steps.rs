//! Deliberate faults of steps: their claims, their writes and their release.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::protocol::{CallTerms, Effect, Input, Write, WriteResult};
use idempotency_core::record::{Attribute, Field, Record, RecordedSteps, Status};

use super::{CallView, Received, Requests, Rules, record_in};

/// A run begins with the steps that the failed claim brought back, and not with those after the takeover.
pub(crate) struct StepsOfTheFailedClaim;

impl Rules for StepsOfTheFailedClaim {
    fn remembers(&self, input: &Input) -> Option<RecordedSteps> {
        match input {
            Input::Written(WriteResult::ConditionFailed { existing, .. }) => {
                existing.as_ref()?.steps.value().cloned()
            }
            _ => None,
        }
    }

    fn steps(&self, read: RecordedSteps, seen: Option<&RecordedSteps>) -> RecordedSteps {
        seen.cloned().unwrap_or(read)
    }
}

/// A takeover replaces the whole record, on the same condition.
pub(crate) const TAKEOVER_BY_PUT: Requests = Requests(|call, _, effect| match effect {
    Effect::Write(Write::Update(change), condition) if change.set.owner.exists() => {
        let claim = Record {
            status: Field::Value(Status::InProgress),
            validation: call.validation.clone().into(),
            steps: Field::Value(RecordedSteps::default()),
            ..change.set
        };
        Effect::Write(Write::Put(claim), condition)
    }
    other => other,
});

/// A takeover does not ask whether the lease is the one that was read.
pub(crate) const TAKEOVER_WITHOUT_LEASE: Requests =
    Requests(|_, _, effect| without_comparison(effect, Attribute::InProgressExpiration));

/// A call takes over the steps of any payload.
pub(crate) struct TakeoverOfAnotherPayload;

impl Rules for TakeoverOfAnotherPayload {
    fn receives(&self, call: &CallTerms, view: CallView, (now, mut input): Received) -> Received {
        if !view.ran
            && let Some(record) = record_in(&mut input)
            && record.in_progress_expiration.value() < Some(&now)
            && record.status.value() == Some(&Status::InProgress)
        {
            record.validation = call.validation.clone().into();
        }
        (now, input)
    }

    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        without_comparison(effect, Attribute::Validation)
    }
}

/// The result of a step is written without its fence.
pub(crate) const UNFENCED_STEP: Requests = Requests(|_, _, effect| match effect {
    Effect::Write(step @ Write::Step { .. }, _) => {
        Effect::Write(step, Condition::Exists(Attribute::Steps))
    }
    other => other,
});

/// The release after a failure deletes the record, with its steps and its mark.
pub(crate) const RELEASE_DELETES_ALL: Requests = Requests(|_, _, effect| match effect {
    Effect::Write(Write::Update(change), condition) if change.set.failure.exists() => {
        Effect::Write(Write::Delete, condition)
    }
    other => other,
});

/// Removes the comparison of one attribute from the condition of a takeover.
fn without_comparison(effect: Effect, attribute: Attribute) -> Effect {
    let is_of = |condition: &Condition| match condition {
        Condition::Equals(of, _) | Condition::Missing(of) => *of == attribute,
        _ => false,
    };
    match effect {
        Effect::Write(Write::Update(change), Condition::All(mut all))
            if change.set.owner.exists() =>
        {
            all.retain(|condition| !is_of(condition));
            Effect::Write(Write::Update(change), Condition::All(all))
        }
        other => other,
    }
}
