use super::super::condition::{Condition, claimable, held_by};
use super::super::fixtures::{NOW, another, call, claim_of, completed, me, now_plus, seconds};
use super::super::policy::{OnError, OnInProgress, OnTimeout};
use super::super::{Ran, Stored, Trouble, Written};
use super::*;
use crate::record::{Data, Field, Status};
use crate::time::EpochMillis;

/// Feeds inputs at `NOW` and returns the last effect.
fn play(call: Call, inputs: impl IntoIterator<Item = Input>) -> Effect {
    play_at(call, inputs.into_iter().map(|input| (NOW, input)))
}

fn play_at(call: Call, inputs: impl IntoIterator<Item = (EpochMillis, Input)>) -> Effect {
    let (mut attempt, mut effect) = Attempt::begin(call);
    for (now, input) in inputs {
        (attempt, effect) = attempt.step(now, input);
    }
    effect
}

fn refused(existing: Record) -> Input {
    Input::Written(Written::Refused {
        existing: Some(existing),
        lost: false,
    })
}

fn failed(lost: bool, trouble: Trouble) -> Input {
    Input::Written(Written::Failed { lost, trouble })
}

fn lost() -> Input {
    failed(true, Trouble::Transient)
}

const MISS: Input = Input::Looked(None);
const APPLIED: Input = Input::Written(Written::Applied);
const REFUSED_WITHOUT_RECORD: Input = Input::Written(Written::Refused {
    existing: None,
    lost: false,
});

fn answered() -> Input {
    Input::Ran(Ran::Answered(Data::new("42")))
}

fn mine_completed(data: &str) -> Record {
    Record {
        owner: Field::Value(me()),
        ..completed(data)
    }
}

fn finished(refusal: Refusal) -> Effect {
    Effect::Finish(Verdict::Refuse(refusal))
}

// ---- the claim ----

#[test]
fn a_claim_carries_lease_window_validation_and_token() {
    let mut call = call();
    call.validation = Some("v".to_owned());
    let Effect::Put(record, condition) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(condition, claimable(NOW, OnTimeout::Rerun));
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(now_plus(30_000))
    );
    assert_eq!(record.expiration, Field::Value(seconds(3_600)));
    assert_eq!(record.validation, Field::Value("v".to_owned()));
    assert_eq!(record.owner, Field::Value(me()));
    assert_eq!(record.data, Field::Absent);
}

#[test]
fn a_claims_window_never_ends_before_its_lease_rounded_up() {
    let mut call = call();
    call.policy.expires_after = Duration::from_secs(1);
    let Effect::Put(record, _) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    // The lease ends half a second after a whole one.
    assert_eq!(record.expiration, Field::Value(seconds(31)));
}

#[test]
fn under_hold_a_claim_is_kept_far_beyond_its_lease() {
    let mut call = call();
    call.policy.on_timeout = OnTimeout::Hold;
    let Effect::Put(record, _) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert!(record.expiration.value() > Some(&seconds(9 * 365 * 24 * 60 * 60)));
}

#[test]
fn without_a_deadline_the_configured_lease_is_written() {
    let mut call = call();
    call.deadline = None;
    let Effect::Put(record, _) = play(call, [MISS]) else {
        panic!("a claim is a put");
    };
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(now_plus(15 * 60 * 1_000))
    );
}

#[test]
fn a_deadline_that_has_passed_is_a_deadline_and_nothing_is_asked() {
    let mut call = call();
    call.deadline = Some(now_plus(-1));
    assert_eq!(play(call, [MISS]), finished(Refusal::NoTimeLeft));
}

#[test]
fn no_handler_starts_on_a_lease_that_is_over() {
    let effect = play_at(call(), [(NOW, MISS), (now_plus(30_001), APPLIED)]);
    assert_eq!(effect, Effect::Delete(held_by(&me())));
    let effect = play_at(
        call(),
        [
            (NOW, MISS),
            (now_plus(30_001), APPLIED),
            (now_plus(30_002), APPLIED),
        ],
    );
    assert_eq!(effect, finished(Refusal::NoTimeLeft));
}

#[test]
fn a_claim_whose_reply_was_lost_is_recognised_by_its_token() {
    let own = claim_of(me(), now_plus(30_000));
    assert_eq!(play(call(), [MISS, refused(own.clone())]), Effect::Run);
    assert_eq!(
        play(call(), [MISS, lost(), Input::Read(Some(own))]),
        Effect::Run
    );
}

#[test]
fn nothing_there_after_a_lost_claim_proves_nothing_so_the_same_token_claims_again() {
    let effect = play(call(), [MISS, lost(), Input::Read(None)]);
    let Effect::Put(record, _) = effect else {
        panic!("claims again");
    };
    assert_eq!(record.owner, Field::Value(me()));
}

#[test]
fn a_claim_is_not_applied_only_if_no_send_was_lost() {
    let throttled = || failed(false, Trouble::Transient);
    assert_eq!(
        play(call(), [MISS, throttled()]),
        finished(Refusal::StoreFailed)
    );
    // The last error alone proves nothing.
    let effect = play(call(), [MISS, lost(), Input::Read(None), throttled()]);
    assert_eq!(effect, Effect::Read);
}

