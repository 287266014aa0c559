//! Properties of everything that takes external input: events, expressions, items, variables, clocks.
//!
//! A longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-tests --test properties`. A failing case is
//! shrunk and printed. Write a unit test for it; failing cases are not kept in files.
#![allow(clippy::unwrap_used)]

mod canonical;
mod classification;
mod environment;
mod event;
mod expression;
mod item;
mod memory;
mod selection;
mod shapes;
mod strategies;
mod time;
mod token;

use proptest::test_runner::Config;

/// Returns a configuration with this many cases, unless `PROPTEST_CASES` sets the number.
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
