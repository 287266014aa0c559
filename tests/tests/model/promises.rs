//! What must always hold, and what must be possible.

use idempotency_core::protocol::{Refusal, Stage};
use stateright::{Expectation, Property};

use super::bounds::{Bounds, Ending};
use super::scenario::Scenario;
use super::state::{End, NEVER, State};

/// What must hold in every state. A step that breaks one leaves its mark in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    OneResponse,
    LateOwner,
    AnotherPayload,
    OwnWriteInProgress,
    RunWithoutClaim,
    RunOnExpiredLease,
    OneRunPerCall,
    SecondRunUnderHold,
    Stuck,
    ClaimLeftBehind,
    EvictedComesBack,
    HoldTakesOver,
    WindowExpired,
    OtherPayloadInProgress,
    FollowsTooLong,
}

macro_rules! promises {
    ($($promise:ident => $name:literal),+ $(,)?) => {
        const PROMISES: &[(Promise, &str, fn(&Scenario, &State) -> bool)] = &[
            $((Promise::$promise, $name, |scenario, state| {
                !(state.broken & Promise::$promise.bit() != 0 && scenario.first(Promise::$promise as u32))
            })),+
        ];
    };
}

promises! {
    OneResponse => "callers that are given an answer are given the same one",
    LateOwner => "nothing live is overwritten, by a late owner or by a claim",
    AnotherPayload => "nobody is given the answer of another payload",
    OwnWriteInProgress => "nobody is returned \"in progress\" by their own write",
    RunWithoutClaim => "no run without a claim",
    RunOnExpiredLease => "no run starts on a lease that is over",
    OneRunPerCall => "a call runs its handler at most once",
    SecondRunUnderHold => "under hold nobody runs after a run that may have started",
    Stuck => "no key is stuck past its lease",
    ClaimLeftBehind => "a call that fails leaves no claim behind without an attempt to release it",
    EvictedComesBack => "no call writes an answer anew that was stored and evicted",
    HoldTakesOver => "a call that holds takes over nobody's claim",
    WindowExpired => "no answer is replayed once its window is over by the caller's clock",
    OtherPayloadInProgress => "nobody is returned \"in progress\" on account of another payload",
    FollowsTooLong => "nobody follows another call beyond its own time",
}

impl Promise {
    pub(crate) fn bit(self) -> u16 {
        1 << self as u16
    }

    pub(crate) fn name(self) -> &'static str {
        PROMISES
            .iter()
            .find(|(promise, ..)| *promise == self)
            .map_or("", |(_, name, _)| name)
    }

    /// Whether it is promised in such a scenario.
    pub(crate) fn binds(self, bounds: &Bounds) -> bool {
        match self {
            Self::OneResponse => !bounds.python_outlives(),
            Self::SecondRunUnderHold => bounds.all_hold(),
            _ => true,
        }
    }
}

/// What must be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Executed,
    FromStore,
    FromCache,
    FromConcurrentCall,
    RanAfterFollowing,
    FollowedAWait,
    Waited,
    WaitedOn,
    TookOver,
    WinnersResponse,
    OwnCompletionFound,
    OwnClaimRecognised,
    Restored,
    AfterFailure,
    Released,
    NotReleased,
    Kept,
    UnresolvedPanic,
    OwnCallerOnly,
    YieldedToStored,
    PythonReplayed,
    NextWindow,
    AlreadyInProgress,
    PayloadMismatch,
    Unresolved,
    Contended,
    NoTimeLeft,
    ResponseUnavailable,
    LostOwnership,
    CompletionUnknown,
    StoreFailed,
}

macro_rules! goals {
    ($($goal:ident => $name:literal, $seen:expr;)+) => {
        const GOALS: &[(Goal, &str, fn(&Scenario, &State) -> bool)] = &[
            $((Goal::$goal, $name, |scenario, state| {
                let seen: fn(&Scenario, &State) -> bool = $seen;
                seen(scenario, state) && scenario.first(32 + Goal::$goal as u32)
            })),+
        ];
    };
}

