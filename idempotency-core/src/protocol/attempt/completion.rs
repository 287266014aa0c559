//! The completion of a key, alone or in one transaction with the writes that the handler staged, and the release.
//!
//! A transaction that is rejected, or given up before a send of it can have been applied, ends with a release under the fence. Only
//! this release shows that no send of the transaction was applied, and that none will be: a send that arrives later finds another
//! record, or none. One case is left: a late send of the claim makes the claim again, and a late send of the transaction then finds
//! its fence.

use std::time::Duration;

use super::super::CallTerms;
use super::super::classify::{
    RecordState, classify, is_claim_of, is_expired, response_of, same_payload,
};
use super::super::effect::{Effect, WriteErrorKind, WriteResult};
use super::super::end::{CallEnd, ClaimEnd, Commits, Refusal, RefusalDetail, Source, StagedEnd};
use super::super::lease::Lease;
use super::super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff};
use super::super::policy::{OnError, OnTimeout, Steps};
use super::super::requests;
use super::super::run::UNREPORTED;
use super::state::{
    ClaimApplied, Completing, HeldClaim, Next, READ, Releasing, State, Unreported, Unstorable,
    finish,
};
use crate::error::ErrorKind;
use crate::record::{Field, Record, Status};
use crate::time::EpochMillis;

/// The recorded failure of a run whose steps leave no room for its name.
pub(super) const FAILED: &str = "failed";

/// Ends a call whose claim stays under `hold`. The run has ended, so its lease ends first: a duplicate must not wait for it, nor be told
/// that it goes on. If the write fails, the lease ends by itself.
pub(super) fn keep(call: &CallTerms, now: EpochMillis, held: HeldClaim, end: CallEnd) -> Next {
    // A renewal whose reply was lost may have moved the end.
    let is_renewed = matches!(call.lease, Lease::Renewed { .. });
    if is_expired(held.lease_end, now) && !is_renewed {
        return finish(end);
    }
    let lease_end = held.lease_end;
    let effect = requests::end_lease(call, held.claimed_at, held.undoing);
    let end = Box::new(end);
    (State::Keeping { lease_end, end }, effect)
}

/// Returns true if the release keeps the steps.
pub(super) fn keeps_steps(call: &CallTerms, held: HeldClaim) -> bool {
    held.has_steps && call.policy.steps == Steps::Keep
}

/// Returns the write that frees the key after a run without a stored response, or after a rejected transaction. `returned` is true if
/// the handler returned a response that is not stored.
///
/// It deletes the record, unless a later run needs something of it: the steps, the mark of an effect that no run has reported, or a
/// failure that must be recorded.
pub(super) fn free_key(
    call: &CallTerms,
    now: EpochMillis,
    failure: &str,
    held: HeldClaim,
    returned: bool,
) -> Effect {
    let keeps_steps = keeps_steps(call, held);
    let records = call.policy.on_error == OnError::Record && !returned;
    if keeps_steps || held.has_unreported() || records {
        requests::record_failure(call, now, failure, held.claimed_at, keeps_steps)
    } else {
        requests::release(call)
    }
}

/// Sends the completion.
pub(super) fn send_completion(call: &CallTerms, mut completing: Box<Completing>) -> Next {
    completing.tries += 1;
    let undo = completing.undone.as_ref().map(|undone| &*undone.before);
    let staged = completing.staged.is_some();
    let effect = requests::complete(call, &completing.record, staged, undo);
    (State::Completing(completing), effect)
}

