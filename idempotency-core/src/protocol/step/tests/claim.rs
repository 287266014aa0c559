//! The claim, and what a call does with the record that it finds.

use super::*;

#[test]
fn a_claim_contains_lease_window_validation_and_token() {
    let mut call = call();
    call.validation = Some("v".to_owned());
    let Effect::Write(Write::Put(record), condition) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(condition, claimable(NOW, OnTimeout::Rerun));
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(now_plus(30_000))
    );
    assert_eq!(record.status, Field::Value(Status::InProgress));
    assert_eq!(record.expiration, Field::Value(seconds(3_600)));
    assert_eq!(record.validation, Field::Value("v".to_owned()));
    assert_eq!(record.owner, Field::Value(me()));
    assert_eq!(record.data, Field::Absent);
}

#[test]
fn the_window_of_a_claim_never_ends_before_its_lease_rounded_up() {
    let mut call = call();
    call.policy.expires_after = Duration::from_secs(1);
    let Effect::Write(Write::Put(record), _) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    // The lease ends half a second after a whole one.
    assert_eq!(record.expiration, Field::Value(seconds(31)));
}

#[test]
fn under_hold_a_claim_expires_years_after_its_lease() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let Effect::Write(Write::Put(record), condition) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(condition, claimable(NOW, OnTimeout::Hold));
    assert!(record.expiration.value() > Some(&seconds(9 * 365 * 24 * 60 * 60)));
}

#[test]
fn without_a_deadline_a_claim_has_the_configured_lease() {
    let mut call = call();
    call.deadline = None;
    let Effect::Write(Write::Put(record), _) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(now_plus(15 * 60 * 1_000))
    );
}

#[test]
fn an_expired_deadline_refuses_the_call_before_any_request() {
    let mut call = call();
    call.deadline = Some(now_plus(-1));
    assert_eq!(play(call, [MISS]), finished(ErrorKind::NoTimeLeft));
}

#[test]
fn a_deadline_has_not_expired_at_its_last_millisecond() {
    let mut call = call();
    call.deadline = Some(NOW);
    assert!(matches!(
        play(call.clone(), [MISS]),
        Effect::Write(Write::Put(_), _)
    ));
    assert_eq!(play(call, [MISS, APPLIED]), Effect::Run);
}

#[test]
fn no_handler_starts_under_an_expired_lease() {
    let effect = play_at(call(), [(NOW, MISS), (now_plus(30_001), APPLIED)]);
    assert_eq!(effect, Effect::Write(Write::Delete, held_by(&me())));
    let effect = play_at(
        call(),
        [
            (NOW, MISS),
            (now_plus(30_001), APPLIED),
            (now_plus(30_002), APPLIED),
        ],
    );
    assert_eq!(effect, finished(ErrorKind::NoTimeLeft));
}

/// Returns a call without a deadline, so that its lease is the configured one: 10 s.
fn with_a_lease_of_ten_seconds() -> CallTerms {
    let mut call = call();
    call.deadline = None;
    call.policy.lease = Duration::from_secs(10);
    call
}

#[test]
fn a_configured_lease_starts_at_the_claim_and_not_at_its_reply() {
    let late_reply = [(NOW, MISS), (now_plus(10_001), APPLIED)];
    let effect = play_at(with_a_lease_of_ten_seconds(), late_reply);
    assert_eq!(effect, Effect::Write(Write::Delete, held_by(&me())));
}

#[test]
fn a_claim_found_after_a_lost_reply_has_the_lease_in_its_record() {
    // An earlier send of it was applied.
    let own = claim_of(me(), now_plus(9_500));
    let (attempt, _look) = Attempt::begin(with_a_lease_of_ten_seconds());
    let (attempt, _claim) = attempt.step(NOW, MISS);
    let (attempt, effect) = attempt.step(now_plus(9_000), condition_failed(own));
    assert_eq!(effect, Effect::Run);
    let until = attempt.in_flight().map(|in_flight| in_flight.until);
    assert_eq!(until, Some(now_plus(9_500)));
}

#[test]
fn the_token_identifies_a_claim_whose_reply_was_lost() {
    let own = claim_of(me(), now_plus(30_000));
    assert_eq!(
        play(call(), [MISS, condition_failed(own.clone())]),
        Effect::Run
    );
    assert_eq!(
        play(call(), [MISS, maybe_applied(), Input::Read(Some(own))]),
        Effect::Run
    );
}

#[test]
fn under_hold_a_call_that_finds_its_own_claim_after_the_lease_releases_it() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let own = claim_of(me(), now_plus(30_000));
    let late = now_plus(30_001);
    let found = [(NOW, MISS), (late, condition_failed(own))];
    let effect = play_at(call.clone(), found.clone());
    assert_eq!(effect, failure_left_at(late, "unreported"));
    let effect = play_at(call, found.into_iter().chain([(late, APPLIED)]));
    assert_eq!(effect, finished(ErrorKind::NoTimeLeft));
}

#[test]
fn a_missing_record_after_a_maybe_applied_claim_is_no_proof_so_the_call_claims_again_with_its_token()
 {
    let effect = play(call(), [MISS, maybe_applied(), Input::Read(None)]);
    let Effect::Write(Write::Put(record), _) = effect else {
        panic!("the call claims again");
    };
    assert_eq!(record.owner, Field::Value(me()));
}

#[test]
fn a_failed_claim_counts_as_not_applied_only_if_no_send_was_lost() {
    let throttled = || failed(false, WriteErrorKind::Transient);
    assert_eq!(
        play(call(), [MISS, throttled()]),
        finished(ErrorKind::StoreFailed)
    );
    // The last error is not enough: an earlier send was lost.
    let effect = play(
        call(),
        [MISS, maybe_applied(), Input::Read(None), throttled()],
    );
    assert_eq!(effect, READ);
}

