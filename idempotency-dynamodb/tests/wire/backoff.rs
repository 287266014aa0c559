//! The pauses between the sends of a store, and the number of sends.

use std::time::Duration;

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{StoreErrorKind, StoreReply};
use idempotency_dynamodb::DynamoDbStore;

use super::script::{Reply, Wire};
use super::{claim, id, with_config};

fn store(wire: &Wire, region: &'static str) -> DynamoDbStore {
    with_config(&wire.sdk_config(region)).build().unwrap()
}

/// Returns the sends and the pauses of one claim with these replies.
async fn claimed(region: &'static str, replies: Vec<Reply>) -> (StoreReply, usize, Vec<Duration>) {
    let wire = Wire::new(replies);
    let store = store(&wire, region);
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
    (write, wire.requests().len(), wire.pauses())
}

/// Returns every temporary failure, each with its own region and therefore its own retry quota.
fn failures() -> [(&'static str, Reply); 4] {
    let throughput = "ProvisionedThroughputExceededException";
    [
        (
            "eu-north-1",
            Reply::error("ThrottlingException", "slow down"),
        ),
        ("eu-south-1", Reply::error(throughput, "slow down")),
        ("eu-west-2", Reply::error("InternalServerError", "internal")),
        ("eu-west-3", Reply::Reset),
    ]
}

#[tokio::test]
async fn four_failed_sends_have_random_pauses_of_at_most_375_ms() {
    let ceilings = [25, 50, 100, 200].map(Duration::from_millis);
    let mut firsts = Vec::new();
    for (region, failure) in failures() {
        for _ in 0..10 {
            let mut replies = vec![failure.clone(); 4];
            replies.push(Reply::ok());
            let (write, sends, pauses) = claimed(region, replies).await;
            assert!(matches!(write, StoreReply::Applied { .. }), "{write:?}");

            assert_eq!((sends, pauses.len()), (5, 4));
            for (pause, ceiling) in pauses.iter().zip(ceilings) {
                assert!(*pause <= ceiling, "{failure:?}: {pauses:?}");
            }
            firsts.push(pauses[0]);
        }
    }
    // Full jitter: of 100 pauses, some are in the lower and some in the upper third, except in one of 10^17 runs.
    assert!(firsts.iter().any(|pause| *pause < Duration::from_millis(8)));
    assert!(
        firsts
            .iter()
            .any(|pause| *pause > Duration::from_millis(17))
    );
}

#[tokio::test]
async fn after_five_sends_the_store_gives_up() {
    for (region, failure) in failures() {
        let (write, sends, _) = claimed(region, vec![failure.clone(); 5]).await;
        assert!(
            matches!(write, StoreReply::Failed { .. }),
            "{failure:?}: {write:?}"
        );
        assert_eq!(sends, 5);
    }
}

/// The quota belongs to the process and the region, so this test uses its own region.
#[tokio::test]
async fn under_lasting_overload_the_retry_quota_stops_the_repetitions() {
    let throttled = Reply::error("ThrottlingException", "slow down");
    let wire = Wire::new(vec![throttled; 1_000]);
    let store = store(&wire, "sa-east-1");
    let (mut before, mut last) = (0, 5);
    for _ in 0..150 {
        tokio::task::yield_now().await;
        let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
        let StoreReply::Failed {
            maybe_applied: false,
            error,
        } = write
        else {
            panic!("{write:?}")
        };
        assert_eq!(error.kind(), StoreErrorKind::Throttled);
        let sends = wire.sends() - before;
        assert!(sends <= last, "{sends} sends after a call with {last}");
        (before, last) = (wire.sends(), sends);
    }
    assert_eq!(last, 1);
}
