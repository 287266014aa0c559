//! The gate of a process: each request and each wait of the function passes it. It notes them, and plays the planned fault.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::fault::{FaultKind, Point};

/// The number of waits that a check notes of one run. A function that polls in a loop has very many.
pub(super) const MAX_AWAITS: usize = 100;

/// Keys, and the stored forms of their responses.
pub(super) type Completions = BTreeMap<String, String>;

/// What a process sends to the thread that runs the scenario.
pub(super) enum Message {
    /// The process stands still until it gets a message through this channel.
    Paused(FaultKind, Sender<()>),
    /// The process has ended.
    Ended,
}

/// The gate of one process.
pub(super) struct Gate {
    state: Mutex<State>,
    scenario: Mutex<Sender<Message>>,
}

#[derive(Default)]
struct State {
    /// The places that the run has passed.
    trace: Vec<Point>,
    requests: usize,
    awaits_since_request: usize,
    awaits: usize,
    plan: Option<(Point, FaultKind)>,
    /// True if the planned fault was played.
    played: bool,
    dead: bool,
    /// Wakes the future that ends the process.
    supervisor: Option<Waker>,
    /// For each key the stored form of the response that the process asked to store last.
    completions: Completions,
}

impl Gate {
    /// Returns a gate with this planned fault, and the messages of its process.
    pub(super) fn new(plan: Option<(Point, FaultKind)>) -> (Self, Receiver<Message>) {
        let (scenario, messages) = channel();
        let state = State {
            plan,
            ..State::default()
        };
        let gate = Self {
            state: Mutex::new(state),
            scenario: Mutex::new(scenario),
        };
        (gate, messages)
    }

    /// Notes a request and returns the fault that is played on it.
    pub(super) fn request(&self, label: String) -> Option<FaultKind> {
        let mut state = self.state();
        let point = Point::Request {
            requests: state.requests,
            label,
        };
        state.requests += 1;
        state.awaits_since_request = 0;
        state.pass(point)
    }

    /// Notes that the function waits, and returns the fault that is played.
    pub(super) fn wait(&self) -> Option<FaultKind> {
        let mut state = self.state();
        if state.awaits == MAX_AWAITS {
            return None;
        }
        state.awaits += 1;
        state.awaits_since_request += 1;
        let point = Point::Await {
            requests: state.requests,
            number: state.awaits_since_request,
        };
        state.pass(point)
    }

    /// Notes that the response was returned, and returns the fault that is played.
    pub(super) fn response(&self) -> Option<FaultKind> {
        self.state().pass(Point::Response)
    }

    /// Notes the stored form of a response that the process asks to store under a key.
    pub(super) fn completes_with(&self, key: String, stored: String) {
        self.state().completions.insert(key, stored);
    }

    /// Returns the stored forms of the responses that the process asked to store.
    pub(super) fn completions(&self) -> Completions {
        self.state().completions.clone()
    }

    /// Kills the process: its tasks are not polled any more.
    pub(super) fn kill(&self) {
        let mut state = self.state();
        state.dead = true;
        if let Some(supervisor) = &state.supervisor {
            supervisor.wake_by_ref();
        }
    }

    /// Returns true if the process was killed. It must then do nothing that can be seen from outside.
    pub(super) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Returns true if the planned fault was played.
    pub(super) fn played(&self) -> bool {
        self.state().played
    }

    /// Returns the places that the run has passed, and whether it had more waits than were noted.
    pub(super) fn trace(&self) -> (Vec<Point>, bool) {
        let state = self.state();
        (state.trace.clone(), state.awaits == MAX_AWAITS)
    }

    /// Sets the waker of the future that ends the process.
    pub(super) fn set_supervisor(&self, waker: &Waker) {
        let mut state = self.state();
        match &mut state.supervisor {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes the future that ends the process.
    pub(super) fn wake_supervisor(&self) {
        if let Some(supervisor) = &self.state().supervisor {
            supervisor.wake_by_ref();
        }
    }

    /// Stands still, with the whole thread of the process, until the scenario lets the process go on.
    pub(super) fn pause(&self, fault: FaultKind) {
        let (resume, resumed) = channel();
        self.send(Message::Paused(fault, resume));
        // An error means that the scenario has ended, so the process goes on and ends.
        let _ = resumed.recv();
    }

    /// Says that the process has ended.
    pub(super) fn end(&self) {
        self.send(Message::Ended);
    }

    fn send(&self, message: Message) {
        let scenario = self.scenario.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = scenario.send(message);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes the point, and takes the fault that is planned there.
    fn pass(&mut self, point: Point) -> Option<FaultKind> {
        let planned = self
            .plan
            .take_if(|(planned, _)| planned.is_same_place(&point));
        self.trace.push(point);
        let (_, fault) = planned?;
        self.played = true;
        Some(fault)
    }
}
