//! The rules that calls follow: production's, and variants with one deliberate fault.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::decision::DecisionWrite;
use idempotency_core::protocol::{
    CallEnd, CallTerms, ClaimEnd, Commits, Consistency, Effect, HandlerResult, InFlightKey, Input,
    Refusal, RefusalDetail, Resolution, Stage, StagedEnd, StepEnd, Undoing, Write, WriteErrorKind,
    WriteResult,
};
use idempotency_core::record::{Attribute, Field, OwnerToken, Record, RecordedSteps, Status};
use idempotency_core::time::EpochMillis;

use super::table::{completes, ends_lease, releases};

/// What a faulty rule can read of its call.
#[derive(Clone, Copy)]
pub(crate) struct CallView<'a> {
    pub(crate) call: &'a CallTerms,
    /// The time by its clock.
    pub(crate) now: EpochMillis,
    /// True if its handler has been started.
    pub(crate) ran: bool,
    /// The number of claims it sent, if the rules count them.
    pub(crate) claims: u8,
    /// True if its last request releases its claim.
    pub(crate) releases: bool,
    /// True if its last request renews its lease.
    pub(crate) renews: bool,
}

/// A layer between the protocol and its scenario.
pub(crate) struct Rules {
    /// Changes what the protocol receives, and the time at which it does.
    pub(crate) receives: fn(&mut CallView<'_>, &mut Input),
    /// Changes what the call requests.
    pub(crate) requests: fn(CallView<'_>, &mut Effect),
    pub(crate) counts_claims: bool,
    /// Returns the steps to remember of what the call receives.
    pub(crate) remembers: fn(&Input) -> Option<RecordedSteps>,
    /// Returns the key under which calls of a process join.
    pub(crate) flight_key: fn(&CallTerms) -> InFlightKey,
    /// Returns the record that a leader shares with its followers, given its last request.
    pub(crate) shares: fn(&CallEnd, &Effect) -> Option<Record>,
    /// Changes an operator's decision.
    pub(crate) decides: fn(&mut DecisionWrite),
    /// True if a run that must only undo starts steps that are not recorded.
    pub(crate) goes_forward: bool,
}

/// Production's rules.
pub(crate) const PRODUCTION: Rules = Rules {
    receives: |_, _| {},
    requests: |_, _| {},
    counts_claims: false,
    remembers: |_| None,
    flight_key: InFlightKey::of,
    shares: |end, _| end.confirmed_record().cloned(),
    decides: |_| {},
    goes_forward: false,
};

/// Returns rules whose only fault is in what a call receives.
const fn receiving(receives: fn(&mut CallView<'_>, &mut Input)) -> Rules {
    Rules {
        receives,
        ..PRODUCTION
    }
}

/// Returns rules whose only fault is in what a call requests.
const fn requesting(requests: fn(CallView<'_>, &mut Effect)) -> Rules {
    Rules {
        requests,
        ..PRODUCTION
    }
}

/// Returns rules whose only fault is in an operator's decision.
const fn deciding(decides: fn(&mut DecisionWrite)) -> Rules {
    Rules {
        decides,
        ..PRODUCTION
    }
}

/// Returns the same rules, which know the number of claims.
const fn counting(mut rules: Rules) -> Rules {
    rules.counts_claims = true;
    rules
}

/// Returns the record that the store shows to a call.
fn record_in(input: &mut Input) -> Option<&mut Record> {
    match input {
        Input::Read(record) => record.as_mut(),
        Input::Written(WriteResult::ConditionFailed { existing, .. }) => existing.as_mut(),
        _ => None,
    }
}

/// Lets the record that the store shows to a call look like one of its payload.
fn ignore_the_payload(view: &CallView<'_>, input: &mut Input) {
    if let Some(record) = record_in(input) {
        record.validation = view.call.validation.clone().into();
    }
}

/// The condition that always holds.
const fn always() -> Condition {
    Condition::All(Vec::new())
}

fn is_failure(input: &Input) -> bool {
    matches!(input, Input::Written(WriteResult::Failed { .. }))
}

// Deliberate faults of a call by itself: its claims, its handler, its completion and its cache.

/// The completion is written unconditionally.
pub(crate) const UNFENCED_COMPLETION: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Update(change), condition) = effect
        && change.set.status.exists()
    {
        *condition = always();
    }
});

/// The window of a response ends when its run does.
pub(crate) const ENDS_THE_WINDOW_AT_ONCE: Rules = requesting(|view, effect| {
    if completes(effect)
        && let Effect::Write(Write::Update(change), _) = effect
    {
        change.set.expiration = Field::Value(view.now.floor_to_seconds());
    }
});

/// A response is kept for the window of the operation, although its handler asked for a shorter one.
pub(crate) const IGNORES_THE_ASKED_WINDOW: Rules = requesting(|view, effect| {
    if completes(effect)
        && let Effect::Write(Write::Update(change), _) = effect
    {
        let window = view.call.policy.expires_after;
        change.set.expiration = Field::Value(view.now.floor_to_seconds().plus(window));
    }
});

/// The release after a run is written unconditionally.
pub(crate) const UNFENCED_RELEASE: Rules = requesting(|view, effect| {
    if view.ran
        && releases(effect)
        && let Effect::Write(_, condition) = effect
    {
        *condition = always();
    }
});

/// A call does not know its own record.
pub(crate) const OWN_RECORD_NOT_RECOGNISED: Rules = receiving(|view, input| {
    if let Some(record) = record_in(input)
        && record.owner.value() == Some(&view.call.owner)
    {
        record.owner = Field::Value(OwnerToken::from_bytes([u8::MAX; 16]));
    }
});

/// A late owner takes any response that it finds, also one of another payload.
pub(crate) const LATE_OWNER_IGNORES_THE_PAYLOAD: Rules = receiving(|view, input| {
    if view.ran {
        ignore_the_payload(view, input);
    }
});

/// A completion that failed counts as stored.
pub(crate) const RESPONDS_BEFORE_CONFIRMED: Rules = receiving(|view, input| {
    if view.ran && is_failure(input) {
        *input = Input::Written(WriteResult::APPLIED);
    }
});

/// A claim that failed counts as not applied, although an earlier send of it may have been applied.
pub(crate) const LAST_ERROR_ALONE: Rules = receiving(|view, input| {
    if let Input::Written(WriteResult::Failed { maybe_applied, .. }) = input
        && !view.ran
    {
        *maybe_applied = false;
    }
});

/// A completion that finds no record is written again, although an earlier send of it may have been applied.
pub(crate) const RESTORES_THOUGH_MAYBE_APPLIED: Rules = receiving(|view, input| {
    if let Input::Written(
        WriteResult::ConditionFailed { maybe_applied, .. }
        | WriteResult::Failed { maybe_applied, .. },
    ) = input
        && view.ran
    {
        *maybe_applied = false;
    }
});

/// A cached response is used without a check of its window.
pub(crate) const CACHE_IGNORES_THE_WINDOW: Rules = receiving(|view, input| {
    if matches!(input, Input::Local(Some(_))) {
        view.now = EpochMillis::new(0);
    }
});

/// Each claim of a call carries a new token.
pub(crate) const NEW_TOKEN_FOR_EACH_TRY: Rules = Rules {
    receives: |view, input| {
        if let Some(record) = record_in(input)
            && record.owner.value() == Some(&token(view.call, view.claims))
        {
            record.owner = Field::Value(view.call.owner.clone());
        }
    },
    requests: |view, effect| match effect {
        Effect::Write(Write::Put(record), _)
            if record.status.value() == Some(&Status::InProgress) =>
        {
            record.owner = Field::Value(token(view.call, view.claims + 1));
        }
        Effect::Write(Write::Update(_) | Write::Delete, condition) => {
            let text = |text: &str| Operand::Text(text.to_owned().into());
            let owner = token(view.call, view.claims);
            *condition = Condition::All(vec![
                Condition::Equals(Attribute::Owner, text(owner.as_str())),
                Condition::Equals(Attribute::Status, text(Status::InProgress.as_str())),
            ]);
        }
        _ => {}
    },
    counts_claims: true,
    ..PRODUCTION
};

fn token(call: &CallTerms, tries: u8) -> OwnerToken {
    OwnerToken::from_record(format!("{}.{tries}", call.owner.as_str()))
}

/// The handler starts although the lease expired before the reply to the claim came.
pub(crate) const STARTS_ON_EXPIRED_LEASE: Rules = receiving(|view, input| {
    if let Input::Written(WriteResult::Applied { maybe_again, .. }) = input
        && let Some(deadline) = view.call.deadline
        && !*maybe_again
        && !view.ran
    {
        view.now = view.now.min(deadline);
    }
});

/// A claim is kept only for the window, and any record whose window has ended may be replaced.
pub(crate) const WINDOW_FREES_A_LIVE_CLAIM: Rules = requesting(|view, effect| {
    if let Effect::Write(Write::Put(record), condition) = effect
        && !view.ran
    {
        let now = view.now.floor_to_seconds();
        let expired = Condition::Below(Attribute::Expiration, Operand::Seconds(now));
        record.expiration = Field::Value(now.plus(view.call.policy.expires_after));
        *condition = Condition::Any(vec![expired, condition.clone()]);
    }
});

/// A claim that failed counts as applied.
pub(crate) const RUNS_ON_A_FAILED_CLAIM: Rules = receiving(|view, input| {
    if !view.ran && is_failure(input) {
        *input = Input::Written(WriteResult::APPLIED);
    }
});

/// A call that lost its claim to another runs its handler again.
pub(crate) const RUNS_AGAIN_AFTER_LOST_OWNERSHIP: Rules = requesting(|_, effect| {
    if matches!(effect, Effect::Finish(end) if end.error_kind() == Some(ErrorKind::LostOwnership)) {
        *effect = Effect::Run;
    }
});

/// Under `hold`, the end of the lease frees the claim.
pub(crate) const TIME_FREES_A_HELD_CLAIM: Rules = requesting(|view, effect| {
    if let Effect::Write(Write::Put(_), condition) = effect
        && !view.ran
    {
        let expired = Condition::Below(Attribute::InProgressExpiration, Operand::Millis(view.now));
        *condition = Condition::Any(vec![expired, condition.clone()]);
    }
});

/// Under `hold`, a panic frees the claim as a failure does.
pub(crate) const PANIC_FREES_A_HELD_CLAIM: Rules = receiving(|_, input| {
    if let Input::HandlerEnded(end) = input
        && end.result == HandlerResult::Panicked
    {
        end.result = HandlerResult::Failed("panic".to_owned());
    }
});

/// Under `hold`, a claim that is kept keeps its lease.
pub(crate) const KEEPS_THE_LEASE: Rules = requesting(|_, effect| {
    if ends_lease(effect) {
        *effect = Effect::Finish(CallEnd::own(Some(ClaimEnd::Kept)));
    }
});

/// Under `hold`, the end of a lease is written unconditionally.
pub(crate) const UNFENCED_END_OF_A_LEASE: Rules = requesting(|_, effect| {
    if ends_lease(effect)
        && let Effect::Write(_, condition) = effect
    {
        *condition = always();
    }
});

/// Under `hold`, the end of a lease is recorded as a failure, which frees the key.
pub(crate) const END_OF_A_LEASE_FREES: Rules = requesting(|_, effect| {
    if ends_lease(effect)
        && let Effect::Write(Write::Update(change), _) = effect
    {
        change.set.failure = Field::Value("unreported".to_owned());
    }
});

/// An end that reports nothing counts as a failure that the handler reported.
pub(crate) const UNREPORTED_COUNTS_AS_FAILURE: Rules = receiving(|_, input| {
    if let Input::HandlerEnded(end) = input
        && let HandlerResult::Unreported(name) = &end.result
    {
        end.result = HandlerResult::Failed(name.clone());
    }
});

/// A claim is written without a lease.
pub(crate) const CLAIM_WITHOUT_LEASE: Rules = requesting(|view, effect| {
    if let Effect::Write(Write::Put(record), _) = effect
        && !view.ran
    {
        record.in_progress_expiration = Field::Absent;
    }
});

// Deliberate faults of calls whose store fails.

/// A run without a claim.
const RUN: Effect = Effect::RunUnprotected {
    maybe_claimed: false,
};

/// An open circuit counts as a claim.
pub(crate) const OPEN_CIRCUIT_RUNS: Rules = requesting(|_, effect| {
    if let Effect::Finish(end) = effect
        && let Resolution::Refuse(Refusal { detail, .. }) = &end.resolution
        && matches!(detail, Some(RefusalDetail::CircuitOpen(_)))
    {
        *effect = RUN;
    }
});

/// A claim that failed is followed by a run, also under `fail`.
pub(crate) const FAILED_CLAIM_RUNS: Rules = requesting(|_, effect| {
    if matches!(effect, Effect::Finish(end) if end.error_kind() == Some(ErrorKind::StoreFailed)) {
        *effect = RUN;
    }
});

/// A call whose staged writes may not have been applied ends in its handler's own result.
pub(crate) const UNCONFIRMED_WRITES_COUNT_AS_OWN: Rules = requesting(|view, effect| {
    if let Effect::Finish(end) = effect
        && view.ran
        && end.error_kind() == Some(ErrorKind::CompletionUnknown)
    {
        *end = CallEnd::own(None).with_staged(end.staged);
    }
});

/// A refused claim counts as a failure of the store: the record that prevents it is forgotten.
pub(crate) const REFUSAL_COUNTS_AS_FAILURE: Rules = receiving(|view, input| {
    if let Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) = *input
        && !view.ran
    {
        let kind = WriteErrorKind::Transient;
        *input = Input::Written(WriteResult::Failed {
            maybe_applied,
            kind,
        });
    }
});

