//! One call as a state machine: each step consumes the attempt, so a stale state cannot be used.

mod claim;
mod completion;
mod in_flight;

use std::time::Duration;

use super::Call;
use super::effect::{Effect, Input, Refusal, Resolution, Source};
use super::in_flight::{InFlight, Stage};
use super::time_limit;
use crate::record::Record;
use crate::time::EpochMillis;

/// The first pause of a wait or of a retried completion; each further one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One call on its way through the protocol.
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Resolution, HandlerResult, WriteResult, Completion};
/// use idempotency_core::protocol::Call;
/// use idempotency_core::protocol::policy::Policy;
/// use idempotency_core::{owner::OwnerToken, record::*, time::*};
/// let call = Call {
///     id: RecordId::new("a#1"),
///     owner: OwnerToken::from_bytes([1; 16]),
///     validation: None,
///     deadline: Some(EpochMillis::new(30_000)),
///     operation: None,
///     policy: Policy::default(),
/// };
/// let now = EpochMillis::new(1_000);
/// let (attempt, effect) = Attempt::begin(call);
/// assert_eq!(effect, Effect::CheckLocal);
/// let (attempt, effect) = attempt.step(now, Input::Local(None));
/// assert!(matches!(effect, Effect::Put(..)));
/// let (attempt, effect) = attempt.step(now, Input::Written(WriteResult::Applied));
/// assert_eq!(effect, Effect::Run);
/// let (attempt, effect) = attempt.step(now, Input::HandlerDone(HandlerResult::Returned(Data::new("42"))));
/// assert!(matches!(effect, Effect::Update(..)));
/// let (_, effect) = attempt.step(now, Input::Written(WriteResult::Applied));
/// assert!(matches!(effect, Effect::Finish(Resolution::Own(Completion::Stored(_)))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    call: Call,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// The process's own memory is asked; until when this call may wait, if it has begun to.
    Looking(Option<EpochMillis>),
    /// Another call of this process is waited for.
    Following(Following),
    /// A claim is on its way.
    Claiming(Claiming),
    /// The record is read, because a claim's answer left it unknown, or because of a wait.
    Reading(Claiming),
    /// A wait for the other call.
    Waiting(Claiming),
    /// The handler runs.
    Running(Held),
    /// A completion is on its way.
    Completing(Completing),
    /// A pause before the completion is sent again.
    RetryingCompletion(Completing),
    /// The record is read, because a refused completion brought nothing back.
    ReadingAfterCompletion(Completing),
    /// The completion of an evicted claim is on its way.
    Restoring(Completing),
    /// The claim is given up before the handler ran.
    GivingUp(GivingUp),
    /// The claim is given up after the handler ran.
    Releasing {
        /// Whether the handler gave an answer, which then yields to a stored one.
        answered: bool,
        /// When the lease of the claim ends.
        lease_end: EpochMillis,
    },
    /// The caller has been told.
    Finished,
}

/// What a call remembers while another of its process goes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Following {
    /// Until when this call may wait.
    wait_until: EpochMillis,
    /// How far the other had come when it was last heard of.
    flight: InFlight,
}

/// What a call remembers while it has no claim yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Claiming {
    /// How many claims were sent since the last wait.
    tries: u8,
    /// How many pauses there were.
    pauses: u8,
    /// When the lease of the call that is waited for ends, where it has one.
    other: Option<EpochMillis>,
    /// Whether any claim of this call may have been applied, or may yet arrive.
    maybe_applied: bool,
    /// The time of the last claim.
    claimed_at: EpochMillis,
    /// Until when this call may wait.
    wait_until: EpochMillis,
    /// Until when the requests since the beginning, or since the last pause, may take.
    requests_end: EpochMillis,
}

/// What a call remembers while it gives up a claim that it may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GivingUp {
    refusal: Refusal,
    /// Until when this call may wait.
    wait_until: EpochMillis,
    /// Until when the requests since the beginning, or since the last pause, may take.
    requests_end: EpochMillis,
}

/// What a call remembers of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    claimed_at: EpochMillis,
    lease_end: EpochMillis,
}

/// What a call remembers while its completion is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Completing {
    held: Held,
    tries: u8,
    /// Whether any send of the completion may have been applied.
    maybe_applied: bool,
    /// What is to be stored.
    record: Record,
    /// What the caller is told once the completion is confirmed, if the answer itself is not what is stored.
    instead: Option<Unstorable>,
}

