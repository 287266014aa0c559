//! How long one send may take, where the caller waits for a certain time.

use std::time::Duration;

use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{SendLog, Store, Write, WriteOutcome};
use idempotency_dynamodb::DynamoDbStore;

use crate::script::{Reply, Wire};
use crate::{claim, id};

/// The times that the sends of a claim might take whose first send hangs, with the pause between them left out.
async fn times(limit: Duration) -> Vec<Duration> {
    let wire = Wire::new([Reply::Silence, Reply::ok()]);
    let builder = DynamoDbStore::builder().table("payments");
    let store = builder
        .sdk_config(&wire.sdk_config("eu-central-2"))
        .build()
        .unwrap();
    let (id, claim, log) = (id(), claim(), SendLog::within(limit));
    let put = Write::Put(claim);
    // A task that never waits is made to wait by tokio at some point, and its sends seem to time out.
    tokio::task::yield_now().await;
    let write = store.write(&id, &put, &Condition::NoRecord, &log).await;
    assert!(matches!(write, WriteOutcome::Applied), "{write:?}");
    assert_eq!(wire.requests().len(), 2);
    let mut times = wire.sleeps();
    // The rest are the pause between the sends and the SDK's bound on fetching credentials.
    times.retain(|time| (50..10_000).contains(&time.as_millis()));
    times
}

#[tokio::test]
async fn a_send_that_hangs_is_repeated_while_the_caller_still_waits() {
    let ms = Duration::from_millis;
    assert_eq!(times(ms(600)).await, [ms(300), ms(300)]);
    assert_eq!(times(ms(60)).await, [ms(100), ms(100)]);
}

#[tokio::test]
async fn a_caller_who_has_time_waits_for_a_send_as_long_as_the_client_allows() {
    let attempt = Duration::from_millis(1_500);
    let times = times(Duration::from_secs(9)).await;
    assert_eq!(times, [attempt, attempt]);
}