/// A call of the process that runs looks like one that only asks the store.
pub(crate) const RUNNING_LEADER_IS_OVERLOOKED: Rules = receiving(|_, input| {
    if let Input::LeaderProgress(leader) = input {
        leader.stage = Stage::Claiming;
    }
});

// Deliberate faults of the read before the first claim.

/// A read that finds no response starts the handler.
pub(crate) const RUNS_ON_AN_ABSENT_READ: Rules = counting(requesting(|view, effect| {
    if matches!(effect, Effect::Write(Write::Put(_), _)) && view.claims == 0 {
        *effect = Effect::Run;
    }
}));

/// A read that finds no response counts as proof that the key is free, so that the claim needs no condition.
pub(crate) const CLAIMS_UNCONDITIONALLY_AFTER_THE_READ: Rules =
    counting(requesting(|view, effect| {
        if let Effect::Write(Write::Put(_), condition) = effect
            && view.claims == 0
        {
            *condition = always();
        }
    }));

/// A response that the read finds is replayed without a check of its window.
pub(crate) const READ_IGNORES_THE_WINDOW: Rules = counting(receiving(|view, input| {
    if let Input::Read(Some(record)) = input
        && view.claims == 0
        && record.status.value() == Some(&Status::Completed)
    {
        view.now = EpochMillis::new(0);
    }
}));

