//! The actions that are possible in a state.

use idempotency_core::protocol::{Consistency, Effect, WriteErrorKind};
use idempotency_testkit::history::What;

use super::scenario::Scenario;
use super::single_flight::leader_progress;
use super::state::{Action, Call, Phase, Python, Shared, State, UndoKind};
use super::table::{commits_once, does, is_too_large};

impl Scenario {
    pub(crate) fn choices(&self, state: &State, actions: &mut Vec<Action>) {
        // States after a broken promise are not explored.
        if !state.history.broken().is_empty() {
            return;
        }
        for (number, call) in state.calls.iter().enumerate() {
            self.actions_of(state, call, number as u8, actions);
        }
        let python = self.bounds.python.as_ref();
        match (python, state.python) {
            (Some(_), Python::NotStarted) => actions.push(Action::PythonClaims),
            (Some(python), Python::Running(until)) => {
                let ahead = self.bounds.skews.iter().max().copied().unwrap_or(0).max(0);
                if python.outlives || state.now + ahead.unsigned_abs() <= until {
                    actions.extend([Action::PythonCompletes, Action::PythonFails]);
                }
            }
            _ => {}
        }
        let arrivals = 0..state.in_flight.len() as u8;
        actions.extend(arrivals.map(Action::Arrive));
        if actions.is_empty() {
            return;
        }
        if self.bounds.ttl && self.expired(state) {
            actions.push(Action::Ttl);
        }
        if state.left.evictions > 0 && state.record.is_some() {
            actions.push(Action::Evict);
        }
        self.operators_choices(state, actions);
        if state.left.changes > 0 {
            actions.push(Action::ChangeData);
        }
        if state.now < self.bounds.ticks {
            actions.push(Action::Tick);
        }
    }

    fn actions_of(&self, state: &State, call: &Call, number: u8, actions: &mut Vec<Action>) {
        let delivery = &self.bounds.deliveries[usize::from(number)];
        let active = match &call.phase {
            Phase::Active(active) => active,
            Phase::NotStarted => {
                // Symmetry reduction: equal deliveries start in order.
                let first = !(0..usize::from(number)).any(|earlier| {
                    self.bounds.deliveries[earlier] == *delivery
                        && state.calls[earlier].phase == Phase::NotStarted
                });
                if first {
                    let skews = self.bounds.skews.iter();
                    actions.extend(skews.map(|skew| Action::Start(number, *skew)));
                }
                return;
            }
            Phase::Killed | Phase::Ended(..) => return,
        };
        if state.left.kills > 0 {
            actions.push(Action::Kill(number));
        }
        self.renewal_choices(state, active, number, actions);
        if active.reply.is_some() {
            actions.push(Action::Receive(number));
            return;
        }
        match *active.asked.effect {
            Effect::Pause(_) => {
                actions.push(Action::GoOn(number));
                return;
            }
            Effect::CheckCircuit(_) => {
                actions.extend([false, true].map(|open| Action::AskCircuit(number, open)));
                return;
            }
            Effect::CheckLocal | Effect::CheckInFlight => {
                actions.push(Action::CheckProcess(number, None));
                let met = (0..state.calls.len() as u8)
                    .filter(|other| self.visible_in_flight(state, number, *other).is_some());
                actions.extend(met.map(|other| Action::CheckProcess(number, Some(other))));
                return;
            }
            Effect::AwaitLeader(at_most) => {
                let timed_out = active.asked.at.plus(at_most) <= self.time(state, active.skew);
                let known = active.follows.map(|(_, known)| known);
                if timed_out || leader_progress(state, active) != known {
                    actions.push(Action::Wake(number));
                }
                return;
            }
            _ => {}
        }
        if matches!(*active.asked.effect, Effect::Undo(_)) {
            let kinds = if delivery.undo_fails {
                &[UndoKind::Undone, UndoKind::Fails, UndoKind::Panics][..]
            } else {
                &[UndoKind::Undone]
            };
            actions.extend(kinds.iter().map(|kind| Action::Undo(number, *kind)));
            return;
        }
        if runs(&active.asked.effect) {
            let mut endings = delivery.endings.clone();
            if active
                .steps
                .as_ref()
                .is_some_and(|run| !run.has_passed(self.bounds.steps))
            {
                actions.push(Action::Step(number));
                endings.retain(|ending| ending.is_early());
            }
            let endings = endings.into_iter();
            actions.extend(endings.map(|ending| Action::End(number, ending)));
            return;
        }
        // A transaction that commits once is sent once.
        let is_sent = active.maybe_applied && commits_once(&call.trace, &active.asked.effect);
        if active.polled != Some(poll(state)) && !is_sent {
            actions.push(Action::Serve(number));
            if state.left.delays > 0 {
                actions.push(Action::ServeWithLateReply(number));
            }
        }
        if *active.asked.effect == Effect::Read(Consistency::Eventual) {
            let ages = 0..state.earlier.len() as u8;
            let differ = ages.filter(|age| state.earlier[usize::from(*age)] != state.record);
            actions.extend(differ.map(|age| Action::ServeStale(number, age)));
        }
        let is_read = matches!(*active.asked.effect, Effect::Read(_));
        let too_large = is_too_large(&active.asked.effect);
        if state.left.lost_replies > 0 && !is_read && !too_large && !is_sent {
            actions.push(Action::Lose(number));
        }
        // A call whose send was lost may give up at any time.
        if active.maybe_applied || (state.left.failures > 0 && !too_large) {
            actions.push(Action::Fail(number, WriteErrorKind::Transient));
        }
        let keeps = matches!(
            does(&active.asked.effect),
            Some(
                What::Completed { .. }
                    | What::StepRecorded { .. }
                    | What::UndoDecided
                    | What::UndoRecorded { .. }
            )
        );
        if state.left.failures > 0 && keeps && !too_large {
            actions.push(Action::Fail(number, WriteErrorKind::Permanent));
            actions.push(Action::Fail(number, WriteErrorKind::Credentials));
        }
        if state.left.conflicts > 0 && !is_read && !too_large {
            actions.push(Action::Fail(number, WriteErrorKind::Conflict));
        }
    }

    fn expired(&self, state: &State) -> bool {
        let now = self.time(state, 0).floor_to_seconds();
        state.record.as_ref().is_some_and(|record| {
            record
                .expiration
                .value()
                .is_some_and(|expiration| *expiration < now)
        })
    }
}

/// Returns what a waiting call would see if it polled now: the time and a digest of the record.
pub(crate) fn poll(state: &State) -> (u8, u64) {
    (state.now, state.record.as_ref().map_or(0, Shared::digest))
}

/// Returns true if the handler runs.
fn runs(effect: &Effect) -> bool {
    matches!(effect, Effect::Run | Effect::RunUnprotected { .. })
}
