//! A scenario as a state machine for the checker: its initial state, and the effect of each action.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use idempotency_core::protocol::{Effect, Input, UndoEnd, WriteErrorKind, WriteResult};
use idempotency_core::record::Record;
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::{History, Promises, What};
use stateright::{Model, Property};

use super::bounds::Bounds;
use super::promises::{self, Goal};
use super::rules::Rules;
use super::state::{
    Action, Active, Call, End, Phase, Python, Reply, Shared, State, TimedRequest, Trace, UndoKind,
};
use super::table::Known;

/// The business data at the beginning: enough for one transaction.
const FUNDS: u8 = 1;

/// The time at which every scenario begins, in milliseconds since the epoch.
const BEGINNING: i64 = 1_000_000_000;

/// What the checker explores.
pub(crate) struct Scenario {
    pub(crate) bounds: Bounds,
    pub(crate) rules: &'static Rules,
    goals: Vec<Goal>,
    /// The promises that are checked.
    promises: Promises,
    /// True if a broken promise was found.
    broken: AtomicBool,
    /// One bit for each goal that was reached.
    reached: AtomicU64,
    pub(crate) known: Known,
}

impl Scenario {
    pub(crate) fn new(
        bounds: Bounds,
        rules: &'static Rules,
        goals: Vec<Goal>,
        promises: Promises,
    ) -> Self {
        Self {
            bounds,
            rules,
            goals,
            promises,
            broken: AtomicBool::new(false),
            reached: AtomicU64::new(0),
            known: Known::default(),
        }
    }

    /// Returns true the first time that it is called.
    pub(crate) fn breaks_first(&self) -> bool {
        !self.broken.swap(true, Ordering::Relaxed)
    }

