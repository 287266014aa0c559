//! Single flight: a duplicate and the progress of its leader.

use super::super::super::{InFlight, Stage};
use super::*;

fn at(stage: Stage, until: i64) -> Input {
    Input::LeaderProgress(InFlight {
        stage,
        until: now_plus(until),
    })
}

fn claims() -> Input {
    at(Stage::Claiming, 20_000)
}

fn stores() -> Input {
    at(Stage::Storing, 20_000)
}

fn runs_until(until: i64) -> Input {
    at(Stage::Running, until)
}

fn runs() -> Input {
    runs_until(20_000)
}

/// Returns the progress of a leader that waits for another process, whose lease ends after the leader's own deadline.
fn waits() -> Input {
    let until = Some(now_plus(60_000));
    at(Stage::Waiting { until, round: 1 }, 20_000)
}

fn waits_on(round: u8) -> Input {
    let until = Some(now_plus(60_000));
    at(Stage::Waiting { until, round }, 20_000)
}

fn waiting() -> CallTerms {
    let mut call = call();
    call.policy.on_in_progress = OnInProgress::Wait;
    call
}

fn in_progress_until(offset: i64) -> Effect {
    finished(Refusal::already_in_progress(Some(now_plus(offset))))
}

fn shared(record: Record) -> Effect {
    Effect::Finish(CallEnd::replayed(record, Source::ConcurrentCall))
}

#[test]
fn a_running_leader_refuses_its_duplicate() {
    assert_eq!(play(call(), [runs()]), in_progress_until(20_000));
}

#[test]
fn under_wait_a_duplicate_follows_until_its_own_time_or_the_leaders_lease_ends() {
    // 30 s less the reserve for the reply.
    assert_eq!(
        play(waiting(), [runs_until(60_000)]),
        Effect::AwaitLeader(Duration::from_millis(29_750))
    );
    // A lease has expired one millisecond after its end.
    assert_eq!(
        play(waiting(), [runs()]),
        Effect::AwaitLeader(Duration::from_millis(20_001))
    );
}

#[test]
fn a_duplicate_waits_one_second_for_the_stores_reply_to_the_leader() {
    for other in [claims, stores] {
        for call in [call(), waiting()] {
            let a_second = Effect::AwaitLeader(Duration::from_secs(1));
            assert_eq!(play(call.clone(), [other()]), a_second);
            let later = [(NOW, other()), (now_plus(1_000), other())];
            assert!(matches!(
                play_at(call, later),
                Effect::Write(Write::Put(_), _)
            ));
        }
    }
}

#[test]
fn a_leader_that_waits_for_another_process_refuses_its_duplicate_with_that_lease() {
    assert_eq!(play(call(), [waits()]), in_progress_until(60_000));
}

#[test]
fn an_expired_lease_refuses_no_duplicate_although_the_leader_still_waits_for_it() {
    let until = Some(now_plus(-1));
    let waits = at(Stage::Waiting { until, round: 1 }, 20_000);
    assert!(matches!(
        play(call(), [waits]),
        Effect::Write(Write::Put(_), _)
    ));
}

#[test]
fn under_wait_a_duplicate_follows_a_waiting_leader_as_long_as_its_rounds_advance() {
    let follow = Effect::AwaitLeader(Duration::from_secs(2));
    assert_eq!(play(waiting(), [waits()]), follow);
    assert_eq!(play(waiting(), [waits(), waits_on(2), waits_on(3)]), follow);
    let silence = [(NOW, waits()), (now_plus(2_000), waits())];
    assert!(matches!(
        play_at(waiting(), silence),
        Effect::Write(Write::Put(_), _)
    ));
}

#[test]
fn when_the_leaders_claim_is_applied_its_duplicate_is_refused_or_waits_on() {
    assert_eq!(play(call(), [claims(), runs()]), in_progress_until(20_000));
    assert!(matches!(
        play(waiting(), [claims(), runs()]),
        Effect::AwaitLeader(_)
    ));
}

#[test]
fn a_duplicate_gets_the_confirmed_response_of_its_leader() {
    let record = completed("7");
    let done = || Input::LeaderDone(Some(completed("7")));
    assert_eq!(play(call(), [claims(), done()]), shared(record.clone()));
    assert_eq!(play(waiting(), [runs(), done()]), shared(record));
}

