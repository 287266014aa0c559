//! The rules that calls follow: production's, and variants with one deliberate fault.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::decision::Decided;
use idempotency_core::protocol::{
    CallEnd, CallTerms, Consistency, Effect, HandlerEnd, HandlerResult, InFlight, InFlightKey,
    Input, Refusal, RefusalDetail, Resolution, Stage, StagedEnd, Write, WriteErrorKind,
    WriteResult,
};
use idempotency_core::record::{Attribute, Field, OwnerToken, Record, RecordedSteps, Status};
use idempotency_core::time::EpochMillis;

pub(crate) use crate::operator::{DecidesAboutAnyClaim, DecisionKeepsTheOwner, DecisionReports};

/// What a faulty rule can read of its call.
#[derive(Clone, Copy)]
pub(crate) struct CallView {
    /// The time by its clock.
    pub(crate) now: EpochMillis,
    /// True if its handler has been started.
    pub(crate) ran: bool,
    /// The number of claims it sent, if the rules count them.
    pub(crate) claims: u8,
    /// True if its last request was a release.
    pub(crate) releases: bool,
}

/// What a call receives, and when by its clock.
type Received = (EpochMillis, Input);

/// A layer between the protocol and its scenario. The default changes nothing.
pub(crate) trait Rules: Sync {
    /// Returns what the protocol receives instead of `input`.
    fn receives(&self, _: &CallTerms, _: CallView, (now, input): Received) -> Received {
        (now, input)
    }

    /// Returns what the call requests instead of `effect`.
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        effect
    }

    fn counts_claims(&self) -> bool {
        false
    }

    /// Returns the steps to remember of what the call receives.
    fn remembers(&self, _: &Input) -> Option<RecordedSteps> {
        None
    }

    /// Returns the steps that a run begins with. `read` are those of its claim, `seen` those that were remembered.
    fn steps(&self, read: RecordedSteps, _: Option<&RecordedSteps>) -> RecordedSteps {
        read
    }

    /// Returns the key under which calls of a process join.
    fn flight_key(&self, call: &CallTerms) -> InFlightKey {
        InFlightKey::of(call)
    }

    /// Returns the record that a leader shares with its followers, given its last request.
    fn shares(&self, end: &CallEnd, _: &Effect) -> Option<Record> {
        end.confirmed_record().cloned()
    }

    /// Returns the write of an operator's decision, and its condition.
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        (decided.write, decided.condition)
    }
}

/// Rules whose only fault is in what a call receives.
pub(crate) struct Receives(fn(&CallTerms, CallView, Received) -> Received);

impl Rules for Receives {
    fn receives(&self, call: &CallTerms, view: CallView, received: Received) -> Received {
        self.0(call, view, received)
    }
}

/// Rules whose only fault is in what a call requests.
pub(crate) struct Requests(fn(&CallTerms, CallView, Effect) -> Effect);

impl Rules for Requests {
    fn requests(&self, call: &CallTerms, view: CallView, effect: Effect) -> Effect {
        self.0(call, view, effect)
    }
}

/// Production's rules.
pub(crate) struct Production;

impl Rules for Production {}

/// Returns the record that the store shows to a call.
fn record_in(input: &mut Input) -> Option<&mut Record> {
    match input {
        Input::Read(record) => record.as_mut(),
        Input::Written(WriteResult::ConditionFailed { existing, .. }) => existing.as_mut(),
        _ => None,
    }
}

// Deliberate faults of a call by itself: its claims, its handler, its completion and its cache.

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

// Deliberate faults of calls whose store fails.

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

// Deliberate faults of the read before the first claim.

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

// Deliberate faults of single flight.

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

// Deliberate faults of steps: their claims, their writes and their release.

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

// Deliberate faults of a completion with staged writes.

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
