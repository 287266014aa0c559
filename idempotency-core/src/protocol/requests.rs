//! The write requests of the protocol: what each one puts into the record, and under which condition.

use std::time::Duration;

use super::CallTerms;
use super::condition::{Condition, Operand, claimable, held_by, replaceable, takeover, undone_by};
use super::effect::{Change, Effect, Write};
use super::policy::OnTimeout;
use super::undo::Undoing;
use crate::record::{Attribute, Data, Field, OwnerToken, Record, RecordedSteps, Status};
use crate::time::{EpochMillis, EpochSeconds};

/// How long after its lease a claim under `hold` is kept from the table's TTL: ten years.
pub(super) const HELD_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The number of bytes of an operation's path that a record names.
const LONGEST_PATH: usize = 128;

/// Returns the part of an operation's path that a record keeps: at most 128 bytes, because each claim writes them.
pub(crate) fn recorded_path(path: &str) -> &str {
    &path[..path.floor_char_boundary(LONGEST_PATH)]
}

fn operation(call: &CallTerms) -> Field<String> {
    let path = call.operation.as_deref();
    path.map(|path| recorded_path(path).to_owned()).into()
}

/// Returns the `expiration` of a claim that is made or renewed now: the end of its window or of its lease, whichever is later. Under
/// `hold` it is at least ten years after the end of the lease.
///
/// With steps the window begins at the end of the lease: that is when a later run can need the steps for the first time.
fn claim_expiration(call: &CallTerms, now: EpochMillis, lease_end: EpochMillis) -> EpochSeconds {
    let lease_end = lease_end.ceil_to_seconds();
    let kept_until = match call.policy.on_timeout {
        OnTimeout::Rerun => lease_end,
        OnTimeout::Hold => lease_end.plus(HELD_FOR),
    };
    let window_end = if call.policy.steps.are_on() {
        lease_end.plus(call.policy.expires_after)
    } else {
        window_end(call, now)
    };
    window_end.max(kept_until)
}

/// Returns the end of a window that begins now.
fn window_end(call: &CallTerms, now: EpochMillis) -> EpochSeconds {
    now.floor_to_seconds().plus(call.policy.expires_after)
}

/// Returns the claim: a put of a record in progress, if there is no record or a claimable one.
///
/// With steps the claim begins with none. It does not replace a record whose steps a later run needs: see [`take_over`].
pub(super) fn claim(call: &CallTerms, now: EpochMillis) -> Effect {
    let lease_end = call.lease.end(now);
    let (steps, condition) = if call.policy.steps.are_on() {
        let none = Field::Value(RecordedSteps::default());
        (none, replaceable(now, call.policy.on_timeout))
    } else {
        (Field::Absent, claimable(now, call.policy.on_timeout))
    };
    Effect::Write(
        Write::Put(Record {
            expiration: Field::Value(claim_expiration(call, now, lease_end)),
            in_progress_expiration: Field::Value(lease_end),
            status: Field::Value(Status::InProgress),
            validation: call.validation.clone().into(),
            owner: Field::Value(call.owner.clone()),
            operation: operation(call),
            event: call.event.clone().into(),
            steps,
            ..Record::default()
        }),
        condition,
    )
}

/// Returns the takeover of a claim that has steps: an update that keeps them, only while the record is the claim that was read.
/// `None` if its owner or its lease cannot be read.
///
/// A put would delete a step that the earlier owner records between the read and the takeover.
///
/// If steps fill the record (`is_full`), the takeover adds only the owner. There is room for it: the record had an owner when its last
/// step was recorded.
pub(super) fn take_over(
    call: &CallTerms,
    now: EpochMillis,
    existing: &Record,
    is_full: bool,
) -> Option<Effect> {
    let validation = call.validation.as_deref();
    let condition = takeover(existing, validation, call.policy.on_timeout)?;
    let lease_end = call.lease.end(now);
    // The record of an undoing is kept for long already.
    let expiration = (!existing.is_undoing()).then(|| claim_expiration(call, now, lease_end));
    let mut set = Record {
        expiration: expiration.into(),
        in_progress_expiration: Field::Value(lease_end),
        owner: Field::Value(call.owner.clone()),
        ..Record::default()
    };
    if !is_full {
        set.operation = operation(call);
        set.event = call.event.clone().into();
    }
    let mut remove = vec![Attribute::Failure, Attribute::Decision];
    // The record keeps the event of the run that has the claim, and not that of an earlier one.
    if !set.event.exists() {
        remove.push(Attribute::Event);
    }
    Some(Effect::Write(
        Write::Update(Change { set, remove }),
        condition,
    ))
}

