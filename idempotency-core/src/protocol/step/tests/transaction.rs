//! The completion in one transaction with staged writes.

use super::*;

/// Inputs of a call whose handler staged writes and returned a response.
fn staged() -> [Input; 3] {
    [
        MISS,
        APPLIED,
        staging(HandlerResult::Returned(Data::new("42"))),
    ]
}

fn after_transaction(inputs: impl IntoIterator<Item = Input>) -> Effect {
    play(call(), staged().into_iter().chain(inputs))
}

fn rejected(maybe_applied: bool) -> Input {
    Input::Written(WriteResult::Rejected { maybe_applied })
}

fn refused(claim: Option<ClaimEnd>) -> Effect {
    Effect::Finish(CallEnd {
        claim,
        staged: Some(StagedEnd::Rejected),
        ..CallEnd::refused(ErrorKind::TransactionRejected)
    })
}

/// Returns the end of a call whose staged writes may have been applied.
fn unknown(kind: ErrorKind) -> Effect {
    Effect::Finish(CallEnd::refused(kind).with_staged(Some(StagedEnd::Unknown)))
}

fn applied(end: CallEnd) -> Effect {
    Effect::Finish(end.with_staged(Some(StagedEnd::Applied)))
}

/// Returns the end of a handler that staged writes and started steps.
fn staging_after_steps(end: StepEnd, result: HandlerResult) -> Input {
    Input::HandlerEnded(HandlerEnd {
        result,
        steps: Some(end),
        staged: true,
    })
}

#[test]
fn staged_writes_and_the_completion_are_one_transaction_under_the_fence() {
    let Effect::Transact(Write::Update(change), condition) = after_transaction([]) else {
        panic!("the completion is a transaction");
    };
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.data, Field::Value(Data::new("42")));
    let stored = after_transaction([APPLIED]);
    assert_eq!(stored, applied(CallEnd::stored(change.set)));
}

#[test]
fn every_ending_with_a_completion_keeps_the_staged_writes_and_every_other_drops_them() {
    let after = |result| play(call(), [MISS, APPLIED, staging(result)]);
    for result in [
        HandlerResult::NotSerializable,
        HandlerResult::NotDeserializable,
        HandlerResult::Unstorable,
    ] {
        assert!(matches!(
            after(result),
            Effect::Transact(Write::Update(_), _)
        ));
    }
    let unstorable = ended(HandlerResult::Unstorable);
    let release = play(call(), [MISS, APPLIED, unstorable]);
    assert_eq!(release, Effect::Write(Write::Delete, held_by(&me())));
    for result in [
        HandlerResult::NotStored,
        HandlerResult::Failed("E".to_owned()),
    ] {
        assert!(matches!(after(result), Effect::Write(Write::Delete, _)));
    }
    assert_eq!(
        after(HandlerResult::Panicked),
        failure_left("unreported: panic")
    );
}

#[test]
fn a_response_that_is_too_large_is_left_out_of_the_same_transaction() {
    let too_large = || failed(false, WriteErrorKind::TooLarge);
    let Effect::Transact(Write::Update(change), _) = after_transaction([too_large()]) else {
        panic!("the staged writes stay with the completion");
    };
    assert!(!change.set.data.exists());
    let released = after_transaction([too_large(), too_large()]);
    assert_eq!(released, Effect::Write(Write::Delete, held_by(&me())));
}

#[test]
fn a_rejection_releases_the_claim_under_its_fence_before_the_caller_gets_it() {
    let release = Effect::Write(Write::Delete, held_by(&me()));
    assert_eq!(after_transaction([rejected(false)]), release);
    assert_eq!(
        after_transaction([rejected(false), APPLIED]),
        refused(Some(ClaimEnd::Released))
    );
    // The same if an earlier send may have been applied: the release shows that it was not.
    let lost = [maybe_applied(), Input::Paused, rejected(false), APPLIED];
    assert_eq!(after_transaction(lost), refused(Some(ClaimEnd::Released)));
}

