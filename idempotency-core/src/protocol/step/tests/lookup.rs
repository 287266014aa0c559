//! The read before the first claim, under `read-first`.

use std::time::Duration;

use super::super::super::Resolution;
use super::super::super::policy::Lookup;
use super::super::super::{InFlight, Source, Stage};
use super::*;
use crate::time::EpochSeconds;

const LOOKUP: Effect = Effect::Read(Consistency::Eventual);

fn reading_first() -> CallTerms {
    let mut call = call();
    call.policy.lookup = Lookup::ReadFirst;
    call
}

fn reads(record: Record) -> Input {
    Input::Read(Some(record))
}

/// Returns the claim that is sent at `now`.
fn claim_at(call: &CallTerms, now: EpochMillis) -> Effect {
    Effect::Write(
        Write::Put(Record {
            expiration: Field::Value(EpochSeconds::new(now.floor_to_seconds().get() + 3_600)),
            ..claim_of(me(), now_plus(30_000))
        }),
        claimable(now, call.policy.on_timeout),
    )
}

fn replayed(effect: &Effect) -> Option<(&Record, Source)> {
    match effect {
        Effect::Finish(CallEnd {
            resolution: Resolution::Replay { record, source },
            ..
        }) => Some((record, *source)),
        _ => None,
    }
}

#[test]
fn a_call_that_claims_first_sends_no_read() {
    assert_eq!(play(call(), [MISS]), claim_at(&call(), NOW));
}

#[test]
fn a_call_that_reads_first_sends_an_eventual_read_before_its_claim() {
    assert_eq!(play(reading_first(), [MISS]), LOOKUP);
}

#[test]
fn a_response_that_the_read_finds_is_replayed_from_the_store() {
    let effect = play(reading_first(), [MISS, reads(completed("42"))]);
    assert_eq!(replayed(&effect), Some((&completed("42"), Source::Store)));
}

#[test]
fn a_response_of_the_same_payload_is_replayed() {
    let call = CallTerms {
        validation: Some("v".to_owned()),
        ..reading_first()
    };
    let record = Record {
        validation: Field::Value("v".to_owned()),
        ..completed("42")
    };
    let effect = play(call, [MISS, reads(record.clone())]);
    assert_eq!(replayed(&effect), Some((&record, Source::Store)));
}

#[test]
fn in_every_other_case_the_claim_decides() {
    let lease = |end| claim_of(another(), now_plus(end));
    let records = [
        ("no record", None),
        ("a claim whose lease runs", Some(lease(1))),
        ("a claim whose lease has expired", Some(lease(-1))),
        (
            "a response whose window has expired",
            Some(Record {
                expiration: Field::Value(seconds(-1)),
                ..completed("42")
            }),
        ),
        (
            "a completion without a response",
            Some(Record {
                data: Field::Absent,
                ..completed("42")
            }),
        ),
        (
            "a response of an unknown type",
            Some(Record {
                data: Field::Unreadable,
                ..completed("42")
            }),
        ),
        ("a response that is not JSON", Some(completed("{"))),
        (
            "a record without a status",
            Some(Record {
                status: Field::Absent,
                ..completed("42")
            }),
        ),
    ];
    for (what, record) in records {
        let effect = play(reading_first(), [MISS, Input::Read(record)]);
        assert_eq!(effect, claim_at(&reading_first(), NOW), "{what}");
    }
    let effect = play(reading_first(), [MISS, Input::ReadFailed]);
    assert_eq!(effect, claim_at(&reading_first(), NOW), "a failed read");
}

#[test]
fn a_response_of_another_payload_is_left_to_the_claim() {
    let call = CallTerms {
        validation: Some("mine".to_owned()),
        ..reading_first()
    };
    let record = Record {
        validation: Field::Value("theirs".to_owned()),
        ..completed("42")
    };
    let effect = play(call.clone(), [MISS, reads(record.clone())]);
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
    let effect = play(
        call,
        [MISS, reads(record.clone()), condition_failed(record)],
    );
    assert_eq!(effect, finished(ErrorKind::PayloadMismatch));
}

