//! Protected functions in a process that counts as a Lambda environment: there each call must know its invocation.
//!
//! These tests are a program of their own because that is a property of the whole process.
#![allow(clippy::unwrap_used)]

mod http;
mod invocation;
mod layer;

use idempotency_tests::Harness;

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}
