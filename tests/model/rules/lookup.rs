//! Deliberate faults of the read before the first claim.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::protocol::{CallTerms, Consistency, Effect, Input, Write};
use idempotency_core::record::Status;
use idempotency_core::time::EpochMillis;

use super::{CallView, Received, Requests, Rules, record_in};

/// A read that finds no response starts the handler.
pub(crate) struct RunsOnAnAbsentRead;

impl Rules for RunsOnAnAbsentRead {
    fn requests(&self, _: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Write(Write::Put(_), _) if view.claims == 0 => Effect::Run,
            other => other,
        }
    }

    fn counts_claims(&self) -> bool {
        true
    }
}

/// A read that finds no response counts as proof that the key is free, so that the claim needs no condition.
pub(crate) struct ClaimsUnconditionallyAfterTheRead;

impl Rules for ClaimsUnconditionallyAfterTheRead {
    fn requests(&self, _: &CallTerms, view: CallView, effect: Effect) -> Effect {
        match effect {
            Effect::Write(Write::Put(record), _) if view.claims == 0 => {
                Effect::Write(Write::Put(record), Condition::All(Vec::new()))
            }
            other => other,
        }
    }

    fn counts_claims(&self) -> bool {
        true
    }
}

/// A response that the read finds is replayed without a check of its window.
pub(crate) struct ReadIgnoresTheWindow;

impl Rules for ReadIgnoresTheWindow {
    fn receives(&self, _: &CallTerms, view: CallView, (now, input): Received) -> Received {
        match &input {
            Input::Read(Some(record))
                if view.claims == 0 && record.status.value() == Some(&Status::Completed) =>
            {
                (EpochMillis::new(0), input)
            }
            _ => (now, input),
        }
    }

    fn counts_claims(&self) -> bool {
        true
    }
}

/// A response that the read finds is replayed for any payload.
pub(crate) struct ReadIgnoresThePayload;

impl Rules for ReadIgnoresThePayload {
    fn receives(&self, call: &CallTerms, view: CallView, (now, mut input): Received) -> Received {
        if view.claims == 0
            && matches!(input, Input::Read(_))
            && let Some(record) = record_in(&mut input)
        {
            record.validation = call.validation.clone().into();
        }
        (now, input)
    }

    fn counts_claims(&self) -> bool {
        true
    }
}

/// Each read is eventually consistent, also the one that finds out what became of a claim whose reply was lost.
pub(crate) const EVERY_READ_IS_EVENTUAL: Requests = Requests(|_, _, effect| match effect {
    Effect::Read(_) => Effect::Read(Consistency::Eventual),
    other => other,
});
