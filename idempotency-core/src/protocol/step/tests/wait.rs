//! Under `wait`: the pauses and reads of a duplicate.

use super::*;

fn waiting() -> Call {
    let mut call = call();
    call.policy.on_in_progress = OnInProgress::Wait;
    call
}

#[test]
fn a_waiting_duplicate_pauses_reads_and_is_given_the_answer() {
    let other = || claim_of(another(), now_plus(9_000));
    let effect = play(waiting(), [MISS, refused(other())]);
    assert_eq!(effect, Effect::Pause(Duration::from_millis(25)));
    let effect = play(waiting(), [MISS, refused(other()), Input::Paused]);
    assert_eq!(effect, Effect::Read);
    let effect = play(
        waiting(),
        [
            MISS,
            refused(other()),
            Input::Paused,
            Input::Read(Some(other())),
        ],
    );
    assert_eq!(effect, Effect::Pause(Duration::from_millis(50)));
    let answer = completed("7");
    let effect = play(
        waiting(),
        [
            MISS,
            refused(other()),
            Input::Paused,
            Input::Read(Some(answer.clone())),
        ],
    );
    let replay = Resolution::Replay {
        record: answer,
        source: Source::Store,
    };
    assert_eq!(effect, Effect::Finish(replay));
}

#[test]
fn a_waiting_duplicate_claims_when_the_claim_is_gone() {
    let other = claim_of(another(), now_plus(9_000));
    let effect = play(
        waiting(),
        [MISS, refused(other), Input::Paused, Input::Read(None)],
    );
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
}

#[test]
fn waiting_is_bounded_by_the_deadline_not_by_tries() {
    let other = || claim_of(another(), now_plus(60_000));
    let mut inputs = vec![(NOW, MISS), (NOW, refused(other()))];
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

/// A call that waits for a claim whose lease ends after 60 s, and is about to read.
fn until_the_first_read_of_a_wait() -> Vec<(EpochMillis, Input)> {
    let other = claim_of(another(), now_plus(60_000));
    vec![(NOW, MISS), (NOW, refused(other)), (NOW, Input::Paused)]
}

#[test]
fn a_read_that_fails_during_a_wait_is_no_news_and_the_wait_goes_on() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.push((NOW, Input::ReadFailed));
    let effect = play_at(waiting(), inputs.clone());
    assert_eq!(effect, Effect::Pause(Duration::from_millis(50)));
    inputs.extend([
        (NOW, Input::Paused),
        (NOW, Input::Read(Some(completed("7")))),
    ]);
    let replay = Resolution::Replay {
        record: completed("7"),
        source: Source::Store,
    };
    assert_eq!(play_at(waiting(), inputs), Effect::Finish(replay));
}

#[test]
fn a_wait_whose_last_read_failed_ends_with_what_the_store_said() {
    let mut inputs = until_the_first_read_of_a_wait();
    for _ in 0..50 {
        inputs.extend([(NOW, Input::ReadFailed), (NOW, Input::Paused)]);
    }
    inputs.push((now_plus(29_750), Input::ReadFailed));
    assert_eq!(play_at(waiting(), inputs), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_wait_whose_last_read_was_answered_ends_with_what_it_read() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.extend([(NOW, Input::ReadFailed), (NOW, Input::Paused)]);
    let other = claim_of(another(), now_plus(60_000));
    inputs.push((now_plus(29_750), Input::Read(Some(other))));
    let refusal = Refusal::already_in_progress(Some(now_plus(60_000)));
    assert_eq!(play_at(waiting(), inputs), finished(refusal));
}

#[test]
fn a_claim_that_may_have_been_applied_before_a_wait_is_given_up_when_the_wait_ends_without_news() {
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
    assert_eq!(effect, Effect::Write(Write::Delete, held_by(&me())));
}

#[test]
fn a_read_that_fails_after_a_claim_of_a_wait_is_no_part_of_the_wait() {
    let mut inputs = until_the_first_read_of_a_wait();
    inputs.extend([
        (NOW, Input::Read(None)),
        (NOW, maybe_applied()),
        (NOW, Input::ReadFailed),
    ]);
    let effect = play_at(waiting(), inputs);
    assert_eq!(effect, Effect::Write(Write::Delete, held_by(&me())));
}

#[test]
fn whoever_waits_loses_any_number_of_races_for_the_next_claim() {
    let other = || claim_of(another(), now_plus(9_000));
    let mut inputs = vec![MISS, refused(other())];
    for _ in 0..10 {
        inputs.extend([Input::Paused, Input::Read(None), refused(other())]);
    }
    assert!(matches!(play(waiting(), inputs), Effect::Pause(_)));
}

#[test]
fn a_send_lost_before_a_wait_may_still_arrive_after_it() {
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
    assert_eq!(play(waiting(), inputs), Effect::Read);
}
