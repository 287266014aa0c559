//! Deliberate faults of single flight.

use idempotency_core::protocol::{
    CallEnd, CallTerms, Effect, InFlight, InFlightKey, Input, Stage, Write,
};
use idempotency_core::record::Record;
use idempotency_core::time::EpochMillis;

use super::{CallView, Received, Receives, Requests, Rules};

/// Calls of one key join, also with different payloads.
pub(crate) struct SingleFlightIgnoresThePayload;

impl Rules for SingleFlightIgnoresThePayload {
    fn flight_key(&self, call: &CallTerms) -> InFlightKey {
        key_without_payload(call)
    }
}

/// The same, and a shared response is used without a check of its payload.
pub(crate) struct LeaderSharesWithAnotherPayload;

impl Rules for LeaderSharesWithAnotherPayload {
    fn flight_key(&self, call: &CallTerms) -> InFlightKey {
        key_without_payload(call)
    }

    fn receives(&self, call: &CallTerms, _: CallView, (now, mut input): Received) -> Received {
        if let Input::LeaderDone(Some(record)) = &mut input {
            record.validation = call.validation.clone().into();
        }
        (now, input)
    }
}

fn key_without_payload(call: &CallTerms) -> InFlightKey {
    InFlightKey::of(&CallTerms {
        validation: None,
        ..call.clone()
    })
}

/// A call is followed although its lease has expired.
pub(crate) const LEADER_OUTLIVES_ITS_LEASE: Receives = Receives(|_, _, (now, input)| match input {
    Input::LeaderProgress(flight) => {
        let until = flight.until.max(now);
        (now, Input::LeaderProgress(InFlight { until, ..flight }))
    }
    other => (now, other),
});

/// A shared response is used without a check of its window.
pub(crate) const FOLLOWER_IGNORES_THE_WINDOW: Receives =
    Receives(|_, _, (now, input)| match input {
        Input::LeaderDone(Some(_)) => (EpochMillis::new(0), input),
        other => (now, other),
    });

/// A call follows another for twice the time that the protocol asks for.
pub(crate) const FOLLOWER_IGNORES_ITS_DEADLINE: Requests = Requests(|_, _, effect| match effect {
    Effect::AwaitLeader(at_most) => Effect::AwaitLeader(at_most * 2),
    other => other,
});

/// A waiting call is followed although the lease that it waits for has expired.
pub(crate) const WAIT_OUTLIVES_THE_LEASE: Receives = Receives(|_, _, (now, input)| match input {
    Input::LeaderProgress(InFlight {
        stage: Stage::Waiting { round, .. },
        until,
    }) => {
        let stage = Stage::Waiting { until: None, round };
        (now, Input::LeaderProgress(InFlight { stage, until }))
    }
    other => (now, other),
});

/// A leader shares a response before it is confirmed.
pub(crate) struct LeaderSharesUnconfirmed;

impl Rules for LeaderSharesUnconfirmed {
    fn shares(&self, end: &CallEnd, asked: &Effect) -> Option<Record> {
        match asked {
            Effect::Write(Write::Update(change), _) if change.set.data.exists() => {
                Some(change.set.clone())
            }
            _ => end.confirmed_record().cloned(),
        }
    }
}
