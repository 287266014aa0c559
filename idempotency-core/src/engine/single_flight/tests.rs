//! Which call leads, which calls follow, and what a follower gets.

use super::*;
use crate::example;
use crate::example::shared::check_rows;
use crate::protocol::Stage;
use crate::protocol::tests::script::{in_flight, play, progress, time};
use std::collections::BTreeMap;
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
        validation: Some(validation.to_owned()),
        ..example::call()
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

fn never() -> BoxFuture<'static, ()> {
    Box::pin(pending())
}

fn at_once() -> BoxFuture<'static, ()> {
    Box::pin(ready(()))
}

/// Polls a wait with this timer once, and shows what the follower gets.
fn waited(guard: &mut FlightGuard<'_>, mut timer: fn() -> BoxFuture<'static, ()>) -> String {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(guard.wait(&mut timer)).poll(&mut context) {
        Poll::Ready(input) => show(&input),
        Poll::Pending => "pending".to_owned(),
    }
}

fn show(input: &Input) -> String {
    match input {
        Input::Local(None) => "alone".to_owned(),
        Input::LeaderProgress(leader) => progress(*leader),
        Input::LeaderDone(None) => "done".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_call_leads_and_the_others_follow_it() {
    check_rows(include_str!("leaders.txt"), |script| {
        let single_flight = SingleFlight::default();
        let (mut guards, mut now) = (BTreeMap::new(), time("0"));
        play(script, |input| {
            let (name, input) = input.split_once(' ').unwrap_or((input, ""));
            match name.strip_prefix('@') {
                Some(text) => {
                    now = time(text);
                    return String::new();
                }
                None if name == "leaders?" => return single_flight.entries().len().to_string(),
                None => {}
            }
            let guard = guards.remove(name);
            let mut guard = guard.unwrap_or_else(|| single_flight.guard(&call("p")));
            let (does, mine) = input.split_once(' ').unwrap_or((input, ""));
            let mut shown = String::new();
            match does {
                "joins" => shown = show(&guard.join(in_flight(mine))),
                "publishes" => guard.publish(in_flight(mine), now),
                "waits" => shown = waited(&mut guard, never),
                "times-out" => shown = waited(&mut guard, at_once),
                "finishes" | "finishes-with-a-record" => {
                    let record = Record::default();
                    guard.finish((does != "finishes").then_some(&record));
                    return shown;
                }
                "is-dropped" => return shown,
                _ => panic!("`{does}` is nothing that a call does"),
            }
            guards.insert(name.to_owned(), guard);
            shown
        })
    });
}

#[test]
fn a_call_with_another_payload_does_not_join() {
    let single_flight = SingleFlight::default();
    let mut first = single_flight.guard(&call("p"));
    let mut other = single_flight.guard(&call("q"));
    let alone = (Input::Local(None), Input::Local(None));
    assert_eq!((first.join(CLAIMS), other.join(CLAIMS)), alone);
}

#[test]
fn a_follower_wakes_when_its_leader_advances_and_when_it_finishes() {
    let single_flight = SingleFlight::default();
    let mut first = single_flight.guard(&call("p"));
    let mut second = single_flight.guard(&call("p"));
    first.join(CLAIMS);
    second.join(CLAIMS);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut never = never;
    {
        let mut wait = pin!(second.wait(&mut never));
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
    let mut wait = pin!(second.wait(&mut never));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let record = Record::default();
    first.finish(Some(&record));
    assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    assert_eq!(
        wait.as_mut().poll(&mut context),
        Poll::Ready(Input::LeaderDone(Some(record)))
    );
}
