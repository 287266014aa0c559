//! One call as a state machine. Each step consumes the attempt, so a stale state cannot be used.

mod after_run;
mod claim;
mod completion;
mod follow;
mod state;
mod undo;
mod unprotected;

use std::sync::Arc;
use std::time::Duration;

use super::CallTerms;
use super::breaker::StoreHealth;
use super::classify::is_expired;
use super::effect::{Effect, Input, WriteErrorKind, WriteResult};
use super::end::{Commits, Source};
use super::in_flight::{InFlight, Stage};
use super::lease::Lease;
use super::limits::time_limit;
use super::renewal::Renewal;
use super::run::Run;
use crate::record::RecordedSteps;
use crate::time::EpochMillis;
use state::{Releasing, Running, State, UndoPhase, finish, refuse};

/// One call on its way through the protocol.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, ClaimEnd, Effect, HandlerResult, Input, Write, WriteResult};
/// use idempotency_core::protocol::{CallTerms, Lease, StoreLimits, policy::Policy};
/// use idempotency_core::{record::*, time::*};
/// let call = CallTerms {
///     id: RecordId::new("a#1"),
///     owner: OwnerToken::from_bytes([1; 16]),
///     validation: None,
///     deadline: Some(EpochMillis::new(30_000)),
///     lease: Lease::Until(EpochMillis::new(30_000)),
///     operation: None,
///     event: None,
///     policy: Policy::default(),
///     limits: StoreLimits::NONE,
/// };
/// let now = EpochMillis::new(1_000);
/// let (attempt, effect) = Attempt::begin(call);
/// assert_eq!(effect, Effect::CheckLocal);
/// let (attempt, effect) = attempt.step(now, Input::Local(None));
/// assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
/// let (attempt, effect) = attempt.step(now, Input::Written(WriteResult::APPLIED));
/// assert_eq!(effect, Effect::Run);
/// let (attempt, effect) = attempt.step(now, Input::HandlerEnded(HandlerResult::Returned(Data::new("42")).into()));
/// assert!(matches!(effect, Effect::Write(Write::Update(_), _)));
/// let (_, effect) = attempt.step(now, Input::Written(WriteResult::APPLIED));
/// assert!(matches!(effect, Effect::Finish(end) if end.claim == Some(ClaimEnd::Completed)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    call: Arc<CallTerms>,
    state: State,
    /// True if the handler may run without a confirmed claim, should the store fail.
    may_run_unprotected: bool,
}

impl Attempt {
    /// Begins a call. The first effect is always [`Effect::CheckLocal`].
    pub fn begin(call: impl Into<Arc<CallTerms>>) -> (Self, Effect) {
        let call = call.into();
        let attempt = Self {
            may_run_unprotected: call.policy.runs_unprotected(),
            call,
            state: State::Checking(None),
        };
        (attempt, Effect::CheckLocal)
    }

    /// Returns the call of this attempt.
    pub fn call(&self) -> &CallTerms {
        &self.call
    }

    /// Returns the progress to publish to duplicates in this process, or `None` in a state that has none.
    pub fn in_flight(&self) -> Option<InFlight> {
        let (stage, until) = match &self.state {
            State::AskingCircuit(wait_until) => (Stage::Claiming, *wait_until),
            State::BeforeUnprotected(unclaimed) => (Stage::Claiming, unclaimed.wait_until),
            // After a look-up the claim follows, unless the read finds a response.
            State::LookingUp(claiming)
            | State::Claiming(claiming)
            | State::Reading(claiming)
            | State::Waiting(claiming) => {
                let stage = match claiming.pauses {
                    0 => Stage::Claiming,
                    round => Stage::Waiting {
                        until: claiming.other_lease_end,
                        round,
                    },
                };
                (stage, claiming.wait_until)
            }
            State::Running(_) | State::RunningUnclaimed(_) | State::Undoing(_) => {
                (Stage::Running, self.lease_end()?)
            }
            _ => (Stage::Storing, self.lease_end()?),
        };
        Some(InFlight { stage, until })
    }

    /// Returns the steps that were recorded when the run began, while the handler runs under a confirmed claim. The run uses their
    /// results.
    pub fn steps(&self) -> Option<&RecordedSteps> {
        match &self.state {
            State::Running(running) if running.held.is_confirmed() => Some(&running.steps),
            _ => None,
        }
    }

    /// Returns true while the handler runs for a key whose steps are being undone: no step of it runs, and its result does not count.
    pub fn undoes(&self) -> bool {
        matches!(&self.state, State::Running(running) if running.undo.is_some())
    }

    /// Returns until when the claim lasts, from the beginning of the run to the end of the claim. Without a confirmed claim it is the end
    /// of the lease that the call would have.
    pub fn lease_end(&self) -> Option<EpochMillis> {
        self.state.lease_end()
    }

