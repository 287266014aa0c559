//! The timeout of one send if the caller waits for a limited time.

use std::time::Duration;

use aws_sdk_dynamodb::config::{IdentityCache, SharedIdentityCache};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{SendLog, Store, StoreReply, StoreRequest, Write};

use super::script::{Reply, Wire};
use super::{claim, id, with_config};

/// Returns the timeouts of the sends of a claim whose first send hangs, without the pause between the sends. They are the same
/// for a client with a cache of credentials and for one without, whose calls the store configures one by one.
async fn times(limit: Duration) -> Vec<Duration> {
    let with = times_of_client(limit, Some(IdentityCache::lazy().build())).await;
    assert_eq!(times_of_client(limit, None).await, with);
    with
}

async fn times_of_client(limit: Duration, cache: Option<SharedIdentityCache>) -> Vec<Duration> {
    let wire = Wire::new([Reply::Silence, Reply::ok()]);
    let mut config = wire.sdk_config("eu-central-2").into_builder();
    config.set_identity_cache(cache);
    let store = with_config(&config.build()).build().unwrap();
    let (id, claim, log) = (id(), claim(), SendLog::with_limit(limit));
    let put = Write::Put(claim);
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    let write = store
        .send(StoreRequest::write(&id, &put, &Condition::NoRecord), &log)
        .await;
    assert!(matches!(write, StoreReply::Applied { .. }), "{write:?}");
    assert_eq!(wire.requests().len(), 2);
    let mut times = wire.sleeps();
    // The others are the pause between the sends and the SDK's timeout for credentials.
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
async fn a_caller_with_enough_time_keeps_the_timeout_of_the_client() {
    let send_timeout = Duration::from_millis(1_500);
    let times = times(Duration::from_secs(9)).await;
    assert_eq!(times, [send_timeout, send_timeout]);
}
