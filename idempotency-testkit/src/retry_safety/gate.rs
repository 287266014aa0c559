//! The faults, the points where they are played, and the gate of a process: each request, each use of a fake and each wait of the
//! function passes it. It notes them, and plays the planned fault.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

#[cfg(any(not(feature = "dynamodb"), feature = "postgres"))]
use idempotency_core::store::{StoreRequest, Write};

use crate::lock::lock;

/// What happens to the first delivery of an event at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The process is killed before the request is applied or the fake is used, or while the function waits.
    CrashBefore,
    /// The process is killed after the request was applied or the fake was used, or after the response was returned.
    CrashAfter,
    /// As [`CrashAfter`](Self::CrashAfter), and another event is delivered before this one is delivered again.
    CrashThenAnother,
    /// As [`CrashAfter`](Self::CrashAfter), and the event is delivered again as late as possible: when the sender's retries end
    /// ([`retried_for`](super::RetrySafety::retried_for)), or else just before the window ends, at most a day later.
    CrashThenLate,
    /// The request is not applied, and its reply is an error.
    Refused,
    /// The request is not applied, and neither is any later one of this delivery to the same service. Each reply is an error.
    Outage,
    /// The last item of a batch request to DynamoDB is not applied, and the reply names it as unprocessed.
    Partial,
    /// The request is applied, and its connection breaks before the reply.
    LostReply,
    /// The request is applied, and its reply never arrives.
    NoReply,
    /// The event is delivered a second time while the function runs.
    Duplicate,
    /// Another event is delivered while the function runs.
    AnotherMeanwhile,
    /// The process stands still until its lease has expired. Another process takes over, and then the first one goes on.
    Takeover,
}

impl FaultKind {
    /// Every fault, in the order of the columns of a report.
    pub(super) const ALL: [Self; 12] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::CrashThenAnother,
        Self::CrashThenLate,
        Self::Refused,
        Self::Outage,
        Self::Partial,
        Self::LostReply,
        Self::NoReply,
        Self::Duplicate,
        Self::AnotherMeanwhile,
        Self::Takeover,
    ];

    /// Returns true if the process is killed after the request was applied.
    pub(super) fn is_crash_after(self) -> bool {
        use FaultKind::{CrashAfter, CrashThenAnother, CrashThenLate};
        matches!(self, CrashAfter | CrashThenAnother | CrashThenLate)
    }

    /// Returns true if an event of another operation is delivered.
    pub(super) fn has_another(self) -> bool {
        matches!(self, Self::CrashThenAnother | Self::AnotherMeanwhile)
    }
}

impl FaultKind {
    /// Returns the name of the column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::CrashThenAnother => "crash, another",
            Self::CrashThenLate => "crash, late",
            Self::Refused => "refused",
            Self::Outage => "outage",
            Self::Partial => "partial",
            Self::LostReply => "lost reply",
            Self::NoReply => "no reply",
            Self::Duplicate => "duplicate",
            Self::AnotherMeanwhile => "another",
            Self::Takeover => "takeover",
        }
    }
}

/// What a process sends requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    DynamoDb,
    Provider,
    #[cfg(feature = "postgres")]
    Postgres,
    /// A fake in memory. It cannot fail by itself.
    Fake,
}

/// The kind of a request, and its number among those of this kind in a run.
type Place = (String, usize);

/// A place in the run of a function. It is the same place in each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The function waits: the request before, and the number of the wait since then.
    Await(Option<Place>, usize),
    /// A request, or a use of a fake.
    Request(Service, Place),
    /// The response is returned.
    Response,
}