    /// Returns the renewals of the lease, while the handler runs or a step is undone. `None` if the lease is not renewed: the deadline of the
    /// call is known, the setting is off, or the claim is not confirmed.
    pub fn renewal(&self) -> Option<Renewal> {
        let Lease::Renewed { length, at_most } = self.call.lease else {
            return None;
        };
        let (held, undoing) = match &self.state {
            State::Running(Running { held, .. }) if held.is_confirmed() => (held, held.undoing),
            State::Undoing(undo) if undo.phase == UndoPhase::Undoing => (&undo.held, true),
            _ => return None,
        };
        let (claimed_at, lease_end) = (held.claimed_at, held.lease_end);
        let lease = (length, at_most);
        Some(Renewal::begin(
            &self.call, lease, claimed_at, lease_end, undoing,
        ))
    }

    /// Notes that the lease of the claim lasts until then, because a renewal was confirmed.
    pub fn renewed(&mut self, lease_end: EpochMillis) {
        let held = match &mut self.state {
            State::Running(running) => &mut running.held,
            State::Undoing(undo) => &mut undo.held,
            _ => return,
        };
        held.lease_end = held.lease_end.max(lease_end);
    }

    /// Returns which run of its key the handler's run is, while the handler runs.
    pub fn run(&self) -> Option<Run> {
        match &self.state {
            State::Running(running) => Some(running.run),
            State::RunningUnclaimed(_) => Some(Run::Unprotected),
            _ => None,
        }
    }

    /// Returns how long the last requested write or read may take, if it is sent at the time `now`.
    ///
    /// Before the handler, all requests together are bounded by `store_timeout` and by half of the time left. A store that
    /// hangs then leaves time for a clear error. After the handler, the lease bounds each request: a response is worth
    /// storing until then. The release after a failed run is bounded by `store_timeout` too, because the caller waits for its
    /// own error meanwhile. If that release fails, the end of the lease or an operator frees the key.
    pub fn time_limit(&self, now: EpochMillis) -> Duration {
        let by_lease = || {
            let end = self.lease_end();
            end.map_or(Duration::ZERO, |end| time_limit(now, end))
        };
        match &self.state {
            // Half of the time is kept for the claim after a read that hangs.
            State::LookingUp(claiming) => claim::limit(now, claiming) / 2,
            State::Claiming(claiming) | State::Reading(claiming) => claim::limit(now, claiming),
            State::GivingUp(giving_up) => claim::release_limit(now, giving_up),
            // Half of the time is kept to read the record, if the reply is lost.
            State::Completing(completing) if completing.staged == Some(Commits::Once) => {
                by_lease() / 2
            }
            State::Keeping { .. }
            | State::Releasing(Releasing {
                returned: false, ..
            }) => by_lease().min(self.call.policy.store_timeout),
            // A release after a response may find a stored one, which the caller must get instead of its own.
            State::Releasing(_)
            | State::Completing(_)
            | State::ReadingAfterCompletion(_)
            | State::ReadingAfterSteps { .. }
            | State::Restoring(_)
            | State::Undoing(_)
            | State::Freeing { .. } => by_lease(),
            // These states ask for no request.
            State::Checking(_)
            | State::Following(_)
            | State::AskingCircuit(_)
            | State::Waiting(_)
            | State::BeforeUnprotected(_)
            | State::Running(_)
            | State::RunningUnclaimed(_)
            | State::RetryingCompletion(_)
            | State::Finished => Duration::ZERO,
        }
    }

    /// Returns what a result of the last effect says of the store, for the circuit breaker. Returns `None` if it says nothing, or if
    /// the operation does not use the breaker.
    ///
    /// Only the requests before the handler count. A response is worth storing in every state of the circuit.
    pub fn store_health(&self, input: &Input) -> Option<StoreHealth> {
        let asks = matches!(
            self.state,
            State::LookingUp(_) | State::Claiming(_) | State::Reading(_)
        );
        if !asks || !self.call.policy.circuit_breaker {
            return None;
        }
        match input {
            Input::Written(WriteResult::Applied { .. } | WriteResult::ConditionFailed { .. })
            | Input::Read(_) => Some(StoreHealth::Replied),
            Input::Written(WriteResult::Failed { kind, .. }) => match kind {
                WriteErrorKind::Transient => Some(StoreHealth::Failed),
                WriteErrorKind::Refused | WriteErrorKind::Conflict => Some(StoreHealth::Replied),
                // An operator must correct it. It does not pass, so it neither opens nor closes a circuit.
                WriteErrorKind::TooLarge
                | WriteErrorKind::Credentials
                | WriteErrorKind::Permanent => None,
            },
            Input::ReadFailed => Some(StoreHealth::Failed),
            _ => None,
        }
    }

    /// Returns true if `input` is the end of a handler that ran longer than a claim with a lease of its own, which was not renewed. No
    /// deadline was known.
    pub fn outlives_lease(&self, now: EpochMillis, input: &Input) -> bool {
        match (&self.state, input) {
            (State::Running(Running { held, .. }), Input::HandlerEnded(_)) => {
                let may_expire = match self.call.lease {
                    Lease::Until(_) => false,
                    Lease::For(_) => true,
                    Lease::Renewed { .. } => !held.is_confirmed(),
                };
                may_expire && is_expired(held.lease_end, now)
            }
            _ => false,
        }
    }

