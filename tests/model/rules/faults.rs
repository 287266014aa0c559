//! Deliberate faults of a call by itself: its claims, its handler, its completion and its cache.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::{
    CallTerms, Effect, HandlerEnd, HandlerResult, Input, Write, WriteResult,
};
use idempotency_core::record::{Attribute, Field, OwnerToken, Record, Status};
use idempotency_core::time::EpochMillis;

use super::{CallView, Received, Receives, Requests, Rules, record_in};

/// The completion is written unconditionally.
pub(crate) const UNFENCED_COMPLETION: Requests = Requests(|_, _, effect| match effect {
    Effect::Write(Write::Update(change), _) if change.set.status.exists() => {
        Effect::Write(Write::Update(change), Condition::All(Vec::new()))
    }
    other => other,
});

/// The release deletes unconditionally.
pub(crate) const UNFENCED_RELEASE: Requests = Requests(|_, _, effect| match effect {
    Effect::Write(Write::Delete, _) => Effect::Write(Write::Delete, Condition::All(Vec::new())),
    other => other,
});

/// A call does not know its own record.
pub(crate) const OWN_RECORD_NOT_RECOGNISED: Receives = Receives(|call, _, (now, mut input)| {
    if let Some(record) = record_in(&mut input)
        && record.owner.value() == Some(&call.owner)
    {
        record.owner = Field::Value(OwnerToken::from_bytes([u8::MAX; 16]));
    }
    (now, input)
});

/// A late owner takes any response that it finds, also one of another payload.
pub(crate) const LATE_OWNER_IGNORES_THE_PAYLOAD: Receives =
    Receives(|call, view, (now, mut input)| {
        if view.ran
            && let Some(record) = record_in(&mut input)
        {
            record.validation = call.validation.clone().into();
        }
        (now, input)
    });

/// A completion that failed counts as stored.
pub(crate) const RESPONDS_BEFORE_CONFIRMED: Receives =
    Receives(|_, view, (now, input)| match input {
        Input::Written(WriteResult::Failed { .. }) if view.ran => {
            (now, Input::Written(WriteResult::APPLIED))
        }
        other => (now, other),
    });

/// A claim that failed counts as not applied, although an earlier send of it may have been applied.
pub(crate) const LAST_ERROR_ALONE: Receives = Receives(|_, view, (now, mut input)| {
    if let Input::Written(WriteResult::Failed { maybe_applied, .. }) = &mut input
        && !view.ran
    {
        *maybe_applied = false;
    }
    (now, input)
});

/// A completion that finds no record is written again, although an earlier send of it may have been applied.
pub(crate) const RESTORES_THOUGH_MAYBE_APPLIED: Receives = Receives(|_, view, (now, mut input)| {
    if let Input::Written(
        WriteResult::ConditionFailed { maybe_applied, .. }
        | WriteResult::Failed { maybe_applied, .. },
    ) = &mut input
        && view.ran
    {
        *maybe_applied = false;
    }
    (now, input)
});

/// A cached response is used without a check of its window.
pub(crate) const CACHE_IGNORES_THE_WINDOW: Receives = Receives(|_, _, (now, input)| match input {
    Input::Local(Some(_)) => (EpochMillis::new(0), input),
    other => (now, other),
});

/// Each claim of a call carries a new token.
pub(crate) struct NewTokenForEachTry;

impl NewTokenForEachTry {
    fn token(call: &CallTerms, tries: u8) -> OwnerToken {
        OwnerToken::from_record(format!("{}.{tries}", call.owner.as_str()))
    }
}

impl Rules for NewTokenForEachTry {
    fn receives(&self, call: &CallTerms, view: CallView, (now, mut input): Received) -> Received {
        if let Some(record) = record_in(&mut input)
            && record.owner.value() == Some(&Self::token(call, view.claims))
        {
            record.owner = Field::Value(call.owner.clone());
        }
        (now, input)
    }

