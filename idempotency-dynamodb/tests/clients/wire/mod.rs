//! A real client with a scripted HTTP client: how the store reports each result of a call.

mod errors;
mod outcomes;
mod requests;
mod script;
mod transactions;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Field, Record, RecordId, Status};
use idempotency_core::store::{StoreError, StoreReply};
use idempotency_core::time::EpochSeconds;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder};

use super::KIND;
use script::{Reply, Wire};

fn store(wire: &Wire) -> DynamoDbStore {
    with_client(wire.client()).build().unwrap()
}

/// Returns the builder of a store with this client, or with the lean client made from it.
fn with_client(client: Client) -> DynamoDbStoreBuilder {
    KIND.with_client(client, "payments")
}

/// Returns the builder of a store with a client from this configuration.
fn with_config(config: &SdkConfig) -> DynamoDbStoreBuilder {
    KIND.store(config, "payments")
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
async fn claimed(wire: &Wire) -> StoreReply {
    store(wire).put(&id(), &claim(), &Condition::NoRecord).await
}

/// Returns how a claim with these replies fails: whether it may have been applied, and the error.
async fn failed(replies: impl IntoIterator<Item = Reply>) -> (bool, StoreError) {
    let wire = Wire::new(replies);
    let failed = failure(claimed(&wire).await);
    wire.requests();
    failed
}

/// Returns how a request failed: whether it may have been applied, and the error.
#[track_caller]
fn failure(reply: StoreReply) -> (bool, StoreError) {
    match reply {
        StoreReply::Failed {
            maybe_applied,
            error,
        } => (maybe_applied, error),
        other => panic!("the request did not fail: {other:?}"),
    }
}

#[track_caller]
fn assert_applied(reply: &StoreReply) {
    assert!(matches!(reply, StoreReply::Applied { .. }), "{reply:?}");
}