/// A response that the read finds is replayed for any payload.
pub(crate) const READ_IGNORES_THE_PAYLOAD: Rules = counting(receiving(|view, input| {
    if view.claims == 0 && matches!(input, Input::Read(_)) {
        ignore_the_payload(view, input);
    }
}));

/// Each read is eventually consistent, also the one that finds out what became of a claim whose reply was lost.
pub(crate) const EVERY_READ_IS_EVENTUAL: Rules = requesting(|_, effect| {
    if let Effect::Read(consistency) = effect {
        *consistency = Consistency::Eventual;
    }
});

// Deliberate faults of single flight.

/// Calls of one key join, also with different payloads.
pub(crate) const SINGLE_FLIGHT_IGNORES_THE_PAYLOAD: Rules = Rules {
    flight_key: |call| {
        InFlightKey::of(&CallTerms {
            validation: None,
            ..call.clone()
        })
    },
    ..PRODUCTION
};

/// The same, and a shared response is used without a check of its payload.
pub(crate) const LEADER_SHARES_WITH_ANOTHER_PAYLOAD: Rules = Rules {
    receives: |view, input| {
        if let Input::LeaderDone(Some(record)) = input {
            record.validation = view.call.validation.clone().into();
        }
    },
    ..SINGLE_FLIGHT_IGNORES_THE_PAYLOAD
};

