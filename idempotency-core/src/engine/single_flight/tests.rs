//! Who leads, who follows, and what followers receive.

use super::*;
use crate::owner::OwnerToken;
use crate::protocol::Stage;
use crate::protocol::policy::Policy;
use crate::record::RecordId;
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

fn call(validation: &str) -> Call {
    Call {
        id: RecordId::new("charge#1"),
        owner: OwnerToken::from_bytes([1; 16]),
        validation: Some(validation.to_owned()),
        deadline: None,
        operation: None,
        policy: Policy::default(),
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn never() -> BoxFuture<'static, ()> {
    Box::pin(pending())
}

fn waited(guard: &mut FlightGuard<'_>) -> Option<Input> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(guard.wait(never)).poll(&mut context) {
        Poll::Ready(input) => Some(input),
        Poll::Pending => None,
    }
}

#[test]
fn the_first_goes_ahead_and_the_second_meets_it() {
    let single_flight = SingleFlight::default();
    let (mut first, mut second) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("p")),
    );
    assert_eq!(first.join(CLAIMS), None);
    first.publish(RUNS, NOW);
    assert_eq!(second.join(CLAIMS), Some(RUNS));
    assert_eq!(waited(&mut second), None);
}

#[test]
fn another_payload_meets_nobody() {
    let single_flight = SingleFlight::default();
    let (mut first, mut other) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("q")),
    );
    assert_eq!((first.join(CLAIMS), other.join(CLAIMS)), (None, None));
}

#[test]
fn who_follows_is_woken_when_the_call_ahead_comes_further_and_when_it_lands() {
    let single_flight = SingleFlight::default();
    let (mut first, mut second) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("p")),
    );
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
    let answer = Record::default();
    first.finish(Some(&answer));
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    assert_eq!(
        wait.as_mut().poll(&mut context),
        Poll::Ready(Input::LeaderDone(Some(answer)))
    );
}

#[test]
fn a_call_that_lands_without_an_answer_or_is_dropped_shares_nothing() {
    for is_dropped in [false, true] {
        let single_flight = SingleFlight::default();
        let (mut first, mut second) = (
            single_flight.guard(&call("p")),
            single_flight.guard(&call("p")),
        );
        first.join(CLAIMS);
        second.join(CLAIMS);
        if is_dropped {
            drop(first);
        } else {
            first.finish(None);
        }
        assert_eq!(waited(&mut second), Some(Input::LeaderDone(None)));
        assert_eq!(second.join(CLAIMS), None, "the place is free");
        assert_eq!(single_flight.entries().len(), 1);
    }
}

#[test]
fn who_follows_is_told_when_its_time_is_over() {
    let single_flight = SingleFlight::default();
    let (mut first, mut second) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("p")),
    );
    first.join(RUNS);
    second.join(CLAIMS);
    let mut wait = pin!(second.wait(|| Box::pin(ready(()))));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(
        wait.as_mut().poll(&mut context),
        Poll::Ready(Input::LeaderProgress(RUNS))
    );
}

#[test]
fn a_call_whose_lease_is_over_gives_way_and_takes_nobody_with_it_when_it_ends() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let (mut late, mut other, mut third) = (guard(), guard(), guard());
    late.join(RUNS);
    other.publish(CLAIMS, EpochMillis::new(9_000));
    assert_eq!(third.join(CLAIMS), Some(RUNS), "its lease still runs");
    let next = InFlight {
        stage: Stage::Running,
        until: EpochMillis::new(20_000),
    };
    other.publish(next, EpochMillis::new(9_001));
    late.finish(None);
    assert_eq!(guard().join(CLAIMS), Some(next));
}

#[test]
fn a_call_that_runs_is_met_instead_of_one_whose_claim_hangs() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let (mut hangs, mut runs) = (guard(), guard());
    hangs.join(CLAIMS);
    runs.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Some(CLAIMS));
    runs.publish(RUNS, NOW);
    assert_eq!(guard().join(CLAIMS), Some(RUNS));
}

#[test]
fn who_gives_up_on_the_call_ahead_takes_its_place() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let (mut hangs, mut second, mut third) = (guard(), guard(), guard());
    hangs.join(CLAIMS);
    second.join(CLAIMS);
    third.join(CLAIMS);
    let later = InFlight {
        until: EpochMillis::new(9_500),
        ..CLAIMS
    };
    for guard in [&mut second, &mut third] {
        let mut wait = pin!(guard.wait(|| Box::pin(ready(()))));
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_ready());
    }
    second.publish(later, NOW);
    assert_eq!(guard().join(CLAIMS), Some(later));
    // The third gave up on the first, not on the second.
    third.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Some(later));
    second.finish(None);
    assert_eq!(guard().join(CLAIMS), None);
}

#[test]
fn who_has_not_waited_has_given_up_on_nobody() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    let (mut first, mut hurried) = (guard(), guard());
    first.join(RUNS);
    hurried.join(CLAIMS);
    hurried.publish(CLAIMS, NOW);
    assert_eq!(guard().join(CLAIMS), Some(RUNS));
}

#[test]
fn who_was_replaced_is_met_again_as_soon_as_it_runs() {
    let single_flight = SingleFlight::default();
    let guard = || single_flight.guard(&call("p"));
    for is_expired in [false, true] {
        let (mut slow, mut second) = (guard(), guard());
        slow.join(CLAIMS);
        second.join(CLAIMS);
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = pin!(second.wait(|| Box::pin(ready(()))))
            .poll(&mut context)
            .is_ready();
        assert!(is_ready);
        second.publish(CLAIMS, NOW);
        if is_expired {
            second.finish(None);
            slow.publish(RUNS, NOW);
        } else {
            slow.publish(RUNS, NOW);
            second.finish(None);
        }
        assert_eq!(guard().join(CLAIMS), Some(RUNS));
        slow.finish(None);
    }
}

#[test]
fn who_tells_something_and_ends_is_over_for_those_who_hear_of_both_at_once() {
    let single_flight = SingleFlight::default();
    let (mut first, mut second) = (
        single_flight.guard(&call("p")),
        single_flight.guard(&call("p")),
    );
    first.join(CLAIMS);
    second.join(CLAIMS);
    first.publish(RUNS, NOW);
    first.finish(None);
    assert_eq!(waited(&mut second), Some(Input::LeaderDone(None)));
}

#[test]
fn nothing_is_left_of_calls_that_are_over() {
    let single_flight = SingleFlight::default();
    let mut first = single_flight.guard(&call("p"));
    first.join(CLAIMS);
    first.finish(Some(&Record::default()));
    assert!(single_flight.entries().is_empty());
}
