//! Updates of a counter that count once.

mod faults;
mod keys;
mod model;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use dynamodb_writes::once::{self, Once, OnceError, OnceOutcome, OnceUpdate, Plan};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;

use super::{TABLE, key, number, number_in, started, stored};

/// The length of a bucket with [`plan`].
const BUCKET: Duration = Duration::from_secs(900);

/// How long a key is known at least, with [`plan`].
const LIFETIME: Duration = Duration::from_secs(4_440);

/// How far clocks may differ, with [`plan`].
const SKEW: Duration = Duration::from_secs(60);

/// The start of a bucket, in milliseconds since the epoch.
const START: i64 = 900_000 * 2_000_000;

fn plan() -> Plan {
    once::plan(0.1, LIFETIME)
}

/// Returns an `Once` whose clock the test moves. It starts at this time.
fn once_at(milliseconds: i64) -> (Once, ManualClock) {
    let clock = ManualClock::at(milliseconds);
    let once = Once::new(plan()).unwrap();
    (once.clock(Arc::new(clock.clone())), clock)
}

/// Starts a database, with a client and an `Once` whose clock the test moves.
async fn counting(sends: u32) -> (EmbeddedDynamoDb, Client, Once, ManualClock) {
    let (db, client) = started(sends).await;
    let (once, clock) = once_at(START);
    (db, client, once, clock)
}

/// Returns an update that counts an event.
fn count(once: &Once, event: &str) -> OnceUpdate {
    once.update(TABLE, key("c"), event)
        .expression("ADD units :n")
        .value(":n", number(1))
}

async fn send(client: &Client, update: OnceUpdate) -> OnceOutcome {
    update.send(client).await.unwrap()
}

/// Counts the event, and returns true if this call applied the update.
async fn counted(client: &Client, once: &Once, event: &str) -> bool {
    send(client, count(once, event)).await.is_applied()
}

async fn units(db: &EmbeddedDynamoDb) -> i64 {
    number_in(&stored(db, "c").await.unwrap(), "units")
}

/// Returns the number of updates that arrived.
fn updates(db: &EmbeddedDynamoDb) -> usize {
    let requests = db.requests();
    let updates = requests.iter();
    updates
        .filter(|request| request.operation == "UpdateItem")
        .count()
}

pub(super) fn condition_failed(
    result: Result<OnceOutcome, OnceError>,
) -> dynamodb_writes::ConditionFailed {
    match result.unwrap_err() {
        OnceError::ConditionFailed(failed) => failed,
        other => panic!("a failed condition is expected: {other}"),
    }
}