/// Handles the result of a completion.
pub(super) fn completion_written(
    call: &CallTerms,
    now: EpochMillis,
    mut completing: Box<Completing>,
    result: WriteResult,
) -> Next {
    match result {
        WriteResult::Applied { .. } => confirmed(completing),
        WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        } => {
            completing.maybe_applied |= maybe_applied;
            match existing {
                Some(existing) => claim_gone(call, now, completing, Some(existing)),
                None => (State::ReadingAfterCompletion(completing), READ),
            }
        }
        WriteResult::Rejected { maybe_applied } => {
            completing.maybe_applied |= maybe_applied;
            free_rejected(call, now, completing, ErrorKind::TransactionRejected.into())
        }
        WriteResult::Failed {
            maybe_applied,
            kind,
        } => {
            completing.maybe_applied |= maybe_applied;
            if completing.staged == Some(Commits::Once) {
                return not_committed(call, now, completing, kind);
            }
            match kind {
                // The effect has happened: complete the key without its response rather than let it run again.
                WriteErrorKind::TooLarge if completing.record.data.exists() => {
                    completing.record.data = Field::Absent;
                    completing.unstorable = Some(Unstorable::OwnCallerOnly);
                    completing.tries = 0;
                    send_completion(call, completing)
                }
                WriteErrorKind::Transient | WriteErrorKind::Refused
                    if completing.tries < MAX_COMPLETIONS
                        && has_time_for(backoff(completing.tries), now, &completing) =>
                {
                    let pause = backoff(completing.tries);
                    (State::RetryingCompletion(completing), Effect::Pause(pause))
                }
                WriteErrorKind::Conflict | WriteErrorKind::Credentials => {
                    send_later(call, now, completing)
                }
                // The store does not accept the transaction.
                WriteErrorKind::TooLarge | WriteErrorKind::Permanent
                    if completing.staged.is_some() =>
                {
                    free_rejected(call, now, completing, ErrorKind::TransactionRejected.into())
                }
                WriteErrorKind::Transient => give_up(call, now, completing),
                _ => not_confirmed(call, now, &completing),
            }
        }
    }
}

/// Handles an open transaction that failed, or whose end is not known. It cannot be sent again.
fn not_committed(
    call: &CallTerms,
    now: EpochMillis,
    completing: Box<Completing>,
    kind: WriteErrorKind,
) -> Next {
    let why = match kind {
        // Its writes may be applied without the completion, because the handler ended it. So no other run may follow at once.
        WriteErrorKind::TooLarge | WriteErrorKind::Permanent if completing.maybe_applied => {
            return not_confirmed(call, now, &completing);
        }
        _ if completing.maybe_applied => return (State::ReadingAfterCompletion(completing), READ),
        WriteErrorKind::Refused => return (State::ReadingAfterCompletion(completing), READ),
        WriteErrorKind::TooLarge | WriteErrorKind::Permanent => ErrorKind::TransactionRejected,
        // It was rolled back, and the same handler may succeed.
        WriteErrorKind::Transient | WriteErrorKind::Conflict | WriteErrorKind::Credentials => {
            ErrorKind::CompletionUnknown
        }
    };
    free_rejected(call, now, completing, why.into())
}

/// Goes on after a pause: sends the completion again, or reads the record again after an open transaction.
pub(super) fn go_on(call: &CallTerms, mut completing: Box<Completing>) -> Next {
    if completing.staged == Some(Commits::Once) {
        completing.tries += 1;
        return (State::ReadingAfterCompletion(completing), READ);
    }
    send_completion(call, completing)
}

/// Handles a read after a completion that failed. After an open transaction only the record shows what became of it, so it is read
/// again.
pub(super) fn read_failed(now: EpochMillis, completing: Box<Completing>) -> Next {
    let pause = backoff(completing.tries);
    if completing.staged == Some(Commits::Once)
        && completing.tries < MAX_COMPLETIONS
        && has_time_for(pause, now, &completing)
    {
        return (State::RetryingCompletion(completing), Effect::Pause(pause));
    }
    not_stored(&completing, ErrorKind::CompletionUnknown)
}

/// Returns true if the lease leaves time for a pause, one more try and its reply. The caller must get its error before the
/// process is killed.
fn has_time_for(pause: Duration, now: EpochMillis, completing: &Completing) -> bool {
    now.until(completing.held.lease_end) > pause + REPLY_RESERVE
}

/// Handles a completion that met the transaction of another call, was throttled, or whose credentials were not accepted. It was not
/// applied, so it is sent again for as long as the lease runs.
fn send_later(call: &CallTerms, now: EpochMillis, mut completing: Box<Completing>) -> Next {
    let conflicts = completing.conflicts.saturating_add(1);
    let pause = backoff(conflicts);
    if !has_time_for(pause, now, &completing) {
        return give_up(call, now, completing);
    }
    completing.conflicts = conflicts;
    completing.tries = completing.tries.saturating_sub(1);
    (State::RetryingCompletion(completing), Effect::Pause(pause))
}

/// Ends a completion that was sent often enough. If no send of a transaction can have been applied, the key is freed: a retry then runs
/// at once, and not after the lease.
fn give_up(call: &CallTerms, now: EpochMillis, completing: Box<Completing>) -> Next {
    // Without staged writes the effects of the run stay, so no other run may follow it at once.
    if completing.maybe_applied || completing.staged.is_none() {
        return not_confirmed(call, now, &completing);
    }
    free_rejected(call, now, completing, ErrorKind::CompletionUnknown.into())
}