    /// Takes the result of the last effect, at the time `now`, and returns the next effect.
    ///
    /// # Panics
    ///
    /// If `input` is not a result of the last effect. This is a fault of the driver, not of its inputs.
    #[allow(clippy::panic)]
    pub fn step(self, now: EpochMillis, input: Input) -> (Self, Effect) {
        let Self {
            call,
            state,
            mut may_run_unprotected,
        } = self;
        may_run_unprotected = may_run_unprotected && unprotected::may_still_run(&call, now, &input);
        let asks_until = if may_run_unprotected {
            state.asks_until()
        } else {
            None
        };
        let next = match (state, input) {
            (State::Checking(wait_until), Input::Local(None)) => {
                claim::start(&call, now, wait_until, None)
            }
            (State::Checking(wait_until), Input::Local(Some(cached))) => {
                claim::from_memory(&call, now, wait_until, cached, Source::Cache)
            }
            (State::Checking(wait_until), Input::LeaderProgress(leader)) => {
                follow::leader_found(&call, now, wait_until, leader)
            }
            (State::Following(following), Input::LeaderProgress(leader)) => {
                follow::leader_progress(&call, now, following, leader)
            }
            (State::Following(following), Input::LeaderDone(confirmed)) => {
                follow::leader_done(&call, now, following, confirmed)
            }
            (State::AskingCircuit(wait_until), Input::Circuit(admission)) => {
                claim::start(&call, now, Some(wait_until), Some(admission))
            }
            (State::LookingUp(claiming), Input::Read(existing)) => {
                claim::looked_up(&call, now, claiming, existing)
            }
            (State::LookingUp(claiming), Input::ReadFailed) => {
                claim::looked_up(&call, now, claiming, None)
            }
            (State::Claiming(claiming), Input::Written(result)) => {
                claim::claim_written(&call, now, claiming, result)
            }
            (State::Reading(claiming), Input::Read(existing)) => {
                claim::read_done(&call, now, claiming, existing)
            }
            (State::Reading(claiming), Input::ReadFailed) => {
                claim::read_failed(&call, now, claiming)
            }
            (State::Waiting(claiming), Input::Paused) => claim::read_again(&call, now, claiming),
            (State::BeforeUnprotected(unclaimed), Input::Local(_)) => {
                unprotected::run_unclaimed(&call, &unclaimed)
            }
            (State::BeforeUnprotected(unclaimed), Input::LeaderProgress(other)) => {
                unprotected::other_found(&call, now, unclaimed, other)
            }
            (State::RunningUnclaimed(_), Input::HandlerEnded(end)) => {
                unprotected::unclaimed_ended(&end)
            }
            (State::Running(running), Input::HandlerEnded(end)) => match running.undo {
                None => after_run::handler_ended(&call, now, running.held, end),
                Some(decided) => undo::run_ended(&call, now, running.held, *decided, end),
            },
            (State::Undoing(undo), Input::Undone(end)) => undo::undone(&call, now, *undo, end),
            (State::Undoing(undo), Input::Written(result)) => {
                undo::written(&call, now, *undo, result)
            }
            (State::Undoing(undo), Input::Paused) => undo::send(&call, *undo),
            (State::Completing(completing), Input::Written(result)) => {
                completion::completion_written(&call, now, completing, result)
            }
            (State::RetryingCompletion(completing), Input::Paused) => {
                completion::go_on(&call, completing)
            }
            (State::ReadingAfterCompletion(completing), Input::Read(existing)) => {
                completion::claim_gone(&call, now, completing, existing)
            }
            (State::ReadingAfterCompletion(completing), Input::ReadFailed) => {
                completion::read_failed(now, completing)
            }
            (State::ReadingAfterSteps { staged, .. }, Input::Read(existing)) => {
                completion::claim_lost(&call, now, staged, existing)
            }
            (State::ReadingAfterSteps { staged, .. }, Input::ReadFailed) => {
                completion::claim_lost(&call, now, staged, None)
            }
            (State::Restoring(completing), Input::Written(result)) => {
                completion::restored(&call, now, completing, result)
            }
            (State::Freeing { completing, why }, Input::Written(result)) => {
                completion::freed(&call, now, completing, why, result)
            }
            (State::Keeping { end, .. }, Input::Written(_)) => finish(*end),
            (State::GivingUp(giving_up), Input::Written(_)) => refuse(giving_up.kind),
            (State::Releasing(releasing), Input::Written(result)) => {
                completion::released(&call, now, releasing, result)
            }
            (state, input) => panic!("{input:?} is not a result of the effect of {state:?}"),
        };
        let (state, effect) = match asks_until {
            Some(wait_until) => unprotected::instead_of_failing(&call, now, wait_until, next),
            None => next,
        };
        let attempt = Self {
            call,
            state,
            may_run_unprotected,
        };
        (attempt, effect)
    }
}

#[cfg(test)]
mod tests;
