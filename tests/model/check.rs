//! Explores a scenario and prints the result.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use idempotency_testkit::history::{Promise, Promises};

use super::bounds::Bounds;
use super::promises::{Goal, HOLDS};
use super::rules::{PRODUCTION, Rules};
use super::scenario::Scenario;
use super::state::Action;

/// The largest number of states of a scenario. More would not fit into 16 GB.
const TOO_MANY: usize = 120_000_000;

/// Explores a scenario with production's rules. Every promise must hold in every state, and every goal must be reached.
pub(crate) fn explore(bounds: Bounds, goals: Vec<Goal>, threads: usize) {
    let (name, columns) = (bounds.name, bounds.columns());
    let (begun, promises) = (Instant::now(), bounds.promises());
    let checker = Scenario::new(bounds, &PRODUCTION, goals, promises)
        .checker()
        .threads(threads)
        .target_state_count(TOO_MANY)
        .spawn_bfs()
        .join();
    let exhaustive = checker.state_count() < TOO_MANY && checker.model().unbroken();
    println!(
        "\n| {columns} | {} | {} | {} | {} | {:.0} s |",
        grouped(checker.unique_state_count()),
        grouped(checker.state_count()),
        checker.max_depth() - 1,
        if exhaustive { "yes" } else { "no" },
        begun.elapsed().as_secs_f64(),
    );
    for (property, path) in checker.discoveries() {
        let expectation = &checker.model().property(property).expectation;
        if expectation.discovery_is_failure() {
            let broken = path.last_state().history.broken();
            let mut promises = Promise::ALL.iter();
            let promise = promises.find(|promise| broken.has(**promise));
            let steps = written(&path.into_actions());
            panic!("{name}: {property}, but not {promise:?}:{steps}");
        }
    }
    checker.assert_properties();
}

/// Explores a scenario with faulty rules until this promise is broken. Returns the length of the shortest path to it.
pub(crate) fn counterexample(
    fault: &str,
    bounds: Bounds,
    rules: &'static Rules,
    promise: Promise,
) -> usize {
    let promises = Promises::none().with(promise);
    let checker = Scenario::new(bounds, rules, Vec::new(), promises)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let Some(path) = checker.discovery(HOLDS) else {
        panic!("{fault}: no counterexample to: {}", promise.text());
    };
    let actions = path.into_actions();
    println!(
        "\n| {fault} | {} | {} |{}",
        promise.text(),
        actions.len(),
        written(&actions)
    );
    actions.len()
}

fn written(actions: &[Action]) -> String {
    let line = |action| format!("\n    {action:?}");
    actions.iter().map(line).collect()
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(" ")
}