/// Frees the key after a transaction that was rejected, that the store does not accept, or that was given up, and after a decision to undo
/// that cannot be followed. `why` is the error of this end.
///
/// The handler returned a response, so it may have had effects beside its staged writes. Nothing reports them, so a mark stays.
pub(super) fn free_rejected(
    call: &CallTerms,
    now: EpochMillis,
    mut completing: Box<Completing>,
    why: Refusal,
) -> Next {
    if completing.held.unreported == Unreported::Step && call.policy.on_timeout == OnTimeout::Hold {
        // An operator must decide, so the claim stays.
        let end = if completing.maybe_applied {
            unknown_end(&completing, ErrorKind::CompletionUnknown)
        } else {
            not_applied_end(&completing, why, Some(ClaimEnd::Kept))
        };
        return keep(call, now, completing.held, end);
    }
    completing.held.unreported = completing.held.unreported.max(Unreported::Effect);
    // The mark alone beside steps: the record may have no room for more.
    let failure = if keeps_steps(call, completing.held) {
        UNREPORTED.to_owned()
    } else {
        format!("{UNREPORTED}: {}", why.kind.name())
    };
    let effect = free_key(call, now, &failure, completing.held, false);
    (State::Freeing { completing, why }, effect)
}

/// Handles the result of the release after a transaction that was rejected or given up. `why` is the error of this end.
pub(super) fn freed(
    call: &CallTerms,
    now: EpochMillis,
    completing: Box<Completing>,
    why: Refusal,
    result: WriteResult,
) -> Next {
    let maybe_applied = completing.maybe_applied;
    match result {
        // The fence held until now, so no send was applied. A send of the claim that comes now makes the claim again, and a send of
        // the transaction after it finds the fence.
        WriteResult::Applied { .. }
            if maybe_applied && completing.held.applied != ClaimApplied::Once =>
        {
            unknown(&completing, ErrorKind::CompletionUnknown)
        }
        // No send can be applied any more.
        WriteResult::Applied { .. } => not_applied(&completing, why, Some(ClaimEnd::Released)),
        // The condition holds for this record, and yet it failed: what is stored is unknown.
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } if is_claim_of(&existing, call) => unknown(&completing, ErrorKind::CompletionUnknown),
        // Another call has the key, and can apply its own writes. Or an operator has freed it.
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } => stored(call, now, &completing, existing)
            .unwrap_or_else(|| unknown(&completing, ErrorKind::LostOwnership)),
        // An earlier send can have been applied in a window that has ended since, or before an eviction.
        WriteResult::ConditionFailed { existing: None, .. } if maybe_applied => {
            unknown(&completing, ErrorKind::LostOwnership)
        }
        WriteResult::ConditionFailed { existing: None, .. } => not_applied(&completing, why, None),
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } if maybe_applied => {
            unknown(&completing, ErrorKind::CompletionUnknown)
        }
        WriteResult::Rejected { .. } | WriteResult::Failed { .. } => {
            not_applied(&completing, why, Some(ClaimEnd::NotReleased))
        }
    }
}

/// Ends a call whose staged writes were certainly not applied, and never will be.
fn not_applied(completing: &Completing, why: Refusal, claim: Option<ClaimEnd>) -> Next {
    finish(not_applied_end(completing, why, claim))
}

fn not_applied_end(completing: &Completing, why: Refusal, claim: Option<ClaimEnd>) -> CallEnd {
    let staged = if why.kind == ErrorKind::TransactionRejected {
        StagedEnd::Rejected
    } else {
        StagedEnd::Dropped
    };
    CallEnd {
        claim,
        ..CallEnd::refused(why).with_staged(completing.staged_end(staged))
    }
}

/// Ends a call of which it is not known whether its completion was applied, or whose response another call can have replaced.
fn unknown(completing: &Completing, kind: ErrorKind) -> Next {
    finish(unknown_end(completing, kind))
}

fn unknown_end(completing: &Completing, kind: ErrorKind) -> CallEnd {
    if completing.undone.is_some() {
        let why =
            RefusalDetail::NotUndone("all are undone, and this may not be recorded".to_owned());
        let end = CallEnd::refused(Refusal::new(kind, why));
        return end.with_staged(completing.staged_end(StagedEnd::Unknown));
    }
    CallEnd::refused(kind).with_staged(completing.staged_end(StagedEnd::Unknown))
}

