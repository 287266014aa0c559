//! Which steps run, and how a result is recorded.

use super::super::condition::held_by;
use super::super::fixtures::{NOW, another, call, claim_of, completed, me, now_plus};
use super::*;

fn ledger(recorded: &[(&str, &str)]) -> StepLedger {
    let recorded = recorded.iter();
    let recorded = recorded.map(|(name, result)| ((*name).to_owned(), Data::new(*result)));
    StepLedger::new(recorded.collect(), now_plus(30_000))
}

fn refused(refusal: StepRefusal) -> StepStart {
    StepStart::Refused(refusal)
}

#[test]
fn a_recorded_step_gives_its_result_and_any_other_runs() {
    let mut ledger = ledger(&[("a", "1")]);
    assert_eq!(ledger.start(NOW, "a"), StepStart::Recorded(Data::new("1")));
    assert_eq!(ledger.start(NOW, "b"), StepStart::Run);
}

#[test]
fn a_name_is_used_once_in_a_run() {
    let mut ledger = ledger(&[("a", "1")]);
    ledger.start(NOW, "a");
    assert_eq!(ledger.start(NOW, "a"), refused(StepRefusal::SameName));
    ledger.start(NOW, "b");
    ledger.failed();
    assert_eq!(ledger.start(NOW, "b"), refused(StepRefusal::SameName));
}

#[test]
fn a_name_has_at_least_one_byte_and_at_most_128() {
    let mut ledger = ledger(&[]);
    assert_eq!(ledger.start(NOW, ""), refused(StepRefusal::NameLength));
    assert_eq!(ledger.start(NOW, &"n".repeat(128)), StepStart::Run);
    let too_long = "n".repeat(129);
    assert_eq!(
        ledger.start(NOW, &too_long),
        refused(StepRefusal::NameLength)
    );
}

#[test]
fn no_step_runs_on_an_expired_lease_but_a_recorded_one_is_used() {
    let mut ledger = ledger(&[("a", "1")]);
    assert_eq!(ledger.start(now_plus(30_000), "b"), StepStart::Run);
    let late = now_plus(30_001);
    assert_eq!(ledger.start(late, "c"), refused(StepRefusal::LeaseExpired));
    assert_eq!(ledger.start(late, "a"), StepStart::Recorded(Data::new("1")));
}

#[test]
fn no_step_runs_after_one_that_found_its_claim_gone() {
    let mut ledger = ledger(&[]);
    ledger.start(NOW, "a");
    ledger.recorded(StepEnd::ClaimLost);
    assert_eq!(ledger.start(NOW, "b"), refused(StepRefusal::ClaimLost));
    assert_eq!(ledger.end(), Some(StepEnd::ClaimLost));
}

#[test]
fn no_step_starts_after_the_end_of_the_handler() {
    let mut ledger = ledger(&[("a", "1")]);
    assert_eq!(ledger.start(NOW, "b"), StepStart::Run);
    ledger.failed();
    ledger.close();
    for name in ["a", "b", "c"] {
        let start = ledger.start(NOW, name);
        assert_eq!(start, refused(StepRefusal::HandlerEnded));
    }
    assert_eq!(ledger.end(), None, "what the call decided stays true");
}

#[test]
fn a_step_is_tried_again_only_while_the_run_may_begin_an_effect() {
    let mut ledger = ledger(&[]);
    ledger.start(NOW, "a");
    ledger.start(NOW, "b");
    assert_eq!(ledger.refusal(now_plus(30_000)), None);
    let late = ledger.refusal(now_plus(30_001));
    assert_eq!(late, Some(StepRefusal::LeaseExpired));
    ledger.recorded(StepEnd::ClaimLost);
    assert_eq!(ledger.refusal(NOW), Some(StepRefusal::ClaimLost));
    ledger.close();
    assert_eq!(ledger.refusal(NOW), Some(StepRefusal::HandlerEnded));
}

#[test]
fn the_end_of_a_run_is_that_of_its_worst_step() {
    let mut ledger = ledger(&[("z", "1")]);
    assert_eq!(ledger.end(), None);
    ledger.start(NOW, "z");
    assert_eq!(ledger.end(), None, "no step ran");
    ledger.start(NOW, "a");
    assert_eq!(ledger.end(), Some(StepEnd::NotRecorded), "it is running");
    ledger.failed();
    assert_eq!(ledger.end(), None, "it has no result");
    ledger.start(NOW, "b");
    ledger.recorded(StepEnd::Recorded);
    assert_eq!(ledger.end(), Some(StepEnd::Recorded));
    for end in [StepEnd::TooLarge, StepEnd::NotRecorded] {
        let mut ledger = ledger.clone();
        ledger.start(NOW, "c");
        ledger.recorded(end);
        ledger.start(NOW, "d");
        ledger.recorded(StepEnd::Recorded);
        assert_eq!(ledger.end(), Some(end));
    }
}