impl Point {
    /// Returns true if the fault can happen here.
    pub(super) fn has(&self, fault: FaultKind) -> bool {
        use FaultKind::{AnotherMeanwhile, CrashAfter, CrashBefore, Duplicate, Partial, Takeover};
        match self {
            Self::Await(..) => matches!(fault, CrashBefore | Duplicate | Takeover),
            Self::Request(Service::Fake, _) => {
                let stops = matches!(fault, CrashBefore | Duplicate | AnotherMeanwhile | Takeover);
                stops || fault.is_crash_after()
            }
            Self::Request(Service::DynamoDb, (kind, _)) if kind.starts_with("Batch") => true,
            Self::Request(..) => fault != Partial,
            Self::Response => fault == CrashAfter,
        }
    }
}

/// Returns the label without ids, so that it is the same in each run: `POST /charges/*` for `POST /charges/pay-1`.
fn kind_of(label: &str) -> String {
    let mut segments = label.split('/');
    let first = segments.next().unwrap_or_default().to_owned();
    let has_id = |segment: &str| segment.contains(|letter: char| letter.is_ascii_digit());
    segments.fold(first, |kind, segment| {
        let segment = if has_id(segment) { "*" } else { segment };
        format!("{kind}/{segment}")
    })
}

/// The points of a run, with what a report calls them.
pub(super) type Trace = Vec<(Point, String)>;

/// The number of waits, and of uses of a fake at one place, that a check notes of one run. A loop can have very many.
pub(super) const MAX_NOTED: usize = 100;

/// Keys, and the stored forms of their responses.
pub(super) type Completions = BTreeMap<String, String>;