    /// Returns true the first time that it is called for this goal.
    pub(crate) fn reaches_first(&self, goal: Goal) -> bool {
        let bit = 1 << goal as u64;
        self.reached.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Returns true if no broken promise was found.
    pub(crate) fn unbroken(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }

    /// Returns the number of the Python function; our calls have the numbers below it.
    pub(crate) fn python(&self) -> u8 {
        self.bounds.deliveries.len() as u8
    }

    /// Returns the time by a clock that is `skew` ticks ahead.
    pub(crate) fn time(&self, state: &State, skew: i8) -> EpochMillis {
        let ticks = i64::from(state.now) + i64::from(skew);
        EpochMillis::new(BEGINNING + ticks * self.bounds.tick_ms)
    }

    fn start(&self, state: &mut State, number: u8, skew: i8) {
        let now = self.time(state, skew);
        let delivery = &self.bounds.deliveries[usize::from(number)];
        state.see(number, now, What::Called(self.bounds.terms(delivery)));
        let (attempt, effect) = self.begin(delivery, number, now);
        let asked = TimedRequest {
            by: number,
            at: now,
            effect: Shared::new(effect),
        };
        let active = Active {
            attempt: Shared::new(attempt),
            skew,
            asked,
            maybe_applied: false,
            reply: None,
            polled: None,
            flight: None,
            follows: None,
            claims: 0,
            seen: None,
            steps: None,
            renewal: None,
        };
        if delivery.in_one_process {
            state.calls[usize::from(number)].phase = Phase::Active(active);
        } else {
            self.check_process(state, number, active);
        }
    }

    /// Lets a call check the cache, unless it did so before, and find no call in flight.
    pub(crate) fn check_process(&self, state: &mut State, number: u8, active: Active) {
        let looks = *active.asked.effect == Effect::CheckLocal;
        let cached = state
            .cache
            .as_ref()
            .filter(|_| looks && self.bounds.deliveries[usize::from(number)].cached);
        let found = cached.map(|record| (**record).clone());
        self.receive(state, number, active, Reply::of(Input::Local(found)));
    }

    /// Lets the store serve the request of a call.
    fn serve(&self, state: &mut State, active: &Active) -> Reply {
        let sent = self.next_send(state, &active.asked);
        let mut reply = self.apply(state, &sent);
        if let Input::Written(
            WriteResult::Applied {
                maybe_again: maybe, ..
            }
            | WriteResult::ConditionFailed {
                maybe_applied: maybe,
                ..
            }
            | WriteResult::Rejected {
                maybe_applied: maybe,
            }
            | WriteResult::Failed {
                maybe_applied: maybe,
                kind: WriteErrorKind::TooLarge,
            },
        ) = &mut reply.input
        {
            *maybe = active.maybe_applied;
        }
        reply
    }

    /// Gives a call an earlier state of the record. What the record is now does not change.
    fn receive_stale(
        &self,
        state: &mut State,
        number: u8,
        active: Active,
        found: Option<Shared<Record>>,
    ) {
        let mut reply = self.apply(state, &active.asked);
        reply.input = Input::Read(found.map(|record| (*record).clone()));
        self.receive(state, number, active, reply);
        let Call { phase, trace } = &mut state.calls[usize::from(number)];
        match phase {
            Phase::Ended(End::FromStore, _) => trace.found_stale = true,
            _ => trace.misled = true,
        }
    }

    fn python_claims(&self, state: &mut State, lease: u8) {
        let until = state.now + lease;
        state.python = if self.python_claim(state, lease) {
            Python::Running(until)
        } else {
            Python::Ended
        };
    }

    fn delete(&self, state: &mut State, evicted: bool) {
        state.record = None;
        let now = self.time(state, 0);
        state.see(self.operator(), now, What::Deleted { evicted });
    }
}

impl Model for Scenario {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let call = Call {
            phase: Phase::NotStarted,
            trace: Trace::default(),
        };
        let python = match self.bounds.python {
            Some(_) => Python::NotStarted,
            None => Python::Ended,
        };
        vec![State {
            now: 0,
            record: None,
            earlier: Vec::new(),
            shown: None,
            cache: None,
            calls: vec![call; self.bounds.deliveries.len()],
            shared: vec![None; self.bounds.deliveries.len()],
            in_flight: Vec::new(),
            python,
            funds: FUNDS,
            tokens: Vec::new(),
            left: self.bounds.faults,
            history: Shared::new(History::new(self.promises)),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.choices(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let state = &mut next;
        match action {
            Action::Tick => state.now += 1,
            Action::Start(number, skew) => self.start(state, number, skew),
            Action::CheckProcess(number, other) => {
                let active = active(last, number)?.clone();
                match other {
                    Some(other) => self.join(state, number, active, other)?,
                    None => self.check_process(state, number, active),
                }
            }
            Action::AskCircuit(number, open) => {
                self.ask_circuit(state, number, active(last, number)?.clone(), open);
            }
            Action::GoOn(number) => self.go_on(state, number, active(last, number)?.clone()),
            Action::Wake(number) => self.wake(state, number, active(last, number)?.clone()),
            Action::Serve(number) => {
                let active = active(last, number)?;
                let reply = self.serve(state, active);
                self.receive(state, number, active.clone(), reply);
            }
            Action::ServeStale(number, age) => {
                let active = active(last, number)?.clone();
                let found = last.earlier[usize::from(age)].clone();
                self.receive_stale(state, number, active, found);
            }
            Action::ServeWithLateReply(number) => {
                let reply = self.serve(state, active(last, number)?);
                state.left.delays -= 1;
                active_mut(state, number)?.reply = Some(Shared::new(reply));
            }
            Action::Receive(number) => {
                let mut active = active(last, number)?.clone();
                let reply = (*active.reply.take()?).clone();
                self.receive(state, number, active, reply);
            }
            Action::Lose(number) => {
                state.left.lost_replies -= 1;
                let sent = self.next_send(state, &active(last, number)?.asked);
                active_mut(state, number)?.maybe_applied = true;
                state.send(sent);
            }
            Action::Fail(number, kind) => {
                let active = active(last, number)?;
                let read = matches!(*active.asked.effect, Effect::Read(_));
                match kind {
                    WriteErrorKind::Conflict => state.left.conflicts -= 1,
                    WriteErrorKind::Transient if active.maybe_applied => {}
                    _ => state.left.failures -= 1,
                }
                let input = if read {
                    Input::ReadFailed
                } else {
                    Input::Written(WriteResult::Failed {
                        maybe_applied: active.maybe_applied,
                        kind,
                    })
                };
                self.receive(state, number, active.clone(), Reply::of(input));
            }
            Action::Arrive(place) => {
                let sent = state.in_flight.remove(usize::from(place));
                self.apply(state, &sent);
            }
            Action::Step(number) => {
                self.ask_for_step(state, number, active(last, number)?.clone())?;
            }
            Action::End(number, ending) => {
                self.end(state, number, active(last, number)?.clone(), ending);
            }
            Action::Renew(number, fate) => self.renew(state, number, fate)?,
            Action::Undo(number, kind) => {
                let end = match kind {
                    UndoKind::Undone => UndoEnd::Undone,
                    UndoKind::Fails => UndoEnd::Failed("E".to_owned()),
                    UndoKind::Panics => UndoEnd::Panicked,
                };
                self.undo(state, number, active(last, number)?.clone(), end);
            }
            Action::Kill(number) => {
                state.left.kills -= 1;
                state.calls[usize::from(number)].phase = Phase::Killed;
            }
            Action::Ttl => self.delete(state, false),
            Action::Evict => {
                state.left.evictions -= 1;
                self.delete(state, true);
            }
            Action::Look => self.show(state),
            Action::Decide(verdict) => self.decide(state, verdict)?,
            Action::ChangeData => {
                state.left.changes -= 1;
                state.funds = u8::from(state.funds == 0);
            }
            Action::PythonClaims => {
                self.python_claims(state, self.bounds.python.as_ref()?.lease);
            }
            Action::PythonCompletes => self.python_completes(state),
            Action::PythonFails => {
                self.delete(state, false);
                state.python = Python::Ended;
            }
        }
        if last.record != next.record && self.bounds.stale > 0 {
            next.earlier.insert(0, last.record.clone());
            next.earlier.truncate(usize::from(self.bounds.stale));
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties(&self.goals)
    }
}

pub(crate) fn active(state: &State, number: u8) -> Option<&Active> {
    match &state.calls[usize::from(number)].phase {
        Phase::Active(active) => Some(active),
        _ => None,
    }
}

pub(crate) fn active_mut(state: &mut State, number: u8) -> Option<&mut Active> {
    match &mut state.calls[usize::from(number)].phase {
        Phase::Active(active) => Some(active),
        _ => None,
    }
}
