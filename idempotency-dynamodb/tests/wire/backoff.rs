//! How long a store pauses between its sends, and when it stops sending.

use std::time::Duration;

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{StoreErrorKind, WriteOutcome};
use idempotency_dynamodb::DynamoDbStore;

use crate::script::{Reply, Wire};
use crate::{claim, id};

fn store(wire: &Wire, region: &'static str) -> DynamoDbStore {
    let builder = DynamoDbStore::builder().table("payments");
    builder
        .sdk_config(&wire.sdk_config(region))
        .build()
        .unwrap()
}

/// The sends and the pauses of one claim on a wire that gives these replies.
async fn claimed(
    region: &'static str,
    replies: Vec<Reply>,
) -> (WriteOutcome, usize, Vec<Duration>) {
    let wire = Wire::new(replies);
    let store = store(&wire, region);
    // A task that never waits is made to wait by tokio at some point, and its sends seem to time out.
    tokio::task::yield_now().await;
    let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
    (write, wire.requests().len(), wire.pauses())
}

/// Every failure that may pass by itself, each with a region and so a retry quota of its own.
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
async fn four_failed_sends_cost_375_ms_of_pauses_at_most_and_the_pauses_are_random() {
    let ceilings = [25, 50, 100, 200].map(Duration::from_millis);
    let mut firsts = Vec::new();
    for (region, failure) in failures() {
        for _ in 0..10 {
            let mut replies = vec![failure.clone(); 4];
            replies.push(Reply::ok());
            let (write, sends, pauses) = claimed(region, replies).await;
            assert!(matches!(write, WriteOutcome::Applied), "{write:?}");

            assert_eq!((sends, pauses.len()), (5, 4));
            for (pause, ceiling) in pauses.iter().zip(ceilings) {
                assert!(*pause <= ceiling, "{failure:?}: {pauses:?}");
            }
            firsts.push(pauses[0]);
        }
    }
    // Full jitter: of 100 pauses some are in the lower and some in the upper third, but for one case in 10^17.
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
            matches!(write, WriteOutcome::Failed { .. }),
            "{failure:?}: {write:?}"
        );
        assert_eq!(sends, 5);
    }
}

/// The quota is the process's, one for each region: this test has a region of its own.
#[tokio::test]
async fn under_lasting_overload_the_retry_quota_ends_the_repetitions() {
    let throttled = Reply::error("ThrottlingException", "slow down");
    let wire = Wire::new(vec![throttled; 1_000]);
    let store = store(&wire, "sa-east-1");
    let (mut before, mut last) = (0, 5);
    for _ in 0..150 {
        tokio::task::yield_now().await;
        let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
        let WriteOutcome::Failed {
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
