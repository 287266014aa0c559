//! Deterministic simulation of the real engine and cache over a simulated network: random schedules from a seed, a virtual
//! clock, crashes at await points, lost replies, late arrivals, throttling, delays beyond the lease, clocks that differ.
//!
//! A failing seed is printed. To replay it: `SIMULATION_SEED=17 cargo test -p idempotency-tests --test simulation`.
//! A longer run: `SIMULATION_SEEDS=200000 cargo test --release -p idempotency-tests --test simulation`.
#![allow(clippy::unwrap_used)]

mod checker;
mod executor;
mod network;
mod schedule;
mod staging;

use checker::Counts;
use schedule::Faults;

/// The number of schedules that a test run plays for each mix of faults.
const SEEDS: u64 = 1_000;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    match number("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIMULATION_SEEDS").unwrap_or(SEEDS),
    }
}

/// Plays every seed and checks each history against the promises.
fn play(faults: &Faults) -> Counts {
    let mut counts = Counts::default();
    for seed in seeds() {
        let history = schedule::play(seed, faults);
        if let Err(broken) = checker::check(&history, faults) {
            panic!("seed {seed} breaks a promise: {broken}\n{history:#?}");
        }
        counts.add(&history);
    }
    println!("{} schedules: {counts:?}", seeds().count());
    counts
}

#[test]
fn with_only_slow_owners_callers_agree_and_a_late_owner_gets_the_winners_response() {
    let counts = play(&Faults::none());
    assert!(counts.replayed > 0 && counts.in_progress > 0 && counts.late_responses > 0);
    assert!(counts.shared > 0);
}

#[test]
fn with_every_network_fault_callers_still_agree() {
    let counts = play(&Faults::network());
    assert!(counts.replayed > 0 && counts.unknown > 0 && counts.ran > 0);
}

#[test]
fn with_crashes_at_every_await_point_callers_still_agree_and_no_key_is_stuck() {
    let counts = play(&Faults::crashes());
    assert!(counts.crashed > 0 && counts.second_runs > 0 && counts.shared > 0);
    assert!(counts.first_again > 0);
}

#[test]
fn with_all_faults_at_once_and_clocks_that_differ_callers_still_agree() {
    let counts = play(&Faults::everything());
    assert!(counts.crashed > 0 && counts.unknown > 0 && counts.late_responses > 0);
    assert!(counts.panicked > 0);
}

#[test]
fn under_hold_there_is_no_second_run_after_one_that_may_have_started() {
    let counts = play(&Faults::everything().under_hold());
    assert!(counts.unresolved > 0 && counts.panicked > 0);
    assert_eq!(counts.second_runs, 0);
}

#[test]
fn in_an_outage_only_calls_of_that_policy_run_unprotected_and_other_callers_agree() {
    let counts = play(&Faults::everything().in_an_outage().running_unprotected());
    assert!(counts.unprotected > 0 && counts.replayed > 0);
    let counts = play(&Faults::everything().in_an_outage().with_breaker());
    assert_eq!(counts.unprotected, 0);
    assert!(counts.circuits_open > 0 && counts.ran > 0);
}

#[test]
fn an_open_circuit_lets_only_calls_of_that_policy_run_unprotected() {
    let faults = Faults::network().in_an_outage().running_unprotected();
    let counts = play(&faults.with_breaker());
    assert!(counts.unprotected > 0 && counts.circuits_open > 0 && counts.replayed > 0);
}

#[test]
fn with_stale_reads_before_the_claim_callers_still_agree_under_every_fault() {
    let counts = play(&Faults::none().reading_first());
    assert!(counts.replayed > 0 && counts.in_progress > 0 && counts.late_responses > 0);
    let counts = play(&Faults::everything().reading_first());
    assert!(counts.crashed > 0 && counts.unknown > 0 && counts.late_responses > 0);
    assert!(counts.replayed > 0 && counts.panicked > 0);
}

#[test]
fn with_stale_reads_before_the_claim_there_is_no_second_run_under_hold() {
    let counts = play(&Faults::everything().reading_first().under_hold());
    assert!(counts.unresolved > 0 && counts.panicked > 0);
    assert_eq!(counts.second_runs, 0);
}

/// Plays every seed with staged writes. Returns how many schedules applied them, rejected them, and did not know.
fn play_staged(faults: &Faults) -> (usize, usize, usize) {
    let (mut applied, mut rejected, mut unknown) = (0, 0, 0);
    for seed in seeds() {
        match staging::play(seed, faults) {
            Ok(ends) => {
                applied += usize::from(ends.applied);
                rejected += ends.rejected.len();
                unknown += ends.unknown;
            }
            Err(broken) => panic!("seed {seed} breaks a promise: {broken}"),
        }
    }
    println!("{applied} applied, {rejected} rejected, {unknown} unknown");
    (applied, rejected, unknown)
}

#[test]
fn staged_writes_are_applied_once_and_only_with_their_response_under_every_fault() {
    for faults in [
        Faults::none(),
        Faults::network(),
        Faults::crashes(),
        Faults::everything(),
        Faults::everything().under_hold(),
    ] {
        let (applied, rejected, unknown) = play_staged(&faults);
        assert!(applied > 0 && rejected > 0, "{faults:?}");
        assert!(unknown > 0 || faults.lost == 0, "{faults:?}");
    }
}

#[test]
fn the_books_show_a_store_without_fences() {
    let faults = Faults::everything().without_fences();
    let broken = (0..2_000).find_map(|seed| staging::play(seed, &faults).err());
    assert!(
        broken.is_some(),
        "an unfenced transaction must be applied twice"
    );
}

#[test]
fn a_run_after_a_crash_uses_every_step_that_was_recorded_before_it() {
    let counts = play(&Faults::crashes().with_steps());
    assert!(counts.crashed > 0 && counts.second_runs > 0 && counts.resumed > 0);
    let counts = play(&Faults::everything().with_steps());
    assert!(counts.crashed > 0 && counts.late_responses > 0 && counts.resumed > 0);
}

#[test]
fn under_hold_every_step_runs_once() {
    let counts = play(&Faults::everything().with_steps().under_hold());
    assert!(counts.unresolved > 0 && counts.resumed > 0 && counts.panicked > 0);
}

#[test]
fn a_seed_always_gives_the_same_history() {
    let faults = Faults::everything();
    for seed in 0..20 {
        let again = || format!("{:?}", schedule::play(seed, &faults));
        assert_eq!(again(), again());
    }
}

#[test]
fn the_checker_finds_a_store_without_fences() {
    let faults = Faults::everything().without_fences();
    let broken =
        (0..2_000).find_map(|seed| checker::check(&schedule::play(seed, &faults), &faults).err());
    assert!(broken.is_some(), "an unfenced store must break a promise");
}
