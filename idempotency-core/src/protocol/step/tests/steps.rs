//! Calls of an operation with steps: the claim, the takeover, and the end of the run.

use super::super::super::Run;
use super::super::super::condition::{replaceable, takeover};
use super::super::super::policy::Steps;
use super::*;
use crate::record::{RecordedSteps, StoredEvent};

fn steps_call(steps: Steps) -> CallTerms {
    let mut call = call();
    call.policy.steps = steps;
    call
}

fn keeping() -> CallTerms {
    steps_call(Steps::Keep)
}

fn holding(mut call: CallTerms) -> CallTerms {
    call.policy.on_timeout = OnTimeout::Hold;
    call
}

fn recorded(names: &[&str]) -> Field<RecordedSteps> {
    let steps = names.iter();
    Field::Value(
        steps
            .map(|name| ((*name).to_owned(), Data::new("1")))
            .collect(),
    )
}

/// Returns the claim of another call, whose lease has expired.
fn killed(names: &[&str]) -> Record {
    Record {
        steps: recorded(names),
        ..claim_of(another(), now_plus(-1))
    }
}

/// Returns this call's claim after it took over that one.
fn taken_over(names: &[&str]) -> Record {
    Record {
        steps: recorded(names),
        ..claim_of(me(), now_plus(30_000))
    }
}

fn found(record: Record) -> Input {
    Input::Read(Some(record))
}

fn update(effect: Effect) -> (Change, Condition) {
    let Effect::Write(Write::Update(change), condition) = effect else {
        panic!("an update comes next: {effect:?}");
    };
    (change, condition)
}

/// Returns the attempt whose handler runs after a takeover.
fn resumed(call: CallTerms, names: &[&str]) -> Attempt {
    let (attempt, _) = Attempt::begin(call).0.step(NOW, MISS);
    let (attempt, _) = attempt.step(NOW, condition_failed(killed(&[])));
    let (attempt, _) = attempt.step(NOW, APPLIED);
    let (attempt, effect) = attempt.step(NOW, found(taken_over(names)));
    assert_eq!(effect, Effect::Run);
    attempt
}

#[test]
fn a_claim_begins_with_no_step_and_replaces_no_steps() {
    for call in [keeping(), holding(keeping()), steps_call(Steps::Forget)] {
        let on_timeout = call.policy.on_timeout;
        let Effect::Write(Write::Put(record), condition) = play(call, [MISS]) else {
            panic!("a claim is a put");
        };
        assert_eq!(record.steps, recorded(&[]));
        assert_eq!(condition, replaceable(NOW, on_timeout));
    }
}