/// Why a completion carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unstorable {
    /// It is not JSON, so not even its own caller can be given it.
    Unrepresentable,
    /// It is too large for the store, or could not be read back; its own caller is given it all the same.
    OwnCallerAlone,
}

type Next = (State, Effect);

impl Attempt {
    /// Begins a call. The first effect is always [`Effect::CheckLocal`].
    ///
    /// ```
    /// # use idempotency_core::protocol::{*, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::*};
    /// # let call = idempotency_core::example::call();
    /// assert_eq!(Attempt::begin(call).1, Effect::CheckLocal);
    /// ```
    pub fn begin(call: Call) -> (Self, Effect) {
        let attempt = Self {
            call,
            state: State::Looking(None),
        };
        (attempt, Effect::CheckLocal)
    }

    /// The call this attempt is for.
    ///
    /// ```
    /// # use idempotency_core::protocol::{*, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::*};
    /// # let call = idempotency_core::example::call();
    /// assert_eq!(Attempt::begin(call).0.call().id.as_str(), "a#1");
    /// ```
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// What the duplicates of this call in its process are to know of it; nothing where nothing has changed for them.
    ///
    /// ```
    /// # use idempotency_core::protocol::{*, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
    /// # let call = Call { deadline: Some(EpochMillis::new(30_000)), ..idempotency_core::example::call() };
    /// # let now = EpochMillis::new(0);
    /// let (attempt, _put) = Attempt::begin(call).0.step(now, Input::Local(None));
    /// assert_eq!(attempt.in_flight().map(|in_flight| in_flight.stage), Some(Stage::Claiming));
    /// let (attempt, _run) = attempt.step(now, Input::Written(WriteResult::Applied));
    /// let running = InFlight { stage: Stage::Running, until: EpochMillis::new(30_000) };
    /// assert_eq!(attempt.in_flight(), Some(running));
    /// ```
    pub fn in_flight(&self) -> Option<InFlight> {
        let (stage, until) = match &self.state {
            State::Claiming(claiming) | State::Reading(claiming) | State::Waiting(claiming) => {
                let stage = match claiming.pauses {
                    0 => Stage::Claiming,
                    round => Stage::Waiting {
                        until: claiming.other,
                        round,
                    },
                };
                (stage, claiming.wait_until)
            }
            State::Running(held) => (Stage::Running, held.lease_end),
            State::Completing(completing)
            | State::RetryingCompletion(completing)
            | State::ReadingAfterCompletion(completing)
            | State::Restoring(completing) => (Stage::Storing, completing.held.lease_end),
            State::Releasing { lease_end, .. } => (Stage::Storing, *lease_end),
            State::Looking(_) | State::Following(_) | State::GivingUp(_) | State::Finished => {
                return None;
            }
        };
        Some(InFlight { stage, until })
    }

    /// Returns how long the request that was asked for last may take, if it is sent at the time `now`.
    ///
    /// Before the handler all requests together are bounded by `store_timeout` and by half of the time that is left, so
    /// that a store which accepts and never answers leaves time for a clear error. After the handler the lease bounds each
    /// request: a response is worth storing until then. The release after a run that failed is bounded by `store_timeout`
    /// too: the caller waits for its own error meanwhile, and the end of the lease, or an operator, frees the key.
    ///
    /// ```
    /// # use idempotency_core::protocol::{*, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
    /// # use std::time::Duration;
    /// # let call = Call { deadline: Some(EpochMillis::new(30_000)), ..idempotency_core::example::call() };
    /// let now = EpochMillis::new(0);
    /// let (attempt, _put) = Attempt::begin(call).0.step(now, Input::Local(None));
    /// // Of the 3 s of `store_timeout`, 200 ms are kept for giving the claim up.
    /// assert_eq!(attempt.time_limit(now), Duration::from_millis(2_800));
    /// let (attempt, _run) = attempt.step(now, Input::Written(WriteResult::Applied));
    /// let (attempt, _update) = attempt.step(now, Input::HandlerDone(HandlerResult::Returned(Data::new("42"))));
    /// assert_eq!(attempt.time_limit(now), Duration::from_millis(29_800));
    /// ```
    pub fn time_limit(&self, now: EpochMillis) -> Duration {
        match &self.state {
            State::Claiming(claiming) | State::Reading(claiming) => claim::limit(now, claiming),
            State::GivingUp(giving_up) => claim::limit_of_giving_up(now, giving_up),
            State::Completing(Completing { held, .. })
            | State::ReadingAfterCompletion(Completing { held, .. })
            | State::Restoring(Completing { held, .. }) => time_limit(now, held.lease_end),
            // A stored response, which is found out here alone, is the one to give.
            State::Releasing {
                answered: true,
                lease_end,
            } => time_limit(now, *lease_end),
            State::Releasing {
                answered: false,
                lease_end,
            } => time_limit(now, *lease_end).min(self.call.policy.store_timeout),
            // No request is asked for.
            State::Looking(_)
            | State::Following(_)
            | State::Waiting(_)
            | State::Running(_)
            | State::RetryingCompletion(_)
            | State::Finished => Duration::ZERO,
        }
    }