/// A call is followed although its lease has expired.
pub(crate) const LEADER_OUTLIVES_ITS_LEASE: Rules = receiving(|view, input| {
    if let Input::LeaderProgress(flight) = input {
        flight.until = flight.until.max(view.now);
    }
});

/// A shared response is used without a check of its window.
pub(crate) const FOLLOWER_IGNORES_THE_WINDOW: Rules = receiving(|view, input| {
    if matches!(input, Input::LeaderDone(Some(_))) {
        view.now = EpochMillis::new(0);
    }
});

/// A call follows another for twice the time that the protocol asks for.
pub(crate) const FOLLOWER_IGNORES_ITS_DEADLINE: Rules = requesting(|_, effect| {
    if let Effect::AwaitLeader(at_most) = effect {
        *at_most *= 2;
    }
});

/// A waiting call is followed although the lease that it waits for has expired.
pub(crate) const WAIT_OUTLIVES_THE_LEASE: Rules = receiving(|_, input| {
    if let Input::LeaderProgress(flight) = input
        && let Stage::Waiting { until, .. } = &mut flight.stage
    {
        *until = None;
    }
});

/// A leader shares a response before it is confirmed.
pub(crate) const LEADER_SHARES_UNCONFIRMED: Rules = Rules {
    shares: |end, asked| match asked {
        Effect::Write(Write::Update(change), _) if change.set.data.exists() => {
            Some(change.set.clone())
        }
        _ => end.confirmed_record().cloned(),
    },
    ..PRODUCTION
};

