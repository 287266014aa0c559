//! Deterministic simulation of the real engine and cache over a simulated network: random schedules from a seed, a virtual
//! clock, crashes at await points, lost replies, late arrivals, throttling, delays beyond the lease, clocks that differ or are set back, and
//! processes that stand still.
//!
//! A failing seed is printed. To replay it: `SIMULATION_SEED=17 cargo test -p idempotency-tests --test simulation`.
//! A longer run: `SIMULATION_SEEDS=200000 cargo test --release -p idempotency-tests --test simulation`.
#![allow(clippy::unwrap_used)]

mod executor;
mod network;
mod recorder;
mod schedule;
mod staging;
mod world;

use idempotency_testkit::history::{Promise, Promises, check};
use recorder::{Counts, Recorded};
use world::Faults;

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

/// Plays every seed with a mix of faults and checks each history against the promises. Each of the counts in `happens` must not be zero.
fn play(mix: &str, happens: &str) {
    let (faults, mut counts) = (Faults::of(mix), Counts::default());
    for seed in seeds() {
        let history = schedule::play(seed, &faults);
        if let Some(broken) = history.broken(&faults).first() {
            panic!("seed {seed}: {broken}\n{history:#?}");
        }
        let second_run = Promises::none().with(Promise::SecondRunUnderHold);
        let second_runs = check(&history.events, second_run).len();
        for (name, times) in history
            .counts
            .into_iter()
            .chain([("second_runs", second_runs)])
        {
            *counts.entry(name).or_default() += times;
        }
    }
    println!("{mix}, {} schedules: {counts:?}", seeds().count());
    for name in happens.split(' ') {
        let happened = counts.get(name).is_some_and(|times| *times > 0);
        assert!(happened, "{mix}: {name} never happened");
    }
}

#[test]
fn with_only_slow_owners_callers_agree_and_a_late_owner_gets_the_winners_response() {
    play("calm", "replayed in_progress late_responses shared");
}

#[test]
fn with_every_network_fault_callers_still_agree() {
    play("network", "replayed unknown ran");
}

#[test]
fn with_crashes_at_every_await_point_callers_still_agree_and_no_key_is_stuck() {
    play("crashes", "crashed second_runs shared first_again");
}

#[test]
fn with_all_faults_at_once_and_clocks_that_differ_callers_still_agree() {
    play("everything", "crashed unknown late_responses panicked");
}

#[test]
fn under_hold_there_is_no_second_run_after_one_that_may_have_started() {
    play("everything hold", "unresolved panicked");
}

#[test]
fn in_an_outage_only_calls_of_that_policy_run_unprotected_and_other_callers_agree() {
    play("everything outage unprotected", "unprotected replayed");
    play("everything outage breaker", "circuits_open ran");
}

#[test]
fn an_open_circuit_lets_only_calls_of_that_policy_run_unprotected() {
    let mix = "network outage unprotected breaker";
    play(mix, "unprotected circuits_open replayed");
}

#[test]
fn with_stale_reads_before_the_claim_callers_still_agree_under_every_fault() {
    play("calm read_first", "replayed in_progress late_responses");
    let mix = "everything read_first";
    play(mix, "crashed unknown late_responses replayed panicked");
}

#[test]
fn with_stale_reads_before_the_claim_there_is_no_second_run_under_hold() {
    play("everything read_first hold", "unresolved panicked");
}

#[test]
fn writes_are_applied_once_and_only_with_their_response_under_every_fault() {
    for mix in [
        "calm",
        "network",
        "crashes",
        "everything",
        "everything hold",
        "calm opens",
        "network opens",
        "crashes opens",
        "everything opens",
        "everything opens hold",
    ] {
        let faults = Faults::of(mix);
        let (mut applied, mut rejected, mut unknown, mut opened) = (0, 0, 0, 0);
        for seed in seeds() {
            let played = staging::play(seed, &faults);
            if let Some(broken) = played.history.broken(&faults).first() {
                panic!("seed {seed}: {broken}\n{played:#?}");
            }
            assert!(played.ledger_is_right(), "seed {seed}: {played:#?}");
            applied += usize::from(played.is_applied());
            rejected += played.count("rejected");
            unknown += played.count("unknown");
            opened += played.count("opened");
        }
        println!(
            "{mix}: {applied} applied, {rejected} rejected, {unknown} unknown, {opened} opened"
        );
        assert!(applied > 0 && rejected > 0, "{mix}");
        assert!(unknown > 0 || faults.lost == 0, "{mix}");
        assert_eq!(opened > 0, faults.opens > 0, "{mix}");
    }
}

#[test]
fn a_run_after_a_crash_uses_every_step_that_was_recorded_before_it() {
    play("crashes steps", "crashed second_runs resumed");
    play("everything steps", "crashed late_responses resumed");
}

#[test]
fn under_hold_every_step_runs_once() {
    play("everything steps hold", "unresolved resumed panicked");
}

#[test]
fn under_renewed_leases_callers_agree_and_no_run_counts_on_a_lease_that_it_has_lost() {
    play("calm renew", "renewed replayed in_progress shared");
    play("network renew", "renewed unknown replayed");
    play("network outage renew", "renewed lost");
    play("crashes steps renew", "renewed crashed resumed");
    play("crashes network renew", "renewed crashed unknown");
    play("everything renew", "renewed crashed panicked");
    play("everything renew hold", "renewed unresolved panicked");
}

#[test]
fn a_pause_longer_than_the_lease_ends_in_lost_ownership_or_the_winners_response() {
    let happens = "paused renewed lost lost_ownership late_responses";
    play("calm renew pauses", happens);
    play("crashes network renew pauses", happens);
    play("calm steps renew pauses", "paused renewed resumed");
}

#[test]
fn a_run_whose_wall_clock_is_set_back_counts_its_lease_by_the_monotonic_one() {
    play("calm renew set_back", "renewed replayed");
    play("network outage renew set_back", "renewed lost");
    let mix = "crashes network renew set_back pauses";
    play(mix, "renewed lost paused lost_ownership");
}

#[test]
fn a_seed_always_gives_the_same_history() {
    let faults = Faults::of("everything");
    for seed in 0..20 {
        assert_eq!(schedule::play(seed, &faults), schedule::play(seed, &faults));
    }
}

fn breaks(promise: Promise, history: &Recorded, faults: &Faults) -> bool {
    let broken = history.broken(faults);
    broken.iter().any(|broken| broken.promise == promise)
}

#[test]
fn the_checker_finds_a_store_that_drops_what_it_confirms_and_a_process_with_a_wall_clock_alone() {
    for (mix, promise) in [
        ("crashes steps drops_steps", Promise::StepAgain),
        ("calm drops_claims", Promise::RunWithoutClaim),
        ("network renew set_back wall_only", Promise::HeldThoughGone),
    ] {
        let faults = Faults::of(mix);
        let found = |seed| breaks(promise, &schedule::play(seed, &faults), &faults);
        assert!((0..2_000).any(found), "{mix}");
    }
}

#[test]
fn the_checker_and_the_ledger_find_a_store_without_fences() {
    let faults = Faults::of("everything unfenced");
    assert!((0..2_000).any(|seed| breaks(
        Promise::OneResponse,
        &schedule::play(seed, &faults),
        &faults
    )));
    let twice = |seed| {
        let played = staging::play(seed, &faults);
        breaks(Promise::StagedTwice, &played.history, &faults) && !played.ledger_is_right()
    };
    assert!((0..2_000).any(twice));
}
