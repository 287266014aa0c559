//! A store that fails before the handler, under `run-unprotected`.

use super::*;
use crate::protocol::Stage;

/// The handler runs, and nothing is stored.
const RUN: Effect = Effect::RunUnprotected {
    maybe_claimed: false,
};
/// The handler runs, and its response is stored if the claim was applied.
const RUN_MAYBE_CLAIMED: Effect = Effect::RunUnprotected {
    maybe_claimed: true,
};

fn unprotected() -> CallTerms {
    let mut call = call();
    call.policy.on_store_error = OnStoreError::RunUnprotected;
    call
}

fn throttled() -> Input {
    failed(false, WriteErrorKind::Transient)
}

fn leader(stage: Stage) -> Input {
    Input::LeaderProgress(InFlight {
        stage,
        until: now_plus(30_000),
    })
}

fn unclaimed() -> Effect {
    Effect::Finish(CallEnd::own(None))
}

#[test]
fn a_claim_that_failed_for_a_while_is_followed_by_a_run() {
    let effect = play(unprotected(), [MISS, throttled()]);
    assert_eq!(effect, Effect::CheckInFlight);
    assert_eq!(play(unprotected(), [MISS, throttled(), MISS]), RUN);
    assert_eq!(
        play(call(), [MISS, throttled()]),
        finished(ErrorKind::StoreFailed)
    );
}

#[test]
fn a_run_without_a_claim_sends_nothing_and_ends_however_it_ends() {
    for result in [
        HandlerResult::NotStored,
        HandlerResult::Failed("E".to_owned()),
        HandlerResult::Panicked,
    ] {
        let ended = ended(result);
        let effect = play(unprotected(), [MISS, throttled(), MISS, ended]);
        assert_eq!(effect, unclaimed());
    }
}

#[test]
fn a_failure_that_an_operator_must_correct_is_followed_by_no_run() {
    let denied = failed(false, WriteErrorKind::Permanent);
    assert_eq!(
        play(unprotected(), [MISS, denied]),
        finished(ErrorKind::StoreFailed)
    );
}

#[test]
fn under_hold_no_call_runs_unprotected() {
    let mut holds = unprotected();
    holds.policy.on_timeout = OnTimeout::Hold;
    assert_eq!(
        play(holds, [MISS, throttled()]),
        finished(ErrorKind::StoreFailed)
    );
}

#[test]
fn a_call_that_met_a_record_does_not_run() {
    // The claim was refused, and the record that refused it cannot be read.
    let refused = failed(false, WriteErrorKind::Refused);
    for inputs in [
        vec![MISS, refused],
        vec![MISS, CONDITION_FAILED_WITHOUT_RECORD, Input::ReadFailed],
        // The lease of the other call has expired by now, and the next claim fails.
        vec![
            MISS,
            condition_failed(claim_of(another(), now_plus(-1))),
            throttled(),
        ],
    ] {
        let effect = play(unprotected(), inputs.clone());
        assert_eq!(effect, finished(ErrorKind::StoreFailed), "{inputs:?}");
    }
}