// Deliberate faults of steps: their claims, their writes and their release.

/// A run begins with the steps that the failed claim brought back, and not with those after the takeover.
pub(crate) const STEPS_OF_THE_FAILED_CLAIM: Rules = Rules {
    remembers: |input| match input {
        Input::Written(WriteResult::ConditionFailed { existing, .. }) => {
            existing.as_ref()?.steps.value().cloned()
        }
        _ => None,
    },
    ..PRODUCTION
};

/// A takeover replaces the whole record, on the same condition.
pub(crate) const TAKEOVER_BY_PUT: Rules = requesting(|view, effect| {
    if let Effect::Write(write, _) = effect
        && let Write::Update(change) = write
        && change.set.owner.exists()
    {
        *write = Write::Put(Record {
            status: Field::Value(Status::InProgress),
            validation: view.call.validation.clone().into(),
            steps: Field::Value(RecordedSteps::default()),
            ..change.set.clone()
        });
    }
});

/// A takeover does not ask whether the lease is the one that was read.
pub(crate) const TAKEOVER_WITHOUT_LEASE: Rules =
    requesting(|_, effect| remove_comparison(effect, Attribute::InProgressExpiration));

/// A call takes over the steps of any payload.
pub(crate) const TAKEOVER_OF_ANOTHER_PAYLOAD: Rules = Rules {
    receives: |view, input| {
        if !view.ran
            && let Some(record) = record_in(input)
            && record.in_progress_expiration.value() < Some(&view.now)
            && record.status.value() == Some(&Status::InProgress)
        {
            record.validation = view.call.validation.clone().into();
        }
    },
    requests: |_, effect| remove_comparison(effect, Attribute::Validation),
    ..PRODUCTION
};

/// The result of a step is written without its fence.
pub(crate) const UNFENCED_STEP: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Step { .. }, condition) = effect {
        *condition = Condition::Exists(Attribute::Steps);
    }
});

/// The result of a step is recorded under the name of another.
pub(crate) const MISNAMES_A_STEP: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Step { name, .. }, _) = effect {
        *name = "b".into();
    }
});

/// The release after a failure deletes the record, with its steps and its mark.
pub(crate) const RELEASE_DELETES_ALL: Rules = requesting(|_, effect| {
    if let Effect::Write(write, _) = effect
        && matches!(write, Write::Update(change) if change.set.failure.exists())
    {
        *write = Write::Delete;
    }
});

/// Removes the comparison of one attribute from the condition of a takeover.
fn remove_comparison(effect: &mut Effect, attribute: Attribute) {
    if let Effect::Write(Write::Update(change), Condition::All(all)) = effect
        && change.set.owner.exists()
    {
        all.retain(|condition| match condition {
            Condition::Equals(of, _) | Condition::Missing(of) => *of != attribute,
            _ => true,
        });
    }
}

// Deliberate faults of undoing.

/// A run after the decision starts steps that are not recorded.
pub(crate) const UNDOING_GOES_FORWARD: Rules = Rules {
    goes_forward: true,
    ..PRODUCTION
};

/// The decision counts as recorded although its write failed.
pub(crate) const UNDOES_BEFORE_THE_DECISION: Rules = RESPONDS_BEFORE_CONFIRMED;

/// Changes what a decision records of the steps that are left.
fn change_plan(effect: &mut Effect, change: fn(&mut Vec<String>)) {
    if let Effect::Write(Write::Update(update), _) = effect
        && update.set.status.value() == Some(&Status::Undoing)
        && let Some(mut undoing) = Undoing::of(&update.set)
    {
        change(&mut undoing.left);
        update.set.undo = Field::Value(undoing.to_json());
    }
}

/// The decision leaves a step out.
pub(crate) const SKIPS_AN_UNDO: Rules = requesting(|_, effect| {
    change_plan(effect, |left| left.truncate(1));
});