#[test]
fn under_on_error_record_a_rejection_is_a_recorded_failure() {
    let mut call = call();
    call.policy.on_error = OnError::Record;
    let inputs = staged().into_iter().chain([rejected(false)]);
    let Effect::Write(Write::Update(change), condition) = play(call, inputs) else {
        panic!("a recorded failure is an update");
    };
    assert_eq!(condition, held_by(&me()));
    let failure = "IdempotencyTransactionRejected".to_owned();
    assert_eq!(change.set.failure, Field::Value(failure));
}

#[test]
fn a_write_that_the_store_does_not_accept_is_a_rejection_too() {
    let permanent = failed(false, WriteErrorKind::Permanent);
    assert_eq!(
        after_transaction([permanent, APPLIED]),
        refused(Some(ClaimEnd::Released))
    );
}

#[test]
fn a_release_that_finds_a_stored_response_replays_it() {
    for (record, sends_lost, staged) in [
        (mine_completed("42"), 1, StagedEnd::Applied),
        (completed("7"), 0, StagedEnd::Dropped),
        // The send that may have been applied was in a window that has ended since.
        (completed("7"), 1, StagedEnd::Unknown),
    ] {
        let lost = [maybe_applied(), Input::Paused];
        let lost = lost.into_iter().take(2 * sends_lost);
        let inputs = lost.chain([rejected(false), condition_failed(record.clone())]);
        let replay = CallEnd::replayed(record, Source::Completion).with_staged(Some(staged));
        assert_eq!(after_transaction(inputs), Effect::Finish(replay));
    }
}

#[test]
fn a_release_that_finds_its_own_completion_without_a_response_confirms_it() {
    let without_response = Record {
        data: Field::Absent,
        ..mine_completed("42")
    };
    let inputs = [
        failed(false, WriteErrorKind::TooLarge),
        maybe_applied(),
        Input::Paused,
        rejected(false),
        condition_failed(without_response),
    ];
    let own = applied(CallEnd::own(Some(ClaimEnd::CompletedWithoutResponse)));
    assert_eq!(after_transaction(inputs), own);
}

#[test]
fn a_claim_that_is_gone_after_a_rejection_is_lost_if_a_send_or_another_call_may_apply_writes() {
    let running = || condition_failed(claim_of(another(), now_plus(9_000)));
    let without_response = || {
        let record = Record {
            data: Field::Absent,
            ..completed("7")
        };
        condition_failed(record)
    };
    for (gone, certain) in [
        (running(), unknown(ErrorKind::LostOwnership)),
        (without_response(), unknown(ErrorKind::LostOwnership)),
        (CONDITION_FAILED_WITHOUT_RECORD, refused(None)),
    ] {
        let end = after_transaction([rejected(false), gone.clone()]);
        assert_eq!(end, certain);
        let in_one_request = after_transaction([rejected(true), gone.clone()]);
        assert_eq!(in_one_request, unknown(ErrorKind::LostOwnership));
        let earlier = [maybe_applied(), Input::Paused, rejected(false), gone];
        let earlier = after_transaction(earlier);
        assert_eq!(earlier, unknown(ErrorKind::LostOwnership));
    }
}