#[test]
fn a_claim_that_stays_unknown_is_given_up_and_the_error_told() {
    let effect = play(call(), [MISS, lost(), Input::Unread]);
    assert_eq!(effect, Effect::Delete(held_by(&me())));
    let effect = play(call(), [MISS, lost(), Input::Unread, lost()]);
    assert_eq!(effect, finished(Refusal::StoreFailed));
}

#[test]
fn a_conflict_without_a_record_is_read() {
    assert_eq!(play(call(), [MISS, REFUSED_WITHOUT_RECORD]), Effect::Read);
}

#[test]
fn others_that_are_faster_each_time_end_in_contended() {
    let over = || refused(claim_of(another(), now_plus(-1)));
    let effect = play(call(), [MISS, over(), over(), over(), over()]);
    assert_eq!(effect, finished(Refusal::Contended));
}

#[test]
fn a_running_duplicate_is_rejected_and_touches_nothing() {
    let other = claim_of(another(), now_plus(9_000));
    assert_eq!(
        play(call(), [MISS, refused(other)]),
        finished(Refusal::AlreadyInProgress {
            until: Some(now_plus(9_000))
        })
    );
}

// ---- waiting ----

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
    let replay = Verdict::Replay {
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
    assert!(matches!(effect, Effect::Put(..)));
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
    let refusal = Refusal::AlreadyInProgress {
        until: Some(now_plus(60_000)),
    };
    assert_eq!(play_at(waiting(), inputs), finished(refusal));
}

// ---- the cache ----

#[test]
fn a_cached_answer_is_judged_as_a_stored_one() {
    let hit = |record: Record| Input::Looked(Some(record));
    let replay = Verdict::Replay {
        record: completed("7"),
        source: Source::Cache,
    };
    assert_eq!(play(call(), [hit(completed("7"))]), Effect::Finish(replay));
    let mut validated = call();
    validated.validation = Some("mine".to_owned());
    assert_eq!(
        play(validated, [hit(completed("7"))]),
        finished(Refusal::PayloadMismatch)
    );
    let mut expired = completed("7");
    expired.expiration = Field::Value(seconds(-1));
    assert!(matches!(play(call(), [hit(expired)]), Effect::Put(..)));
}

// ---- the completion ----

fn run_to_completion() -> [Input; 3] {
    [MISS, APPLIED, answered()]
}

#[test]
fn a_completion_is_fenced_and_told_only_once_it_is_confirmed() {
    let Effect::Update(change, condition) = play(call(), run_to_completion()) else {
        panic!("a completion is an update");
    };
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.status, Field::Value(Status::Completed));
    assert_eq!(change.set.expiration, Field::Value(seconds(3_600)));
    let effect = play(call(), run_to_completion().into_iter().chain([APPLIED]));
    assert_eq!(
        effect,
        Effect::Finish(Verdict::Own(Stored::Answer(change.set)))
    );
}

fn after_completion(inputs: impl IntoIterator<Item = Input>) -> Effect {
    play(call(), run_to_completion().into_iter().chain(inputs))
}

#[test]
fn a_lost_completion_is_sent_again_and_the_record_tells() {
    assert!(matches!(after_completion([lost()]), Effect::Pause(_)));
    assert!(matches!(
        after_completion([lost(), Input::Paused]),
        Effect::Update(..)
    ));
    let effect = after_completion([lost(), Input::Paused, refused(mine_completed("42"))]);
    let replay = Verdict::Replay {
        record: mine_completed("42"),
        source: Source::Completion,
    };
    assert_eq!(effect, Effect::Finish(replay));
}

#[test]
fn a_completion_that_nobody_confirms_is_unknown_and_never_released() {
    let mut inputs = Vec::new();
    for _ in 0..3 {
        inputs.extend([lost(), Input::Paused]);
    }
    inputs.push(lost());
    assert_eq!(
        after_completion(inputs),
        finished(Refusal::CompletionUnknown)
    );
    assert_eq!(
        after_completion([failed(false, Trouble::Permanent)]),
        finished(Refusal::CompletionUnknown)
    );
}

#[test]
fn a_late_owner_is_given_the_winners_answer() {
    let replay = Verdict::Replay {
        record: completed("7"),
        source: Source::Completion,
    };
    assert_eq!(
        after_completion([refused(completed("7"))]),
        Effect::Finish(replay)
    );
}

#[test]
fn a_late_owner_is_not_given_the_answer_of_another_payload() {
    let mut call = call();
    call.validation = Some("mine".to_owned());
    let mut winner = completed("7");
    winner.validation = Field::Value("theirs".to_owned());
    let inputs = run_to_completion().into_iter().chain([refused(winner)]);
    assert_eq!(play(call, inputs), finished(Refusal::LostOwnership));
}