/// Returns the attributes of this call's completed record. `data` is `None` if the response cannot be stored. `window` is the one that
/// the handler asked for.
///
/// The window does not begin before the claim: a clock that was set back during the run would end it early.
pub(super) fn completed(
    call: &CallTerms,
    now: EpochMillis,
    claimed_at: EpochMillis,
    data: Option<Data>,
    window: Option<Duration>,
) -> Record {
    let (now, window) = (now.max(claimed_at), call.policy.window(window));
    Record {
        expiration: Field::Value(now.floor_to_seconds().plus(window)),
        status: Field::Value(Status::Completed),
        data: data.into(),
        validation: call.validation.clone().into(),
        operation: operation(call),
        ..Record::default()
    }
}

/// Returns true if the response needs the room of the event.
fn needs_room(call: &CallTerms, record: &Record) -> bool {
    let data = record.data.value();
    data.is_some_and(|data| !call.limits.fits_beside_event(data))
}

/// Returns the attributes that a completion removes: the event of the claim, if the response needs its room.
fn removed_for_room(call: &CallTerms, record: &Record) -> Vec<Attribute> {
    if call.event.is_some() && needs_room(call, record) {
        vec![Attribute::Event]
    } else {
        Vec::new()
    }
}

/// Returns the completion: an update, only while the record is still this call's claim. The claim names the operation
/// already. The steps are deleted: the response replaces them. If the handler staged writes, it is one transaction with them. `undo` is how
/// far the record says that its steps are undone, if they are.
pub(super) fn complete(
    call: &CallTerms,
    record: &Record,
    staged: bool,
    undo: Option<&str>,
) -> Effect {
    let mut remove = removed_for_room(call, record);
    if call.policy.steps.are_on() {
        remove.push(Attribute::Steps);
    }
    let set = Record {
        operation: Field::Absent,
        ..record.clone()
    };
    let effect = if staged {
        Effect::Transact
    } else {
        Effect::Write
    };
    let condition = match undo {
        Some(undo) => undone_by(&call.owner, Some(undo)),
        None => held_by(&call.owner),
    };
    effect(Write::Update(Change { set, remove }), condition)
}

/// Returns the end of a record whose steps are being undone: ten years after the lease, because a key whose steps are half undone must not
/// be forgotten.
fn undoing_expiration(lease_end: EpochMillis) -> EpochSeconds {
    lease_end.ceil_to_seconds().plus(HELD_FOR)
}

/// Returns the decision that the steps of the key are undone, with the final response: an update, only while the record is still this
/// call's claim.
pub(super) fn decide_undo(
    call: &CallTerms,
    lease_end: EpochMillis,
    undoing: &Undoing,
    response: Option<&Data>,
) -> Effect {
    let set = Record {
        expiration: Field::Value(undoing_expiration(lease_end)),
        status: Field::Value(Status::Undoing),
        data: response.cloned().into(),
        undo: Field::Value(undoing.to_json()),
        ..Record::default()
    };
    let remove = removed_for_room(call, &set);
    Effect::Write(Write::Update(Change { set, remove }), held_by(&call.owner))
}

/// Returns the write that records how far the steps are undone: an update, only while this call undoes them and the record says `before`.
pub(super) fn record_undo(call: &CallTerms, before: &Undoing, after: &Undoing) -> Effect {
    let set = Record {
        undo: Field::Value(after.to_json()),
        ..Record::default()
    };
    let condition = undone_by(&call.owner, Some(&before.to_json()));
    let remove = Vec::new();
    Effect::Write(Write::Update(Change { set, remove }), condition)
}

/// Returns the write that stops an undoing, so that the next call goes on with it, or an operator decides: an update, only while this call
/// undoes the steps. `failure` says why. `undoing` is what the record must say; `None` leaves it as it is.
pub(super) fn stop_undo(
    call: &CallTerms,
    claimed_at: EpochMillis,
    failure: &str,
    undoing: Option<&Undoing>,
) -> Effect {
    let set = Record {
        in_progress_expiration: Field::Value(ended_lease(claimed_at)),
        failure: Field::Value(failure.to_owned()),
        undo: undoing.map(Undoing::to_json).into(),
        ..Record::default()
    };
    let remove = vec![Attribute::Owner];
    let condition = undone_by(&call.owner, None);
    Effect::Write(Write::Update(Change { set, remove }), condition)
}

/// Returns the completion of a claim that was evicted while the handler ran: a put, only while there is no record.
pub(super) fn restore(call: &CallTerms, record: &Record, lease_end: EpochMillis) -> Effect {
    Effect::Write(
        Write::Put(Record {
            owner: Field::Value(call.owner.clone()),
            in_progress_expiration: Field::Value(lease_end),
            event: call
                .event
                .clone()
                .filter(|_| !needs_room(call, record))
                .into(),
            ..record.clone()
        }),
        Condition::NoRecord,
    )
}