/// Returns the key of the record, and the response that the request stores there, if it is a completion.
#[cfg(any(not(feature = "dynamodb"), feature = "postgres"))]
pub(super) fn completion(request: StoreRequest<'_>) -> Option<(String, String)> {
    let record = request.record()?;
    match record.write {
        Write::Update(change) => {
            let stored = change.set.data.value()?.as_str().to_owned();
            Some((record.id.to_string(), stored))
        }
        _ => None,
    }
}

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
    /// The points that the run has passed.
    trace: Trace,
    /// The number of requests of each kind.
    requests: BTreeMap<String, usize>,
    /// The last request, and what a report calls it.
    last: Option<(Place, String)>,
    awaits_since_request: usize,
    awaits: usize,
    /// Where the wait of the function is in the trace, while it lasts.
    #[cfg(feature = "postgres")]
    waiting: Option<usize>,
    /// True if the run had more points than are noted.
    had_more: bool,
    /// The requests that read what can be out of date.
    stale_reads: BTreeSet<String>,
    /// The statements whose writes were committed without a response.
    lone_writes: BTreeSet<String>,
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
    pub(super) fn request(&self, to: Service, label: String) -> Option<FaultKind> {
        let mut state = self.state();
        let kind = kind_of(&label);
        let number = state.requests.entry(kind.clone()).or_default();
        *number += 1;
        let place = (kind, *number);
        if to == Service::Fake && place.1 > MAX_NOTED {
            state.had_more = true;
            return None;
        }
        state.last = Some((place.clone(), label.clone()));
        state.awaits_since_request = 0;
        state.pass(Point::Request(to, place), label)
    }

    /// Notes that the function waits, and returns the fault that is played.
    pub(super) fn wait(&self) -> Option<FaultKind> {
        let mut state = self.state();
        if state.awaits == MAX_NOTED {
            state.had_more = true;
            return None;
        }
        state.awaits += 1;
        state.awaits_since_request += 1;
        let number = state.awaits_since_request;
        let (place, label) = match &state.last {
            Some((place, before)) => (
                Some(place.clone()),
                format!("await {number} after {before}"),
            ),
            None => (None, format!("await {number}, before any request")),
        };
        #[cfg(feature = "postgres")]
        {
            state.waiting = Some(state.trace.len());
        }
        state.pass(Point::Await(place, number), label)
    }

    /// Notes that the function goes on.
    #[cfg(feature = "postgres")]
    pub(super) fn go_on(&self) {
        self.state().waiting = None;
    }

    /// Takes the wait of the function from the points: it is for a reply of PostgreSQL, and the statements are points of their own.
    #[cfg(feature = "postgres")]
    pub(super) fn waits_for_reply(&self) {
        let mut state = self.state();
        if let Some(wait) = state.waiting.take() {
            state.trace.remove(wait);
            state.awaits -= 1;
        }
    }

    /// Notes that the response was returned, and returns the fault that is played.
    pub(super) fn response(&self) -> Option<FaultKind> {
        self.state()
            .pass(Point::Response, "the response".to_owned())
    }

    /// Notes that a request reads what can be out of date.
    pub(super) fn reads_stale(&self, label: String) {
        self.state().stale_reads.insert(label);
    }

    /// Returns the requests that read what can be out of date.
    pub(super) fn stale_reads(&self) -> BTreeSet<String> {
        self.state().stale_reads.clone()
    }

    /// Notes statements whose writes were committed without a response.
    #[cfg(feature = "postgres")]
    pub(super) fn writes_alone(&self, labels: impl IntoIterator<Item = String>) {
        self.state().lone_writes.extend(labels);
    }

    /// Returns the statements whose writes were committed without a response.
    pub(super) fn lone_writes(&self) -> BTreeSet<String> {
        self.state().lone_writes.clone()
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

    /// Returns the points that the run has passed, and whether it had more than were noted.
    pub(super) fn trace(&self) -> (Trace, bool) {
        let state = self.state();
        (state.trace.clone(), state.had_more)
    }

    /// Sets the waker of the future that ends the process.
    pub(super) fn set_supervisor(&self, waker: &Waker) {
        self.state().supervisor = Some(waker.clone());
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
        // The waker holds the runtime, and the runtime holds the process with its database.
        self.state().supervisor = None;
        self.send(Message::Ended);
    }

    fn send(&self, message: Message) {
        let scenario = lock(&self.scenario);
        let _ = scenario.send(message);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Notes the point, and takes the fault that is planned there.
    fn pass(&mut self, point: Point, label: String) -> Option<FaultKind> {
        let planned = self.plan.take_if(|(planned, _)| *planned == point);
        self.trace.push((point, label));
        let (_, fault) = planned?;
        self.played = true;
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_called_by_its_request_and_found_again_without_the_ids_in_it() {
        let run = |id: &str| {
            let (gate, _messages) = Gate::new(None);
            gate.wait();
            gate.request(Service::DynamoDb, "PutItem table-1".to_owned());
            gate.request(Service::Provider, format!("PUT /orders/{id}"));
            gate.wait();
            gate.response();
            gate.trace().0.into_iter().unzip()
        };
        let (first, labels): (Vec<_>, Vec<_>) = run("o-1");
        let (second, _): (Vec<_>, Vec<String>) = run("o-2");
        assert_eq!(first, second);
        let names = [
            "await 1, before any request",
            "PutItem table-1",
            "PUT /orders/o-1",
            "await 1 after PUT /orders/o-1",
            "the response",
        ];
        assert_eq!(labels, names);
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn a_wait_for_a_statement_is_no_point_and_every_other_is_one() {
        let (gate, _messages) = Gate::new(None);
        gate.wait();
        gate.request(Service::Postgres, "COMMIT".to_owned());
        gate.waits_for_reply();
        gate.go_on();
        gate.waits_for_reply();
        gate.wait();
        gate.go_on();
        // What a spawned task sends.
        gate.waits_for_reply();
        let labels: Vec<_> = gate.trace().0.into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["COMMIT", "await 1 after COMMIT"]);
    }

    #[test]
    fn a_run_with_more_points_than_are_noted_says_so() {
        for pass in [
            |gate: &Gate| gate.wait(),
            |gate: &Gate| gate.request(Service::Fake, "fake at bank.rs:1".to_owned()),
        ] {
            let (gate, _messages) = Gate::new(None);
            for _ in 0..MAX_NOTED {
                pass(&gate);
            }
            assert!(!gate.trace().1);
            pass(&gate);
            assert!(gate.trace().1);
            assert_eq!(gate.trace().0.len(), MAX_NOTED);
        }
    }
}
