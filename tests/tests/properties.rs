//! Properties of everything that takes input from outside: events, expressions, items, variables, clocks.
//!
//! A longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-tests --test properties`. A failing case is
//! shrunk and printed; it belongs into a test of its own, so nothing is kept in files.
#![allow(clippy::unwrap_used)]

#[path = "properties/canonical.rs"]
mod canonical;
#[path = "properties/environment.rs"]
mod environment;
#[path = "properties/event.rs"]
mod event;
#[path = "properties/expression.rs"]
mod expression;
#[path = "properties/given.rs"]
mod given;
#[path = "properties/item.rs"]
mod item;
#[path = "properties/judgement.rs"]
mod judgement;
#[path = "properties/memory.rs"]
mod memory;
#[path = "properties/time.rs"]
mod time;

use proptest::test_runner::Config;

/// This many cases, unless `PROPTEST_CASES` says how many.
fn cases(cases: u32) -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases, ..config },
    }
}
