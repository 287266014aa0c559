//! Calls that meet in one process. Who meets whom is left open: whoever looks may miss any of the others.

use std::time::Duration;

use idempotency_core::protocol::{Effect, InFlight, Input, Resolution, Stage};
use idempotency_core::time::EpochMillis;

use super::promises::Promise;
use super::scenario::{Scenario, active};
use super::shared::Shared;
use super::state::{Active, Phase, Python, Reply, Seen, State};

impl Scenario {
    /// What a call may learn of another one when it looks about in its process.
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
        let key = |active: &Active| self.rules.flight_key(active.attempt.call());
        theirs.flight.filter(|_| key(mine) == key(theirs))
    }

    /// A call meets another one.
    pub(crate) fn meet(
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

    /// A call that waits asks again.
    pub(crate) fn go_on(&self, state: &mut State, number: u8, paused: Active) {
        let looked = paused.looked;
        let reply = Reply {
            input: Input::Paused,
            seen: Seen::default(),
        };
        self.receive(state, number, paused, reply);
        if let Phase::Active(asks) = &mut state.calls[usize::from(number)].phase {
            asks.looked = looked;
        }
    }

    /// A call that follows another one receives of it again.
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
        let now = self.time(state, active.skew);
        let landed = state.landed[usize::from(other)].as_deref().cloned();
        let reply = Reply {
            input: flight.map_or(Input::LeaderDone(landed), Input::LeaderProgress),
            seen: Seen {
                late_flight: flight.is_some_and(|flight| match flight.stage {
                    Stage::Waiting {
                        until: Some(end), ..
                    } => flight.until < now || end < now,
                    _ => flight.until < now,
                }),
                ..Seen::default()
            },
        };
        self.receive(state, number, active, reply);
    }

    /// A call begins to follow: not beyond the other's lease, nor beyond its own time.
    pub(crate) fn follow(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        active: &Active,
        at_most: Duration,
    ) {
        state.calls[usize::from(number)].trace.followed = true;
        let latest = active.follows.map(|(_, flight)| flight.until.get() + 1);
        if Some(now.plus(at_most).get()) > latest {
            self.break_promise(state, Promise::Stuck);
        }
        let deadline = active.attempt.call().deadline;
        if deadline.is_some_and(|deadline| now.plus(at_most) > deadline) {
            self.break_promise(state, Promise::FollowsTooLong);
        }
    }

    /// A call is over: what those who follow it are given.
    pub(crate) fn land(
        &self,
        state: &mut State,
        number: u8,
        active: &Active,
        verdict: &Resolution,
    ) {
        if self.bounds.deliveries[usize::from(number)].in_one_process {
            let shared = self.rules.shares(verdict, &active.asked.effect);
            state.landed[usize::from(number)] = shared.map(Shared::new);
        }
    }

    /// Whether nobody else has come with this call's payload.
    pub(crate) fn is_alone(&self, state: &State, number: u8) -> bool {
        let mut others = (0..state.calls.len() as u8).filter(|other| {
            *other != number && state.calls[usize::from(*other)].phase != Phase::NotStarted
        });
        let python = state.python != Python::NotStarted && self.same_payload(number, self.python());
        !python && !others.any(|other| self.same_payload(number, other))
    }
}

/// How far the one has come whom a call follows, unless it is over.
pub(crate) fn leader_progress(state: &State, follower: &Active) -> Option<InFlight> {
    let (other, _) = follower.follows?;
    active(state, other)?.flight
}
