//! Who leads, who follows, and what followers receive.

use super::*;
use crate::protocol::Stage;
use crate::protocol::policy::Policy;
use crate::record::{OwnerToken, RecordId};
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const NOW: EpochMillis = EpochMillis::new(0);
const CLAIMS: InFlight = InFlight {
    stage: Stage::Claiming,
    until: EpochMillis::new(9_000),
};
const RUNS: InFlight = InFlight {
    stage: Stage::Running,
    until: EpochMillis::new(9_000),
};

fn call(validation: &str) -> CallTerms {
    CallTerms {
        id: RecordId::new("charge#1"),
        owner: OwnerToken::from_bytes([1; 16]),
        validation: Some(validation.to_owned()),
        deadline: None,
        operation: None,
        event: None,
        policy: Policy::default(),
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns calls with the same key and payload.
fn guards<const N: usize>(single_flight: &SingleFlight) -> [FlightGuard<'_>; N] {
    std::array::from_fn(|_| single_flight.guard(&call("p")))
}

fn never() -> BoxFuture<'static, ()> {
    Box::pin(pending())
}

fn at_once() -> BoxFuture<'static, ()> {
    Box::pin(ready(()))
}

/// Returns what a follower gets at its first poll, whose wait ends with this timer.
fn waited(guard: &mut FlightGuard<'_>, timer: fn() -> BoxFuture<'static, ()>) -> Option<Input> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(guard.wait(timer)).poll(&mut context) {
        Poll::Ready(input) => Some(input),
        Poll::Pending => None,
    }
}

#[test]
fn the_first_call_leads_and_the_second_gets_its_progress() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    assert_eq!(first.join(CLAIMS), Input::Local(None));
    first.publish(RUNS, NOW);
    assert_eq!(second.join(CLAIMS), Input::LeaderProgress(RUNS));
    assert_eq!(waited(&mut second, never), None);
}

#[test]
fn a_leader_does_not_follow_itself() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    assert_eq!(first.join(CLAIMS), Input::Local(None));
    assert_eq!(first.join(CLAIMS), Input::Local(None));
    // It still leads.
    first.publish(RUNS, NOW);
    assert_eq!(second.join(CLAIMS), Input::LeaderProgress(RUNS));
}

#[test]
fn a_leader_that_another_call_has_replaced_finds_that_call() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    assert_eq!(first.join(CLAIMS), Input::Local(None));
    second.publish(RUNS, NOW);
    assert_eq!(first.join(CLAIMS), Input::LeaderProgress(RUNS));
}

#[test]
fn a_call_with_another_payload_does_not_join() {
    let single_flight = SingleFlight::default();
    let (mut first, mut other) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("q")),
    );
    let alone = (Input::Local(None), Input::Local(None));
    assert_eq!((first.join(CLAIMS), other.join(CLAIMS)), alone);
}

#[test]
fn a_follower_wakes_when_its_leader_advances_and_when_it_finishes() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    first.join(CLAIMS);
    second.join(CLAIMS);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    {
        let mut wait = pin!(second.wait(never));
        assert!(wait.as_mut().poll(&mut context).is_pending());
        first.publish(CLAIMS, NOW);
        assert_eq!(bell.0.load(Ordering::Relaxed), 0, "nothing has changed");
        first.publish(RUNS, NOW);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(
            wait.as_mut().poll(&mut context),
            Poll::Ready(Input::LeaderProgress(RUNS))
        );
    }
    let mut wait = pin!(second.wait(never));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let record = Record::default();
    first.finish(Some(&record));
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    assert_eq!(
        wait.as_mut().poll(&mut context),
        Poll::Ready(Input::LeaderDone(Some(record)))
    );
}