/// The decision names the steps in the order in which they ran.
pub(crate) const UNDOES_FORWARD: Rules = requesting(|_, effect| {
    change_plan(effect, |left| left.reverse());
});

/// The final response is stored with the decision.
pub(crate) const COMPLETES_BEFORE_UNDOING: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Update(update), _) = effect
        && update.set.status.value() == Some(&Status::Undoing)
    {
        update.set.status = Field::Value(Status::Completed);
    }
});

/// A step whose result may not be recorded counts as recorded when the handler decides.
pub(crate) const DECIDES_BESIDE_A_LOST_STEP: Rules = receiving(|_, input| {
    if let Input::HandlerEnded(end) = input
        && end.undo.is_some()
    {
        end.steps = Some(StepEnd::Recorded);
    }
});

/// A run undoes what is undone already.
pub(crate) const FORGETS_WHAT_IS_UNDONE: Rules = receiving(|_, input| {
    if let Input::Read(Some(record)) = input
        && let Some(mut undoing) = Undoing::of(record)
    {
        undoing.left.splice(0..0, undoing.undone.drain(..));
        record.undo = Field::Value(undoing.to_json());
    }
});

/// How far the steps are undone is recorded without a fence.
pub(crate) const UNFENCED_UNDO: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Update(update), condition) = effect
        && update.set.undo.exists()
        && !update.set.status.exists()
    {
        *condition = always();
    }
});

/// The record of an undo does not compare how far the steps are undone.
pub(crate) const UNDO_IGNORES_THE_PROGRESS: Rules = requesting(|_, effect| {
    if let Effect::Write(_, Condition::All(all)) = effect {
        all.retain(|condition| !matches!(condition, Condition::Equals(Attribute::Undo, _)));
    }
});

/// A takeover makes a record whose steps are being undone a claim again.
pub(crate) const TAKEOVER_FORGETS_THE_DECISION: Rules = requesting(|_, effect| {
    if let Effect::Write(Write::Update(update), _) = effect
        && update.set.owner.exists()
    {
        update.set.status = Field::Value(Status::InProgress);
    }
});

// Deliberate faults of a completion with staged writes.

/// The transaction has no condition on the record, so a repeated send is applied again.
pub(crate) const REPEATS_WITHOUT_FENCE: Rules = requesting(|_, effect| {
    if let Effect::Transact(_, condition) = effect {
        *condition = always();
    }
});

/// The completion is written alone, and the staged writes are left out.
pub(crate) const COMPLETES_WITHOUT_THE_WRITES: Rules = requesting(|_, effect| {
    if let Effect::Transact(write, condition) = effect {
        *effect = Effect::Write(write.clone(), condition.clone());
    }
});

/// A rejection counts as final: the claim is not released, so an earlier send can still be applied.
pub(crate) const REJECTS_WITHOUT_A_RELEASE: Rules = requesting(|view, effect| {
    if view.ran && releases(effect) {
        let rejected = CallEnd::refused(ErrorKind::TransactionRejected);
        *effect = Effect::Finish(rejected.with_staged(Some(StagedEnd::Rejected)));
    }
});

/// The condition of a staged write decides before that of the record, and the rejection counts as final.
pub(crate) const BUSINESS_CONDITION_DECIDES_FIRST: Rules = Rules {
    receives: |view, input| {
        if let Input::Written(WriteResult::ConditionFailed { maybe_applied, .. }) = *input
            && view.ran
        {
            *input = Input::Written(WriteResult::Rejected { maybe_applied });
        }
    },
    ..REJECTS_WITHOUT_A_RELEASE
};

/// The call does not know that another send of its claim may still arrive.
pub(crate) const FORGETS_A_LATE_CLAIM: Rules = receiving(|_, input| {
    if let Input::Written(WriteResult::Applied { maybe_again, .. }) = input {
        *maybe_again = false;
    }
});

/// A release that failed after a rejection counts as applied.
pub(crate) const FAILED_RELEASE_COUNTS_AS_RELEASED: Rules = receiving(|view, input| {
    // Only a release is sent once and fails for good here.
    if let Input::Written(WriteResult::Failed { kind, .. }) = input
        && *kind == WriteErrorKind::Transient
        && view.releases
    {
        *input = Input::Written(WriteResult::APPLIED);
    }
});

// Deliberate faults of a transaction that the handler wrote into.

