//! The tests of `conformance`, `dynamodb` and `processes` with the lean client: costs, faults, crashes, the conformance suite, and
//! functions in processes of their own.
//!
//! The files are compiled a second time, so that no test has to be written twice. `idempotency_tests` looks at the name of the
//! program to choose the client.
#![allow(clippy::unwrap_used)]

#[path = "conformance/main.rs"]
mod conformance;
#[path = "dynamodb/main.rs"]
mod dynamodb;
#[path = "processes/main.rs"]
mod processes;

#[test]
fn these_tests_have_the_lean_client() {
    assert!(idempotency_tests::has_lean_client());
}
