//! Any text compiles or is refused, and a compiled expression can be evaluated on any payload. The first line of the input
//! is the expression; the rest is the payload.
#![no_main]

use idempotency_core::key::{Expression, Json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (text, payload) = input.split_once('\n').unwrap_or((input, "null"));
    match Expression::compile(text) {
        Ok(expression) => {
            let payload = Json::parse(payload).unwrap_or(Json::Null);
            if let Ok(value) = expression.evaluate(&payload) {
                let _text = value.to_canonical();
            }
        }
        Err(error) => assert!(error.offset() <= text.len() && !error.to_string().is_empty()),
    }
});
