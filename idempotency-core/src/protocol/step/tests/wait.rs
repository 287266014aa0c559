//! Under `wait`: the pauses and reads of a duplicate.

use super::*;

fn waiting() -> CallTerms {
    let mut call = call();
    call.policy.on_in_progress = OnInProgress::Wait;
    call
}

#[test]
fn a_waiting_duplicate_pauses_reads_and_gets_the_response() {
    let other = || claim_of(another(), now_plus(9_000));
    let effect = play(waiting(), [MISS, condition_failed(other())]);
    assert_eq!(effect, Effect::Pause(Duration::from_millis(25)));
    let effect = play(waiting(), [MISS, condition_failed(other()), Input::Paused]);
    assert_eq!(effect, READ);
    let effect = play(
        waiting(),
        [
            MISS,
            condition_failed(other()),
            Input::Paused,
            Input::Read(Some(other())),
        ],
    );
    assert_eq!(effect, Effect::Pause(Duration::from_millis(50)));
    let record = completed("7");
    let effect = play(
        waiting(),
        [
            MISS,
            condition_failed(other()),
            Input::Paused,
            Input::Read(Some(record.clone())),
        ],
    );
    let replay = CallEnd::replayed(record, Source::Store);
    assert_eq!(effect, Effect::Finish(replay));
}

#[test]
fn a_waiting_duplicate_claims_when_the_other_claim_is_gone() {
    let other = claim_of(another(), now_plus(9_000));
    let effect = play(
        waiting(),
        [
            MISS,
            condition_failed(other),
            Input::Paused,
            Input::Read(None),
        ],
    );
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
}

#[test]
fn a_wait_is_bounded_by_the_deadline_and_not_by_tries() {
    let other = || claim_of(another(), now_plus(60_000));
    let mut inputs = vec![(NOW, MISS), (NOW, condition_failed(other()))];
    for _ in 0..200 {
        inputs.push((NOW, Input::Paused));
        inputs.push((NOW, Input::Read(Some(other()))));
    }
    assert_eq!(
        play_at(waiting(), inputs.clone()),
        Effect::Pause(Duration::from_secs(1))
    );
    inputs.push((NOW, Input::Paused));
    inputs.push((now_plus(29_900), Input::Read(Some(other()))));
    let refusal = Refusal::already_in_progress(Some(now_plus(60_000)));
    assert_eq!(play_at(waiting(), inputs), finished(refusal));
}

/// Returns the inputs of a call that waits for a claim whose lease ends after 60 s, up to its first read.
fn until_the_first_read_of_a_wait() -> Vec<(EpochMillis, Input)> {
    let other = claim_of(another(), now_plus(60_000));
    vec![
        (NOW, MISS),
        (NOW, condition_failed(other)),
        (NOW, Input::Paused),
    ]
}

#[test]
fn a_wait_goes_on_after_a_failed_read() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.push((NOW, Input::ReadFailed));
    let effect = play_at(waiting(), inputs.clone());
    assert_eq!(effect, Effect::Pause(Duration::from_millis(50)));
    inputs.extend([
        (NOW, Input::Paused),
        (NOW, Input::Read(Some(completed("7")))),
    ]);
    let replay = CallEnd::replayed(completed("7"), Source::Store);
    assert_eq!(play_at(waiting(), inputs), Effect::Finish(replay));
}

#[test]
fn a_wait_whose_last_read_failed_ends_with_the_stores_error() {
    let mut inputs = until_the_first_read_of_a_wait();
    for _ in 0..50 {
        inputs.extend([(NOW, Input::ReadFailed), (NOW, Input::Paused)]);
    }
    inputs.push((now_plus(29_750), Input::ReadFailed));
    assert_eq!(play_at(waiting(), inputs), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_wait_whose_last_read_succeeded_ends_with_the_record() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.extend([(NOW, Input::ReadFailed), (NOW, Input::Paused)]);
    let other = claim_of(another(), now_plus(60_000));
    inputs.push((now_plus(29_750), Input::Read(Some(other))));
    let refusal = Refusal::already_in_progress(Some(now_plus(60_000)));
    assert_eq!(play_at(waiting(), inputs), finished(refusal));
}

#[test]
fn a_claim_that_may_have_been_applied_before_a_wait_is_released_when_the_wait_ends_with_a_failed_read()
 {
    let lost_then_refused = Input::Written(WriteResult::ConditionFailed {
        existing: Some(claim_of(another(), now_plus(60_000))),
        maybe_applied: true,
    });
    let inputs = [
        (NOW, MISS),
        (NOW, lost_then_refused),
        (NOW, Input::Paused),
        (now_plus(29_750), Input::ReadFailed),
    ];
    let effect = play_at(waiting(), inputs);
    assert_eq!(effect, failure_left_at(now_plus(29_750), "unreported"));
}

#[test]
fn a_failed_read_after_a_claim_ends_the_call_although_it_waited_before() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.extend([
        (NOW, Input::Read(None)),
        (NOW, maybe_applied()),
        (NOW, Input::ReadFailed),
    ]);
    let effect = play_at(waiting(), inputs);
    assert_eq!(effect, failure_left("unreported"));
}

#[test]
fn a_waiting_call_may_lose_any_number_of_races_for_the_next_claim() {
    let other = || claim_of(another(), now_plus(9_000));
    let mut inputs = vec![MISS, condition_failed(other())];
    for _ in 0..10 {
        inputs.extend([Input::Paused, Input::Read(None), condition_failed(other())]);
    }
    assert!(matches!(play(waiting(), inputs), Effect::Pause(_)));
}

#[test]
fn a_send_lost_before_a_wait_may_still_be_applied_after_it() {
    let lost_then_refused = Input::Written(WriteResult::ConditionFailed {
        existing: Some(claim_of(another(), now_plus(9_000))),
        maybe_applied: true,
    });
    let throttled = failed(false, WriteErrorKind::Transient);
    let inputs = [
        MISS,
        lost_then_refused,
        Input::Paused,
        Input::Read(None),
        throttled,
    ];
    assert_eq!(play(waiting(), inputs), READ);
}