#[test]
fn a_leader_that_finishes_without_a_record_or_is_dropped_shares_nothing() {
    for is_dropped in [false, true] {
        let single_flight = SingleFlight::default();
        let [mut first, mut second] = guards(&single_flight);
        first.join(CLAIMS);
        second.join(CLAIMS);
        if is_dropped {
            drop(first);
        } else {
            first.finish(None);
        }
        assert_eq!(waited(&mut second, never), Some(Input::LeaderDone(None)));
        assert_eq!(
            second.join(CLAIMS),
            Input::Local(None),
            "there is no leader"
        );
        assert_eq!(single_flight.entries().len(), 1);
    }
}

#[test]
fn a_follower_gets_the_leaders_progress_when_its_wait_times_out() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    first.join(RUNS);
    second.join(CLAIMS);
    let progress = waited(&mut second, at_once);
    assert_eq!(progress, Some(Input::LeaderProgress(RUNS)));
}

#[test]
fn a_leader_with_an_expired_lease_is_replaced_and_does_not_remove_the_next_leader() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let [mut late, mut other, mut third] = guards(&single_flight);
    late.join(RUNS);
    other.publish(CLAIMS, EpochMillis::new(9_000));
    assert_eq!(
        third.join(CLAIMS),
        Input::LeaderProgress(RUNS),
        "its lease still runs"
    );
    let next = InFlight {
        stage: Stage::Running,
        until: EpochMillis::new(20_000),
    };
    other.publish(next, EpochMillis::new(9_001));
    late.finish(None);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(next));
}

#[test]
fn a_running_call_replaces_a_leader_whose_claim_hangs() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let [mut hangs, mut runs] = guards(&single_flight);
    hangs.join(CLAIMS);
    runs.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(CLAIMS));
    runs.publish(RUNS, NOW);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(RUNS));
}

#[test]
fn a_follower_that_timed_out_becomes_the_leader() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let [mut hangs, mut second, mut third] = guards(&single_flight);
    hangs.join(CLAIMS);
    second.join(CLAIMS);
    third.join(CLAIMS);
    let later = InFlight {
        until: EpochMillis::new(9_500),
        ..CLAIMS
    };
    for guard in [&mut second, &mut third] {
        assert!(waited(guard, at_once).is_some());
    }
    second.publish(later, NOW);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(later));
    // The third timed out waiting for the first call, not for the second.
    third.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(later));
    second.finish(None);
    assert_eq!(guard().join(CLAIMS), Input::Local(None));
}

#[test]
fn a_follower_that_has_not_waited_does_not_replace_its_leader() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let [mut first, mut hurried] = guards(&single_flight);
    first.join(RUNS);
    hurried.join(CLAIMS);
    hurried.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(RUNS));
}

#[test]
fn a_replaced_leader_leads_again_as_soon_as_it_runs() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    for second_has_finished in [false, true] {
        let [mut slow, mut second] = guards(&single_flight);
        slow.join(CLAIMS);
        second.join(CLAIMS);
        assert!(waited(&mut second, at_once).is_some());
        second.publish(CLAIMS, NOW);
        if second_has_finished {
            second.finish(None);
            slow.publish(RUNS, NOW);
        } else {
            slow.publish(RUNS, NOW);
            second.finish(None);
        }
        assert_eq!(guard().join(CLAIMS), Input::LeaderProgress(RUNS));
        slow.finish(None);
    }
}

#[test]
fn a_follower_that_sees_progress_and_the_end_at_once_gets_the_end() {
    let single_flight = SingleFlight::default();
    let [mut first, mut second] = guards(&single_flight);
    first.join(CLAIMS);
    second.join(CLAIMS);
    first.publish(RUNS, NOW);
    first.finish(None);
    assert_eq!(waited(&mut second, never), Some(Input::LeaderDone(None)));
}

#[test]
fn a_finished_call_leaves_no_entry() {
    let single_flight = SingleFlight::default();
    let mut first = single_flight.guard(&call("p"));
    first.join(CLAIMS);
    first.finish(Some(&Record::default()));
    assert!(single_flight.entries().is_empty());
}