#[test]
fn a_window_is_replayed_to_its_last_second() {
    let ends_now = Record {
        expiration: Field::Value(seconds(0)),
        ..completed("42")
    };
    let effect = play(reading_first(), [MISS, reads(ends_now)]);
    assert!(replayed(&effect).is_some());
}

#[test]
fn a_call_that_holds_leaves_an_expired_claim_to_its_own_claim() {
    let mut call = reading_first();
    call.policy.on_timeout = OnTimeout::Hold;
    let killed = claim_of(another(), now_plus(-1));
    let effect = play(call.clone(), [MISS, reads(killed.clone())]);
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
    let effect = play(
        call,
        [MISS, reads(killed.clone()), condition_failed(killed)],
    );
    assert_eq!(effect, finished(ErrorKind::Unresolved));
}

#[test]
fn each_read_after_the_claim_is_strong() {
    let after = |input| play(reading_first(), [MISS, Input::Read(None), input]);
    assert_eq!(after(maybe_applied()), READ);
    assert_eq!(after(CONDITION_FAILED_WITHOUT_RECORD), READ);
    let mut waiting = reading_first();
    waiting.policy.on_in_progress = OnInProgress::Wait;
    let runs = condition_failed(claim_of(another(), now_plus(20_000)));
    let inputs = [MISS, Input::Read(None), runs, Input::Paused];
    assert_eq!(play(waiting, inputs), READ);
}

#[test]
fn a_claim_that_fails_after_the_read_ends_in_the_error_of_the_store() {
    let refused = failed(false, WriteErrorKind::Permanent);
    let effect = play(reading_first(), [MISS, Input::ReadFailed, refused]);
    assert_eq!(effect, finished(ErrorKind::StoreFailed));
}

#[test]
fn a_deadline_that_expires_during_the_read_prevents_the_claim_but_no_replay() {
    let late = now_plus(30_001);
    let after = |input| play_at(reading_first(), [(NOW, MISS), (late, input)]);
    assert_eq!(after(Input::Read(None)), finished(ErrorKind::NoTimeLeft));
    assert_eq!(after(Input::ReadFailed), finished(ErrorKind::NoTimeLeft));
    assert!(replayed(&after(reads(completed("42")))).is_some());
    let effect = play_at(reading_first(), [(late, MISS)]);
    assert_eq!(effect, finished(ErrorKind::NoTimeLeft), "nothing is read");
}

#[test]
fn the_claim_is_made_at_the_time_of_the_claim_and_not_of_the_read() {
    let later = now_plus(2_000);
    let effect = play_at(reading_first(), [(NOW, MISS), (later, Input::Read(None))]);
    assert_eq!(effect, claim_at(&reading_first(), later));
}

#[test]
fn the_read_may_take_half_of_the_time_of_a_claim_and_counts_in_the_store_timeout() {
    let (attempt, _) = Attempt::begin(reading_first()).0.step(NOW, MISS);
    assert_eq!(attempt.time_limit(NOW), Duration::from_millis(1_400));
    let after = now_plus(1_400);
    let (attempt, _) = attempt.step(after, Input::ReadFailed);
    assert_eq!(attempt.time_limit(after), Duration::from_millis(1_400));
}

#[test]
fn the_read_of_a_call_with_little_time_takes_half_of_its_minimum() {
    let call = CallTerms {
        deadline: Some(now_plus(300)),
        ..reading_first()
    };
    let (attempt, _) = Attempt::begin(call).0.step(NOW, MISS);
    assert_eq!(attempt.time_limit(NOW), Duration::from_millis(75));
}

#[test]
fn a_call_that_reads_first_is_a_leader_that_claims() {
    let (attempt, _) = Attempt::begin(reading_first()).0.step(NOW, MISS);
    let claims = InFlight {
        stage: Stage::Claiming,
        until: now_plus(30_000),
    };
    assert_eq!(attempt.in_flight(), Some(claims));
}

#[test]
fn a_follower_that_asks_the_store_itself_reads_first_too() {
    let leader = || {
        Input::LeaderProgress(InFlight {
            stage: Stage::Claiming,
            until: now_plus(20_000),
        })
    };
    let inputs = [(NOW, leader()), (now_plus(1_000), leader())];
    assert_eq!(play_at(reading_first(), inputs), LOOKUP);
}
