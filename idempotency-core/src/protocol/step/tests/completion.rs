//! The completion and the release.

use super::*;

fn run_to_completion() -> [Input; 3] {
    [MISS, APPLIED, returned()]
}

#[test]
fn a_completion_is_fenced_and_ends_the_call_only_when_it_is_confirmed() {
    let mut call = call();
    call.validation = Some("v".to_owned());
    let Effect::Write(Write::Update(change), condition) = play(call.clone(), run_to_completion())
    else {
        panic!("a completion is an update");
    };
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.status, Field::Value(Status::Completed));
    assert_eq!(change.set.expiration, Field::Value(seconds(3_600)));
    assert_eq!(change.set.validation, Field::Value("v".to_owned()));
    let Effect::Finish(verdict) = play(call, run_to_completion().into_iter().chain([APPLIED]))
    else {
        panic!("the confirmed completion ends the call");
    };
    assert_eq!(verdict.confirmed_record(), Some(&change.set));
    assert_eq!(verdict, CallEnd::stored(change.set));
}

fn after_completion(inputs: impl IntoIterator<Item = Input>) -> Effect {
    play(call(), run_to_completion().into_iter().chain(inputs))
}

#[test]
fn a_maybe_applied_completion_is_sent_again_and_the_record_shows_whether_it_was_applied() {
    assert!(matches!(
        after_completion([maybe_applied()]),
        Effect::Pause(_)
    ));
    assert!(matches!(
        after_completion([maybe_applied(), Input::Paused]),
        Effect::Write(Write::Update(_), _)
    ));
    let effect = after_completion([
        maybe_applied(),
        Input::Paused,
        condition_failed(mine_completed("42")),
    ]);
    let replay = CallEnd::replayed(mine_completed("42"), Source::Completion);
    assert_eq!(effect, Effect::Finish(replay));
}

