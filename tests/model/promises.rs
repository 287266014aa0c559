//! The promises, which must always hold (`idempotency_testkit::history`), and the coverage goals, which must be reachable.

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::Stage;
use stateright::Property;

use super::bounds::Ending;
use super::scenario::Scenario;
use super::state::{Call, End, Phase, Returned, State};

/// Holds in a state in which no promise is broken. Only the first state that breaks one counts, because it has the shortest path.
pub(crate) const HOLDS: &str = "every promise holds";

macro_rules! goals {
    ($($goal:ident => $name:literal, $seen:expr;)+) => {
        /// Coverage goals: each must be reached in some state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Goal {
            $($goal),+
        }

        impl Goal {
            /// Returns the goal of this name.
            pub(crate) fn of(name: &str) -> Self {
                match name {
                    $(stringify!($goal) => Self::$goal,)+
                    _ => panic!("there is no goal `{name}`"),
                }
            }
        }

        const GOALS: &[(Goal, &str, fn(&Scenario, &State) -> bool)] = &[
            $((Goal::$goal, $name, |scenario, state| {
                let seen: fn(&Scenario, &State) -> bool = $seen;
                seen(scenario, state) && scenario.reaches_first(Goal::$goal)
            })),+
        ];
    };
}

goals! {
    Executed => "a call runs and its response is stored",
        |_, state| state.ended_as(&End::Executed);
    FromStore => "a response is replayed from the store",
        |_, state| state.ended_as(&End::FromStore);
    FromCache => "a response is replayed from the cache",
        |_, state| state.ended_as(&End::FromCache);
    FromConcurrentCall => "a response is shared by another call of the process",
        |_, state| state.ended_as(&End::FromConcurrentCall);
    RanAfterFollowing => "a call runs because the leader that it followed gave no response",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.followed);
    FollowedAWait => "a call follows another that waits",
        |_, state| state.calls.iter().any(|call| matches!(
            &call.phase,
            Phase::Active(active)
                if active.follows.is_some_and(|(_, flight)| matches!(flight.stage, Stage::Waiting { .. }))
        ));
    Waited => "a call that waited gets the response",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.waited);
    WaitedOn => "a call that kept waiting after a failed read gets the response",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.waited_on);
    TookOver => "two calls run in one window",
        |_, state| {
            let calls = 0..state.calls.len() as u8;
            calls.filter(|call| state.ran_in(*call) == Some(state.history.window())).count() > 1
        };
    WinnersResponse => "a late owner gets the winner's response",
        |_, state| state.ended_as(&End::WinnersResponse);
    OwnCompletionFound => "a call finds that an earlier send of its own completion was applied",
        |_, state| state.ended_as(&End::OwnCompletionFound);
    OwnClaimRecognised => "a call continues with a claim whose reply was lost",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.recognised);
    Restored => "a response is stored although its claim was evicted",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.restored);
    OperatorsResponse => "a duplicate gets the response that an operator gave",
        |scenario, state| state.replays(scenario.operator());
    RanAfterADecision => "a call runs after an operator has freed its key",
        |scenario, state| state.left.decisions < scenario.bounds.faults.decisions
            && state.history.stored_in(scenario.operator().into()).is_none()
            && state.ended(|end, trace| *end == End::Executed && trace.after_failure);
    RanAfterACorrection => "a call runs after an operator took back a response that a duplicate got",
        |scenario, state| state.calls.iter().any(|call| match call.phase {
            Phase::Ended(End::FromStore, Returned(Some((whose, window)))) => {
                let mut calls = (0..).zip(&state.calls);
                let ran_later = |(number, call): (u8, &Call)| {
                    matches!(call.phase, Phase::Ended(End::Executed, _)) && state.ran_in(number) > Some(window)
                };
                whose == scenario.operator() && calls.any(ran_later)
            }
            _ => false,
        });
    FoundStale => "a response is replayed although its record was replaced or deleted",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.found_stale);
    Misled => "a call whose read was stale gets the response from its claim",
        |_, state| state.ended(|end, trace| *end == End::FromStore && trace.misled);
    AfterFailure => "a call runs after a recorded failure",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.after_failure);
    Released => "a claim is released",
        |_, state| state.ended_as(&End::Released);
    NotReleased => "a claim cannot be released",
        |_, state| state.ended_as(&End::NotReleased);
    Kept => "a claim is kept after a panic",
        |_, state| state.ended_as(&End::Kept);
    UnresolvedPanic => "a call gets \"unresolved\" after a run that panicked",
        |_, state| state.refused(ErrorKind::Unresolved)
            && state.ended_as(&End::Kept);
    OwnCallerOnly => "only its own caller gets a response that cannot be stored",
        |_, state| state.ended_as(&End::OwnCallerOnly);
    YieldedToStored => "a stored response replaces one that is not stored",
        |_, state| state.ended(|end, trace| {
            *end == End::WinnersResponse && trace.ending == Some(Ending::RespondsUnstored)
        });
    PythonReplayed => "Python's response is replayed",
        |scenario, state| state.replays(scenario.python());
    NextWindow => "a key gets a new response after its window has ended",
        |scenario, state| (0..=scenario.operator()).any(|call| state.history.stored_in(call.into()) > Some(0));
    AlreadyInProgress => "a duplicate gets \"in progress\"",
        |_, state| state.refused(ErrorKind::AlreadyInProgress);
    PayloadMismatch => "another payload is refused",
        |_, state| state.refused(ErrorKind::PayloadMismatch);
    Unresolved => "a call gets \"unresolved\"",
        |_, state| state.refused(ErrorKind::Unresolved);
    Contended => "a call gives up after too many tries",
        |_, state| state.refused(ErrorKind::Contended);
    NoTimeLeft => "a lease expires before the handler can start",
        |_, state| state.refused(ErrorKind::NoTimeLeft);
    ResponseUnavailable => "a duplicate gets \"response unavailable\"",
        |_, state| state.refused(ErrorKind::ResponseUnavailable);
    LostOwnership => "a late owner gets \"lost ownership\"",
        |_, state| state.refused(ErrorKind::LostOwnership);
    CompletionUnknown => "a call gets \"completion unknown\"",
        |_, state| state.refused(ErrorKind::CompletionUnknown);
    StoreFailed => "the store fails before the handler runs",
        |_, state| state.refused(ErrorKind::StoreFailed);
    RanUnprotected => "a caller gets the result of a run without a confirmed claim",
        |_, state| state.ended_as(&End::Unprotected);
    UnprotectedThenStored => "the response of a run without a confirmed claim is stored",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.unprotected);
    UnprotectedThenWinners => "a run without a confirmed claim yields to a stored response",
        |_, state| state.ended(|end, trace| *end == End::WinnersResponse && trace.unprotected);
    Resumed => "a run uses a step that an earlier run recorded",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.resumed);
    ResumedAfterFailure => "a run uses a step that a failed run recorded",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.resumed && trace.after_failure);
    LostInAStep => "a late owner finds in a step that its claim is gone, and gets the winner's response",
        |_, state| state.ended(|end, trace| *end == End::WinnersResponse && trace.lost_in_a_step);
    Undone => "a call undoes its steps, and its final response is stored",
        |_, state| state.ended(|end, trace| {
            *end == End::Executed && trace.ending == Some(Ending::Undoes) && trace.undid
        });
    UndoneLater => "a later run undoes the steps that are left, and gives the final response",
        |_, state| state.ended(|end, trace| *end == End::WinnersResponse && trace.undid);
    NotUndone => "a call does not undo all of its steps",
        |_, state| state.refused(ErrorKind::StepNotUndone);
    Staged => "staged writes are applied with their response",
        |_, state| state.ended(|end, trace| {
            *end == End::Executed && trace.ending.is_some_and(Ending::stages)
        });
    Rejected => "staged writes are rejected",
        |_, state| state.refused(ErrorKind::TransactionRejected);
    AppliedThoughRejected => "a call whose send was rejected finds that an earlier one was applied",
        |_, state| state.ended(|end, trace| *end == End::OwnCompletionFound && trace.rejected);
    RanAfterRejection => "a call runs after the staged writes of another were rejected",
        |_, state| state.refused(ErrorKind::TransactionRejected)
            && state.ended_as(&End::Executed);
    Renewed => "a run completes under a lease that it has renewed",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.renewed);
    Revived => "a run completes under a lease that it has renewed after its end",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.revived);
    LostInARenewal => "a renewal finds that the claim is gone, and its call gets the winner's response",
        |_, state| state.ended(|end, trace| *end == End::WinnersResponse && trace.lost_in_a_renewal);
    FirstAgain => "a run after one that reported its failure gets First",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.first)
            && state.ended(|end, trace| *end == End::Released && trace.first);
    DoubtKept => "a run after one that reported its failure learns that a run before that one may have had an effect",
        |_, state| state.ended(|end, trace| *end == End::Executed && trace.after_failure && !trace.first)
            && state.ended(|end, trace| *end == End::Released && !trace.first);
}

/// Returns the property that holds if every promise does, and the goals that a scenario must reach.
pub(crate) fn properties(goals: &[Goal]) -> Vec<Property<Scenario>> {
    let promises = Property::always(HOLDS, |scenario: &Scenario, state: &State| {
        state.history.broken().is_empty() || !scenario.breaks_first()
    });
    let goals = GOALS.iter().filter(|(goal, ..)| goals.contains(goal));
    let goals = goals.map(|(_, name, seen)| Property::sometimes(name, *seen));
    std::iter::once(promises).chain(goals).collect()
}
