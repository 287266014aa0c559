//! What records mean, policy by policy.

use super::super::fixtures::{NOW, another, call, claim_of, completed, me, now_plus, seconds};
use super::*;

fn hold(mut call: CallTerms) -> CallTerms {
    call.policy.on_timeout = OnTimeout::Hold;
    call
}

#[test]
fn a_claim_with_the_own_token_is_the_own_claim() {
    assert_eq!(
        classify(&claim_of(me(), now_plus(1)), NOW, &call()),
        RecordState::OwnClaim
    );
}

#[test]
fn a_lease_runs_at_its_last_millisecond_and_has_expired_one_later() {
    let claim = claim_of(another(), NOW);
    assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
    assert_eq!(
        classify(&claim, now_plus(1), &call()),
        RecordState::Claimable
    );
}

#[test]
fn the_own_claim_with_an_expired_lease_is_claimable_and_under_hold_must_be_released() {
    let claim = claim_of(me(), now_plus(-1));
    assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::OwnClaimExpired
    );
}

#[test]
fn a_response_is_replayed_through_the_last_second_of_its_window() {
    let mut record = completed("1");
    record.expiration = Field::Value(seconds(0));
    assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
    record.expiration = Field::Value(seconds(-1));
    assert_eq!(classify(&record, NOW, &call()), RecordState::Claimable);
}

#[test]
fn the_end_of_a_short_window_does_not_free_a_live_claim() {
    let mut claim = claim_of(another(), now_plus(5_000));
    claim.expiration = Field::Value(seconds(-1));
    assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
}

#[test]
fn another_payload_is_detected_while_the_first_call_is_in_progress() {
    let mut call = call();
    call.validation = Some("mine".to_owned());
    let mut claim = claim_of(another(), now_plus(5_000));
    claim.validation = Field::Value("theirs".to_owned());
    assert_eq!(classify(&claim, NOW, &call), RecordState::PayloadMismatch);
    claim.validation = Field::Absent;
    assert_eq!(classify(&claim, NOW, &call), RecordState::PayloadMismatch);
    claim.validation = Field::Value("mine".to_owned());
    assert_eq!(classify(&claim, NOW, &call), RecordState::InProgress);
}

#[test]
fn a_record_with_a_validation_digest_is_replayed_if_the_operation_does_not_validate() {
    let mut record = completed("1");
    record.validation = Field::Value("theirs".to_owned());
    assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
}

#[test]
fn every_json_value_is_replayed_including_falsy_ones() {
    for data in ["0", "false", "\"\"", "[]", "{}", "null"] {
        assert_eq!(
            classify(&completed(data), NOW, &call()),
            RecordState::Replay,
            "{data}"
        );
    }
}

#[test]
fn data_that_is_not_json_is_a_corrupt_record() {
    for data in ["", "{", "NaN", "1 2"] {
        let judged = classify(&completed(data), NOW, &call());
        assert_eq!(
            judged,
            RecordState::Corrupt("its data is not JSON"),
            "{data}"
        );
    }
}

#[test]
fn a_completed_record_without_data_has_no_response() {
    let mut record = completed("1");
    record.data = Field::Absent;
    assert_eq!(
        classify(&record, NOW, &call()),
        RecordState::ResponseUnavailable
    );
}

#[test]
fn an_unknown_status_is_corrupt_until_its_window_ends() {
    let mut record = completed("1");
    record.status = Field::Value(Status::Other("EXPIRED".to_owned()));
    assert_eq!(
        classify(&record, NOW, &call()),
        RecordState::Corrupt("its status is unknown")
    );
    record.expiration = Field::Value(seconds(-1));
    assert_eq!(classify(&record, NOW, &call()), RecordState::Claimable);
}

#[test]
fn under_hold_an_expired_claim_is_unresolved() {
    let claim = claim_of(another(), now_plus(-1));
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::Unresolved
    );
}

#[test]
fn under_hold_neither_the_window_nor_a_missing_lease_frees_a_claim() {
    let mut claim = claim_of(another(), now_plus(-10_000));
    claim.expiration = Field::Value(seconds(-5));
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::Unresolved
    );
    claim.in_progress_expiration = Field::Absent;
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::Unresolved
    );
}

#[test]
fn under_hold_a_claim_without_a_lease_is_live_through_the_last_second_of_its_window() {
    let mut claim = claim_of(another(), NOW);
    claim.in_progress_expiration = Field::Absent;
    claim.expiration = Field::Value(seconds(0));
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::InProgress
    );
    claim.expiration = Field::Value(seconds(-1));
    assert_eq!(
        classify(&claim, NOW, &hold(call())),
        RecordState::Unresolved
    );
}

#[test]
fn a_recorded_failure_frees_its_claim_under_both_policies() {
    let mut claim = claim_of(another(), now_plus(-1));
    claim.owner = Field::Absent;
    claim.failure = Field::Value("Timeout".to_owned());
    assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
    assert_eq!(classify(&claim, NOW, &hold(call())), RecordState::Claimable);
}

#[test]
fn a_claim_of_another_language_without_a_lease_is_live_until_its_window_ends() {
    let mut claim = claim_of(another(), NOW);
    claim.owner = Field::Absent;
    claim.in_progress_expiration = Field::Absent;
    claim.expiration = Field::Value(seconds(0));
    assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
    claim.expiration = Field::Value(seconds(-1));
    assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
}

#[test]
fn a_claim_whose_lease_cannot_be_read_is_corrupt() {
    let mut claim = claim_of(another(), NOW);
    claim.in_progress_expiration = Field::Unreadable;
    assert_eq!(
        classify(&claim, NOW, &call()),
        RecordState::Corrupt("it is in progress, but its lease cannot be read")
    );
}

#[test]
fn the_own_token_on_a_record_that_python_completed_does_not_make_it_the_own_claim() {
    let mut record = completed("1");
    record.owner = Field::Value(me());
    assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
}
