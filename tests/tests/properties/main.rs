//! Properties of everything that takes input from outside: events, expressions, items, variables, clocks.
//!
//! A longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-tests --test properties`. A failing case is
//! shrunk and printed; it belongs into a test of its own, so nothing is kept in files.
#![allow(clippy::unwrap_used)]

mod canonical;
mod environment;
mod event;
mod expression;
mod given;
mod item;
mod judgement;
mod memory;
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
