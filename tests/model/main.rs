//! The protocol under a model checker. `Attempt::step` and `classify` are production's own. In the scenarios clocks are
//! wrong, replies get lost, writes arrive late, processes stop at any point, and records are evicted.
//!
//! Figures and the command for a longer run are in `docs/evidence/reliability.md`.
#![allow(clippy::panic, clippy::unwrap_used)]

mod bounds;
mod caller;
mod check;
mod choices;
mod long;
mod operator;
mod promises;
mod renewal;
mod rules;
mod scenario;
mod scenarios;
mod single_flight;
mod state;
mod steps;
mod table;

use check::{counterexample, explore};
use idempotency_testkit::history::Promise;

/// Every promise holds in every state of these scenarios, and each scenario reaches its coverage goals.
mod every_promise_holds {
    use super::{explore, scenarios};

    macro_rules! explored {
        ($($scenario:ident)+) => {
            $(#[test]
            fn $scenario() {
                let name = stringify!($scenario);
                let (_, goals) = scenarios::with_goals().find(|(scenario, _)| *scenario == name).unwrap();
                explore(scenarios::bounds(name), goals, 1);
            })+

            #[test]
            fn no_scenario_with_goals_is_left_out() {
                let all: Vec<_> = scenarios::with_goals().map(|(scenario, _)| scenario).collect();
                assert_eq!(all, [$(stringify!($scenario)),+]);
            }
        };
    }

    explored! {
        two_calls clocks_off every_ending two_payloads evicted evicted_before_a_run windows_end a_window_of_its_own half_seconds without_deadline
        every_call_holds
        some_hold some_wait cached many_losses kills three_calls three_runs in_one_process waiting_in_one_process
        windows_end_in_one_process holding_in_one_process one_process_without_deadline two_payloads_in_one_process
        beside_python late_python reading_first_beside_python a_step_beside_python decided_while_holding
        decided_beside_a_takeover decided_in_one_process decided_again reading_first stale_reads two_payloads_reading_first
        holding_and_reading_first reading_first_in_one_process unprotected some_unprotected unprotected_in_one_process
        unprotected_under_hold breaker breaker_and_unprotected with_a_step with_two_steps a_step_and_clocks_off
        a_step_without_deadline a_step_under_hold a_forgotten_step a_step_of_two_payloads a_step_and_windows_end
        a_step_beside_none a_step_and_unprotected undone_steps undone_and_late undone_and_failing undone_under_hold undone_and_decided
        undone_and_evicted undone_and_clocks_off undone_in_one_process staged_writes staged_with_tokens staged_and_evicted staged_endings
        staged_and_held staged_and_windows_end staged_in_one_process staged_and_unprotected conflicts late_staged_write
        late_and_evicted committed committed_and_evicted committed_and_held committed_endings committed_beside_staged late_commit committed_and_unprotected
        committed_with_a_step committed_and_renewed renewing renewing_and_clocks_off renewing_under_hold renewing_with_a_step renewing_and_undone renewing_staged
        renewing_and_windows_end renewing_in_one_process renewing_and_decided renewing_and_unprotected renewing_at_most
        renewing_beside_python
    }
}

/// The page on reliability names each promise in the row of its number.
#[test]
fn the_page_names_every_promise() {
    let page = include_str!("../../docs/evidence/reliability.md");
    for promise in Promise::ALL {
        let row = format!("| {} |", promise.number());
        let row = page.lines().find(|line| line.starts_with(&row));
        assert!(
            row.unwrap().contains(&format!("`{promise:?}`")),
            "{promise:?}"
        );
    }
}

/// Each deliberate fault breaks the promise that the rule keeps.
mod each_fault_is_found {
    use super::{Promise, counterexample, rules, scenarios};

    macro_rules! found {
        ($($test:ident: $rules:ident in $scenario:ident breaks $promise:ident in $steps:literal;)+) => {
            $(#[test]
            fn $test() {
                let text = stringify!($test).replace('_', " ");
                let steps = counterexample(&text, scenarios::bounds(stringify!($scenario)), &rules::$rules, Promise::$promise);
                assert_eq!(steps, $steps, "the shortest path has another length: write it here");
            })+
        };
    }