/// Returns the token by which a store recognises a repeated send of one transaction: the same for each send of a call with this
/// write. A completion with a response and one without have different tokens. Its form: [`TransactionRequest::token`](crate::store::TransactionRequest::token).
///
/// A call sends at most two different writes with what its handler staged: a completion with the response or without it.
pub(crate) fn transaction_token(owner: &OwnerToken, write: &Write) -> String {
    let mark = match write {
        Write::Update(change) if change.set.data.exists() => 'c',
        Write::Update(_) => 'd',
        // No transaction has one of these.
        Write::Put(_) | Write::Delete | Write::Step { .. } => 'x',
    };
    format!("{}-{mark}", owner.as_str())
}

/// Returns the release: a delete, only while the record is still this call's claim.
pub(super) fn release(call: &CallTerms) -> Effect {
    Effect::Write(Write::Delete, held_by(&call.owner))
}

/// Returns the write that ends the lease of a claim whose run has ended, and keeps the claim: an update, only while the record is still
/// this call's claim. Under `hold` no call may claim the key, and each duplicate then knows that no run goes on.
pub(super) fn end_lease(call: &CallTerms, claimed_at: EpochMillis, undoing: bool) -> Effect {
    Effect::Write(
        Write::Update(Change {
            set: Record {
                in_progress_expiration: Field::Value(ended_lease(claimed_at)),
                ..Record::default()
            },
            remove: Vec::new(),
        }),
        held(call, undoing),
    )
}

/// Returns the fence: the record is still this call's claim. `undoing` is true if it says that the steps of the key are being undone.
fn held(call: &CallTerms, undoing: bool) -> Condition {
    if undoing {
        undone_by(&call.owner, None)
    } else {
        held_by(&call.owner)
    }
}

/// Returns the renewal of a claim that was made at `claimed_at`: an update that lets its lease last until `lease_end`, only while the
/// record is still this call's claim, its lease was not ended ([`end_lease`]), and it ends earlier.
///
/// The end of the record moves too, so that no TTL deletes a live claim. `undoing` is true if the steps of the key are being undone.
pub(super) fn renew(
    call: &CallTerms,
    now: EpochMillis,
    lease_end: EpochMillis,
    claimed_at: EpochMillis,
    undoing: bool,
) -> (Write, Condition) {
    let lease = |of: fn(Attribute, Operand) -> Condition, end| {
        of(Attribute::InProgressExpiration, Operand::Millis(end))
    };
    let expiration = if undoing {
        undoing_expiration(lease_end)
    } else {
        claim_expiration(call, now, lease_end)
    };
    let change = Change {
        set: Record {
            expiration: Field::Value(expiration),
            in_progress_expiration: Field::Value(lease_end),
            ..Record::default()
        },
        remove: Vec::new(),
    };
    let condition = Condition::All(vec![
        held(call, undoing),
        lease(Condition::Below, lease_end),
        lease(Condition::Differs, ended_lease(claimed_at)),
    ]);
    (Write::Update(change), condition)
}

/// Returns the end of a lease that has ended, of a claim that was made at this time. Comparisons are strict: a call in the millisecond of
/// the claim must find the lease expired too.
fn ended_lease(claimed_at: EpochMillis) -> EpochMillis {
    EpochMillis::new(claimed_at.get().saturating_sub(1))
}

/// Returns the release that leaves a failure in the record, for the length of a window. It ends the lease a millisecond before the claim,
/// so that calls under every policy and in every language can claim the key again at once, and removes the owner token. It also removes
/// the steps, unless `keeps_steps`. `claimed_at` is the time of the claim: `now` is earlier if the clock was set back since then.
pub(super) fn record_failure(
    call: &CallTerms,
    now: EpochMillis,
    failure: &str,
    claimed_at: EpochMillis,
    keeps_steps: bool,
) -> Effect {
    let mut remove = vec![Attribute::Owner];
    if call.policy.steps.are_on() && !keeps_steps {
        remove.push(Attribute::Steps);
    }
    Effect::Write(
        Write::Update(Change {
            set: Record {
                expiration: Field::Value(window_end(call, now.max(claimed_at))),
                failure: Field::Value(failure.to_owned()),
                in_progress_expiration: Field::Value(ended_lease(claimed_at.min(now))),
                ..Record::default()
            },
            remove,
        }),
        held_by(&call.owner),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::script::record;
    use super::*;
    use crate::store::TransactionRequest;

    #[test]
    fn the_token_of_a_transaction_is_the_same_for_each_send_of_one_write_and_differs_between_writes()
     {
        let token = |set| {
            let (set, remove) = (record(set).unwrap(), Vec::new());
            let update = Write::Update(Change { set, remove });
            transaction_token(&OwnerToken::from_bytes([7; 16]), &update)
        };
        let with = token("blank[data=42]");
        assert_eq!(with, "07070707070707070707070707070707-c");
        assert_eq!(token("blank"), "07070707070707070707070707070707-d");
        assert_eq!(with.len(), TransactionRequest::LONGEST_TOKEN);
    }
}
