//! The outcome of a write: applied, condition failed, or maybe applied.

use std::time::Duration;

use aws_sdk_dynamodb::config::{IdentityCache, SharedIdentityCache};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{Change, SendLog, Store, StoreReply, StoreRequest, Write};
use idempotency_dynamodb::DynamoDbStore;

use super::{KIND, assert_applied, claim, claimed, fence, id, replies, store};
use idempotency_testkit::store::StoreExt;
use crate::script::{Reply, Timeout, Wire, credentials};
use crate::{columns, rows, said, text_of};

#[tokio::test]
async fn the_outcome_of_a_claim_follows_from_all_its_replies() {
    for row in rows(include_str!("claims.txt")) {
        let [words, outcome, text] = columns(row);
        let wire = Wire::new(replies(words));
        let reply = claimed(&store(&wire)).await;
        assert_eq!(said(&reply), outcome, "{row}");
        assert!(text_of(&reply).starts_with(text), "{row}: {reply:?}");
        wire.requests();
    }
}

#[tokio::test]
async fn every_write_reports_a_failed_condition_without_a_record() {
    for write in [
        Write::Put(claim()),
        Write::Update(Change::default()),
        Write::Delete,
    ] {
        let wire = Wire::new(replies("ConditionalCheckFailedException"));
        let reply = store(&wire).write(&id(), write, &fence()).await;
        assert_eq!(said(&reply), "refused by no record");
        wire.requests();
    }
}

#[tokio::test]
async fn a_send_that_ends_with_the_timeout_of_the_call_may_have_been_applied() {
    let wire = Wire::new([Reply::Silence]);
    let client = wire.client_of(Some(credentials()), Timeout::OfCall);
    let store = KIND.with_client(client).build().unwrap();
    assert_eq!(said(&claimed(&store).await), "Unreachable, maybe applied");
    wire.requests();
}

// What the send log knows about a request whose caller stopped waiting: before the first send, between two sends, or during
// one.

/// Returns what the log knows about a claim whose caller stops waiting after these replies. On a table with a sort key, the first
/// claim is preceded by a read.
async fn given_up(composite: bool, replies: impl Iterator<Item = Reply>) -> StoreReply {
    let wire = Wire::new(replies).with_endless_pauses();
    let mut table = KIND.with_config(&wire.sdk_config("eu-central-1"));
    if composite {
        table = table.composite_key("sk", "idempotency#charge");
    }
    let store = table.build().unwrap();
    let (id, put, log) = (id(), Write::Put(claim()), SendLog::new());
    let put = store.send(StoreRequest::write(&id, &put, &Condition::NoRecord), &log);
    let caller = async {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        write = put => panic!("the write ended: {write:?}"),
        () = caller => {}
    }
    wire.requests();
    let (maybe_applied, error) = log.timed_out(&store);
    StoreReply::Failed {
        maybe_applied,
        error,
    }
}

#[tokio::test]
async fn a_claim_that_is_given_up_may_have_been_applied_as_its_row_says() {
    for row in rows(include_str!("given_up.txt")) {
        let [composite, words, outcome, text] = columns(row);
        let given_up = given_up(composite == "yes", replies(words)).await;
        assert_eq!(said(&given_up), outcome, "{row}");
        assert!(text_of(&given_up).contains(text), "{row}: {given_up:?}");
    }
}

#[test]
fn a_claim_that_was_never_sent_names_what_the_client_can_have_waited_for() {
    let (wire, log) = (Wire::new([]), SendLog::new());
    log.preparing();
    let (maybe_applied, error) = log.timed_out(&store(&wire));
    assert!(!maybe_applied);
    for cause in ["nothing was sent to DynamoDB table", "`warm_up`", "adaptive retry mode"] {
        assert!(error.to_string().contains(cause), "{error}");
    }
}

// The pauses between the sends of a store, and the number of sends.

fn store_in_region(wire: &Wire, region: &'static str) -> DynamoDbStore {
    KIND.store(&wire.sdk_config(region))
}

/// Returns the sends and the pauses of one claim with these replies.
async fn claimed_in_region(
    region: &'static str,
    words: &str,
) -> (StoreReply, usize, Vec<Duration>) {
    let wire = Wire::new(replies(words));
    let store = store_in_region(&wire, region);
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    let write = claimed(&store).await;
    (write, wire.requests().len(), wire.pauses())
}

/// Every temporary failure, each with its own region and therefore its own retry quota.
const FAILURES: [(&str, &str); 4] = [
    ("eu-north-1", "ThrottlingException"),
    ("eu-south-1", "ProvisionedThroughputExceededException"),
    ("eu-west-2", "InternalServerError"),
    ("eu-west-3", "Reset"),
];

#[tokio::test]
async fn five_sends_have_random_pauses_of_at_most_375_ms_and_then_the_store_gives_up() {
    let ms = Duration::from_millis;
    let ceilings = [25, 50, 100, 200].map(ms);
    let mut firsts = Vec::new();
    for (region, failure) in FAILURES {
        for _ in 0..10 {
            let words = [[failure; 4].join(", ").as_str(), "Ok"].join(", ");
            let (write, sends, pauses) = claimed_in_region(region, &words).await;
            assert_applied(&write);
            assert_eq!((sends, pauses.len()), (5, 4));
            for (pause, ceiling) in pauses.iter().zip(ceilings) {
                assert!(*pause <= ceiling, "{failure}: {pauses:?}");
            }
            firsts.push(pauses[0]);
        }
        let words = [failure; 5].join(", ");
        let (write, sends, _) = claimed_in_region(region, &words).await;
        assert!(matches!(write, StoreReply::Failed { .. }), "{write:?}");
        assert_eq!(sends, 5);
    }
    // Full jitter: of 40 pauses, some are in the lower and some in the upper third, except in one of 10^6 runs.
    assert!(firsts.iter().any(|pause| *pause < ms(8)));
    assert!(firsts.iter().any(|pause| *pause > ms(17)));
}

/// The quota belongs to the process and the region, so this test uses its own region.
#[tokio::test]
async fn under_lasting_overload_the_retry_quota_stops_the_repetitions() {
    let wire = Wire::new(std::iter::repeat_n(
        Reply::error("ThrottlingException", "later"),
        1_000,
    ));
    let store = store_in_region(&wire, "sa-east-1");
    let (mut before, mut last) = (0, 5);
    for _ in 0..150 {
        tokio::task::yield_now().await;
        assert_eq!(said(&claimed(&store).await), "Throttled");
        let sends = wire.sends() - before;
        assert!(sends <= last, "{sends} sends after a call with {last}");
        (before, last) = (wire.sends(), sends);
    }
    assert_eq!(last, 1);
}

// The timeout of one send if the caller waits for a limited time.

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
    let store = KIND.with_config(&config.build()).build().unwrap();
    let (id, put, log) = (id(), Write::Put(claim()), SendLog::with_limit(limit));
    // tokio suspends a task that never waits after some time, and its sends would appear to time out.
    tokio::task::yield_now().await;
    let write = store
        .send(StoreRequest::write(&id, &put, &Condition::NoRecord), &log)
        .await;
    assert_applied(&write);
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
