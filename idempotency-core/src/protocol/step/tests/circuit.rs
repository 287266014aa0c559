//! The circuit breaker before the first request, and what counts for it.

use super::*;
use crate::protocol::policy::Lookup;
use crate::protocol::{Admission, RefusalDetail, Stage};

const ADMITTED: Input = Input::Circuit(Admission::Admitted);

fn with_breaker() -> CallTerms {
    let mut call = call();
    call.policy.circuit_breaker = true;
    call
}

fn open() -> Input {
    let until = now_plus(1_000);
    Input::Circuit(Admission::Open { until })
}

fn refused() -> Effect {
    finished(Refusal {
        detail: Some(RefusalDetail::CircuitOpen(now_plus(1_000))),
        ..Refusal::from(ErrorKind::StoreFailed)
    })
}

#[test]
fn the_breaker_is_asked_before_the_first_request_and_for_how_long_requests_may_take() {
    let asks = Effect::CheckCircuit(Duration::from_secs(3));
    assert_eq!(play(with_breaker(), [MISS]), asks);
    let claims = play(with_breaker(), [MISS, ADMITTED]);
    assert!(matches!(claims, Effect::Write(Write::Put(_), _)));
    let mut reads = with_breaker();
    reads.policy.lookup = Lookup::ReadFirst;
    assert_eq!(play(reads.clone(), [MISS]), asks);
    let effect = play(reads, [MISS, ADMITTED]);
    assert_eq!(effect, Effect::Read(Consistency::Eventual));
}

#[test]
fn an_open_circuit_ends_the_call_without_a_request() {
    assert_eq!(play(with_breaker(), [MISS, open()]), refused());
}

#[test]
fn an_open_circuit_is_a_failure_of_the_store_for_a_call_that_may_run_unprotected() {
    let mut call = with_breaker();
    call.policy.on_store_error = OnStoreError::RunUnprotected;
    let run = Effect::RunUnprotected {
        maybe_claimed: false,
    };
    assert_eq!(play(call.clone(), [MISS, open(), MISS]), run);
    call.policy.on_timeout = OnTimeout::Hold;
    assert_eq!(play(call, [MISS, open()]), refused());
}

#[test]
fn a_cached_response_and_a_leader_need_no_breaker() {
    let cached = Input::Local(Some(completed("42")));
    let replay = CallEnd::replayed(completed("42"), Source::Cache);
    assert_eq!(play(with_breaker(), [cached]), Effect::Finish(replay));
    let leader = Input::LeaderProgress(InFlight {
        stage: Stage::Claiming,
        until: now_plus(30_000),
    });
    let followed = play(with_breaker(), [leader]);
    assert!(matches!(followed, Effect::AwaitLeader(_)));
}

#[test]
fn an_expired_deadline_does_not_ask_the_breaker() {
    let mut call = with_breaker();
    call.deadline = Some(now_plus(-1));
    assert_eq!(play(call, [MISS]), finished(ErrorKind::NoTimeLeft));
}

/// Returns what `input` says of the store, after these inputs.
fn says(
    call: CallTerms,
    inputs: impl IntoIterator<Item = Input>,
    input: &Input,
) -> Option<StoreHealth> {
    let (mut attempt, _) = Attempt::begin(call);
    for input in inputs {
        attempt = attempt.step(NOW, input).0;
    }
    attempt.store_reply(input)
}

#[test]
fn the_results_before_the_handler_count() {
    let failed_with = |kind| failed(false, kind);
    for (result, expected) in [
        (APPLIED, Some(StoreHealth::Replied)),
        (CONDITION_FAILED_WITHOUT_RECORD, Some(StoreHealth::Replied)),
        (
            failed_with(WriteErrorKind::Transient),
            Some(StoreHealth::Failed),
        ),
        (
            failed_with(WriteErrorKind::Refused),
            Some(StoreHealth::Replied),
        ),
        (failed_with(WriteErrorKind::Permanent), None),
    ] {
        let said = says(with_breaker(), [MISS, ADMITTED], &result);
        assert_eq!(said, expected, "{result:?}");
        assert_eq!(says(call(), [MISS], &result), None, "the breaker is off");
    }
    let reads = [MISS, ADMITTED, maybe_applied()];
    for (result, expected) in [
        (Input::Read(None), StoreHealth::Replied),
        (Input::ReadFailed, StoreHealth::Failed),
    ] {
        let said = says(with_breaker(), reads.clone(), &result);
        assert_eq!(said, Some(expected));
    }
}

#[test]
fn a_release_and_a_completion_do_not_count() {
    let failure = failed(false, WriteErrorKind::Transient);
    let given_up = [MISS, ADMITTED, maybe_applied(), Input::ReadFailed];
    assert_eq!(says(with_breaker(), given_up, &failure), None);
    let completing = [MISS, ADMITTED, APPLIED, returned()];
    assert_eq!(says(with_breaker(), completing, &failure), None);
}
