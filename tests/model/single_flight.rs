//! Single flight: calls of one process. Which call finds which is left open: a call may miss any call in flight.

use std::time::Duration;

use idempotency_core::protocol::{CallEnd, Effect, InFlight, Input, Stage};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::What;

use super::scenario::{Scenario, active};
use super::state::{Active, Ghost, Phase, Reply, Shared, State};

impl Scenario {
    /// Returns the progress of `other` if call `number` can find it in its process now.
    pub(crate) fn visible_in_flight(
        &self,
        state: &State,
        number: u8,
        other: u8,
    ) -> Option<InFlight> {
        if number == other {
            return None;
        }
        let (mine, theirs) = (active(state, number)?, active(state, other)?);
        let cached = state.cache.is_some() && self.bounds.deliveries[usize::from(number)].cached;
        if cached && *mine.asked.effect == Effect::CheckLocal {
            return None;
        }
        let key = |active: &Active| (self.rules.flight_key)(active.attempt.call());
        theirs.flight.filter(|_| key(mine) == key(theirs))
    }

    /// Lets a call find another call in flight.
    pub(crate) fn join(
        &self,
        state: &mut State,
        number: u8,
        mut active: Active,
        other: u8,
    ) -> Option<()> {
        let flight = self.visible_in_flight(state, number, other)?;
        active.follows = Some((other, flight));
        self.receive_progress(state, number, active, Some(flight), other);
        Some(())
    }

    /// Ends the pause of a waiting call, which polls again.
    pub(crate) fn go_on(&self, state: &mut State, number: u8, paused: Active) {
        let polled = paused.polled;
        self.receive(state, number, paused, Reply::of(Input::Paused));
        if let Phase::Active(asks) = &mut state.calls[usize::from(number)].phase {
            asks.polled = polled;
        }
    }

    /// Wakes a follower: its leader has advanced or ended, or it has waited long enough.
    pub(crate) fn wake(&self, state: &mut State, number: u8, mut active: Active) {
        let flight = leader_progress(state, &active);
        if let (Some((_, known)), Some(flight)) = (&mut active.follows, flight) {
            *known = flight;
        }
        let other = active.follows.map_or(number, |(other, _)| other);
        self.receive_progress(state, number, active, flight, other);
    }

    fn receive_progress(
        &self,
        state: &mut State,
        number: u8,
        active: Active,
        flight: Option<InFlight>,
        other: u8,
    ) {
        let shared = state.shared[usize::from(other)].as_deref().cloned();
        let input = flight.map_or(Input::LeaderDone(shared), Input::LeaderProgress);
        let ghost = Ghost {
            leader: flight.map(|flight| match flight.stage {
                Stage::Waiting {
                    until: Some(end), ..
                } => flight.until.min(end),
                _ => flight.until,
            }),
            ..Ghost::default()
        };
        self.receive(state, number, active, Reply::with(input, ghost));
    }

    /// Starts to follow. The wait must not last beyond the leader's lease or the follower's deadline.
    pub(crate) fn follow(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        active: &Active,
        at_most: Duration,
    ) {
        state.calls[usize::from(number)].trace.followed = true;
        let leader = active.follows.map_or(now, |(_, flight)| flight.until);
        let followed = What::Followed {
            until: now.plus(at_most),
            leader,
            deadline: active.attempt.call().deadline,
        };
        state.see(number, now, followed);
    }

    /// Records what a call that ends shares with its followers.
    pub(crate) fn share(&self, state: &mut State, number: u8, active: &Active, end: &CallEnd) {
        if self.bounds.deliveries[usize::from(number)].in_one_process {
            let shared = (self.rules.shares)(end, &active.asked.effect);
            state.shared[usize::from(number)] = shared.map(Shared::new);
        }
    }
}

/// Returns the progress of the leader that a call follows; `None` if the leader has ended.
pub(crate) fn leader_progress(state: &State, follower: &Active) -> Option<InFlight> {
    let (other, _) = follower.follows?;
    active(state, other)?.flight
}
