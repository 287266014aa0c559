//! On any payload, the number of steps of an expression is at most proportional to the payload's length. The first byte of the
//! input chooses the expression; the rest is the payload.
#![no_main]

use std::sync::LazyLock;

use idempotency_core::key::{Expression, Json};
use libfuzzer_sys::fuzz_target;

/// The limit. A float of five bytes can round to 309 digits, and a sort compares each value about twenty times: 309 * 20 / 5 steps.
const STEPS_PER_BYTE: usize = 2_000;

/// Each expression visits the payload once. Expressions that double their value at each step are limited by memory instead.
static EXPRESSIONS: LazyLock<Vec<Expression>> = LazyLock::new(|| {
    let lines = include_str!("steps.txt").lines();
    lines
        .map(|text| Expression::compile(text).expect("the expression is right"))
        .collect()
});

fuzz_target!(|input: (u8, &str)| {
    let (choice, payload) = input;
    let expression = &EXPRESSIONS[usize::from(choice) % EXPRESSIONS.len()];
    if let Ok(json) = Json::parse(payload) {
        let (steps, most) = (
            expression.steps(&json),
            STEPS_PER_BYTE * (payload.len() + 16),
        );
        assert!(
            steps <= most,
            "{expression}: {steps} steps for {} bytes",
            payload.len()
        );
    }
});