#[test]
fn steps_that_a_run_does_not_ask_for_are_known() {
    let mut ledger = ledger(&[("a", "1"), ("b", "2"), ("c", "3")]);
    ledger.start(NOW, "b");
    assert!(ledger.unused().eq(["a", "c"]));
}

#[test]
fn results_are_recorded_only_up_to_the_longest_that_can_be_read() {
    let result = |bytes| Data::new("1".repeat(bytes));
    let mut ledger = ledger(&[("a", "1234")]);
    assert!(!ledger.reserve(&result(RecordedSteps::LONGEST - 3)));
    assert!(ledger.reserve(&result(RecordedSteps::LONGEST - 5)));
    assert!(ledger.reserve(&result(1)));
    assert!(!ledger.reserve(&result(1)));
}

fn begin() -> StepWrite {
    StepWrite::begin(&call(), now_plus(30_000), "reserve", &Data::new("7"))
}

fn failed(maybe_applied: bool, kind: WriteErrorKind) -> WriteResult {
    WriteResult::Failed {
        maybe_applied,
        kind,
    }
}

fn condition_failed(existing: Option<crate::record::Record>) -> WriteResult {
    WriteResult::ConditionFailed {
        existing,
        maybe_applied: false,
    }
}

fn end_of(result: WriteResult) -> ControlFlow<StepEnd, Duration> {
    begin().step(NOW, result)
}

#[test]
fn a_result_is_written_under_the_fence() {
    let step = Write::Step {
        name: "reserve".to_owned(),
        result: Data::new("7"),
    };
    assert_eq!(begin().write(), &step);
    assert_eq!(begin().condition(), held_by(&me()));
    let recorded = end_of(WriteResult::APPLIED);
    assert_eq!(recorded, ControlFlow::Break(StepEnd::Recorded));
}

#[test]
fn a_refused_result_means_that_the_claim_is_gone() {
    let lost = ControlFlow::Break(StepEnd::ClaimLost);
    let taken_over = claim_of(another(), now_plus(60_000));
    for existing in [None, Some(taken_over), Some(completed("1"))] {
        assert_eq!(end_of(condition_failed(existing)), lost);
    }
    // The condition holds for this record, and yet it failed.
    let own = claim_of(me(), now_plus(30_000));
    let unknown = ControlFlow::Break(StepEnd::NotRecorded);
    assert_eq!(end_of(condition_failed(Some(own))), unknown);
}

#[test]
fn a_result_is_written_four_times_at_most() {
    let mut write = begin();
    for _ in 0..3 {
        let lost = failed(true, WriteErrorKind::Transient);
        assert!(write.step(NOW, lost).is_continue());
        assert_eq!(write.write(), begin().write(), "the same write");
    }
    let end = write.step(NOW, failed(true, WriteErrorKind::Transient));
    assert_eq!(end, ControlFlow::Break(StepEnd::NotRecorded));
}

#[test]
fn a_result_is_written_again_only_if_the_pause_leaves_more_than_the_reply_reserve() {
    let lost_at = |milliseconds| {
        let lost = failed(true, WriteErrorKind::Transient);
        begin().step(now_plus(milliseconds), lost)
    };
    assert!(lost_at(29_774).is_continue());
    assert_eq!(lost_at(29_775), ControlFlow::Break(StepEnd::NotRecorded));
}

#[test]
fn a_result_that_the_store_will_never_accept_is_not_written_again() {
    let too_large = end_of(failed(false, WriteErrorKind::TooLarge));
    assert_eq!(too_large, ControlFlow::Break(StepEnd::TooLarge));
    let permanent = end_of(failed(false, WriteErrorKind::Permanent));
    assert_eq!(permanent, ControlFlow::Break(StepEnd::NotRecorded));
    // Its condition does not hold, and the record that refused it could not be read.
    let refused = end_of(failed(false, WriteErrorKind::Refused));
    assert_eq!(refused, ControlFlow::Break(StepEnd::ClaimLost));
}

#[test]
fn a_write_may_take_the_rest_of_the_lease_less_a_reserve() {
    assert_eq!(begin().time_limit(NOW), Duration::from_millis(29_800));
}
