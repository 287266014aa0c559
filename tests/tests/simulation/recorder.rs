//! What happened in one schedule: the history of the key, and how often what a test waits for happened.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{
    Basis, Broken, CallNumber, HistoryEvent, Promise, Promises, What, check,
};

use super::executor::{SkewedClock, Task};
use super::world::Faults;

/// How often each event happened, so that a test can check that its faults occurred.
pub(crate) type Counts = BTreeMap<&'static str, usize>;

/// The history of one schedule.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) events: Vec<HistoryEvent>,
    pub(crate) counts: Counts,
}

/// Records what callers and handlers see, and each write that the table applies.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    recorded: Arc<Mutex<Recorded>>,
    polled: Arc<Mutex<Option<(usize, SkewedClock)>>>,
}

impl Recorder {
    /// Returns the task of a call, whose requests are then known as this call's, and whose wall clock is its own. It stands still while its
    /// process is paused.
    pub(crate) fn polls(&self, call: usize, clock: SkewedClock, mut task: Task) -> Task {
        let polled = Arc::clone(&self.polled);
        let mut back = 0;
        Box::pin(std::future::poll_fn(move |context| -> Poll<()> {
            if clock.is_paused() {
                return Poll::Pending;
            }
            *polled.lock().unwrap() = Some((call, clock.clone()));
            clock.moved.back.store(back, Ordering::Relaxed);
            let ended = task.as_mut().poll(context);
            back = clock.moved.back.swap(0, Ordering::Relaxed);
            ended
        }))
    }

    /// Returns the call that is polled, and its time.
    pub(crate) fn polled(&self) -> (usize, EpochMillis) {
        let polled = self.polled.lock().unwrap();
        let (call, clock) = polled.as_ref().unwrap();
        (*call, clock.at())
    }

    pub(crate) fn see(&self, call: usize, at: EpochMillis, what: What) {
        let by = number(call);
        self.recorded
            .lock()
            .unwrap()
            .events
            .push(HistoryEvent { by, at, what });
    }

    pub(crate) fn count(&self, name: &'static str) {
        let mut recorded = self.recorded.lock().unwrap();
        *recorded.counts.entry(name).or_default() += 1;
    }

    /// Returns true if an event was recorded of which this holds.
    pub(crate) fn saw(&self, is_it: impl FnMut(&HistoryEvent) -> bool) -> bool {
        self.recorded.lock().unwrap().events.iter().any(is_it)
    }

    /// Returns what the run of a call that claims begins on: the last claim of this call that the table applied.
    pub(crate) fn basis(&self, call: usize) -> Basis {
        let recorded = self.recorded.lock().unwrap();
        let events = recorded.events.iter().rev();
        let mut by_call = events.filter(|event| event.by == number(call));
        let until = by_call.find_map(|event| match event.what {
            What::Claimed { until, .. } => Some(until),
            What::Released { .. } => Some(None),
            _ => None,
        });
        until.flatten().map_or(Basis::Nothing, Basis::Claim)
    }

    pub(crate) fn take(&self) -> Recorded {
        std::mem::take(&mut self.recorded.lock().unwrap())
    }
}

impl Recorded {
    /// Returns the promises that the history breaks.
    pub(crate) fn broken(&self, faults: &Faults) -> Vec<Broken> {
        let promises = Promises::all()
            .without(Promise::SecondRunUnderHold, !faults.hold)
            .without(Promise::StepTwiceUnderHold, !faults.hold);
        check(&self.events, promises)
    }
}

pub(crate) fn number(call: usize) -> CallNumber {
    CallNumber::try_from(call).unwrap()
}