#[test]
fn a_late_owner_that_finds_no_answer_has_lost_ownership() {
    let running = claim_of(another(), now_plus(9_000));
    assert_eq!(
        after_completion([refused(running)]),
        finished(Refusal::LostOwnership)
    );
    let mut unanswered = completed("7");
    unanswered.data = Field::Absent;
    assert_eq!(
        after_completion([refused(unanswered)]),
        finished(Refusal::LostOwnership)
    );
    let mut expired = completed("7");
    expired.expiration = Field::Value(seconds(-1));
    assert_eq!(
        after_completion([refused(expired)]),
        finished(Refusal::LostOwnership)
    );
}

#[test]
fn an_evicted_claim_is_completed_anew_while_its_lease_runs() {
    let effect = after_completion([REFUSED_WITHOUT_RECORD, Input::Read(None)]);
    let Effect::Put(record, Condition::NoRecord) = effect else {
        panic!("completes over nothing");
    };
    assert_eq!(record.data, Field::Value(Data::new("42")));
    assert_eq!(record.owner, Field::Value(me()));
    let taken = after_completion([
        REFUSED_WITHOUT_RECORD,
        Input::Read(None),
        refused(claim_of(another(), now_plus(9_000))),
    ]);
    assert_eq!(taken, finished(Refusal::LostOwnership));
}

#[test]
fn an_evicted_claim_is_not_completed_anew_after_a_loss_or_after_its_lease() {
    let effect = after_completion([
        lost(),
        Input::Paused,
        REFUSED_WITHOUT_RECORD,
        Input::Read(None),
    ]);
    assert_eq!(effect, finished(Refusal::LostOwnership));
    let late = now_plus(30_001);
    let inputs = run_to_completion().map(|input| (NOW, input));
    let inputs = inputs
        .into_iter()
        .chain([(late, REFUSED_WITHOUT_RECORD), (late, Input::Read(None))]);
    assert_eq!(play_at(call(), inputs), finished(Refusal::LostOwnership));
}

#[test]
fn an_answer_too_large_completes_the_key_without_it_and_its_own_caller_is_told_it() {
    let too_large = || failed(false, Trouble::TooLarge);
    let Effect::Update(change, _) = after_completion([too_large()]) else {
        panic!("completes without data");
    };
    assert_eq!(change.set.data, Field::Absent);
    let effect = after_completion([too_large(), APPLIED]);
    assert_eq!(effect, Effect::Finish(Verdict::Own(Stored::Nothing)));
}

#[test]
fn an_answer_that_is_not_json_completes_the_key_without_it() {
    let inputs = [MISS, APPLIED, Input::Ran(Ran::Unrepresentable)];
    let Effect::Update(change, _) = play(call(), inputs.clone()) else {
        panic!("completes without data");
    };
    assert_eq!(change.set.data, Field::Absent);
    let effect = play(call(), inputs.into_iter().chain([APPLIED]));
    assert_eq!(effect, finished(Refusal::Unrepresentable));
}

// ---- the release ----

fn failure() -> [Input; 3] {
    [MISS, APPLIED, Input::Ran(Ran::Failed("Timeout".to_owned()))]
}

#[test]
fn a_failure_releases_the_claim_with_its_token() {
    assert_eq!(play(call(), failure()), Effect::Delete(held_by(&me())));
}

#[test]
fn a_refused_or_failed_release_leaves_the_handlers_own_result() {
    let with = |input| play(call(), failure().into_iter().chain([input]));
    let own = |stored| Effect::Finish(Verdict::Own(stored));
    assert_eq!(with(APPLIED), own(Stored::Released));
    assert_eq!(with(refused(completed("7"))), own(Stored::Released));
    assert_eq!(with(lost()), own(Stored::NotReleased));
}

#[test]
fn an_unstored_answer_yields_to_a_winners_stored_one() {
    let inputs = |input| [MISS, APPLIED, Input::Ran(Ran::Unstored), input];
    let replay = Verdict::Replay {
        record: completed("7"),
        source: Source::Completion,
    };
    assert_eq!(
        play(call(), inputs(refused(completed("7")))),
        Effect::Finish(replay)
    );
    assert_eq!(
        play(call(), inputs(APPLIED)),
        Effect::Finish(Verdict::Own(Stored::Released))
    );
}

#[test]
fn a_recorded_failure_ends_the_lease_at_the_claims_own_time_and_drops_the_token() {
    let mut call = call();
    call.policy.on_error = OnError::Record;
    let Effect::Update(change, condition) = play(call, failure()) else {
        panic!("a recorded failure is an update");
    };
    assert_eq!(condition, held_by(&me()));
    assert_eq!(change.set.failure, Field::Value("Timeout".to_owned()));
    assert_eq!(change.set.in_progress_expiration, Field::Value(NOW));
    assert_eq!(change.set.status, Field::Absent);
    assert_eq!(change.remove, [crate::record::Attribute::Owner]);
}

#[test]
#[should_panic(expected = "does not answer")]
fn an_input_that_answers_nothing_is_a_mistake_of_the_driver() {
    play(call(), [APPLIED]);
}
