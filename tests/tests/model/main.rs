//! The protocol under a model checker: `Attempt::step` and `classify` as production runs them, in worlds in which clocks are
//! off, replies get lost, writes arrive late, processes stop anywhere, and records are evicted.
//!
//! Figures and the command for a longer run are in `docs/evidence/reliability.md`.
#![allow(clippy::panic, clippy::unwrap_used)]

mod bounds;
mod caller;
mod check;
mod choices;
mod long;
mod promises;
mod rules;
mod shared;
mod state;
mod table;
mod together;
mod world;
mod worlds;

use check::{counterexample, explore};
use promises::{Promise, Sight};

/// Every promise holds in every state of these worlds, and each shows what it is there for.
mod every_promise_holds {
    use super::{Sight, explore, worlds};

    macro_rules! explored {
        ($($world:ident => [$($sight:ident),* $(,)?],)+) => {
            $(#[test]
            fn $world() {
                explore(worlds::$world(), &[$(Sight::$sight),*], 1);
            })+
        };
    }

    explored! {
        two_calls => [
            Executed, FromStore, TookOver, WinnersAnswer, OwnCompletionFound, OwnClaimRecognised, AlreadyInProgress,
            NoTimeLeft, LostOwnership, CompletionUnknown, StoreFailed,
        ],
        clocks_off => [Executed, FromStore, TookOver, WinnersAnswer, OwnClaimRecognised, LostOwnership, NoTimeLeft],
        every_ending => [
            Executed, Released, NotReleased, OwnCallerAlone, ResponseUnavailable, AfterFailure, YieldedToStored,
        ],
        two_payloads => [FromStore, WinnersAnswer, PayloadMismatch, LostOwnership],
        evicted => [Executed, Restored, LostOwnership, NextWindow],
        windows_end => [Executed, FromStore, Restored, NextWindow],
        half_seconds => [Executed, FromStore, NextWindow, WinnersAnswer],
        without_deadline => [Executed, FromStore, OwnClaimRecognised, WinnersAnswer, NoTimeLeft],
        everybody_holds => [
            Executed, Unresolved, AfterFailure, Released, NotReleased, NoTimeLeft, Kept, UnresolvedPanic,
        ],
        some_hold => [Executed, Unresolved, AfterFailure, WinnersAnswer, NextWindow, Kept],
        some_wait => [Executed, Waited, WaitedOn, AlreadyInProgress, TookOver, WinnersAnswer],
        in_one_process => [
            Executed, FromStore, FromFlight, RanAfterFollowing, AlreadyInProgress, TookOver, WinnersAnswer, Released,
        ],
        waiting_in_one_process => [
            Executed, FromStore, FromFlight, FollowedAWait, RanAfterFollowing, AlreadyInProgress, TookOver,
        ],
        windows_end_in_one_process => [FromFlight, FromCache, NextWindow, TookOver],
        holding_in_one_process => [FromFlight, Unresolved, AfterFailure, RanAfterFollowing, Kept, UnresolvedPanic],
        one_process_without_deadline => [FromFlight, RanAfterFollowing, OwnClaimRecognised, AlreadyInProgress],
        two_payloads_in_one_process => [FromFlight, RanAfterFollowing, AlreadyInProgress, PayloadMismatch],
        cached => [FromCache, FromStore, PayloadMismatch, NextWindow],
        beside_python => [Executed, FromStore, PythonReplayed, AlreadyInProgress, NextWindow],
        late_python => [Executed, FromStore, LostOwnership],
        many_losses => [Executed, Contended, OwnClaimRecognised, CompletionUnknown, StoreFailed],
        kills => [Executed, FromStore, TookOver, WinnersAnswer],
        three_calls => [Executed, FromStore, TookOver, WinnersAnswer, LostOwnership],
    }
}

/// Each deliberate fault breaks the promise that the rule in its place keeps.
mod each_fault_is_found {
    use super::{Promise, counterexample, rules, worlds};

    macro_rules! found {
        ($($test:ident: $rules:ident in $world:ident breaks $promise:ident in $steps:literal;)+) => {
            $(#[test]
            fn $test() {
                let text = stringify!($test).replace('_', " ");
                let steps = counterexample(&text, worlds::$world(), &rules::$rules, Promise::$promise);
                assert_eq!(steps, $steps, "the counterexample has changed: mend docs/evidence/reliability.md too");
            })+
        };
    }

    found! {
        an_unfenced_completion: UnfencedCompletion in quiet breaks LateOwner in 8;
        an_unfenced_release: UnfencedRelease in quiet_failing breaks LateOwner in 7;
        own_record_taken_for_anothers: OwnRecordTakenForAnothers in two_calls breaks OwnWriteInProgress in 4;
        a_late_owner_given_the_answer_of_another_payload:
            LateOwnerIgnoresThePayload in quiet_payloads breaks AnotherPayload in 10;
        a_completion_told_before_it_is_confirmed: ToldBeforeConfirmed in two_calls breaks OneAnswer in 10;
        a_claim_classified_by_its_last_error_alone: LastErrorAlone in two_calls breaks ClaimLeftBehind in 3;
        an_evicted_answer_put_back: RestoresThoughLost in evicted breaks EvictedComesBack in 8;
        a_cache_that_forgets_the_window: CacheForgetsTheWindow in cached breaks WindowOver in 7;
        a_new_token_for_each_try: NewTokenForEachTry in two_calls breaks OwnWriteInProgress in 6;
        a_handler_started_on_an_ended_lease: StartsOnEndedLease in quiet breaks RunOnEndedLease in 4;
        a_run_on_a_claim_that_failed: RunsOnAFailedClaim in two_calls breaks RunWithoutClaim in 2;
        a_second_run_by_a_late_owner: RunsAgainWhenLost in quiet breaks OneRunPerCall in 8;
        a_panic_that_frees_a_held_claim: APanicFreesAHeldClaim in quiet_holding_panics breaks SecondRunUnderHold in 6;
        a_held_claim_that_time_frees: TimeFreesAHeldClaim in quiet_holding breaks SecondRunUnderHold in 6;
        a_claim_without_a_lease: ClaimWithoutLease in quiet breaks Stuck in 2;
        a_flight_that_forgets_the_payload:
            FlightForgetsThePayload in two_payloads_in_one_process breaks AnothersProgress in 5;
        a_flight_that_shares_an_answer_with_another_payload:
            FlightSharesWithAnotherPayload in quiet_payloads_together breaks AnotherPayload in 8;
        a_flight_that_outlives_its_lease: FlightOutlivesItsLease in quiet_together breaks Stuck in 6;
        a_flight_that_forgets_the_window:
            FlightForgetsTheWindow in quiet_together_short_window breaks WindowOver in 10;
        a_flight_that_forgets_its_own_time: FlightForgetsItsOwnTime in quiet_together breaks FollowsTooLong in 4;
        a_wait_that_outlives_the_lease: AWaitOutlivesTheLease in quiet_waiting_together breaks Stuck in 9;
        a_flight_that_shares_what_nobody_confirmed: FlightSharesTheUnconfirmed in failing_together breaks OneAnswer in 14;
        a_window_that_frees_a_live_claim: WindowFreesALiveClaim in quiet_short_window breaks LateOwner in 6;
    }
}