#[test]
fn the_window_of_steps_begins_when_a_later_run_can_need_them() {
    let mut call = keeping();
    call.policy.expires_after = Duration::from_secs(5);
    let lease_and_window = Field::Value(seconds(31 + 5));
    let Effect::Write(Write::Put(record), _) = play(call.clone(), [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(record.expiration, lease_and_window);
    let taken = play(call.clone(), [MISS, condition_failed(killed(&["a"]))]);
    assert_eq!(update(taken).0.set.expiration, lease_and_window);
    // A killed run: for the whole window after its lease, a later run keeps its steps.
    let killed = Record {
        expiration: record.expiration,
        in_progress_expiration: record.in_progress_expiration,
        ..killed(&["a"])
    };
    let later = EpochMillis::new(seconds(31 + 5).get() * 1_000);
    call.deadline = None;
    let effect = play_at(
        call.clone(),
        [(later, MISS), (later, condition_failed(killed))],
    );
    assert!(
        matches!(effect, Effect::Write(Write::Update(_), _)),
        "{effect:?}"
    );
    // A failure 20 s into the run.
    let failed_at = now_plus(20_000);
    let failed = after_steps(StepEnd::Recorded, failure());
    let inputs = [(NOW, MISS), (NOW, APPLIED), (failed_at, failed)];
    let (change, _) = update(play_at(call, inputs));
    assert_eq!(change.set.expiration, Field::Value(seconds(20 + 5)));
}

#[test]
fn a_claim_without_steps_has_the_condition_and_the_attributes_of_before() {
    let Effect::Write(Write::Put(record), condition) = play(call(), [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(record.steps, Field::Absent);
    assert_eq!(record.expiration, Field::Value(seconds(3_600)));
    assert_eq!(condition, claimable(NOW, OnTimeout::Rerun));
    let completion = play(call(), [MISS, APPLIED, returned()]);
    assert_eq!(update(completion).0.remove, []);
}

#[test]
fn a_takeover_is_an_update_of_the_claim_that_was_read() {
    let mut call = keeping();
    call.validation = Some("v".to_owned());
    call.operation = Some("shop::order".to_owned());
    let mut existing = killed(&["a"]);
    existing.validation = Field::Value("v".to_owned());
    let effect = play(call, [MISS, condition_failed(existing)]);
    let (change, condition) = update(effect);
    let text = |text: &str| Operand::Text(text.to_owned());
    let read = Condition::All(vec![
        Condition::Equals(Attribute::Owner, text(another().as_str())),
        Condition::Equals(Attribute::Status, text("INPROGRESS")),
        Condition::Equals(
            Attribute::InProgressExpiration,
            Operand::Millis(now_plus(-1)),
        ),
        Condition::Equals(Attribute::Validation, text("v")),
    ]);
    assert_eq!(condition, read);
    let set = Record {
        // The end of the lease, as a whole second, and the window after it.
        expiration: Field::Value(seconds(31 + 3_600)),
        in_progress_expiration: Field::Value(now_plus(30_000)),
        owner: Field::Value(me()),
        operation: Field::Value("shop::order".to_owned()),
        ..Record::default()
    };
    let remove = vec![Attribute::Failure, Attribute::Decision, Attribute::Event];
    assert_eq!(change, Change { set, remove });
}

#[test]
fn a_takeover_keeps_the_event_of_its_own_call() {
    let mut call = keeping();
    call.event = StoredEvent::all("{}");
    assert!(call.event.is_some());
    let event = call.event.clone();
    let (change, _) = update(play(call, [MISS, condition_failed(killed(&["a"]))]));
    assert_eq!(change.set.event, event);
    let remove = vec![Attribute::Failure, Attribute::Decision];
    assert_eq!(change.remove, remove);
}

#[test]
fn a_takeover_of_a_record_that_steps_fill_drops_the_event_and_keeps_the_operation() {
    let mut call = keeping();
    call.event = StoredEvent::all("{}");
    call.operation = Some("shop::order".to_owned());
    let too_large = || failed(false, WriteErrorKind::TooLarge);
    let full = || condition_failed(killed(&["a"]));
    let inputs = [MISS, full(), too_large()];
    assert_eq!(play(call.clone(), inputs.clone()), READ);
    let inputs = inputs.into_iter().chain([found(killed(&["a"]))]);
    let (change, condition) = update(play(call.clone(), inputs.clone()));
    assert_eq!(
        Some(condition),
        takeover(&killed(&["a"]), None, OnTimeout::Rerun)
    );
    assert_eq!(
        (&change.set.event, &change.set.operation),
        (&None, &Field::Absent)
    );
    assert_eq!(change.set.owner, Field::Value(me()));
    let remove = [Attribute::Failure, Attribute::Decision, Attribute::Event];
    assert_eq!(change.remove, remove);
    let runs = inputs.clone().chain([APPLIED, found(taken_over(&["a"]))]);
    assert_eq!(play(call.clone(), runs), Effect::Run);
    let again = inputs.chain([too_large()]);
    assert_eq!(play(call, again), finished(ErrorKind::StoreFailed));
}

#[test]
fn a_takeover_of_a_released_claim_requires_that_it_has_no_owner() {
    let mut released = killed(&["a"]);
    released.owner = Field::Absent;
    released.failure = Field::Value("Timeout".to_owned());
    let (_, condition) = update(play(keeping(), [MISS, condition_failed(released.clone())]));
    assert_eq!(
        Some(condition.clone()),
        takeover(&released, None, OnTimeout::Rerun)
    );
    assert!(condition.holds(Some(&released)));
    assert!(!condition.holds(Some(&killed(&["a"]))));
    let (_, condition) = update(play(
        holding(keeping()),
        [MISS, condition_failed(released.clone())],
    ));
    assert!(condition.holds(Some(&released)));
    released.failure = Field::Absent;
    assert!(!condition.holds(Some(&released)), "the failure frees it");
}

#[test]
fn the_run_uses_the_steps_after_the_takeover_and_not_those_before_it() {
    let attempt = resumed(keeping(), &["a", "b"]);
    let steps = attempt.steps().map(RecordedSteps::len);
    assert_eq!(steps, Some(2), "the earlier owner recorded them meanwhile");
    let lease_ended = Some(now_plus(-1));
    assert_eq!(attempt.run(), Some(Run::Rerun { lease_ended }));
}

#[test]
fn a_takeover_is_followed_by_a_consistent_read_whether_its_reply_was_lost_or_not() {
    for reply in [APPLIED, maybe_applied()] {
        let inputs = [MISS, condition_failed(killed(&["a"])), reply];
        assert_eq!(play(keeping(), inputs), READ);
    }
}

#[test]
fn a_run_after_a_recorded_failure_is_a_first_run() {
    let mut released = killed(&["a"]);
    released.owner = Field::Absent;
    released.failure = Field::Value("Timeout".to_owned());
    let (attempt, _) = Attempt::begin(keeping()).0.step(NOW, MISS);
    let (attempt, _) = attempt.step(NOW, condition_failed(released));
    let (attempt, _) = attempt.step(NOW, APPLIED);
    let (attempt, _) = attempt.step(NOW, found(taken_over(&["a"])));
    assert_eq!(attempt.run(), Some(Run::First));
}

#[test]
fn a_run_after_one_that_left_a_step_open_does_not_know_that_it_is_the_first() {
    let mut between = killed(&["a"]);
    between.owner = Field::Absent;
    between.failure = Field::Value("unreported".to_owned());
    let takes_over = |tries: Vec<Input>| {
        let (mut attempt, _) = Attempt::begin(keeping()).0.step(NOW, MISS);
        for input in tries {
            (attempt, _) = attempt.step(NOW, input);
        }
        let (attempt, _) = attempt.step(NOW, APPLIED);
        attempt.step(NOW, found(taken_over(&["a"]))).0.run()
    };
    let resumes = takes_over(vec![condition_failed(between.clone())]);
    assert_eq!(resumes, Some(Run::Unknown));
    // The first try found a reported failure, and lost to another call that did not run.
    let mut reported = between.clone();
    reported.failure = Field::Value("Timeout".to_owned());
    let tries = vec![condition_failed(reported), condition_failed(between)];
    assert_eq!(takes_over(tries), Some(Run::Unknown));
}

#[test]
fn a_failure_after_a_step_that_was_not_recorded_says_so_in_the_record() {
    for (result, recorded) in [
        (failure(), "unreported: Timeout"),
        (HandlerResult::Panicked, "unreported: panic"),
        (HandlerResult::NotStored, "unreported: response not stored"),
    ] {
        let done = after_steps(StepEnd::NotRecorded, result);
        let (change, _) = update(play(keeping(), [MISS, APPLIED, done]));
        assert_eq!(change.set.failure, Field::Value(recorded.to_owned()));
    }
}

#[test]
fn a_release_without_room_for_the_failure_keeps_the_steps_under_a_shorter_one() {
    let too_large = || failed(false, WriteErrorKind::TooLarge);
    for (end, shorter) in [
        (StepEnd::Recorded, "failed"),
        (StepEnd::TooLarge, "unreported"),
        (StepEnd::NotRecorded, "unreported"),
    ] {
        let inputs = [MISS, APPLIED, after_steps(end, failure()), too_large()];
        let (change, condition) = update(play(keeping(), inputs.clone()));
        assert_eq!(condition, held_by(&me()));
        assert_eq!(change.set.failure, Field::Value(shorter.to_owned()));
        assert_eq!(change.remove, [Attribute::Owner]);
        // An owner token has 32 characters.
        assert!("failure".len() + shorter.len() < "owner".len() + 32);
        let inputs = inputs.into_iter().chain([too_large()]);
        let ended = Effect::Finish(CallEnd::own(Some(ClaimEnd::NotReleased)));
        assert_eq!(play(keeping(), inputs), ended, "it is sent once");
    }
}

#[test]
fn a_claim_without_steps_and_one_whose_window_has_expired_are_replaced() {
    let without = claim_of(another(), now_plus(-1));
    let mut expired = killed(&["a"]);
    expired.expiration = Field::Value(seconds(-1));
    for existing in [without, expired] {
        let effect = play(keeping(), [MISS, condition_failed(existing)]);
        assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
    }
}

#[test]
fn another_payload_takes_over_no_steps() {
    let mut call = keeping();
    call.validation = Some("mine".to_owned());
    let mut existing = killed(&["a"]);
    existing.validation = Field::Value("theirs".to_owned());
    let effect = play(call, [MISS, condition_failed(existing)]);
    assert_eq!(effect, finished(ErrorKind::PayloadMismatch));
}

#[test]
fn steps_that_cannot_be_read_stop_the_call() {
    let unreadable = Record {
        steps: Field::Unreadable,
        ..killed(&[])
    };
    let of_no_owner = Record {
        owner: Field::Unreadable,
        ..killed(&["a"])
    };
    for existing in [unreadable, of_no_owner] {
        let Effect::Finish(end) = play(keeping(), [MISS, condition_failed(existing)]) else {
            panic!("it is refused");
        };
        assert_eq!(end.error_kind(), Some(ErrorKind::CorruptRecord));
    }
}

#[test]
fn a_takeover_that_does_not_run_keeps_the_steps() {
    let inputs = [
        (NOW, MISS),
        (NOW, condition_failed(killed(&["a"]))),
        (NOW, APPLIED),
        (now_plus(100), Input::ReadFailed),
    ];
    let (change, condition) = update(play_at(keeping(), inputs));
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.failure, Field::Value("unreported".to_owned()));
    assert_eq!(
        change.set.in_progress_expiration,
        Field::Value(now_plus(-1))
    );
    assert_eq!(change.remove, [Attribute::Owner]);
}

#[test]
fn a_handler_that_did_not_begin_keeps_the_steps_of_earlier_runs_under_each_policy() {
    for steps in [Steps::Keep, Steps::Forget] {
        let mut call = keeping();
        call.policy.steps = steps;
        let inputs = [
            MISS,
            condition_failed(killed(&["a"])),
            APPLIED,
            found(Record {
                owner: Field::Value(me()),
                in_progress_expiration: Field::Value(now_plus(30_000)),
                ..killed(&["a"])
            }),
            ended(HandlerResult::NotStarted),
        ];
        let (change, condition) = update(play(call, inputs));
        assert_eq!(condition, held_by(&me()));
        assert_eq!(change.set.failure, Field::Value("unreported".to_owned()));
        assert_eq!(change.remove, [Attribute::Owner], "{steps:?}");
    }
    let started = [MISS, APPLIED, ended(HandlerResult::NotStarted)];
    assert_eq!(
        play(call(), started),
        Effect::Write(Write::Delete, held_by(&me()))
    );
}

#[test]
fn a_takeover_after_a_reported_failure_that_does_not_run_leaves_the_next_run_the_first() {
    let mut reported = killed(&["a"]);
    reported.owner = Field::Absent;
    reported.failure = Field::Value("Timeout".to_owned());
    let inputs = [MISS, condition_failed(reported), APPLIED, Input::ReadFailed];
    let (change, _) = update(play(keeping(), inputs));
    assert_eq!(change.set.failure, Field::Value("not started".to_owned()));
}

#[test]
fn a_takeover_after_the_deadline_is_not_sent() {
    let late = now_plus(30_001);
    let inputs = [(NOW, MISS), (late, condition_failed(killed(&["a"])))];
    assert_eq!(play_at(keeping(), inputs), finished(ErrorKind::NoTimeLeft));
}

#[test]
fn takeovers_that_keep_losing_end_the_call() {
    let lost = || condition_failed(killed(&["a"]));
    let inputs = [MISS, lost(), lost(), lost(), lost()];
    assert_eq!(play(keeping(), inputs), finished(ErrorKind::Contended));
}

fn after_steps(end: StepEnd, result: HandlerResult) -> Input {
    Input::HandlerEnded(HandlerEnd {
        steps: Some(end),
        ..result.into()
    })
}

fn failure() -> HandlerResult {
    HandlerResult::Failed("Timeout".to_owned())
}

#[test]
fn a_completion_deletes_the_steps() {
    let effect = play(
        keeping(),
        [
            MISS,
            APPLIED,
            after_steps(StepEnd::Recorded, HandlerResult::Returned(Data::new("42"))),
        ],
    );
    let (change, condition) = update(effect);
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.status, Field::Value(Status::Completed));
    assert_eq!(change.remove, [Attribute::Steps]);
}

#[test]
fn a_failure_after_steps_ends_the_lease_and_keeps_them() {
    for on_error in [OnError::Release, OnError::Record] {
        let mut call = keeping();
        call.policy.on_error = on_error;
        let done = after_steps(StepEnd::Recorded, failure());
        let (change, condition) = update(play(call, [MISS, APPLIED, done]));
        assert_eq!(condition, held_by(&me()));
        let set = Record {
            expiration: Field::Value(seconds(3_600)),
            in_progress_expiration: Field::Value(now_plus(-1)),
            failure: Field::Value("Timeout".to_owned()),
            ..Record::default()
        };
        assert_eq!(change.set, set);
        assert_eq!(change.remove, [Attribute::Owner]);
    }
}

#[test]
fn a_failure_before_the_first_step_frees_the_key_as_without_steps() {
    let effect = play(keeping(), [MISS, APPLIED, ended(failure())]);
    assert_eq!(effect, Effect::Write(Write::Delete, held_by(&me())));
}

#[test]
fn a_failure_keeps_the_steps_of_earlier_runs_too() {
    let (_, effect) = resumed(keeping(), &["a"]).step(NOW, ended(failure()));
    let (change, _) = update(effect);
    let failure = Field::Value("unreported: Timeout".to_owned());
    assert_eq!(change.set.failure, failure);
    assert!(!change.remove.contains(&Attribute::Steps));
}

#[test]
fn a_response_that_is_not_stored_keeps_the_steps_and_yields_to_a_stored_one() {
    let done = after_steps(StepEnd::Recorded, HandlerResult::NotStored);
    let inputs = [MISS, APPLIED, done];
    let (change, _) = update(play(keeping(), inputs.clone()));
    let failure = change.set.failure.value().map(String::as_str);
    assert_eq!(failure, Some("response not stored"));
    let inputs = inputs.into_iter().chain([condition_failed(completed("7"))]);
    let replay = CallEnd::replayed(completed("7"), Source::Completion);
    assert_eq!(play(keeping(), inputs), Effect::Finish(replay));
}

#[test]
fn under_forget_a_failure_deletes_the_steps() {
    let done = || after_steps(StepEnd::Recorded, failure());
    let deleted = play(steps_call(Steps::Forget), [MISS, APPLIED, done()]);
    assert_eq!(deleted, Effect::Write(Write::Delete, held_by(&me())));
    let lost = after_steps(StepEnd::NotRecorded, failure());
    let (change, _) = update(play(steps_call(Steps::Forget), [MISS, APPLIED, lost]));
    let mark = Field::Value("unreported: Timeout".to_owned());
    assert_eq!(change.set.failure, mark);
    assert_eq!(change.remove, [Attribute::Owner, Attribute::Steps]);
    let mut call = steps_call(Steps::Forget);
    call.policy.on_error = OnError::Record;
    let (change, _) = update(play(call, [MISS, APPLIED, done()]));
    assert_eq!(change.set.failure, Field::Value("Timeout".to_owned()));
    assert_eq!(change.remove, [Attribute::Owner, Attribute::Steps]);
}

#[test]
fn a_call_whose_step_found_the_claim_gone_ends_in_the_winners_response() {
    for result in [failure(), HandlerResult::Returned(Data::new("42"))] {
        let inputs = |read| {
            let lost = after_steps(StepEnd::ClaimLost, result.clone());
            [MISS, APPLIED, lost, read]
        };
        let [look, claim, lost, _] = inputs(Input::Read(None));
        assert_eq!(play(keeping(), [look, claim, lost]), READ);
        let winner = CallEnd::replayed(completed("7"), Source::Completion);
        let ended = play(keeping(), inputs(found(completed("7"))));
        assert_eq!(ended, Effect::Finish(winner));
        let lost = finished(Refusal {
            kind: ErrorKind::LostOwnership,
            detail: Some(RefusalDetail::LostInAStep),
        });
        let running = found(claim_of(another(), now_plus(30_000)));
        for read in [running, Input::Read(None), Input::ReadFailed] {
            assert_eq!(play(keeping(), inputs(read)), lost);
        }
    }
}

#[test]
fn a_panic_is_a_panic_also_if_the_claim_is_gone() {
    let panicked = after_steps(StepEnd::ClaimLost, HandlerResult::Panicked);
    let effect = play(keeping(), [MISS, APPLIED, panicked]);
    assert!(matches!(effect, Effect::Write(Write::Update(_), _)));
}

#[test]
fn under_hold_a_step_that_was_not_recorded_keeps_the_claim() {
    let kept = Effect::Finish(CallEnd::own(Some(ClaimEnd::Kept)));
    for result in [failure(), HandlerResult::NotStored] {
        let not_recorded = after_steps(StepEnd::NotRecorded, result.clone());
        let inputs = [MISS, APPLIED, not_recorded.clone()];
        assert_eq!(play(holding(keeping()), inputs), kept);
        let (change, _) = update(play(keeping(), [MISS, APPLIED, not_recorded]));
        assert!(change.set.failure.exists(), "under rerun the key is free");
        let all_recorded = after_steps(StepEnd::Recorded, result);
        let (change, _) = update(play(holding(keeping()), [MISS, APPLIED, all_recorded]));
        assert!(change.set.failure.exists(), "the end was reported");
    }
    // A response is stored in any case: then no run follows.
    let returned = HandlerResult::Returned(Data::new("42"));
    let inputs = [MISS, APPLIED, after_steps(StepEnd::NotRecorded, returned)];
    let (change, _) = update(play(holding(keeping()), inputs));
    assert_eq!(change.set.status, Field::Value(Status::Completed));
}