    fn requests(&self, call: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Write(Write::Put(record), condition)
                if record.status.value() == Some(&Status::InProgress) =>
            {
                let owner = Field::Value(Self::token(call, view.claims + 1));
                Effect::Write(Write::Put(Record { owner, ..record }), condition)
            }
            Effect::Write(Write::Update(change), _) => {
                Effect::Write(Write::Update(change), held(call, view))
            }
            Effect::Write(Write::Delete, _) => Effect::Write(Write::Delete, held(call, view)),
            other => other,
        }
    }

    fn counts_claims(&self) -> bool {
        true
    }
}

fn held(call: &CallTerms, view: CallView) -> Condition {
    let token = NewTokenForEachTry::token(call, view.claims);
    let text = |text: &str| Operand::Text(text.to_owned());
    Condition::All(vec![
        Condition::Equals(Attribute::Owner, text(token.as_str())),
        Condition::Equals(Attribute::Status, text(Status::InProgress.as_str())),
    ])
}

/// The handler starts although the lease expired before the reply to the claim came.
pub(crate) const STARTS_ON_EXPIRED_LEASE: Receives = Receives(|call, view, (now, input)| {
    let now = match (&input, call.deadline) {
        (
            Input::Written(WriteResult::Applied {
                maybe_again: false, ..
            }),
            Some(deadline),
        ) if !view.ran => now.min(deadline),
        _ => now,
    };
    (now, input)
});

/// A claim is kept only for the window, and any record whose window has ended may be replaced.
pub(crate) const WINDOW_FREES_A_LIVE_CLAIM: Requests =
    Requests(|call, view, effect| match effect {
        Effect::Write(Write::Put(record), condition) if !view.ran => {
            let now = view.now.floor_to_seconds();
            let expired = Condition::Below(Attribute::Expiration, Operand::Seconds(now));
            let expiration = Field::Value(now.plus(call.policy.expires_after));
            let record = Record {
                expiration,
                ..record
            };
            Effect::Write(Write::Put(record), Condition::Any(vec![expired, condition]))
        }
        other => other,
    });

/// A claim that failed counts as applied.
pub(crate) const RUNS_ON_A_FAILED_CLAIM: Receives = Receives(|_, view, (_, input)| match input {
    Input::Written(WriteResult::Failed { .. }) if !view.ran => {
        (view.now, Input::Written(WriteResult::APPLIED))
    }
    other => (view.now, other),
});

/// A call that lost its claim to another runs its handler again.
pub(crate) const RUNS_AGAIN_AFTER_LOST_OWNERSHIP: Requests =
    Requests(|_, _, effect| match effect {
        Effect::Finish(end) if end.error_kind() == Some(ErrorKind::LostOwnership) => Effect::Run,
        other => other,
    });

/// Under `hold`, the end of the lease frees the claim.
pub(crate) const TIME_FREES_A_HELD_CLAIM: Requests = Requests(|_, view, effect| match effect {
    Effect::Write(Write::Put(record), condition) if !view.ran => {
        let expired = Condition::Below(Attribute::InProgressExpiration, Operand::Millis(view.now));
        Effect::Write(Write::Put(record), Condition::Any(vec![expired, condition]))
    }
    other => other,
});

/// Under `hold`, a panic frees the claim as a failure does.
pub(crate) const PANIC_FREES_A_HELD_CLAIM: Receives = Receives(|_, _, (now, input)| match input {
    Input::HandlerEnded(end) if end.result == HandlerResult::Panicked => {
        let result = HandlerResult::Failed("panic".to_owned());
        (now, Input::HandlerEnded(HandlerEnd { result, ..end }))
    }
    other => (now, other),
});

/// An end that reports nothing counts as a failure that the handler reported.
pub(crate) const UNREPORTED_COUNTS_AS_FAILURE: Receives =
    Receives(|_, _, (now, input)| match input {
        Input::HandlerEnded(HandlerEnd {
            result: HandlerResult::Unreported(name),
            ..
        }) => {
            let failed = HandlerResult::Failed(name);
            (now, Input::HandlerEnded(failed.into()))
        }
        other => (now, other),
    });

/// A claim is written without a lease.
pub(crate) const CLAIM_WITHOUT_LEASE: Requests = Requests(|_, view, effect| match effect {
    Effect::Write(Write::Put(mut record), condition) if !view.ran => {
        record.in_progress_expiration = Field::Absent;
        Effect::Write(Write::Put(record), condition)
    }
    other => other,
});