#[test]
fn a_call_that_waited_for_another_does_not_run() {
    let mut waits = unprotected();
    waits.policy.on_in_progress = OnInProgress::Wait;
    let inputs = [
        (NOW, MISS),
        (NOW, condition_failed(claim_of(another(), now_plus(30_000)))),
        (now_plus(29_900), Input::Paused),
        (now_plus(29_900), Input::ReadFailed),
    ];
    assert_eq!(play_at(waits, inputs), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_read_before_the_claim_that_finds_another_call_prevents_the_run() {
    let mut reads = unprotected();
    reads.policy.lookup = crate::protocol::policy::Lookup::ReadFirst;
    let found = |record| play(reads.clone(), [MISS, Input::Read(record), throttled()]);
    let running = claim_of(another(), now_plus(30_000));
    assert_eq!(found(Some(running)), finished(ErrorKind::StoreFailed));
    let killed = claim_of(another(), now_plus(-1));
    assert_eq!(found(Some(killed)), Effect::CheckInFlight);
    assert_eq!(found(None), Effect::CheckInFlight);
    let failed = play(reads, [MISS, Input::ReadFailed, throttled()]);
    assert_eq!(failed, Effect::CheckInFlight);
}

#[test]
fn a_follower_of_a_call_that_ran_does_not_run() {
    let mut waits = unprotected();
    waits.policy.on_in_progress = OnInProgress::Wait;
    for stage in [Stage::Running, Stage::Storing] {
        let inputs = [leader(stage), Input::LeaderDone(None), MISS, throttled()];
        let effect = play(waits.clone(), inputs);
        assert_eq!(effect, finished(ErrorKind::StoreFailed), "{stage:?}");
    }
    // The leader only asked the store, as far as its follower saw. It may have run since.
    let ended = [
        leader(Stage::Claiming),
        Input::LeaderDone(None),
        throttled(),
    ];
    assert_eq!(play(waits.clone(), ended), finished(ErrorKind::StoreFailed));
    // The leader still asks the store, which hangs.
    let hangs = [
        leader(Stage::Claiming),
        leader(Stage::Claiming),
        throttled(),
    ];
    assert_eq!(play(waits, hangs), Effect::CheckInFlight);
}

#[test]
fn another_call_of_the_process_that_runs_by_now_is_not_joined_by_a_second_run() {
    let found = |stage| play(unprotected(), [MISS, throttled(), leader(stage)]);
    let until = now_plus(30_000);
    for stage in [Stage::Running, Stage::Storing] {
        let refused = Refusal::already_in_progress(Some(until));
        assert_eq!(found(stage), finished(refused), "{stage:?}");
    }
    assert_eq!(found(Stage::Claiming), RUN);
    let late = Stage::Waiting {
        until: Some(now_plus(-1)),
        round: 1,
    };
    assert_eq!(found(late), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_claim_that_may_have_been_applied_is_released_if_another_call_runs() {
    let inputs = [
        MISS,
        maybe_applied(),
        Input::ReadFailed,
        leader(Stage::Running),
    ];
    assert_eq!(
        play(unprotected(), inputs.clone()),
        failure_left("unreported")
    );
    let ended = inputs.into_iter().chain([APPLIED]);
    assert_eq!(
        play(unprotected(), ended),
        finished(ErrorKind::AlreadyInProgress)
    );
}

#[test]
fn duplicates_in_the_process_see_the_run() {
    for (inputs, until) in [
        (vec![MISS, throttled(), MISS], now_plus(30_000)),
        (
            vec![MISS, maybe_applied(), Input::ReadFailed, MISS],
            now_plus(30_000),
        ),
    ] {
        let (mut attempt, _) = Attempt::begin(unprotected());
        for input in inputs {
            attempt = attempt.step(NOW, input).0;
        }
        let stage = Stage::Running;
        assert_eq!(attempt.in_flight(), Some(InFlight { stage, until }));
    }
}

#[test]
fn a_claim_that_may_have_been_applied_is_not_released_before_the_run() {
    let inputs = [MISS, maybe_applied(), Input::ReadFailed, MISS];
    assert_eq!(play(unprotected(), inputs), RUN_MAYBE_CLAIMED);
}

/// Returns the effect after a run under a claim that may have been applied.
fn after_run(result: HandlerResult, inputs: impl IntoIterator<Item = Input>) -> Effect {
    let before = [MISS, maybe_applied(), Input::ReadFailed, MISS];
    let ended = [ended(result)];
    play(unprotected(), before.into_iter().chain(ended).chain(inputs))
}

fn response() -> HandlerResult {
    HandlerResult::Returned(Data::new("42"))
}

#[test]
fn after_the_run_the_response_is_stored_under_the_fence() {
    let Effect::Write(Write::Update(change), condition) = after_run(response(), []) else {
        panic!("a completion is an update");
    };
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.data, Field::Value(Data::new("42")));
    let stored = after_run(response(), [APPLIED]);
    assert!(matches!(stored, Effect::Finish(end) if end.claim == Some(ClaimEnd::Completed)));
}

#[test]
fn without_its_claim_the_response_is_stored_if_there_is_no_record() {
    let inputs = [CONDITION_FAILED_WITHOUT_RECORD, Input::Read(None)];
    let Effect::Write(Write::Put(record), condition) = after_run(response(), inputs.clone()) else {
        panic!("the response is put");
    };
    assert_eq!(condition, Condition::NoRecord);
    assert_eq!(record.data, Field::Value(Data::new("42")));
    let stored = after_run(response(), inputs.into_iter().chain([APPLIED]));
    assert!(matches!(stored, Effect::Finish(end) if end.claim == Some(ClaimEnd::Completed)));
}

#[test]
fn a_response_that_another_call_has_stored_takes_precedence() {
    let effect = after_run(response(), [condition_failed(completed("7"))]);
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(effect, Effect::Finish(replay));
}

#[test]
fn a_response_that_cannot_be_stored_goes_to_its_caller_all_the_same() {
    let others = claim_of(another(), now_plus(30_000));
    for inputs in [
        vec![failed(false, WriteErrorKind::Permanent)],
        vec![condition_failed(others)],
        vec![CONDITION_FAILED_WITHOUT_RECORD, Input::ReadFailed],
        vec![
            CONDITION_FAILED_WITHOUT_RECORD,
            Input::Read(None),
            throttled(),
        ],
    ] {
        assert_eq!(
            after_run(response(), inputs.clone()),
            unclaimed(),
            "{inputs:?}"
        );
    }
}

#[test]
fn staged_writes_are_never_the_callers_own_result_unless_they_were_applied() {
    let rejected = |maybe_applied| Input::Written(WriteResult::Rejected { maybe_applied });
    let unknown = |kind| CallEnd::refused(kind).with_staged(Some(StagedEnd::Unknown));
    let rejected_and_released = CallEnd {
        claim: Some(ClaimEnd::Released),
        staged: Some(StagedEnd::Rejected),
        ..CallEnd::refused(ErrorKind::TransactionRejected)
    };
    for (inputs, end) in [
        (
            vec![failed(false, WriteErrorKind::Refused)],
            unknown(ErrorKind::CompletionUnknown),
        ),
        // The claim can still arrive, and a send of the transaction after it.
        (
            vec![rejected(true), APPLIED],
            unknown(ErrorKind::CompletionUnknown),
        ),
        (vec![rejected(false), APPLIED], rejected_and_released),
        (
            vec![CONDITION_FAILED_WITHOUT_RECORD, Input::Read(None)],
            unknown(ErrorKind::LostOwnership),
        ),
    ] {
        let run = [MISS, maybe_applied(), Input::ReadFailed, MISS];
        let staged = staging(response());
        let inputs = run.into_iter().chain([staged]).chain(inputs);
        // One request after the run: no pause fits.
        let late = now_plus(29_900);
        let inputs = inputs.enumerate().map(|(at, input)| {
            let now = if at < 5 { NOW } else { late };
            (now, input)
        });
        assert_eq!(play_at(unprotected(), inputs), Effect::Finish(end));
    }
}

#[test]
fn the_claim_of_a_failed_run_is_released() {
    let failure = HandlerResult::Failed("E".to_owned());
    let released = failure_left("unreported: E");
    assert_eq!(after_run(failure.clone(), []), released);
    for (result, end) in [
        (APPLIED, ClaimEnd::Released),
        (throttled(), ClaimEnd::NotReleased),
    ] {
        let effect = after_run(failure.clone(), [result]);
        assert_eq!(effect, own(Some(end)));
    }
}

#[test]
fn the_requests_after_the_run_take_no_longer_than_store_timeout() {
    let mut call = unprotected();
    call.policy.store_timeout = Duration::from_secs(2);
    let (mut attempt, _) = Attempt::begin(call);
    for input in [MISS, maybe_applied(), Input::ReadFailed, MISS, returned()] {
        attempt = attempt.step(NOW, input).0;
    }
    assert_eq!(attempt.time_limit(NOW), Duration::from_millis(1_800));
    // One more try must fit into this time.
    let late = now_plus(1_850);
    let (_, effect) = attempt.step(late, throttled());
    assert_eq!(effect, unclaimed());
}

#[test]
fn no_run_starts_after_the_deadline() {
    let inputs = [(NOW, MISS), (now_plus(30_001), throttled())];
    assert_eq!(
        play_at(unprotected(), inputs),
        finished(ErrorKind::StoreFailed)
    );
}

#[test]
fn a_claim_that_is_found_after_a_lost_reply_is_a_claim() {
    let mine = claim_of(me(), now_plus(30_000));
    let effect = play(
        unprotected(),
        [MISS, maybe_applied(), Input::Read(Some(mine))],
    );
    assert_eq!(effect, Effect::Run);
}

#[test]
fn without_a_deadline_no_run_starts_after_the_lease_that_its_claim_would_have() {
    let mut call = unprotected();
    call.deadline = None;
    call.policy.lease = Duration::from_secs(10);
    let claims_at = |input: Input, milliseconds| {
        play_at(call.clone(), [(NOW, MISS), (now_plus(milliseconds), input)])
    };
    for (input, late) in [
        (throttled(), finished(ErrorKind::StoreFailed)),
        (
            maybe_applied(),
            failure_left_at(now_plus(10_001), "unreported"),
        ),
    ] {
        assert_eq!(claims_at(input.clone(), 10_000), Effect::CheckInFlight);
        assert_eq!(claims_at(input, 10_001), late);
    }
}