    found! {
        an_unfenced_completion: UNFENCED_COMPLETION in quiet breaks LateOwner in 8;
        an_unfenced_release: UNFENCED_RELEASE in quiet_failing breaks LateOwner in 8;
        a_window_that_ends_with_the_run: ENDS_THE_WINDOW_AT_ONCE in quiet breaks ShortWindow in 4;
        a_window_of_its_own_that_ends_with_the_run: ENDS_THE_WINDOW_AT_ONCE in a_window_of_its_own breaks ShortWindow in 4;
        an_ignored_window_of_its_own: IGNORES_THE_ASKED_WINDOW in a_window_of_its_own breaks WindowExpired in 4;
        own_record_not_recognised: OWN_RECORD_NOT_RECOGNISED in two_calls breaks OwnWriteInProgress in 4;
        a_late_owner_that_ignores_the_payload:
            LATE_OWNER_IGNORES_THE_PAYLOAD in quiet_payloads breaks AnotherPayload in 10;
        a_response_returned_before_it_is_confirmed: RESPONDS_BEFORE_CONFIRMED in two_calls breaks OneResponse in 10;
        a_claim_classified_by_its_last_error_only: LAST_ERROR_ALONE in two_calls breaks ClaimLeftBehind in 3;
        an_evicted_response_restored: RESTORES_THOUGH_MAYBE_APPLIED in evicted breaks EvictedComesBack in 8;
        a_cache_that_ignores_the_window: CACHE_IGNORES_THE_WINDOW in cached breaks WindowExpired in 7;
        a_new_token_for_each_try: NEW_TOKEN_FOR_EACH_TRY in two_calls breaks OwnWriteInProgress in 6;
        a_handler_started_on_an_expired_lease: STARTS_ON_EXPIRED_LEASE in quiet breaks RunOnExpiredLease in 4;
        a_run_on_a_claim_that_failed: RUNS_ON_A_FAILED_CLAIM in two_calls breaks RunWithoutClaim in 2;
        an_unconfirmed_response_that_is_not_stored: RESPONDS_BEFORE_CONFIRMED in two_calls breaks StoredResponse in 4;
        a_second_run_by_a_late_owner: RUNS_AGAIN_AFTER_LOST_OWNERSHIP in quiet breaks OneRunPerCall in 8;
        a_panic_that_frees_a_held_claim: PANIC_FREES_A_HELD_CLAIM in quiet_holding_panics breaks SecondRunUnderHold in 6;
        a_kept_claim_whose_lease_runs: KEEPS_THE_LEASE in quiet_holding_panics breaks KeptInProgress in 3;
        an_end_of_a_lease_that_frees_the_key: END_OF_A_LEASE_FREES in quiet_holding_panics breaks SecondRunUnderHold in 6;
        an_unfenced_end_of_a_lease: UNFENCED_END_OF_A_LEASE in quiet_some_hold breaks LateOwner in 8;
        a_timeout_that_frees_a_held_claim:
            UNREPORTED_COUNTS_AS_FAILURE in quiet_holding_panics breaks SecondRunUnderHold in 6;
        a_timeout_that_leaves_no_mark: UNREPORTED_COUNTS_AS_FAILURE in three_runs breaks FirstThoughUnreported in 6;
        a_held_claim_that_time_frees: TIME_FREES_A_HELD_CLAIM in quiet_holding breaks SecondRunUnderHold in 6;
        a_takeover_of_a_held_claim: TIME_FREES_A_HELD_CLAIM in quiet_holding breaks HoldTakesOver in 6;
        a_step_after_a_takeover_of_a_held_claim: TIME_FREES_A_HELD_CLAIM in quiet_holding_step breaks StepTwiceUnderHold in 8;
        a_claim_without_a_lease: CLAIM_WITHOUT_LEASE in quiet breaks Stuck in 2;
        single_flight_that_ignores_the_payload:
            SINGLE_FLIGHT_IGNORES_THE_PAYLOAD in two_payloads_in_one_process breaks OtherPayloadInProgress in 5;
        a_leader_that_shares_with_another_payload:
            LEADER_SHARES_WITH_ANOTHER_PAYLOAD in quiet_payloads_in_one_process breaks AnotherPayload in 8;
        a_leader_that_outlives_its_lease: LEADER_OUTLIVES_ITS_LEASE in quiet_in_one_process breaks Stuck in 6;
        a_follower_that_ignores_the_window:
            FOLLOWER_IGNORES_THE_WINDOW in quiet_in_one_process_short_window breaks WindowExpired in 10;
        a_follower_that_ignores_its_deadline: FOLLOWER_IGNORES_ITS_DEADLINE in quiet_in_one_process breaks WaitsTooLong in 4;
        a_wait_that_outlives_the_lease: WAIT_OUTLIVES_THE_LEASE in quiet_waiting_in_one_process breaks Stuck in 9;
        a_leader_that_shares_an_unconfirmed_response: LEADER_SHARES_UNCONFIRMED in failing_in_one_process breaks OneResponse in 14;
        a_run_on_an_absent_read: RUNS_ON_AN_ABSENT_READ in quiet_reading_first breaks RunWithoutClaim in 2;
        a_claim_without_a_condition_after_the_read:
            CLAIMS_UNCONDITIONALLY_AFTER_THE_READ in quiet_reading_first breaks LateOwner in 6;
        a_read_that_ignores_the_window: READ_IGNORES_THE_WINDOW in quiet_reading_first breaks WindowExpired in 9;
        a_read_that_ignores_the_payload: READ_IGNORES_THE_PAYLOAD in quiet_payloads_reading_first breaks AnotherPayload in 7;
        an_eventual_read_after_a_lost_claim: EVERY_READ_IS_EVENTUAL in stale_after_a_loss breaks OwnWriteInProgress in 9;
        a_decision_about_any_claim: DECIDES_ABOUT_ANY_CLAIM in quiet_decided breaks LateOwner in 8;
        a_decision_that_keeps_the_owner: DECISION_KEEPS_THE_OWNER in quiet_decided breaks LateOwner in 7;
        an_open_circuit_that_runs: OPEN_CIRCUIT_RUNS in quiet_breaker breaks RunWithoutClaim in 2;
        a_failed_claim_that_runs: FAILED_CLAIM_RUNS in failing breaks RunWithoutClaim in 2;
        a_refused_claim_that_counts_as_a_failure:
            REFUSAL_COUNTS_AS_FAILURE in failing_unprotected breaks RunWithoutClaim in 4;
        a_running_call_that_is_overlooked:
            RUNNING_LEADER_IS_OVERLOOKED in unprotected_in_one_process breaks RunWithoutClaim in 7;
        steps_of_the_failed_claim: STEPS_OF_THE_FAILED_CLAIM in quiet_step breaks StepAgain in 11;
        a_takeover_by_put: TAKEOVER_BY_PUT in quiet_step breaks StepAgain in 11;
        a_takeover_without_the_lease: TAKEOVER_WITHOUT_LEASE in a_step_without_deadline breaks LateOwner in 10;
        a_takeover_of_another_payload:
            TAKEOVER_OF_ANOTHER_PAYLOAD in quiet_step_of_two_payloads breaks StepOfAnotherPayload in 11;
        an_unfenced_step: UNFENCED_STEP in quiet_step breaks LateOwner in 9;
        a_step_under_another_name: MISNAMES_A_STEP in quiet_step breaks StepAgain in 11;
        a_release_that_deletes_steps: RELEASE_DELETES_ALL in quiet_failing_step breaks StepAgain in 9;
        a_release_that_deletes_the_mark: RELEASE_DELETES_ALL in three_runs breaks FirstThoughUnreported in 6;
        a_rejection_that_leaves_no_mark: RELEASE_DELETES_ALL in quiet_rejected breaks FirstThoughUnreported in 8;
        an_unstored_response_that_leaves_no_mark: RELEASE_DELETES_ALL in quiet_unstored breaks FirstThoughUnreported in 6;
        a_decision_that_counts_as_a_report: DECISION_REPORTS in quiet_decided breaks FirstThoughUnreported in 8;
        a_step_after_the_decision: UNDOING_GOES_FORWARD in quiet_undone breaks StepAfterUndo in 14;
        an_undo_before_the_decision: UNDOES_BEFORE_THE_DECISION in quiet_undone_beside_failures breaks UndoneEarly in 7;
        an_undo_that_is_left_out: SKIPS_AN_UNDO in quiet_undone breaks NotUndone in 19;
        undos_in_the_order_of_the_steps: UNDOES_FORWARD in quiet_undone breaks UndoneEarly in 18;
        a_final_response_before_its_steps_are_undone: COMPLETES_BEFORE_UNDOING in quiet_undone breaks NotUndone in 6;
        a_decision_beside_a_step_without_a_record:
            DECIDES_BESIDE_A_LOST_STEP in quiet_undone_beside_failures breaks NotUndone in 7;
        an_undo_that_is_repeated: FORGETS_WHAT_IS_UNDONE in quiet_undone breaks UndoneAgain in 20;
        an_unfenced_undo: UNFENCED_UNDO in quiet_undone breaks LateOwner in 12;
        a_late_undo_that_sets_the_progress_back: UNDO_IGNORES_THE_PROGRESS in undone_and_late breaks UndoneAgain in 26;
        a_takeover_that_forgets_the_decision: TAKEOVER_FORGETS_THE_DECISION in quiet_undone breaks StepAfterUndo in 14;
        unconfirmed_writes_that_count_as_the_callers_own:
            UNCONFIRMED_WRITES_COUNT_AS_OWN in staged_and_unprotected breaks StagedAlone in 6;
        an_unfenced_transaction: REPEATS_WITHOUT_FENCE in quiet_staged breaks LateOwner in 8;
        a_transaction_repeated_without_a_fence: REPEATS_WITHOUT_FENCE in one_staged_write breaks StagedTwice in 7;
        a_completion_without_its_staged_writes: COMPLETES_WITHOUT_THE_WRITES in one_staged_write breaks StagedAlone in 4;
        a_rejection_without_a_release: REJECTS_WITHOUT_A_RELEASE in one_staged_write breaks RejectedThoughApplied in 6;
        a_business_condition_that_decides_before_the_record:
            BUSINESS_CONDITION_DECIDES_FIRST in one_staged_write breaks RejectedThoughApplied in 6;
        a_failed_release_that_counts_as_released:
            FAILED_RELEASE_COUNTS_AS_RELEASED in one_staged_write breaks RejectedThoughApplied in 9;
        a_late_claim_that_is_forgotten:
            FORGETS_A_LATE_CLAIM in late_staged_write breaks RejectedThoughApplied in 11;
        an_eviction_before_two_late_sends_and_a_store_that_forgets_tokens:
            PRODUCTION in late_and_evicted_without_tokens breaks StagedTwice in 10;
        an_unfenced_release_after_a_rejection:
            UNFENCED_RELEASE in one_staged_write breaks LateOwner in 7;
        a_commit_that_is_sent_twice: COMMITS_AGAIN in one_commit breaks StagedAlone in 6;
        a_completion_outside_of_its_transaction: COMPLETES_WITHOUT_THE_WRITES in one_commit breaks StagedAlone in 4;
        a_lost_commit_that_counts_as_rolled_back:
            LOST_COMMIT_COUNTS_AS_ROLLED_BACK in one_commit breaks RejectedThoughApplied in 6;
        a_claim_that_counts_as_rolled_back: CLAIM_COUNTS_AS_ROLLED_BACK in one_commit breaks RejectedThoughApplied in 7;
        an_unfenced_commit: REPEATS_WITHOUT_FENCE in two_commits breaks LateOwner in 8;
        an_unfenced_renewal: UNFENCED_RENEWAL in quiet_renewing breaks LateOwner in 8;
        a_refused_renewal_that_counts: REFUSED_RENEWAL_COUNTS in quiet_renewing breaks HeldThoughGone in 7;
        a_failed_renewal_that_counts: FAILED_RENEWAL_COUNTS in failing_renewal breaks HeldThoughGone in 4;
        a_renewal_that_shortens_the_lease: RENEWAL_SHORTENS_THE_LEASE in renewing breaks HeldThoughGone in 7;
        a_renewal_that_revives_a_kept_claim: RENEWAL_REVIVES in renewing_under_hold breaks KeptInProgress in 7;
        a_renewal_that_leaves_the_end_of_the_record: RENEWAL_LEAVES_THE_EXPIRATION in quiet_renewing_ttl breaks LateOwner in 6;
        a_renewal_of_a_completed_key: RENEWAL_IGNORES_THE_STATUS in renewing breaks LateOwner in 7;
        a_window_that_frees_a_live_claim: WINDOW_FREES_A_LIVE_CLAIM in quiet_short_window breaks LateOwner in 6;
    }
}