#[test]
fn a_shared_record_is_classified_like_a_stored_one() {
    let mut expired = completed("7");
    expired.expiration = Field::Value(seconds(-1));
    let effect = play(call(), [claims(), Input::LeaderDone(Some(expired))]);
    assert_eq!(effect, Effect::CheckInFlight);
    let mut validated = call();
    validated.validation = Some("mine".to_owned());
    let effect = play(
        validated,
        [claims(), Input::LeaderDone(Some(completed("7")))],
    );
    assert_eq!(effect, finished(ErrorKind::PayloadMismatch));
}

#[test]
fn after_a_leader_without_a_claim_each_duplicate_asks_the_store() {
    for call in [call(), waiting()] {
        let effect = play(call, [claims(), Input::LeaderDone(None)]);
        assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
    }
}

#[test]
fn after_a_leader_without_a_response_its_followers_look_for_the_next_leader() {
    for other in [runs, stores, waits] {
        let effect = play(waiting(), [other(), Input::LeaderDone(None)]);
        assert_eq!(effect, Effect::CheckLocal);
    }
    let effect = play(waiting(), [runs(), Input::LeaderDone(None), MISS]);
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
    let effect = play(waiting(), [runs(), Input::LeaderDone(None), claims()]);
    assert!(matches!(effect, Effect::AwaitLeader(_)));
}

#[test]
fn a_leader_with_an_expired_lease_delays_no_duplicate() {
    for call in [call(), waiting()] {
        assert!(matches!(
            play(call.clone(), [runs_until(-1)]),
            Effect::Write(Write::Put(_), _)
        ));
        let expired = [(NOW, claims()), (now_plus(20_001), runs())];
        assert!(matches!(
            play_at(call, expired),
            Effect::Write(Write::Put(_), _)
        ));
    }
    assert_eq!(play(call(), [runs_until(0)]), in_progress_until(0));
}

#[test]
fn a_duplicate_without_time_to_wait_is_refused_by_a_running_leader() {
    let mut late = waiting();
    late.deadline = Some(now_plus(250));
    assert_eq!(play(late.clone(), [runs()]), in_progress_until(20_000));
    // A claiming leader does not know yet whether another call is in progress. The store knows.
    assert!(matches!(
        play(late, [claims()]),
        Effect::Write(Write::Put(_), _)
    ));
}

#[test]
fn a_call_with_an_expired_deadline_follows_no_leader() {
    let mut late = waiting();
    late.deadline = Some(now_plus(-1));
    assert_eq!(play(late, [runs()]), finished(ErrorKind::NoTimeLeft));
}

#[test]
fn without_a_deadline_the_time_to_wait_starts_with_the_call() {
    let mut call = waiting();
    call.deadline = None;
    call.policy.lease = Duration::from_secs(60);
    let inputs = [
        (NOW, runs()),
        (now_plus(20_000), Input::LeaderDone(None)),
        (now_plus(20_000), runs_until(300_000)),
    ];
    assert_eq!(
        play_at(call, inputs),
        Effect::AwaitLeader(Duration::from_millis(39_750))
    );
}

#[test]
fn a_call_publishes_whether_it_asks_the_store_waits_or_runs() {
    let stage = |inputs: &[Input]| {
        let (mut attempt, _) = Attempt::begin(waiting());
        for input in inputs {
            (attempt, _) = attempt.step(NOW, input.clone());
        }
        attempt.in_flight().map(|in_flight| in_flight.stage)
    };
    assert_eq!(stage(&[]), None);
    assert_eq!(stage(&[MISS]), Some(Stage::Claiming));
    let other = || condition_failed(claim_of(another(), now_plus(9_000)));
    let until = Some(now_plus(9_000));
    let round = |round| Some(Stage::Waiting { until, round });
    assert_eq!(stage(&[MISS, other()]), round(1));
    assert_eq!(stage(&[MISS, other(), Input::Paused]), round(1));
    let found = Input::Read(Some(claim_of(another(), now_plus(9_000))));
    assert_eq!(stage(&[MISS, other(), Input::Paused, found]), round(2));
    assert_eq!(stage(&[MISS, APPLIED]), Some(Stage::Running));
    let failed = ended(HandlerResult::Failed("E".to_owned()));
    for ran in [returned(), ended(HandlerResult::NotStored), failed] {
        assert_eq!(stage(&[MISS, APPLIED, ran]), Some(Stage::Storing));
    }
    let retries = stage(&[MISS, APPLIED, returned(), maybe_applied()]);
    assert_eq!(retries, Some(Stage::Storing));
}
