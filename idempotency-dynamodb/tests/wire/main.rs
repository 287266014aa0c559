//! The real SDK with a scripted HTTP client: how the store reports each result of a call.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

mod backoff;
mod errors;
mod given_up;
mod keys;
mod outcomes;
mod requests;
mod script;
mod sends;

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Field, Record, RecordId, Status};
use idempotency_core::store::{StoreError, WriteOutcome};
use idempotency_core::time::EpochSeconds;
use idempotency_dynamodb::DynamoDbStore;
use script::{Reply, Wire};

fn store(wire: &Wire) -> DynamoDbStore {
    DynamoDbStore::builder()
        .table("payments")
        .client(wire.client())
        .build()
        .unwrap()
}

fn id() -> RecordId {
    RecordId::new("charge#42")
}

fn claim() -> Record {
    Record {
        expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
        status: Field::Value(Status::InProgress),
        ..Record::default()
    }
}

/// Returns the outcome of a claim.
async fn claimed(wire: &Wire) -> WriteOutcome {
    store(wire).put(&id(), &claim(), &Condition::NoRecord).await
}

/// Returns how a claim with these replies fails: whether it may have been applied, and the error.
async fn failed(replies: impl IntoIterator<Item = Reply>) -> (bool, StoreError) {
    let wire = Wire::new(replies);
    let WriteOutcome::Failed {
        maybe_applied,
        error,
    } = claimed(&wire).await
    else {
        panic!("the claim did not fail")
    };
    wire.requests();
    (maybe_applied, error)
}
