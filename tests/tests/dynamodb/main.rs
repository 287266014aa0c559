//! The whole framework on the embedded DynamoDB, with each client of the store: requests, faults on the wire, crashes, transfers of
//! money, and the conformance suite.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod conformance;
mod crash_matrix;
mod events;
mod faults;
mod large;
mod resolved;
mod steps;
mod transfers;

/// The tests of this program run again with the other client, except the transfers, and the stores that send no request.
#[test]
fn each_test_passes_with_the_sdk_client() {
    idempotency_tests::with_the_sdk_client(&[
        "--skip",
        "transfers::",
        "--skip",
        "conformance::a_store_",
        "--skip",
        "conformance::the_store_in_memory",
        "--skip",
        "each_test_passes",
    ]);
}