/// A transaction that can commit once is sent again.
pub(crate) const COMMITS_AGAIN: Rules = receiving(|_, input| {
    if let Input::HandlerEnded(end) = input
        && end.staged.is_some()
    {
        end.staged = Some(Commits::Again);
    }
});

/// A commit whose reply was lost counts as rolled back. The record is not read.
pub(crate) const LOST_COMMIT_COUNTS_AS_ROLLED_BACK: Rules = requesting(|view, effect| {
    if view.ran && matches!(effect, Effect::Read(_)) {
        let failed = CallEnd::refused(ErrorKind::CompletionUnknown);
        *effect = Effect::Finish(failed.with_staged(Some(StagedEnd::Dropped)));
    }
});

/// A commit whose reply was lost counts as rolled back if the record is still the claim: it is not released.
pub(crate) const CLAIM_COUNTS_AS_ROLLED_BACK: Rules = requesting(|view, effect| {
    if view.ran && releases(effect) {
        let failed = CallEnd::refused(ErrorKind::CompletionUnknown);
        *effect = Effect::Finish(failed.with_staged(Some(StagedEnd::Dropped)));
    }
});

// Deliberate faults of renewals.

/// Removes the parts of the condition of a renewal for which `is_left_out` returns true.
fn leave_out(view: CallView<'_>, effect: &mut Effect, is_left_out: fn(&Condition) -> bool) {
    if let Effect::Write(_, Condition::All(all)) = effect
        && view.renews
    {
        all.retain(|part| !is_left_out(part));
        for part in all {
            if let Condition::All(all) = part {
                all.retain(|part| !is_left_out(part));
            }
        }
    }
}

/// A renewal does not ask for the owner.
pub(crate) const UNFENCED_RENEWAL: Rules = requesting(|view, effect| {
    leave_out(view, effect, |part| {
        matches!(part, Condition::Equals(Attribute::Owner, _))
    });
});

/// A renewal does not ask whether the key is completed.
pub(crate) const RENEWAL_IGNORES_THE_STATUS: Rules = requesting(|view, effect| {
    leave_out(view, effect, |part| {
        matches!(part, Condition::Equals(Attribute::Status, _))
    });
});

/// A renewal does not ask whether the lease lasts longer already.
pub(crate) const RENEWAL_SHORTENS_THE_LEASE: Rules = requesting(|view, effect| {
    leave_out(view, effect, |part| matches!(part, Condition::Below(..)));
});

/// A renewal does not ask whether the lease was ended.
pub(crate) const RENEWAL_REVIVES: Rules = requesting(|view, effect| {
    leave_out(view, effect, |part| matches!(part, Condition::Differs(..)));
});

/// A renewal does not move the end of the record.
pub(crate) const RENEWAL_LEAVES_THE_EXPIRATION: Rules = requesting(|view, effect| {
    if let Effect::Write(Write::Update(change), _) = effect
        && view.renews
    {
        change.set.expiration = Field::Absent;
    }
});

/// A renewal that was refused counts as applied: it arrived late, or the claim is gone.
pub(crate) const REFUSED_RENEWAL_COUNTS: Rules = receiving(|view, input| {
    if view.renews && matches!(input, Input::Written(WriteResult::ConditionFailed { .. })) {
        *input = Input::Written(WriteResult::APPLIED);
    }
});

/// A renewal that failed counts as applied: its run forgets that the claim may be gone.
pub(crate) const FAILED_RENEWAL_COUNTS: Rules = receiving(|view, input| {
    if view.renews && is_failure(input) {
        *input = Input::Written(WriteResult::APPLIED);
    }
});

// Deliberate faults of a decision.

/// A decision is applied to any claim, not only to the one that the operator saw.
pub(crate) const DECIDES_ABOUT_ANY_CLAIM: Rules = deciding(|decided| {
    let in_progress = Operand::status(&Status::InProgress);
    decided.condition = Condition::Equals(Attribute::Status, in_progress);
});

/// A freed key counts as one whose run reported that it had no effect.
pub(crate) const DECISION_REPORTS: Rules = deciding(|decided| {
    if let Write::Update(change) = &mut decided.write
        && change.set.failure.exists()
    {
        change.set.failure = Field::Value("E".to_owned());
    }
});

/// A decision leaves the token of the owner in the record.
pub(crate) const DECISION_KEEPS_THE_OWNER: Rules = deciding(|decided| {
    if let Write::Update(change) = &mut decided.write {
        change.remove.retain(|removed| *removed != Attribute::Owner);
    }
});
