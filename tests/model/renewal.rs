//! The renewals of a run: its lease lasts longer while its handler runs, by production's own rules.
//!
//! When a renewal is sent is left open, and it is served at once, fails, or is lost: then it may arrive at any later time.

use std::ops::ControlFlow;

use idempotency_core::protocol::{
    Attempt, Effect, Input, Renewal, RenewalEnd, WriteErrorKind, WriteResult,
};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::What;

use super::rules::CallView;
use super::scenario::{Scenario, active, active_mut};
use super::state::{Action, Active, Fate, Shared, State, TimedRequest};

impl Scenario {
    /// Begins the renewals of a run.
    pub(crate) fn begin_renewals(
        &self,
        state: &mut State,
        number: u8,
        now: EpochMillis,
        active: &mut Active,
        attempt: &Attempt,
    ) {
        if let Some(renewal) = attempt.renewal() {
            let until = renewal.lease_end();
            state.see(number, now, What::Holds { until });
            active.renewal = Some(Shared::new(renewal));
        }
    }

    /// Adds the renewals that the run of a call can send now. One that changes nothing is left out.
    pub(crate) fn renewal_choices(
        &self,
        state: &State,
        active: &Active,
        number: u8,
        actions: &mut Vec<Action>,
    ) {
        let Some(renewal) = &active.renewal else {
            return;
        };
        let now = self.time(state, active.skew);
        let delivery = &self.bounds.deliveries[usize::from(number)];
        if now.plus(self.bounds.duration(delivery.lease)) <= renewal.lease_end() {
            return;
        }
        actions.push(Action::Renew(number, Fate::Served));
        if state.left.lost_replies > 0 {
            actions.push(Action::Renew(number, Fate::Lost));
        }
        if state.left.failures > 0 {
            actions.push(Action::Renew(number, Fate::Failed));
        }
    }

    /// Sends a renewal, and gives the run its result.
    pub(crate) fn renew(&self, state: &mut State, number: u8, fate: Fate) -> Option<()> {
        let before = active(state, number)?;
        let (skew, claims) = (before.skew, before.claims);
        let mut renewal: Renewal = (**before.renewal.as_ref()?).clone();
        let mut attempt = (*before.attempt).clone();
        let call = attempt.call().clone();
        let now = self.time(state, skew);
        let mut view = CallView {
            call: &call,
            now,
            ran: true,
            claims,
            releases: false,
            renews: true,
        };
        let known = renewal.lease_end();
        let (write, condition) = renewal.send(now);
        let mut effect = Effect::Write(write, condition);
        (self.rules.requests)(view, &mut effect);
        let sent = TimedRequest {
            by: number,
            at: now,
            effect: Shared::new(effect),
        };
        let mut input = match fate {
            Fate::Served => self.apply(state, &sent).input,
            Fate::Lost => {
                state.left.lost_replies -= 1;
                state.send(sent);
                failed(true)
            }
            Fate::Failed => {
                state.left.failures -= 1;
                failed(false)
            }
        };
        (self.rules.receives)(&mut view, &mut input);
        let Input::Written(result) = input else {
            panic!("{input:?} is no result of a write");
        };
        // The read after a renewal that found no record is one with it.
        let next = match renewal.written(now, result) {
            ControlFlow::Continue(None) => renewal
                .read(now, Some(state.record.as_deref().cloned()))
                .map_continue(|_| ()),
            next => next.map_continue(|_| ()),
        };
        let until = renewal.lease_end();
        let trace = &mut state.calls[usize::from(number)].trace;
        if until > known {
            trace.renewed = true;
            trace.revived |= known < now;
            attempt.renewed(until);
            state.see(number, now, What::Holds { until });
        }
        if next == ControlFlow::Break(RenewalEnd::ClaimGone) {
            state.calls[usize::from(number)].trace.lost_in_a_renewal = true;
        }
        let near = self.bounds.deliveries[usize::from(number)].in_one_process;
        let active = active_mut(state, number)?;
        active.renewal = next.is_continue().then(|| Shared::new(renewal));
        if near {
            active.flight = attempt.in_flight().or(active.flight);
        }
        let steps = active.steps.as_ref();
        active.steps = steps.map(|run| Shared::new(run.until(until)));
        active.attempt = Shared::new(attempt);
        Some(())
    }
}

fn failed(maybe_applied: bool) -> Input {
    Input::Written(WriteResult::Failed {
        maybe_applied,
        kind: WriteErrorKind::Transient,
    })
}
