//! Single flight: calls with one key and payload that meet in one process, and how they hear of each other.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::limit;
use crate::protocol::policy::Call;
use crate::protocol::{Flight, FlightKey, Input};
use crate::record::Record;
use crate::time::{BoxFuture, EpochMillis};

/// The calls of a process that are under way: for each key and payload the one that the others meet.
#[derive(Default)]
pub(crate) struct Flights(Mutex<UnderWay>);

type UnderWay = HashMap<FlightKey, watch::Receiver<Progress>>;

/// How far a call has come.
#[derive(Debug)]
enum Progress {
    UnderWay(Flight),
    /// It is over, with this confirmed answer.
    Landed(Record),
}

/// A call's place among the others: it goes ahead, follows another, or has its way to itself.
pub(super) struct Seat<'a> {
    flights: &'a Flights,
    key: FlightKey,
    place: Place,
}

enum Place {
    Alone,
    Ahead(watch::Sender<Progress>),
    Behind {
        ahead: watch::Receiver<Progress>,
        /// Whether it was waited for in vain.
        silent: bool,
    },
}

impl Flights {
    pub(super) fn seat(&self, call: &Call) -> Seat<'_> {
        Seat {
            flights: self,
            key: FlightKey::of(call),
            place: Place::Alone,
        }
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat<'_> {
    /// The flight of whoever is ahead. Where nobody is, this call is, with `mine`.
    pub(super) fn look(&mut self, mine: Flight) -> Option<Flight> {
        let mut flights = self.flights.under_way();
        if let Some(ahead) = flights.get(&self.key) {
            let mut ahead = ahead.clone();
            // Seen: to follow is to wait for what comes after.
            let seen = match *ahead.borrow_and_update() {
                Progress::UnderWay(flight) => Some(flight),
                Progress::Landed(_) => None,
            };
            if seen.is_some() {
                self.place = Place::Behind {
                    ahead,
                    silent: false,
                };
                return seen;
            }
        }
        self.place = self.go_ahead(&mut flights, mine);
        None
    }

    /// Tells the others how far this call has come, if they meet it. They do if nobody else is ahead, or somebody who
    /// gives way.
    pub(super) fn tell(&mut self, flight: Flight, now: EpochMillis) {
        if let Place::Ahead(others) = &self.place {
            let is_news = others.send_if_modified(|progress| {
                let told = matches!(progress, Progress::UnderWay(before) if *before == flight);
                *progress = Progress::UnderWay(flight);
                !told
            });
            if is_news {
                // Somebody may have taken its place while it had less to tell.
                let mut flights = self.flights.under_way();
                let mine = others.subscribe();
                if gives_way(flights.get(&self.key), &flight, now) {
                    flights.insert(self.key.clone(), mine);
                }
            }
            return;
        }
        // Who waited in vain has given up on the one ahead: so do those who come later.
        let given_up = match std::mem::replace(&mut self.place, Place::Alone) {
            Place::Behind {
                ahead,
                silent: true,
            } => Some(ahead),
            _ => None,
        };
        let mut flights = self.flights.under_way();
        let ahead = flights.get(&self.key);
        let is_given_up = ahead
            .zip(given_up)
            .is_some_and(|(ahead, given_up)| ahead.same_channel(&given_up));
        if is_given_up || gives_way(ahead, &flight, now) {
            self.place = self.go_ahead(&mut flights, flight);
        }
    }

    fn go_ahead(&self, flights: &mut UnderWay, flight: Flight) -> Place {
        let (others, receiver) = watch::channel(Progress::UnderWay(flight));
        flights.insert(self.key.clone(), receiver);
        Place::Ahead(others)
    }

    /// Waits until the call ahead is over or comes further, or the timer is over.
    pub(super) async fn follow(&mut self, timer: impl FnOnce() -> BoxFuture<'static, ()>) -> Input {
        let Place::Behind { ahead, silent } = &mut self.place else {
            // Who follows nobody waits for nobody.
            return Input::Landed(None);
        };
        let changed = limit::within(Box::pin(ahead.changed()), timer).await;
        *silent = changed.is_none();
        // Asked of the channel: it may have told something and ended since.
        let is_gone = ahead.has_changed().is_err();
        match &*ahead.borrow_and_update() {
            Progress::Landed(record) => Input::Landed(Some(record.clone())),
            Progress::UnderWay(_) if is_gone => Input::Landed(None),
            Progress::UnderWay(flight) => Input::InFlight(*flight),
        }
    }

