//! Properties of everything that takes external input: events, expressions, items, variables, clocks.
//!
//! A longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-tests --test lambda properties`. A failing case is
//! shrunk and printed. Write a unit test for it; failing cases are not kept in files.

mod canonical;
mod environment;
mod item;
mod selection;
mod shapes;
mod strategies;

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
