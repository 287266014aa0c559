//! The time limit of each request.

use super::*;

/// Feeds inputs and returns the time limit of the request that follows, if it is sent at `now`.
fn limit_at(
    now: EpochMillis,
    call: CallTerms,
    inputs: impl IntoIterator<Item = (EpochMillis, Input)>,
) -> Duration {
    let (mut attempt, _) = Attempt::begin(call);
    for (now, input) in inputs {
        (attempt, _) = attempt.step(now, input);
    }
    attempt.time_limit(now)
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a call with this many milliseconds left.
fn with_left(milliseconds: i64) -> CallTerms {
    CallTerms {
        deadline: Some(now_plus(milliseconds)),
        ..call()
    }
}

#[test]
fn a_claim_may_take_three_seconds_less_the_reserve_for_its_release() {
    assert_eq!(
        limit_at(NOW, with_left(10_000), [(NOW, MISS)]),
        millis(2_800)
    );
}

#[test]
fn a_claim_never_takes_more_than_half_of_the_time_left() {
    for (left, limit) in [
        (6_000, 2_800),
        (5_000, 2_300),
        (1_000, 300),
        (400, 200),
        (300, 150),
        (100, 50),
    ] {
        let claim = limit_at(NOW, with_left(left), [(NOW, MISS)]);
        assert_eq!(claim, millis(limit), "of {left} ms");
    }
}

#[test]
fn a_claim_may_take_the_configured_time_less_the_reserve_for_its_release() {
    let mut call = with_left(10_000);
    call.policy.store_timeout = millis(1_000);
    assert_eq!(limit_at(NOW, call, [(NOW, MISS)]), millis(800));
}

#[test]
fn without_a_deadline_only_the_setting_counts() {
    let mut call = call();
    call.deadline = None;
    assert_eq!(limit_at(NOW, call, [(NOW, MISS)]), millis(2_800));
}

#[test]
fn the_requests_before_the_handler_share_one_time_limit() {
    let at = |milliseconds, input| (now_plus(milliseconds), input);
    let lost_early = [(NOW, MISS), at(1_000, maybe_applied())];
    assert_eq!(
        limit_at(now_plus(1_000), call(), lost_early.clone()),
        millis(1_800)
    );
    let claimed_again = lost_early.into_iter().chain([at(2_000, Input::Read(None))]);
    assert_eq!(
        limit_at(now_plus(2_000), call(), claimed_again),
        millis(800)
    );
}

#[test]
fn a_claim_that_timed_out_leaves_the_rest_of_the_time_to_its_release() {
    let timed_out = [(NOW, MISS), (now_plus(2_800), maybe_applied())];
    let effect = play_at(call(), timed_out.clone());
    assert_eq!(effect, failure_left_at(now_plus(2_800), "unreported"));
    assert_eq!(limit_at(now_plus(2_800), call(), timed_out), millis(200));
}

#[test]
fn a_claim_that_is_maybe_applied_early_leaves_the_rest_of_the_time_to_its_release() {
    let released = [
        (NOW, MISS),
        (NOW, maybe_applied()),
        (now_plus(500), Input::ReadFailed),
    ];
    assert_eq!(limit_at(now_plus(500), call(), released), millis(2_500));
}

#[test]
fn one_millisecond_more_than_the_release_needs_is_enough_for_a_read() {
    let lost_at = |milliseconds| {
        play_at(
            call(),
            [(NOW, MISS), (now_plus(milliseconds), maybe_applied())],
        )
    };
    assert_eq!(lost_at(2_799), READ);
    assert_eq!(
        lost_at(2_800),
        failure_left_at(now_plus(2_800), "unreported")
    );
}

#[test]
fn a_request_that_begins_when_the_time_is_used_up_gets_a_minimum() {
    // The reply arrived late and brought no record back.
    let late = [
        (NOW, MISS),
        (now_plus(4_000), CONDITION_FAILED_WITHOUT_RECORD),
    ];
    assert_eq!(limit_at(now_plus(4_000), call(), late.clone()), millis(200));
    // Near the deadline it gets half of the time left.
    let late = [
        (NOW, MISS),
        (now_plus(29_900), CONDITION_FAILED_WITHOUT_RECORD),
    ];
    assert_eq!(limit_at(now_plus(29_900), call(), late), millis(50));
}

#[test]
fn a_release_near_the_deadline_leaves_time_for_the_reply_to_the_caller() {
    let late = [(NOW, MISS), (now_plus(29_700), maybe_applied())];
    assert_eq!(limit_at(now_plus(29_700), call(), late), millis(150));
}

#[test]
fn a_claim_whose_reply_came_after_the_deadline_still_gets_time_for_its_release() {
    for late in [30_000, 30_001] {
        let lost_late = [(NOW, MISS), (now_plus(late), maybe_applied())];
        let limit = limit_at(now_plus(late), call(), lost_late);
        assert_eq!(limit, Duration::from_secs(2));
    }
}

#[test]
fn each_read_of_a_wait_has_its_own_time_limit() {
    let mut call = with_left(30_000);
    call.policy.on_in_progress = OnInProgress::Wait;
    let other = || claim_of(another(), now_plus(60_000));
    let at = |milliseconds, input| (now_plus(milliseconds), input);
    let inputs = [
        (NOW, MISS),
        (NOW, condition_failed(other())),
        at(20_000, Input::Paused),
    ];
    assert_eq!(
        limit_at(now_plus(20_000), call.clone(), inputs.clone()),
        millis(2_800)
    );
    let near_the_end = inputs
        .into_iter()
        .chain([at(20_000, Input::ReadFailed), at(28_000, Input::Paused)]);
    assert_eq!(limit_at(now_plus(28_000), call, near_the_end), millis(800));
}

#[test]
fn after_the_handler_only_the_lease_bounds_the_requests_that_decide_the_callers_result() {
    let stores = [(NOW, MISS), (NOW, APPLIED), (now_plus(10_000), returned())];
    assert_eq!(
        limit_at(now_plus(10_000), call(), stores.clone()),
        millis(19_800)
    );
    let releases = [
        (NOW, MISS),
        (NOW, APPLIED),
        (now_plus(10_000), ended(HandlerResult::NotStored)),
    ];
    assert_eq!(limit_at(now_plus(10_000), call(), releases), millis(19_800));
    let late = stores
        .into_iter()
        .chain([(now_plus(31_000), CONDITION_FAILED_WITHOUT_RECORD)]);
    assert_eq!(
        limit_at(now_plus(31_000), call(), late),
        Duration::from_secs(2)
    );
}

#[test]
fn the_release_after_a_failed_run_is_bounded_by_the_setting_because_the_caller_waits() {
    let of = |call: CallTerms, at: i64, ran: HandlerResult| {
        let inputs = [(NOW, MISS), (NOW, APPLIED), (now_plus(at), ended(ran))];
        limit_at(now_plus(at), call, inputs)
    };
    let failed = || HandlerResult::Failed("E".to_owned());
    let mut recorded = call();
    recorded.policy.on_error = OnError::Record;
    for call in [call(), recorded] {
        assert_eq!(of(call.clone(), 10_000, failed()), millis(3_000));
        assert_eq!(of(call, 10_000, HandlerResult::Panicked), millis(3_000));
    }
    let mut soon = call();
    soon.policy.store_timeout = millis(700);
    assert_eq!(of(soon, 10_000, failed()), millis(700));
    // The deadline still bounds it.
    assert_eq!(of(call(), 29_000, failed()), millis(800));
    assert_eq!(of(call(), 31_000, failed()), Duration::from_secs(2));
}
