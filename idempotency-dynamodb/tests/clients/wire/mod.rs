//! A real client with a scripted HTTP client: how the store reports each result of a call.

mod errors;
mod outcomes;
mod pieces;
mod requests;
mod transactions;

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{StoreError, StoreReply, Write};
use idempotency_core::time::EpochSeconds;
use idempotency_dynamodb::DynamoDbStore;
use serde_json::{Value, json};

use super::KIND;
use idempotency_testkit::store::StoreExt;
use crate::script::{Reply, Wire};

fn store(wire: &Wire) -> DynamoDbStore {
    KIND.with_client(wire.client()).build().unwrap()
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

/// Returns the condition of the writes of an owner.
fn fence() -> Condition {
    held_by(&OwnerToken::from_bytes([7; 16]))
}

/// Returns the outcome of a claim.
async fn claimed(store: &DynamoDbStore) -> StoreReply {
    store.write(&id(), Write::Put(claim()), &Condition::NoRecord).await
}

/// A message that an error quotes, because it can contain no value of an item.
const MESSAGE: &str = "User: arn is not authorized to perform: dynamodb:PutItem";

/// Returns the replies of these words: what happens to a send, or an error code. `A+B` is a transaction that was cancelled with these
/// codes.
fn replies(words: &str) -> impl Iterator<Item = Reply> {
    words.split(", ").map(|word| match word {
        "Ok" => Reply::ok(),
        "Reset" => Reply::Reset,
        "Refused" => Reply::Refused,
        "Silence" => Reply::Silence,
        "BadGateway" => Reply::page(502, "<html>bad gateway</html>"),
        "Page" => Reply::page(200, "{}"),
        "Unreadable" => Reply::new(200, "{ \"Attributes\": "),
        "Empty" => Reply::conflict(&json!({})),
        "Held" => Reply::conflict(&json!({ "status": { "S": "INPROGRESS" } })),
        "Completed" => {
            Reply::conflict(&json!({ "status": { "S": "COMPLETED" }, "data": { "S": "[1]" } }))
        }
        code => match code.split_once('+') {
            Some((record, staged)) => transactions::cancelled(record, staged),
            None => Reply::error(code, MESSAGE),
        },
    })
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

/// Asserts that the requests are those of this name in `requests.json`.
#[track_caller]
fn assert_sent(wire: &Wire, name: &str) {
    let all: Value = serde_json::from_str(include_str!("requests.json")).unwrap();
    assert_eq!(json!(wire.requests()), all[name], "{name}");
}