    /// Takes what became of the last effect, at the time `now`, and says what is to be done next.
    ///
    /// ```
    /// # use idempotency_core::protocol::{*, Call};
    /// # use idempotency_core::{owner::OwnerToken, record::*, time::EpochMillis};
    /// # let call = idempotency_core::example::call();
    /// let now = EpochMillis::new(1_000);
    /// let (attempt, _look) = Attempt::begin(call);
    /// let (attempt, _put) = attempt.step(now, Input::Local(None));
    /// let (_, effect) = attempt.step(now, Input::Written(WriteResult::Applied));
    /// assert_eq!(effect, Effect::Run);
    /// ```
    ///
    /// # Panics
    /// If `input` is not an answer to the last effect: a mistake of the driver, not of its environment.
    #[allow(clippy::panic)]
    pub fn step(self, now: EpochMillis, input: Input) -> (Self, Effect) {
        let Self { call, state } = self;
        let (state, effect) = match (state, input) {
            (State::Looking(wait_until), Input::Local(None)) => {
                claim::unknown(&call, now, wait_until)
            }
            (State::Looking(wait_until), Input::Local(Some(cached))) => {
                claim::remembered(&call, now, wait_until, cached, Source::Cache)
            }
            (State::Looking(wait_until), Input::LeaderProgress(other)) => {
                in_flight::met(&call, now, wait_until, other)
            }
            (State::Following(following), Input::LeaderProgress(other)) => {
                in_flight::met_again(&call, now, following, other)
            }
            (State::Following(following), Input::LeaderDone(answer)) => {
                in_flight::landed(&call, now, following, answer)
            }
            (State::Claiming(claiming), Input::Written(written)) => {
                claim::claimed(&call, now, claiming, written)
            }
            (State::Reading(claiming), Input::Read(existing)) => {
                claim::read(&call, now, claiming, existing)
            }
            (State::Reading(claiming), Input::ReadFailed) => claim::unread(&call, now, claiming),
            (State::Waiting(claiming), Input::Paused) => claim::look_again(&call, now, claiming),
            (State::Running(held), Input::HandlerDone(ran)) => {
                completion::ran_handler(&call, now, held, ran)
            }
            (State::Completing(completing), Input::Written(written)) => {
                completion::completion_written(&call, now, completing, written)
            }
            (State::RetryingCompletion(completing), Input::Paused) => {
                completion::send_completion(&call, completing)
            }
            (State::ReadingAfterCompletion(completing), Input::Read(existing)) => {
                completion::completion_refused(&call, now, completing, existing)
            }
            (State::ReadingAfterCompletion(_), Input::ReadFailed) => {
                refuse(Refusal::CompletionUnknown)
            }
            (State::Restoring(completing), Input::Written(written)) => {
                completion::restored(&call, now, completing, written)
            }
            (State::GivingUp(giving_up), Input::Written(_)) => refuse(giving_up.refusal),
            (State::Releasing { answered, .. }, Input::Written(written)) => {
                completion::released(&call, now, answered, written)
            }
            (state, input) => panic!("{input:?} does not answer what {state:?} asked for"),
        };
        (Self { call, state }, effect)
    }
}

fn finish(verdict: Resolution) -> Next {
    (State::Finished, Effect::Finish(verdict))
}

fn refuse(refusal: Refusal) -> Next {
    finish(Resolution::Refuse(refusal))
}

fn replay(record: Record, source: Source) -> Next {
    finish(Resolution::Replay { record, source })
}

/// The longest `n`th pause, counted from one.
fn backoff(n: u8) -> Duration {
    let doublings = u32::from(n.saturating_sub(1)).min(16);
    FIRST_PAUSE
        .saturating_mul(1 << doublings)
        .min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests;