/// Ends a call whose completion was sent often enough, and is not confirmed. Under `hold` no run follows it, so its lease ends at once: a
/// completion that arrives later finds its fence all the same. Under `rerun` the lease keeps the next run away from a late completion.
fn not_confirmed(call: &CallTerms, now: EpochMillis, completing: &Completing) -> Next {
    if call.policy.on_timeout == OnTimeout::Hold {
        let end = unknown_end(completing, ErrorKind::CompletionUnknown);
        return keep(call, now, completing.held, end);
    }
    not_stored(completing, ErrorKind::CompletionUnknown)
}

/// Handles a claim that is gone: `existing` is not this call's claim any more, or there is no record.
pub(super) fn claim_gone(
    call: &CallTerms,
    now: EpochMillis,
    completing: Box<Completing>,
    existing: Option<Record>,
) -> Next {
    let expired = is_expired(completing.held.lease_end, now);
    match existing {
        Some(existing) => other_record(call, now, completing, existing),
        // A transaction is not restored: nothing of it was applied, and "no record" is no fence: a late send would apply it again.
        None if completing.staged.is_some() || completing.maybe_applied || expired => {
            not_stored(&completing, ErrorKind::LostOwnership)
        }
        None => {
            let effect = requests::restore(call, &completing.record, completing.held.lease_end);
            (State::Restoring(completing), effect)
        }
    }
}

/// Handles the record of a call whose claim was gone before the handler had ended. A response that another call has stored is the
/// response of this call too.
pub(super) fn claim_lost(
    call: &CallTerms,
    now: EpochMillis,
    staged: bool,
    existing: Option<Record>,
) -> Next {
    // The completion was not sent.
    let dropped = staged.then_some(StagedEnd::Dropped);
    match existing {
        Some(existing) if completed_state(call, now, &existing) == Some(RecordState::Replay) => {
            replay_stored(call, existing, dropped)
        }
        _ => {
            let lost = Refusal::new(ErrorKind::LostOwnership, RefusalDetail::LostInAStep);
            finish(CallEnd::refused(lost).with_staged(dropped))
        }
    }
}

/// Handles the result of a restored completion.
pub(super) fn restored(
    call: &CallTerms,
    now: EpochMillis,
    completing: Box<Completing>,
    result: WriteResult,
) -> Next {
    match result {
        WriteResult::Applied { .. } => confirmed(completing),
        WriteResult::ConditionFailed {
            existing: Some(existing),
            ..
        } => other_record(call, now, completing, existing),
        WriteResult::ConditionFailed { existing: None, .. }
        | WriteResult::Rejected { .. }
        | WriteResult::Failed { .. } => not_stored(&completing, ErrorKind::CompletionUnknown),
    }
}

/// Handles a record that prevented the completion.
fn other_record(
    call: &CallTerms,
    now: EpochMillis,
    completing: Box<Completing>,
    existing: Record,
) -> Next {
    if is_claim_of(&existing, call) {
        if completing.staged == Some(Commits::Once) {
            // It was rolled back, or its commit is on its way. The release shows which.
            return free_rejected(call, now, completing, ErrorKind::CompletionUnknown.into());
        }
        // The condition holds for this record, and yet it failed: what is stored is unknown. Or another send of the claim has made it again.
        return not_confirmed(call, now, &completing);
    }
    stored(call, now, &completing, existing)
        .unwrap_or_else(|| not_stored(&completing, ErrorKind::LostOwnership))
}

/// Returns the end of the call by a stored response, or by its own completion without a response. `None` if the record has neither.
fn stored(
    call: &CallTerms,
    now: EpochMillis,
    completing: &Completing,
    existing: Record,
) -> Option<Next> {
    match (
        completed_state(call, now, &existing)?,
        completing.unstorable,
    ) {
        (RecordState::Replay, _) => {
            // An earlier send can have been applied in a window that has ended since.
            let staged = completing.staged_end(if completing.maybe_applied {
                StagedEnd::Unknown
            } else {
                StagedEnd::Dropped
            });
            Some(replay_stored(call, existing, staged))
        }
        // An earlier send of this call's own completion without a response was applied.
        (RecordState::ResponseUnavailable, Some(why))
            if existing.owner.value() == Some(&call.owner) =>
        {
            Some(confirmed_without(why, completing))
        }
        _ => None,
    }
}