    /// Gives those who follow what was confirmed.
    pub(super) fn land(mut self, answer: Option<&Record>) {
        if let Some(others) = self.leave()
            && others.receiver_count() > 0
            && let Some(record) = answer
        {
            others.send_replace(Progress::Landed(record.clone()));
        }
    }

    /// Nobody meets this call any more. What tells those who follow it, if it is ahead.
    fn leave(&mut self) -> Option<watch::Sender<Progress>> {
        let Place::Ahead(others) = std::mem::replace(&mut self.place, Place::Alone) else {
            return None;
        };
        let mut flights = self.flights.under_way();
        let mine = others.subscribe();
        if flights
            .get(&self.key)
            .is_some_and(|ahead| ahead.same_channel(&mine))
        {
            flights.remove(&self.key);
        }
        Some(others)
    }
}

/// Whether whoever is ahead, if anybody, is to be met no longer once `flight` can be.
fn gives_way(ahead: Option<&watch::Receiver<Progress>>, flight: &Flight, now: EpochMillis) -> bool {
    ahead.is_none_or(|ahead| match *ahead.borrow() {
        Progress::UnderWay(other) => other.gives_way_to(flight, now),
        Progress::Landed(_) => true,
    })
}

/// A call that is dropped on its way tells nobody anything: those who follow see that it is gone.
impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
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
    const CLAIMS: Flight = Flight {
        stage: Stage::Claiming,
        until: EpochMillis::new(9_000),
    };
    const RUNS: Flight = Flight {
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

    fn heard(seat: &mut Seat<'_>) -> Option<Input> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(seat.follow(never)).poll(&mut context) {
            Poll::Ready(input) => Some(input),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_first_goes_ahead_and_the_second_meets_it() {
        let flights = Flights::default();
        let (mut first, mut second) = (flights.seat(&call("p")), flights.seat(&call("p")));
        assert_eq!(first.look(CLAIMS), None);
        first.tell(RUNS, NOW);
        assert_eq!(second.look(CLAIMS), Some(RUNS));
        assert_eq!(heard(&mut second), None);
    }

    #[test]
    fn another_payload_meets_nobody() {
        let flights = Flights::default();
        let (mut first, mut other) = (flights.seat(&call("p")), flights.seat(&call("q")));
        assert_eq!((first.look(CLAIMS), other.look(CLAIMS)), (None, None));
    }

    #[test]
    fn who_follows_is_woken_when_the_call_ahead_comes_further_and_when_it_lands() {
        let flights = Flights::default();
        let (mut first, mut second) = (flights.seat(&call("p")), flights.seat(&call("p")));
        first.look(CLAIMS);
        second.look(CLAIMS);
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut context = Context::from_waker(&waker);
        {
            let mut follow = pin!(second.follow(never));
            assert!(follow.as_mut().poll(&mut context).is_pending());
            first.tell(CLAIMS, NOW);
            assert_eq!(bell.0.load(Ordering::Relaxed), 0, "nothing has changed");
            first.tell(RUNS, NOW);
            assert_eq!(bell.0.load(Ordering::Relaxed), 1);
            assert_eq!(
                follow.as_mut().poll(&mut context),
                Poll::Ready(Input::InFlight(RUNS))
            );
        }
        let mut follow = pin!(second.follow(never));
        assert!(follow.as_mut().poll(&mut context).is_pending());
        let answer = Record::default();
        first.land(Some(&answer));
        assert_eq!(bell.0.load(Ordering::Relaxed), 2);
        assert_eq!(
            follow.as_mut().poll(&mut context),
            Poll::Ready(Input::Landed(Some(answer)))
        );
    }

    #[test]
    fn a_call_that_lands_without_an_answer_or_is_dropped_shares_nothing() {
        for is_dropped in [false, true] {
            let flights = Flights::default();
            let (mut first, mut second) = (flights.seat(&call("p")), flights.seat(&call("p")));
            first.look(CLAIMS);
            second.look(CLAIMS);
            if is_dropped {
                drop(first);
            } else {
                first.land(None);
            }
            assert_eq!(heard(&mut second), Some(Input::Landed(None)));
            assert_eq!(second.look(CLAIMS), None, "the place is free");
            assert_eq!(flights.under_way().len(), 1);
        }
    }

    #[test]
    fn who_follows_is_told_when_its_time_is_over() {
        let flights = Flights::default();
        let (mut first, mut second) = (flights.seat(&call("p")), flights.seat(&call("p")));
        first.look(RUNS);
        second.look(CLAIMS);
        let mut follow = pin!(second.follow(|| Box::pin(ready(()))));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(
            follow.as_mut().poll(&mut context),
            Poll::Ready(Input::InFlight(RUNS))
        );
    }

    #[test]
    fn a_call_whose_lease_is_over_gives_way_and_takes_nobody_with_it_when_it_ends() {
        let flights = Flights::default();
        let seat = || flights.seat(&call("p"));
        let (mut late, mut other, mut third) = (seat(), seat(), seat());
        late.look(RUNS);
        other.tell(CLAIMS, EpochMillis::new(9_000));
        assert_eq!(third.look(CLAIMS), Some(RUNS), "its lease still runs");
        let next = Flight {
            stage: Stage::Running,
            until: EpochMillis::new(20_000),
        };
        other.tell(next, EpochMillis::new(9_001));
        late.land(None);
        assert_eq!(seat().look(CLAIMS), Some(next));
    }

    #[test]
    fn a_call_that_runs_is_met_instead_of_one_whose_claim_hangs() {
        let flights = Flights::default();
        let seat = || flights.seat(&call("p"));
        let (mut hangs, mut runs) = (seat(), seat());
        hangs.look(CLAIMS);
        runs.tell(CLAIMS, NOW);
        assert_eq!(seat().look(CLAIMS), Some(CLAIMS));
        runs.tell(RUNS, NOW);
        assert_eq!(seat().look(CLAIMS), Some(RUNS));
    }

    #[test]
    fn who_gives_up_on_the_call_ahead_takes_its_place() {
        let flights = Flights::default();
        let seat = || flights.seat(&call("p"));
        let (mut hangs, mut second, mut third) = (seat(), seat(), seat());
        hangs.look(CLAIMS);
        second.look(CLAIMS);
        third.look(CLAIMS);
        let later = Flight {
            until: EpochMillis::new(9_500),
            ..CLAIMS
        };
        for seat in [&mut second, &mut third] {
            let mut follow = pin!(seat.follow(|| Box::pin(ready(()))));
            let mut context = Context::from_waker(Waker::noop());
            assert!(follow.as_mut().poll(&mut context).is_ready());
        }
        second.tell(later, NOW);
        assert_eq!(seat().look(CLAIMS), Some(later));
        // The third gave up on the first, not on the second.
        third.tell(CLAIMS, NOW);
        assert_eq!(seat().look(CLAIMS), Some(later));
        second.land(None);
        assert_eq!(seat().look(CLAIMS), None);
    }

    #[test]
    fn who_has_not_waited_has_given_up_on_nobody() {
        let flights = Flights::default();
        let seat = || flights.seat(&call("p"));
        let (mut first, mut hurried) = (seat(), seat());
        first.look(RUNS);
        hurried.look(CLAIMS);
        hurried.tell(CLAIMS, NOW);
        assert_eq!(seat().look(CLAIMS), Some(RUNS));
    }

    #[test]
    fn who_was_replaced_is_met_again_as_soon_as_it_runs() {
        let flights = Flights::default();
        let seat = || flights.seat(&call("p"));
        for is_over in [false, true] {
            let (mut slow, mut second) = (seat(), seat());
            slow.look(CLAIMS);
            second.look(CLAIMS);
            let mut context = Context::from_waker(Waker::noop());
            let is_ready = pin!(second.follow(|| Box::pin(ready(()))))
                .poll(&mut context)
                .is_ready();
            assert!(is_ready);
            second.tell(CLAIMS, NOW);
            if is_over {
                second.land(None);
                slow.tell(RUNS, NOW);
            } else {
                slow.tell(RUNS, NOW);
                second.land(None);
            }
            assert_eq!(seat().look(CLAIMS), Some(RUNS));
            slow.land(None);
        }
    }

    #[test]
    fn who_tells_something_and_ends_is_over_for_those_who_hear_of_both_at_once() {
        let flights = Flights::default();
        let (mut first, mut second) = (flights.seat(&call("p")), flights.seat(&call("p")));
        first.look(CLAIMS);
        second.look(CLAIMS);
        first.tell(RUNS, NOW);
        first.land(None);
        assert_eq!(heard(&mut second), Some(Input::Landed(None)));
    }

    #[test]
    fn nothing_is_left_of_calls_that_are_over() {
        let flights = Flights::default();
        let mut first = flights.seat(&call("p"));
        first.look(CLAIMS);
        first.land(Some(&Record::default()));
        assert!(flights.under_way().is_empty());
    }
}