#[test]
fn an_unconfirmed_completion_is_unknown_and_never_released() {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.extend([maybe_applied(), Input::Paused]);
    }
    inputs.push(maybe_applied());
    assert_eq!(
        after_completion(inputs),
        finished(ErrorKind::CompletionUnknown)
    );
    assert_eq!(
        after_completion([failed(false, WriteErrorKind::Permanent)]),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn a_late_owner_gets_the_winners_response() {
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(
        after_completion([condition_failed(completed("7"))]),
        Effect::Finish(replay)
    );
}

#[test]
fn a_late_owner_does_not_get_the_response_of_another_payload() {
    let mut call = call();
    call.validation = Some("mine".to_owned());
    let mut winner = completed("7");
    winner.validation = Field::Value("theirs".to_owned());
    let inputs = run_to_completion()
        .into_iter()
        .chain([condition_failed(winner)]);
    assert_eq!(play(call, inputs), finished(ErrorKind::LostOwnership));
}

#[test]
fn a_late_owner_that_finds_no_response_has_lost_ownership() {
    let running = claim_of(another(), now_plus(9_000));
    assert_eq!(
        after_completion([condition_failed(running)]),
        finished(ErrorKind::LostOwnership)
    );
    let mut without_response = completed("7");
    without_response.data = Field::Absent;
    assert_eq!(
        after_completion([condition_failed(without_response)]),
        finished(ErrorKind::LostOwnership)
    );
    let mut expired = completed("7");
    expired.expiration = Field::Value(seconds(-1));
    assert_eq!(
        after_completion([condition_failed(expired)]),
        finished(ErrorKind::LostOwnership)
    );
}

#[test]
fn a_failed_condition_that_brings_the_own_claim_back_leaves_the_completion_unknown() {
    let own = claim_of(me(), now_plus(30_000));
    assert_eq!(
        after_completion([condition_failed(own)]),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn an_evicted_claim_is_restored_as_completed_while_its_lease_runs() {
    let effect = after_completion([CONDITION_FAILED_WITHOUT_RECORD, Input::Read(None)]);
    let Effect::Write(Write::Put(record), Condition::NoRecord) = effect else {
        panic!("the completion is put where no record is");
    };
    assert_eq!(record.data, Field::Value(Data::new("42")));
    assert_eq!(record.owner, Field::Value(me()));
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(now_plus(30_000))
    );
}

#[test]
fn a_restored_completion_is_classified_if_its_condition_fails_and_unknown_if_it_fails() {
    let restored =
        |input| after_completion([CONDITION_FAILED_WITHOUT_RECORD, Input::Read(None), input]);
    let running = claim_of(another(), now_plus(9_000));
    assert_eq!(
        restored(condition_failed(running)),
        finished(ErrorKind::LostOwnership)
    );
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(
        restored(condition_failed(completed("7"))),
        Effect::Finish(replay)
    );
    assert_eq!(
        restored(maybe_applied()),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn a_completion_whose_condition_failed_stays_unknown_if_the_read_fails() {
    assert_eq!(
        after_completion([CONDITION_FAILED_WITHOUT_RECORD, Input::ReadFailed]),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn an_evicted_claim_is_not_restored_after_a_lost_send_or_after_its_lease() {
    let effect = after_completion([
        maybe_applied(),
        Input::Paused,
        CONDITION_FAILED_WITHOUT_RECORD,
        Input::Read(None),
    ]);
    assert_eq!(effect, finished(ErrorKind::LostOwnership));
    let lost_before_it_was_refused = Input::Written(WriteResult::ConditionFailed {
        existing: None,
        maybe_applied: true,
    });
    let effect = after_completion([lost_before_it_was_refused, Input::Read(None)]);
    assert_eq!(effect, finished(ErrorKind::LostOwnership));
    let late = now_plus(30_001);
    let inputs = run_to_completion().map(|input| (NOW, input));
    let inputs = inputs.into_iter().chain([
        (late, CONDITION_FAILED_WITHOUT_RECORD),
        (late, Input::Read(None)),
    ]);
    assert_eq!(play_at(call(), inputs), finished(ErrorKind::LostOwnership));
}

#[test]
fn a_response_that_is_too_large_completes_the_key_and_only_its_own_caller_gets_it() {
    let too_large = || failed(false, WriteErrorKind::TooLarge);
    let Effect::Write(Write::Update(change), _) = after_completion([too_large()]) else {
        panic!("the completion has no data");
    };
    assert_eq!(change.set.data, Field::Absent);
    let effect = after_completion([too_large(), APPLIED]);
    assert_eq!(effect, own(Some(ClaimEnd::CompletedWithoutResponse)));
}

#[test]
fn a_maybe_applied_completion_without_a_response_is_confirmed_only_by_its_own_token() {
    let without_response = |owner| {
        let mut record = completed("7");
        record.data = Field::Absent;
        record.owner = Field::Value(owner);
        record
    };
    let found = |owner| {
        after_completion([
            failed(false, WriteErrorKind::TooLarge),
            maybe_applied(),
            Input::Paused,
            condition_failed(without_response(owner)),
        ])
    };
    let own = own(Some(ClaimEnd::CompletedWithoutResponse));
    assert_eq!(found(me()), own);
    assert_eq!(found(another()), finished(ErrorKind::LostOwnership));
    // A call that sent the response itself did not complete the key without it.
    assert_eq!(
        after_completion([condition_failed(without_response(me()))]),
        finished(ErrorKind::LostOwnership)
    );
}

#[test]
fn a_completion_that_is_too_large_without_its_response_too_is_not_sent_a_third_time() {
    let too_large = || failed(false, WriteErrorKind::TooLarge);
    assert_eq!(
        after_completion([too_large(), too_large()]),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn a_completion_without_its_response_has_as_many_tries_as_one_with_it() {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.extend([maybe_applied(), Input::Paused]);
    }
    inputs.push(failed(false, WriteErrorKind::TooLarge));
    for _ in 0..3 {
        inputs.extend([maybe_applied(), Input::Paused]);
    }
    assert!(matches!(
        after_completion(inputs.clone()),
        Effect::Write(Write::Update(_), _)
    ));
    inputs.push(maybe_applied());
    assert_eq!(
        after_completion(inputs),
        finished(ErrorKind::CompletionUnknown)
    );
}

#[test]
fn a_response_that_is_not_json_completes_the_key_without_it() {
    let inputs = [MISS, APPLIED, ended(HandlerResult::NotSerializable)];
    let Effect::Write(Write::Update(change), _) = play(call(), inputs.clone()) else {
        panic!("the completion has no data");
    };
    assert_eq!(change.set.data, Field::Absent);
    let effect = play(call(), inputs.into_iter().chain([APPLIED]));
    assert_eq!(effect, finished(ErrorKind::ResponseNotSerializable));
}

fn failure() -> [Input; 3] {
    [
        MISS,
        APPLIED,
        ended(HandlerResult::Failed("Timeout".to_owned())),
    ]
}

#[test]
fn a_completion_is_sent_again_only_if_the_pause_leaves_more_than_the_reply_reserve() {
    // The lease ends after 30 s. The first pause takes at most 25 ms, and the reserve for the reply is 200 ms.
    let lost_at = |milliseconds| {
        let maybe_applied = (now_plus(milliseconds), maybe_applied());
        let inputs = [
            (NOW, MISS),
            (NOW, APPLIED),
            (NOW, returned()),
            maybe_applied,
        ];
        play_at(call(), inputs)
    };
    assert!(matches!(lost_at(29_774), Effect::Pause(_)));
    assert_eq!(lost_at(29_775), finished(ErrorKind::CompletionUnknown));
}

#[test]
fn a_failure_releases_the_claim_under_its_fence() {
    assert_eq!(
        play(call(), failure()),
        Effect::Write(Write::Delete, held_by(&me()))
    );
}

#[test]
fn the_caller_gets_the_handlers_own_result_also_if_the_release_fails() {
    let with = |input| play(call(), failure().into_iter().chain([input]));
    let released = own(Some(ClaimEnd::Released));
    assert_eq!(with(APPLIED), released);
    assert_eq!(with(condition_failed(completed("7"))), released);
    let not_released = own(Some(ClaimEnd::NotReleased));
    assert_eq!(with(maybe_applied()), not_released);
}

#[test]
fn a_stored_response_replaces_one_that_is_not_stored() {
    let inputs = |input| [MISS, APPLIED, ended(HandlerResult::NotStored), input];
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(
        play(call(), inputs(condition_failed(completed("7")))),
        Effect::Finish(replay)
    );
    assert_eq!(play(call(), inputs(APPLIED)), own(Some(ClaimEnd::Released)));
}

#[test]
fn a_recorded_failure_ends_the_lease_before_the_claim_and_removes_the_token() {
    let mut call = call();
    call.policy.on_error = OnError::Record;
    let [look, claim, ran] = failure();
    let failed_at = now_plus(5_000);
    let inputs = [(NOW, look), (NOW, claim), (failed_at, ran)];
    assert_eq!(play_at(call, inputs), failure_left_at(failed_at, "Timeout"));
}

#[test]
fn a_recorded_failure_ends_the_lease_before_the_claim_that_was_applied() {
    let mut call = call();
    call.policy.on_error = OnError::Record;
    let [look, claim, ran] = failure();
    let expired = condition_failed(claim_of(another(), now_plus(-1)));
    let later = now_plus(10);
    let inputs = [(NOW, look), (later, expired), (later, claim), (later, ran)];
    let Effect::Write(Write::Update(change), _) = play_at(call, inputs) else {
        panic!("a recorded failure is an update");
    };
    assert_eq!(change.set.in_progress_expiration, Field::Value(now_plus(9)));
}

/// Returns the reply to a claim that replaced this record, or none.
fn over(replaced: Option<&Record>) -> Input {
    Input::Written(WriteResult::Applied {
        replaced: Some(replaced.cloned()),
        maybe_again: false,
    })
}

/// Returns the release after this end of a run whose claim replaced this record.
fn release_over(call: &CallTerms, replaced: Option<&Record>, result: HandlerResult) -> Effect {
    let (attempt, _) = Attempt::begin(call.clone()).0.step(NOW, MISS);
    let (attempt, _) = attempt.step(NOW, over(replaced));
    attempt.step(NOW, ended(result)).1
}

#[test]
fn a_release_leaves_a_mark_unless_every_run_until_now_has_reported_its_end() {
    let left = |failure: Field<String>| Record {
        failure,
        ..claim_of(another(), now_plus(-1))
    };
    let failed = |name: &str| left(Field::Value(name.to_owned()));
    let timeout = || HandlerResult::Failed("Timeout".to_owned());
    let mut recording = call();
    recording.policy.on_error = OnError::Record;
    let mut holding = call();
    holding.policy.on_timeout = OnTimeout::Hold;
    for unreported in [
        left(Field::Absent),
        failed("unreported"),
        failed("unreported: Timeout"),
        failed("ResolvedByOperator"),
    ] {
        for call in [call(), recording.clone(), holding.clone()] {
            for (result, failure) in [
                (timeout(), "unreported: Timeout"),
                (HandlerResult::NotStored, "unreported: response not stored"),
                (HandlerResult::Unstorable, "unreported: response not stored"),
            ] {
                let release = release_over(&call, Some(&unreported), result);
                assert_eq!(release, failure_left(failure), "{unreported:?}");
            }
        }
    }
    let deleted = Effect::Write(Write::Delete, held_by(&me()));
    for reported in [None, Some(failed("Timeout")), Some(completed("7"))] {
        let release = |call: &CallTerms, result| release_over(call, reported.as_ref(), result);
        assert_eq!(release(&call(), timeout()), deleted);
        assert_eq!(release(&holding, timeout()), deleted);
        assert_eq!(release(&recording, timeout()), failure_left("Timeout"));
        // It is no failure, so it is not recorded either.
        for result in [HandlerResult::NotStored, HandlerResult::Unstorable] {
            assert_eq!(release(&recording, result), deleted);
        }
    }
}

#[test]
fn a_claim_whose_run_never_started_is_released_with_a_mark_unless_it_was_the_first() {
    let late = now_plus(30_001);
    let release_over = |replaced: Option<Record>| {
        let (attempt, _) = Attempt::begin(call()).0.step(NOW, MISS);
        attempt.step(late, over(replaced.as_ref())).1
    };
    let deleted = Effect::Write(Write::Delete, held_by(&me()));
    assert_eq!(release_over(None), deleted);
    let killed = claim_of(another(), now_plus(-1));
    assert_eq!(
        release_over(Some(killed)),
        failure_left_at(late, "unreported")
    );
}

#[test]
fn a_completion_that_meets_another_transaction_is_sent_again_and_its_claim_is_never_released() {
    let conflict = || failed(false, WriteErrorKind::Conflict);
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        let mut call = call();
        call.policy.on_timeout = on_timeout;
        let met_at = |milliseconds| {
            let inputs = run_to_completion().map(|input| (NOW, input));
            let met = (now_plus(milliseconds), conflict());
            play_at(call.clone(), inputs.into_iter().chain([met]))
        };
        assert!(matches!(met_at(29_774), Effect::Pause(_)));
        assert_eq!(met_at(29_775), finished(ErrorKind::CompletionUnknown));
    }
}

/// Returns the effect after a handler that did not report its end.
fn unreported(result: &HandlerResult, on_timeout: OnTimeout, on_error: OnError) -> Effect {
    let mut call = call();
    (call.policy.on_timeout, call.policy.on_error) = (on_timeout, on_error);
    play(call, [MISS, APPLIED, ended(result.clone())])
}

#[test]
fn an_end_that_was_not_reported_leaves_a_mark_under_rerun_and_keeps_the_claim_under_hold() {
    for (result, name) in [
        (HandlerResult::Panicked, "panic"),
        (HandlerResult::Unreported("Elapsed".to_owned()), "Elapsed"),
    ] {
        for on_error in [OnError::Release, OnError::Record] {
            let released = unreported(&result, OnTimeout::Rerun, on_error);
            assert_eq!(released, failure_left(&format!("unreported: {name}")));
            let kept = own(Some(ClaimEnd::Kept));
            assert_eq!(unreported(&result, OnTimeout::Hold, on_error), kept);
        }
    }
}

#[test]
fn under_hold_a_failure_is_a_reported_end_and_frees_the_key() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    assert_eq!(
        play(call, failure()),
        Effect::Write(Write::Delete, held_by(&me()))
    );
}

#[test]
#[should_panic(expected = "is not a result of")]
fn an_input_that_is_not_a_result_of_the_effect_panics() {
    play(call(), [APPLIED]);
}