/// Ends a call whose response is not stored, or of which that is not known.
///
/// A run under a claim that was never confirmed promised its caller no agreed response, so the caller gets its own result. But not
/// if it staged writes, which may not have been applied.
fn not_stored(completing: &Completing, kind: ErrorKind) -> Next {
    if completing.held.is_confirmed() || completing.staged.is_some() {
        unknown(completing, kind)
    } else {
        finish(CallEnd::own(None))
    }
}

/// Returns the state of a completed record of this payload whose window still runs, or `None` if it is not such a record.
fn completed_state(call: &CallTerms, now: EpochMillis, existing: &Record) -> Option<RecordState> {
    let completed = existing.status.value() == Some(&Status::Completed);
    let runs = classify(existing, now, call) != RecordState::Claimable;
    (completed && runs && same_payload(existing, call)).then(|| response_of(existing))
}

/// Ends a call by the response that is stored. `staged` is what became of its staged writes if another call has stored it.
fn replay_stored(call: &CallTerms, record: Record, staged: Option<StagedEnd>) -> Next {
    // An earlier send of the call's own completion was applied.
    let own = record.owner.value() == Some(&call.owner);
    let staged = staged.map(|other| if own { StagedEnd::Applied } else { other });
    finish(CallEnd::replayed(record, Source::Completion).with_staged(staged))
}

fn confirmed(completing: Box<Completing>) -> Next {
    let staged = completing.staged_end(StagedEnd::Applied);
    match completing.unstorable {
        None if is_of_earlier_run(&completing) => {
            let end = CallEnd {
                claim: Some(ClaimEnd::Completed),
                ..CallEnd::replayed(completing.record, Source::Completion)
            };
            finish(end.with_staged(staged))
        }
        None => finish(CallEnd::stored(completing.record).with_staged(staged)),
        Some(why) => confirmed_without(why, &completing),
    }
}

/// Returns true if an earlier run gave the response, before the steps of its key were undone.
fn is_of_earlier_run(completing: &Completing) -> bool {
    completing
        .undone
        .as_ref()
        .is_some_and(|undone| !undone.is_own)
}

/// Ends a call whose key is completed without a response.
fn confirmed_without(why: Unstorable, completing: &Completing) -> Next {
    let end = match why {
        Unstorable::OwnCallerOnly if is_of_earlier_run(completing) => CallEnd {
            claim: Some(ClaimEnd::CompletedWithoutResponse),
            ..CallEnd::refused(ErrorKind::ResponseUnavailable)
        },
        Unstorable::OwnCallerOnly => CallEnd::own(Some(ClaimEnd::CompletedWithoutResponse)),
        Unstorable::NotSerializable => CallEnd::refused(ErrorKind::ResponseNotSerializable),
    };
    finish(end.with_staged(completing.staged_end(StagedEnd::Applied)))
}

/// Handles the result of a release after the handler ran.
pub(super) fn released(
    call: &CallTerms,
    now: EpochMillis,
    releasing: Releasing,
    result: WriteResult,
) -> Next {
    // The completion was not sent.
    let dropped = releasing.staged.then_some(StagedEnd::Dropped);
    match (result, releasing.shorter) {
        // Steps fill the record. The shorter failure needs less room than the owner token that it replaces.
        (
            WriteResult::Failed {
                kind: WriteErrorKind::TooLarge,
                ..
            },
            Some((failure, claimed_at)),
        ) => {
            let releasing = Releasing {
                shorter: None,
                ..releasing
            };
            let effect = requests::record_failure(call, now, failure, claimed_at, true);
            (State::Releasing(releasing), effect)
        }
        (
            WriteResult::ConditionFailed {
                existing: Some(existing),
                ..
            },
            _,
        ) if releasing.returned
            && completed_state(call, now, &existing) == Some(RecordState::Replay) =>
        {
            replay_stored(call, existing, dropped)
        }
        // After a condition that failed the record is not this call's claim any more, so there is nothing to release.
        (WriteResult::Applied { .. } | WriteResult::ConditionFailed { .. }, _) => {
            finish(CallEnd::own(Some(ClaimEnd::Released)).with_staged(dropped))
        }
        (WriteResult::Rejected { .. } | WriteResult::Failed { .. }, _) => {
            finish(CallEnd::own(Some(ClaimEnd::NotReleased)).with_staged(dropped))
        }
    }
}