#[test]
fn a_release_that_fails_after_a_rejection_leaves_it_unknown_only_after_a_lost_send() {
    assert_eq!(
        after_transaction([rejected(false), maybe_applied()]),
        refused(Some(ClaimEnd::NotReleased))
    );
    assert_eq!(
        after_transaction([rejected(true), maybe_applied()]),
        unknown(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn a_rejection_is_unknown_if_a_claim_and_then_a_transaction_may_still_arrive() {
    let own = || claim_of(me(), now_plus(30_000));
    let found = WriteResult::ConditionFailed {
        existing: Some(own()),
        maybe_applied: true,
    };
    let again = Input::Written(WriteResult::Applied {
        replaced: None,
        maybe_again: true,
    });
    let sent_twice = [maybe_applied(), Input::Read(None), APPLIED];
    let read = [maybe_applied(), Input::Read(Some(own()))];
    for claimed in [&[again][..], &[Input::Written(found)], &sent_twice, &read] {
        let after = |inputs: &[Input]| {
            let [miss, _, staged] = staged();
            let inputs = [&[miss], claimed, &[staged], inputs].concat();
            play(call(), inputs)
        };
        let lost = [maybe_applied(), Input::Paused, rejected(false), APPLIED];
        assert_eq!(after(&lost), unknown(ErrorKind::CompletionUnknown));
        let in_one_request = [rejected(true), APPLIED];
        assert_eq!(
            after(&in_one_request),
            unknown(ErrorKind::CompletionUnknown)
        );
        // No send of the transaction is on its way.
        let certain = after(&[rejected(false), APPLIED]);
        assert_eq!(certain, refused(Some(ClaimEnd::Released)));
    }
}

#[test]
fn a_release_that_brings_the_own_claim_back_leaves_the_end_unknown() {
    let own = claim_of(me(), now_plus(30_000));
    assert_eq!(
        after_transaction([rejected(false), condition_failed(own)]),
        unknown(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn conflicts_are_repeated_for_as_long_as_the_lease_runs_and_do_not_count_as_tries() {
    let conflict = || failed(false, WriteErrorKind::Conflict);
    let mut inputs = Vec::new();
    for _ in 0..300 {
        inputs.extend([conflict(), Input::Paused]);
    }
    for _ in 0..3 {
        inputs.extend([maybe_applied(), Input::Paused]);
    }
    assert!(matches!(
        after_transaction(inputs.clone()),
        Effect::Transact(..)
    ));
    inputs.push(maybe_applied());
    assert_eq!(
        after_transaction(inputs),
        unknown(ErrorKind::CompletionUnknown)
    );
    // The first pause takes at most 25 ms, and 200 ms are kept for the reply.
    let met_at = |milliseconds| {
        let inputs = staged().map(|input| (NOW, input));
        let met = (now_plus(milliseconds), conflict());
        play_at(call(), inputs.into_iter().chain([met]))
    };
    assert!(matches!(met_at(29_774), Effect::Pause(_)));
    let release = Effect::Write(Write::Delete, held_by(&me()));
    assert_eq!(met_at(29_775), release);
}

#[test]
fn pauses_after_conflicts_grow_up_to_a_second() {
    let pause = |conflicts: usize| {
        let met = [failed(false, WriteErrorKind::Conflict), Input::Paused];
        let met = met.into_iter().cycle().take(2 * conflicts - 1);
        after_transaction(met)
    };
    for (conflicts, milliseconds) in [
        (1, 25),
        (2, 50),
        (3, 100),
        (6, 800),
        (7, 1_000),
        (300, 1_000),
    ] {
        let expected = Effect::Pause(Duration::from_millis(milliseconds));
        assert_eq!(pause(conflicts), expected, "{conflicts}");
    }
}

#[test]
fn a_transaction_that_is_given_up_frees_the_key_if_no_send_can_have_been_applied() {
    let given_up = |claim| {
        Effect::Finish(CallEnd {
            claim,
            staged: Some(StagedEnd::Dropped),
            ..CallEnd::refused(ErrorKind::CompletionUnknown)
        })
    };
    let never_sent = || failed(false, WriteErrorKind::Transient);
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.extend([never_sent(), Input::Paused]);
    }
    inputs.push(never_sent());
    let after = |input: Input| {
        let inputs = inputs.iter().cloned().chain([input]);
        after_transaction(inputs)
    };
    let release = Effect::Write(Write::Delete, held_by(&me()));
    assert_eq!(after_transaction(inputs.clone()), release);
    assert_eq!(after(APPLIED), given_up(Some(ClaimEnd::Released)));
    assert_eq!(
        after(maybe_applied()),
        given_up(Some(ClaimEnd::NotReleased))
    );
    let running = condition_failed(claim_of(another(), now_plus(9_000)));
    assert_eq!(after(running), unknown(ErrorKind::LostOwnership));
    assert_eq!(after(CONDITION_FAILED_WITHOUT_RECORD), given_up(None));
    // A send that may still be applied needs the claim as its fence, and the caller may need its response.
    inputs[2] = maybe_applied();
    assert_eq!(
        after_transaction(inputs),
        unknown(ErrorKind::CompletionUnknown)
    );
    // The record was refused, so the claim is not this call's any more.
    let refused = || failed(false, WriteErrorKind::Refused);
    let again = [refused(), Input::Paused];
    let inputs = [&again[..], &again, &again, &[refused()]].concat();
    assert_eq!(
        after_transaction(inputs),
        unknown(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn under_on_error_record_a_transaction_that_is_given_up_is_a_recorded_failure() {
    let mut call = call();
    call.policy.on_error = OnError::Record;
    let inputs = staged().map(|input| (NOW, input));
    let met = (now_plus(29_775), failed(false, WriteErrorKind::Conflict));
    let Effect::Write(Write::Update(change), condition) =
        play_at(call, inputs.into_iter().chain([met]))
    else {
        panic!("a recorded failure is an update");
    };
    assert_eq!(condition, held_by(&me()));
    let failure = "IdempotencyCompletionUnknown".to_owned();
    assert_eq!(change.set.failure, Field::Value(failure));
}

#[test]
fn a_lost_claim_gives_the_winners_response_and_applies_nothing() {
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(
        after_transaction([condition_failed(completed("7"))]),
        Effect::Finish(replay.with_staged(Some(StagedEnd::Dropped)))
    );
}

#[test]
fn an_evicted_claim_is_not_restored_because_no_record_is_no_fence() {
    let gone = [CONDITION_FAILED_WITHOUT_RECORD, Input::Read(None)];
    assert_eq!(
        after_transaction(gone.clone()),
        unknown(ErrorKind::LostOwnership)
    );
    let lost = [maybe_applied(), Input::Paused].into_iter().chain(gone);
    assert_eq!(after_transaction(lost), unknown(ErrorKind::LostOwnership));
}

#[test]
fn a_claim_that_meets_the_transaction_of_another_call_reads_the_record() {
    let conflict = || failed(false, WriteErrorKind::Conflict);
    let mut call = call();
    assert_eq!(play(call.clone(), [MISS, conflict()]), READ);
    let running = claim_of(another(), now_plus(9_000));
    let found = play(call.clone(), [MISS, conflict(), Input::Read(Some(running))]);
    let end = Some(now_plus(9_000));
    assert_eq!(found, finished(Refusal::already_in_progress(end)));
    let free = play(call.clone(), [MISS, conflict(), Input::Read(None)]);
    assert!(matches!(free, Effect::Write(Write::Put(_), _)));
    // It has met another call of its key, so it does not run without a claim.
    call.policy.on_store_error = OnStoreError::RunUnprotected;
    let failed = play(call, [MISS, conflict(), Input::ReadFailed]);
    assert_eq!(failed, finished(ErrorKind::StoreFailed));
}

#[test]
fn under_hold_a_rejection_after_a_step_that_is_not_recorded_keeps_the_claim() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let returned = HandlerResult::Returned(Data::new("42"));
    let lost = staging_after_steps(StepEnd::NotRecorded, returned);
    let after = |rejection| play(call.clone(), [MISS, APPLIED, lost.clone(), rejection]);
    assert_eq!(after(rejected(false)), refused(None));
    assert_eq!(after(rejected(true)), unknown(ErrorKind::CompletionUnknown));
}

#[test]
fn under_rerun_a_rejection_after_a_step_that_is_not_recorded_leaves_a_mark() {
    for on_error in [OnError::Release, OnError::Record] {
        let mut call = call();
        call.policy.on_error = on_error;
        let returned = HandlerResult::Returned(Data::new("42"));
        let lost = staging_after_steps(StepEnd::NotRecorded, returned);
        let inputs = [MISS, APPLIED, lost, rejected(false)];
        assert_eq!(play(call, inputs), failure_left("unreported"));
    }
}

#[test]
fn under_hold_writes_are_applied_also_after_a_lost_step_and_with_a_response_that_cannot_be_stored()
{
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    for end in [StepEnd::Recorded, StepEnd::NotRecorded] {
        let unstorable = HandlerEnd {
            steps: Some(end),
            ..HandlerResult::Unstorable.into()
        };
        let staging = staging_after_steps(end, HandlerResult::Unstorable);
        let effect = play(call.clone(), [MISS, APPLIED, staging]);
        let Effect::Transact(Write::Update(change), _) = effect else {
            panic!("the caller gets its response, so the writes are applied");
        };
        assert!(!change.set.data.exists());
        // Without staged writes an operator must decide about the lost step.
        let ended = Input::HandlerEnded(unstorable);
        let done = play(call.clone(), [MISS, APPLIED, ended]);
        let is_kept = done == own(Some(ClaimEnd::Kept));
        assert_eq!(is_kept, end == StepEnd::NotRecorded);
    }
}

#[test]
fn under_hold_a_rejection_frees_the_key() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let inputs = staged().into_iter().chain([rejected(false)]);
    assert_eq!(
        play(call, inputs),
        Effect::Write(Write::Delete, held_by(&me()))
    );
}

#[test]
fn staged_writes_of_a_run_that_does_not_complete_its_key_are_dropped() {
    let dropped = |end: CallEnd| Effect::Finish(end.with_staged(Some(StagedEnd::Dropped)));
    let own = |claim| dropped(CallEnd::own(Some(claim)));
    let after = |end: Input, reply: Input| play(call(), [MISS, APPLIED, end, reply]);
    let not_stored = || staging(HandlerResult::NotStored);
    assert_eq!(after(not_stored(), APPLIED), own(ClaimEnd::Released));
    let failed = staging(HandlerResult::Failed("E".to_owned()));
    assert_eq!(after(failed, maybe_applied()), own(ClaimEnd::NotReleased));
    let winner = || CallEnd::replayed(completed("7"), Source::Completion);
    let found = after(not_stored(), condition_failed(completed("7")));
    assert_eq!(found, dropped(winner()));
    let returned = HandlerResult::Returned(Data::new("42"));
    let claim_lost = staging_after_steps(StepEnd::ClaimLost, returned);
    let found = after(claim_lost.clone(), Input::Read(Some(completed("7"))));
    assert_eq!(found, dropped(winner()));
    let lost = Refusal::new(ErrorKind::LostOwnership, RefusalDetail::LostInAStep);
    let found = after(claim_lost, Input::Read(None));
    assert_eq!(found, dropped(CallEnd::refused(lost)));
    let mut holding = call();
    holding.policy.on_timeout = OnTimeout::Hold;
    let panicked = staging(HandlerResult::Panicked);
    let kept = play(holding, [MISS, APPLIED, panicked]);
    assert_eq!(kept, own(ClaimEnd::Kept));
}

#[test]
fn staged_writes_are_applied_with_a_key_that_is_completed_without_its_response() {
    for (result, end) in [
        (
            HandlerResult::NotSerializable,
            CallEnd::refused(ErrorKind::ResponseNotSerializable),
        ),
        (
            HandlerResult::NotDeserializable,
            CallEnd::own(Some(ClaimEnd::CompletedWithoutResponse)),
        ),
    ] {
        let effect = play(call(), [MISS, APPLIED, staging(result), APPLIED]);
        assert_eq!(effect, applied(end));
    }
}
