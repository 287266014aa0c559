//! Writes to the user's own items on the embedded DynamoDB: versioned items, and updates that count once.
#![allow(clippy::unwrap_used)]

mod dynamodb_local;
mod once;
mod versioned;

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};

const TABLE: &str = "accounts";

type Item = HashMap<String, AttributeValue>;

/// Starts a database with the table, whose partition key is `id`.
async fn database() -> EmbeddedDynamoDb {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    db.create_table(TableSpec::new(TABLE)).await.unwrap();
    db
}

/// Returns a client that sends again almost at once, at most `sends` times.
fn client(db: &EmbeddedDynamoDb, sends: u32) -> Client {
    let retries = RetryConfig::standard()
        .with_max_attempts(sends)
        .with_initial_backoff(Duration::from_millis(1));
    // By default the SDK stops sending again after some hundred failures in the process.
    let tokens = TokenBucket::builder().capacity(1_000_000).build();
    let partition = RetryPartition::custom("tests").token_bucket(tokens).build();
    let config = Builder::from(&db.sdk_config())
        .retry_config(retries)
        .retry_partition(partition);
    Client::from_conf(config.build())
}

/// Starts a database, with a client that sends each request at most `sends` times.
async fn started(sends: u32) -> (EmbeddedDynamoDb, Client) {
    let db = database().await;
    let client = client(&db, sends);
    (db, client)
}

fn key(id: &str) -> [(&'static str, AttributeValue); 1] {
    [("id", text(id))]
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Returns the current item.
async fn stored(db: &EmbeddedDynamoDb, id: &str) -> Option<Item> {
    let read = db
        .client()
        .get_item()
        .table_name(TABLE)
        .consistent_read(true);
    read.key("id", text(id)).send().await.unwrap().item
}

fn number_in(item: &Item, attribute: &str) -> i64 {
    item[attribute].as_n().unwrap().parse().unwrap()
}

/// Chooses a fault for each write by its number, counted from 1. From its third send on, a call meets no fault, so that
/// no call runs out of sends.
fn disturb(db: &EmbeddedDynamoDb, mut choose: impl FnMut(u64) -> Option<Fault> + Send + 'static) {
    let mut count = 0;
    db.inject_chosen(move |request| {
        let spared = request.attempt.is_none_or(|attempt| attempt >= 3);
        if request.operation == "GetItem" || spared {
            return None;
        }
        count += 1;
        choose(count)
    });
}

/// Loses the reply of each write that `choose` selects by its number.
fn lose_replies(db: &EmbeddedDynamoDb, mut choose: impl FnMut(u64) -> bool + Send + 'static) {
    disturb(db, move |count| {
        choose(count).then(|| Fault::on_any().drop_reply())
    });
}