/// Returns a failed condition on an expired claim, after an earlier send of the same request may have been applied.
fn refused_after_a_loss() -> Input {
    Input::Written(WriteResult::ConditionFailed {
        existing: Some(claim_of(another(), now_plus(-1))),
        maybe_applied: true,
    })
}

#[test]
fn a_send_that_was_lost_before_a_failed_condition_may_still_be_applied_after_the_next_claim() {
    let throttled = failed(false, WriteErrorKind::Transient);
    let effect = play(call(), [MISS, refused_after_a_loss(), throttled]);
    assert_eq!(effect, READ);
}

#[test]
fn a_call_that_lost_a_send_and_every_race_releases_its_claim_before_it_returns_contended() {
    let expired = || condition_failed(claim_of(another(), now_plus(-1)));
    let lost_every_race = [
        MISS,
        refused_after_a_loss(),
        expired(),
        expired(),
        expired(),
    ];
    let effect = play(call(), lost_every_race.clone());
    assert_eq!(effect, failure_left("unreported"));
    let effect = play(call(), lost_every_race.into_iter().chain([APPLIED]));
    assert_eq!(effect, finished(ErrorKind::Contended));
}

#[test]
fn a_claim_that_stays_unknown_is_released_before_the_error_is_returned() {
    let effect = play(call(), [MISS, maybe_applied(), Input::ReadFailed]);
    assert_eq!(effect, failure_left("unreported"));
    let effect = play(
        call(),
        [MISS, maybe_applied(), Input::ReadFailed, maybe_applied()],
    );
    assert_eq!(effect, finished(ErrorKind::StoreFailed));
}

#[test]
fn a_store_that_loses_every_claim_is_a_store_failure_and_not_contention() {
    let mut inputs = vec![MISS];
    for _ in 0..4 {
        inputs.extend([maybe_applied(), Input::Read(None)]);
    }
    inputs.push(maybe_applied());
    assert_eq!(play(call(), inputs), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_maybe_applied_claim_near_the_deadline_is_released_at_once_so_that_the_caller_gets_its_error() {
    let near = now_plus(29_850);
    let effect = play_at(call(), [(NOW, MISS), (near, maybe_applied())]);
    assert_eq!(effect, failure_left_at(near, "unreported"));
}

#[test]
fn a_maybe_applied_claim_that_a_late_read_does_not_find_is_released_and_not_sent_again() {
    let found_nothing = |at| [(NOW, MISS), (NOW, maybe_applied()), (at, Input::Read(None))];
    let in_time = play_at(call(), found_nothing(now_plus(2_799)));
    assert!(matches!(in_time, Effect::Write(Write::Put(_), _)));
    let too_late = now_plus(2_800);
    let effect = play_at(call(), found_nothing(too_late));
    assert_eq!(effect, failure_left_at(too_late, "unreported"));
    let released = found_nothing(too_late)
        .into_iter()
        .chain([(too_late, APPLIED)]);
    assert_eq!(play_at(call(), released), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_claim_whose_condition_failed_without_a_record_is_sent_again_at_any_time() {
    let inputs = [
        (NOW, MISS),
        (NOW, CONDITION_FAILED_WITHOUT_RECORD),
        (now_plus(29_999), Input::Read(None)),
    ];
    assert!(matches!(
        play_at(call(), inputs),
        Effect::Write(Write::Put(_), _)
    ));
}

#[test]
fn a_failed_condition_without_a_record_leads_to_a_read() {
    assert_eq!(play(call(), [MISS, CONDITION_FAILED_WITHOUT_RECORD]), READ);
}

#[test]
fn a_call_that_loses_every_race_returns_contended() {
    let expired = || condition_failed(claim_of(another(), now_plus(-1)));
    let effect = play(call(), [MISS, expired(), expired(), expired(), expired()]);
    assert_eq!(effect, finished(ErrorKind::Contended));
}

#[test]
fn a_duplicate_of_a_call_in_progress_is_refused_and_writes_nothing() {
    let other = claim_of(another(), now_plus(9_000));
    assert_eq!(
        play(call(), [MISS, condition_failed(other)]),
        finished(Refusal::already_in_progress(Some(now_plus(9_000))))
    );
}

#[test]
fn a_corrupt_record_is_not_changed() {
    let refusal = Refusal::new(
        ErrorKind::CorruptRecord,
        RefusalDetail::Defect("its data is not JSON"),
    );
    assert_eq!(
        play(call(), [MISS, condition_failed(completed("{"))]),
        finished(refusal)
    );
}

#[test]
fn under_hold_an_expired_claim_is_unresolved_and_not_changed() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let expired = claim_of(another(), now_plus(-1));
    assert_eq!(
        play(call, [MISS, condition_failed(expired)]),
        finished(ErrorKind::Unresolved)
    );
}

#[test]
fn a_cached_record_is_classified_like_a_stored_one() {
    let hit = |record: Record| Input::Local(Some(record));
    let replay = CallEnd::replayed(completed("7"), Source::Cache);
    assert_eq!(play(call(), [hit(completed("7"))]), Effect::Finish(replay));
    let mut validated = call();
    validated.validation = Some("mine".to_owned());
    assert_eq!(
        play(validated, [hit(completed("7"))]),
        finished(ErrorKind::PayloadMismatch)
    );
    let mut expired = completed("7");
    expired.expiration = Field::Value(seconds(-1));
    assert_eq!(play(call(), [hit(expired.clone())]), Effect::CheckInFlight);
    let effect = play(call(), [hit(expired), MISS]);
    assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
}