goals! {
    Executed => "a call runs and its answer is stored",
        |_, state| state.ended(|end, _| *end == End::Executed);
    FromStore => "an answer is replayed from the store",
        |_, state| state.ended(|end, _| *end == End::FromStore);
    FromCache => "an answer is replayed from the cache",
        |_, state| state.ended(|end, _| *end == End::FromCache);
    FromConcurrentCall => "an answer is shared by another call of the process",
        |_, state| state.ended(|end, _| *end == End::FromConcurrentCall);
    RanAfterFollowing => "a call runs after the one of its process that it followed gave no answer",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.followed);
    FollowedAWait => "a call waits along with another that waits",
        |_, state| state.calls.iter().any(|call| matches!(
            &call.phase,
            super::state::Phase::Active(active)
                if active.follows.is_some_and(|(_, flight)| matches!(flight.stage, Stage::Waiting { .. }))
        ));
    Waited => "a call that waited is given the answer",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.waited);
    WaitedOn => "a call that waited on after a read had failed is given the answer",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.waited_on);
    TookOver => "two calls run in one window",
        |_, state| state.calls.iter().filter(|call| call.trace.ran_in == state.generation).count() > 1;
    WinnersResponse => "a late owner is given the winner's answer",
        |_, state| state.ended(|end, _| *end == End::WinnersResponse);
    OwnCompletionFound => "an earlier send of the own completion is found applied",
        |_, state| state.ended(|end, _| *end == End::OwnCompletionFound);
    OwnClaimRecognised => "a call goes on with a claim whose reply was lost",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.recognised);
    Restored => "an answer is stored although its claim was evicted",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.restored);
    AfterFailure => "a call runs after a recorded failure",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.after_failure);
    Released => "a claim is released",
        |_, state| state.ended(|end, _| *end == End::Released);
    NotReleased => "a claim cannot be released",
        |_, state| state.ended(|end, _| *end == End::NotReleased);
    Kept => "a claim is kept after a panic",
        |_, state| state.ended(|end, _| *end == End::Kept);
    UnresolvedPanic => "a call is returned that an operator must decide about a run that panicked",
        |_, state| state.refused(|refusal| *refusal == Refusal::Unresolved)
            && state.ended(|end, _| *end == End::Kept);
    OwnCallerOnly => "an answer that cannot be stored is given to its own caller alone",
        |_, state| state.ended(|end, _| *end == End::OwnCallerOnly);
    YieldedToStored => "an answer that is not stored yields to one that is",
        |_, state| state.ended(|end, trace| {
            *end == End::WinnersResponse && trace.ending == Some(Ending::RespondsUnstored)
        });
    PythonReplayed => "Python's answer is replayed",
        |scenario, state| state.calls.iter().any(|call| matches!(
            call.phase,
            super::state::Phase::Ended(End::FromStore, super::state::Returned(Some((whose, _))))
                if whose == scenario.python()
        ));
    NextWindow => "the key is answered anew once its window is over",
        |_, state| state.stored_in.iter().any(|window| *window != NEVER && *window > 0);
    AlreadyInProgress => "a duplicate is returned that the key is in progress",
        |_, state| state.refused(|refusal| matches!(refusal, Refusal::AlreadyInProgress { .. }));
    PayloadMismatch => "another payload is refused",
        |_, state| state.refused(|refusal| *refusal == Refusal::PayloadMismatch);
    Unresolved => "a call is returned that an operator must decide",
        |_, state| state.refused(|refusal| *refusal == Refusal::Unresolved);
    Contended => "a call gives up after too many tries",
        |_, state| state.refused(|refusal| *refusal == Refusal::Contended);
    NoTimeLeft => "a lease is over before the handler could start",
        |_, state| state.refused(|refusal| *refusal == Refusal::NoTimeLeft);
    ResponseUnavailable => "a duplicate is returned that the answer could not be stored",
        |_, state| state.refused(|refusal| *refusal == Refusal::ResponseUnavailable);
    LostOwnership => "a late owner is returned that its claim was lost",
        |_, state| state.refused(|refusal| *refusal == Refusal::LostOwnership);
    CompletionUnknown => "a call cannot tell whether its answer is stored",
        |_, state| state.refused(|refusal| *refusal == Refusal::CompletionUnknown);
    StoreFailed => "the store fails before the handler runs",
        |_, state| state.refused(|refusal| *refusal == Refusal::StoreFailed);
}

/// Every promise, and those goals that a scenario is expected to show.
pub(crate) fn properties(goals: &[Goal]) -> Vec<Property<Scenario>> {
    let promises = PROMISES.iter().map(|(_, name, condition)| Property {
        expectation: Expectation::Always,
        name,
        condition: *condition,
    });
    let goals =
        GOALS
            .iter()
            .filter(|(goal, ..)| goals.contains(goal))
            .map(|(_, name, condition)| Property {
                expectation: Expectation::Sometimes,
                name,
                condition: *condition,
            });
    promises.chain(goals).collect()
}
