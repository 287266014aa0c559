//! The tests of the state machine: tables of scripts, and what a script cannot say.

use super::super::condition::{Condition, takeover};
use super::super::policy::OnTimeout;
use super::super::run::UNREPORTED;
use super::super::tests::script::{check, check_records, record};
use super::super::tests::{NOW, call, me};
use super::super::{Change, HandlerResult, Write, classify};
use super::*;
use crate::record::{Data, Field, Record};

#[test]
fn a_call_claims_its_key() {
    check(include_str!("tests/claim.txt"));
}

#[test]
fn a_call_that_reads_first_finds_responses() {
    check(include_str!("tests/lookup.txt"));
}

#[test]
fn a_record_names_its_operation() {
    check(include_str!("tests/operation.txt"));
}

#[test]
fn a_call_completes_or_releases_its_claim() {
    check(include_str!("tests/completion.txt"));
}

#[test]
fn a_duplicate_follows_its_leader() {
    check(include_str!("tests/in_flight.txt"));
}

#[test]
fn a_duplicate_waits_for_another_process() {
    check(include_str!("tests/wait.txt"));
}

#[test]
fn the_circuit_breaker_is_asked_first() {
    check(include_str!("tests/circuit.txt"));
}

#[test]
fn a_call_may_run_unprotected() {
    check(include_str!("tests/unprotected.txt"));
}

#[test]
fn each_request_has_a_time_limit() {
    check(include_str!("tests/limits.txt"));
}

#[test]
fn later_runs_take_over_recorded_steps() {
    check(include_str!("tests/steps.txt"));
}

#[test]
fn recorded_steps_are_undone_and_no_run_goes_forward() {
    check(include_str!("tests/undo.txt"));
}

#[test]
fn staged_writes_and_the_completion_are_one_transaction() {
    check(include_str!("tests/transaction.txt"));
}

#[test]
fn an_open_transaction_commits_once() {
    check(include_str!("tests/open.txt"));
}

#[test]
fn a_record_means_to_a_call_what_the_policies_say() {
    check_records(include_str!("tests/records.txt"), |record, call| {
        let record = record.expect("a row has a record");
        format!("{:?}", classify(record, NOW, call))
    });
}

const MISS: Input = Input::Local(None);
const APPLIED: Input = Input::Written(WriteResult::APPLIED);

#[test]
fn a_confirmed_completion_is_the_record_that_others_of_the_process_get() {
    let (attempt, _) = Attempt::begin(call()).0.step(NOW, MISS);
    let (attempt, _) = attempt.step(NOW, APPLIED);
    let returned = HandlerResult::Returned(Data::new("42"));
    let (attempt, effect) = attempt.step(NOW, Input::HandlerEnded(returned.into()));
    let Effect::Write(Write::Update(Change { set, .. }), _) = effect else {
        panic!("a completion is an update");
    };
    let Effect::Finish(verdict) = attempt.step(NOW, APPLIED).1 else {
        panic!("the confirmed completion ends the call");
    };
    assert_eq!(verdict.confirmed_record(), Some(&set));
}

#[test]
#[should_panic(expected = "is not a result of")]
fn an_input_that_is_not_a_result_of_the_effect_panics() {
    Attempt::begin(call()).0.step(NOW, APPLIED);
}

#[test]
fn a_record_names_at_most_128_bytes_of_a_path_and_no_part_of_a_character() {
    let recorded = |path: String| {
        let operation = Some(path);
        let call = CallTerms {
            operation,
            ..call()
        };
        match Attempt::begin(call).0.step(NOW, MISS).1 {
            Effect::Write(Write::Put(record), _) => record.operation,
            effect => panic!("{effect:?} puts no record"),
        }
    };
    let whole = |path: &str| Field::Value(path.to_owned());
    assert_eq!(recorded("a".repeat(129)), whole(&"a".repeat(128)));
    assert_eq!(recorded("a".repeat(128)), whole(&"a".repeat(128)));
    // The 64th of these characters would end at byte 129.
    let path = format!("a{}", "é".repeat(64));
    assert_eq!(recorded(path), whole(&format!("a{}", "é".repeat(63))));
}

#[test]
fn the_condition_of_a_takeover_holds_only_for_the_released_claim_that_was_read() {
    let condition = |on_timeout, existing: &Record| -> Condition {
        takeover(existing, None, on_timeout).expect("its owner and its lease can be read")
    };
    let record = |text| record(text).expect("it is a record");
    let killed = record("other[steps=a]");
    let released = record("other[steps=a owner=- failure=Timeout]");
    let rerun = condition(OnTimeout::Rerun, &released);
    assert!(rerun.holds(Some(&released)));
    assert!(!rerun.holds(Some(&killed)));
    let hold = condition(OnTimeout::Hold, &released);
    assert!(hold.holds(Some(&released)));
    let held = record("other[steps=a owner=-]");
    assert!(!hold.holds(Some(&held)), "the failure frees it");
}

#[test]
fn a_shorter_failure_takes_less_room_than_the_owner_that_its_release_removes() {
    let owner = "owner".len() + me().as_str().len();
    for shorter in [completion::FAILED, UNREPORTED] {
        assert!("failure".len() + shorter.len() < owner);
    }
}
