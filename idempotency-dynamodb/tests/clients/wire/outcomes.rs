//! The outcome of a write: applied, condition failed, or maybe applied.

use std::time::Duration;

use aws_sdk_dynamodb::config::{IdentityCache, SharedIdentityCache};
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Data, Field, OwnerToken};
use idempotency_core::store::{
    Change, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest, Write,
};
use idempotency_dynamodb::DynamoDbStore;
use serde_json::json;

use super::script::{Reply, Wire};
use super::{assert_applied, claim, claimed, failed, failure, id, store, with_client, with_config};

#[tokio::test]
async fn a_failed_condition_returns_the_record() {
    let item = json!({ "id": { "S": "charge#42" }, "status": { "S": "COMPLETED" }, "data": { "S": "[1]" } });
    let wire = Wire::new([Reply::conflict(&item)]);
    let StoreReply::ConditionFailed {
        existing,
        maybe_applied,
        ..
    } = claimed(&wire).await
    else {
        panic!("the condition did not fail")
    };
    assert_eq!(existing.unwrap().data, Field::Value(Data::new("[1]")));
    assert!(!maybe_applied);
    assert_eq!(wire.requests().len(), 1);
}

#[tokio::test]
async fn every_write_reports_a_failed_condition_without_a_record() {
    let failed_condition = code("ConditionalCheckFailedException");
    let wire = Wire::new(vec![failed_condition; 3]);
    let store = store(&wire);
    let fence = held_by(&OwnerToken::from_bytes([7; 16]));
    for write in [
        store.put(&id(), &claim(), &fence).await,
        store.update(&id(), &Change::default(), &fence).await,
        store.delete(&id(), &fence).await,
    ] {
        assert!(
            matches!(
                write,
                StoreReply::ConditionFailed {
                    existing: None,
                    maybe_applied: false,
                    ..
                }
            ),
            "{write:?}"
        );
    }
    wire.requests();
}

#[tokio::test]
async fn a_failed_condition_with_an_empty_item_returns_no_record() {
    let wire = Wire::new([Reply::conflict(&json!({}))]);
    assert!(matches!(
        claimed(&wire).await,
        StoreReply::ConditionFailed { existing: None, .. }
    ));
    wire.requests();
}

#[tokio::test]
async fn a_send_that_ends_with_the_timeout_of_the_call_may_have_been_applied() {
    let wire = Wire::new([Reply::Silence]);
    let client = wire.client_with_a_timeout_of_the_whole_call();
    let store = with_client(client).build().unwrap();
    let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
    assert!(
        matches!(
            write,
            StoreReply::Failed {
                maybe_applied: true,
                ..
            }
        ),
        "{write:?}"
    );
    wire.requests();
}

#[tokio::test]
async fn after_a_lost_reply_a_failed_condition_is_uncertain() {
    let item = json!({ "id": { "S": "charge#42" }, "status": { "S": "INPROGRESS" } });
    for first in [
        Reply::Reset,
        Reply::Silence,
        Reply::error("InternalServerError", "internal"),
        Reply::Text(502, "<html>bad gateway</html>"),
        Reply::Text(200, "{ \"Attributes\": "),
    ] {
        let wire = Wire::new([first.clone(), Reply::conflict(&item)]);
        match claimed(&wire).await {
            StoreReply::ConditionFailed {
                existing,
                maybe_applied,
                ..
            } => assert!(existing.is_some() && maybe_applied, "{first:?}"),
            // An unreadable success is not sent again.
            StoreReply::Failed { maybe_applied, .. } => {
                assert!(
                    maybe_applied && matches!(first, Reply::Text(200, _)),
                    "{first:?}"
                )
            }
            other => panic!("{first:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn after_a_throttled_send_a_failed_condition_is_certain() {
    for first in [
        Reply::error("ThrottlingException", "slow down"),
        Reply::Refused,
    ] {
        let wire = Wire::new([
            first,
            Reply::conflict(&json!({ "id": { "S": "charge#42" } })),
        ]);
        assert!(matches!(
            claimed(&wire).await,
            StoreReply::ConditionFailed {
                maybe_applied: false,
                ..
            }
        ));
        assert_eq!(wire.requests().len(), 2);
    }
}

#[tokio::test]
async fn an_internal_error_followed_by_success_is_applied() {
    let wire = Wire::new([Reply::error("InternalServerError", "internal"), Reply::ok()]);
    assert_applied(&claimed(&wire).await);
    assert_eq!(wire.requests().len(), 2);
}

fn code(code: &str) -> Reply {
    Reply::error(code, "slow down")
}

#[tokio::test]
async fn a_write_whose_sends_all_fail_in_one_way_may_have_been_applied_or_not() {
    use StoreErrorKind::{Internal, Throttled, Unreachable};
    let throughput = code("ProvisionedThroughputExceededException");
    let internal = code("InternalServerError");
    for (name, reply, maybe_applied, kind) in [
        ("throttled", code("ThrottlingException"), false, Throttled),
        ("above the throughput", throughput, false, Throttled),
        ("limited", code("RequestLimitExceeded"), false, Throttled),
        ("without a response", Reply::Silence, true, Unreachable),
        ("refused connections", Reply::Refused, false, Unreachable),
        ("broken connections", Reply::Reset, true, Unreachable),
        ("internal errors", internal, true, Internal),
    ] {
        let of =
            "DynamoDB table `payments` in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: ";
        let start = match reply {
            Reply::Silence => format!("no response in time from {of}"),
            Reply::Refused => format!("no connection to {of}"),
            Reply::Reset => format!("the connection broke before a response from {of}"),
            _ => String::new(),
        };
        let (reported, error) = failed(std::iter::repeat_n(reply, 3)).await;
        assert_eq!((reported, error.kind()), (maybe_applied, kind), "{name}");
        assert!(error.to_string().starts_with(&start), "{name}: {error}");
    }
}

#[tokio::test]
async fn one_lost_send_among_throttled_ones_makes_the_write_maybe_applied() {
    let throttled = || code("ThrottlingException");
    let (maybe_applied, error) = failed([Reply::Reset, throttled(), throttled()]).await;
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
}

// What the send log knows about a request whose caller stopped waiting: before the first send, between two sends, or during
// one.

/// Returns what the log knows about a claim whose caller stops waiting after these replies. On a table with a sort key, the first
/// claim is preceded by a read.
async fn given_up(composite: bool, replies: Vec<Reply>) -> (bool, StoreError) {
    let wire = Wire::new(replies).with_endless_pauses();
    let mut table = with_config(&wire.sdk_config("eu-central-1"));
    if composite {
        table = table.composite_key("sk", "idempotency#charge");
    }
    let store = table.build().unwrap();
    let (id, claim, log) = (id(), claim(), SendLog::new());
    let put = Write::Put(claim);
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
    log.timed_out("the table")
}

#[tokio::test]
async fn a_claim_that_is_given_up_after_or_during_a_send_may_be_applied_or_not() {
    use StoreErrorKind::{Internal, Throttled, Unreachable};
    let throttled = code("ProvisionedThroughputExceededException");
    let internal = code("InternalServerError");
    for (name, reply, maybe_applied, kind) in [
        ("after a throttled send", throttled, false, Throttled),
        ("after a reset", Reply::Reset, true, Unreachable),
        ("after an internal error", internal, true, Internal),
        ("after a refusal", Reply::Refused, false, Unreachable),
        ("during a send", Reply::Silence, true, Unreachable),
    ] {
        let words = match reply {
            Reply::Silence => ["gave no response", ""],
            Reply::Refused => ["no connection to", ""],
            _ if kind == Throttled => ["raise its capacity", "after one send"],
            _ => ["", ""],
        };
        let (reported, error) = given_up(false, vec![reply]).await;
        assert_eq!((reported, error.kind()), (maybe_applied, kind), "{name}");
        let text = error.to_string();
        let quoted = words.iter().all(|word| text.contains(word));
        assert!(quoted, "{name}: {text}");
    }
}

#[tokio::test]
async fn of_a_claim_that_is_given_up_the_read_of_the_keys_does_not_count() {
    use StoreErrorKind::{Throttled, Unreachable};
    let throttled = code("ProvisionedThroughputExceededException");
    let (read, silence) = (Reply::ok(), Reply::Silence);
    for (name, replies, maybe_applied, kind) in [
        ("in the read", vec![silence.clone()], false, Unreachable),
        ("throttled", vec![read.clone(), throttled], false, Throttled),
        ("in the write", vec![read, silence], true, Unreachable),
    ] {
        let (reported, error) = given_up(true, replies).await;
        assert_eq!((reported, error.kind()), (maybe_applied, kind), "{name}");
    }
}

// The pauses between the sends of a store, and the number of sends.

fn store_in_region(wire: &Wire, region: &'static str) -> DynamoDbStore {
    with_config(&wire.sdk_config(region)).build().unwrap()
}

/// Returns the sends and the pauses of one claim with these replies.
async fn claimed_in_region(
    region: &'static str,
    replies: Vec<Reply>,
) -> (StoreReply, usize, Vec<Duration>) {
    let wire = Wire::new(replies);
    let store = store_in_region(&wire, region);
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
            let (write, sends, pauses) = claimed_in_region(region, replies).await;
            assert_applied(&write);

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
        let (write, sends, _) = claimed_in_region(region, vec![failure.clone(); 5]).await;
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
    let store = store_in_region(&wire, "sa-east-1");
    let (mut before, mut last) = (0, 5);
    for _ in 0..150 {
        tokio::task::yield_now().await;
        let write = store.put(&id(), &claim(), &Condition::NoRecord).await;
        let (maybe_applied, error) = failure(write);
        assert!(!maybe_applied, "{error}");
        assert_eq!(error.kind(), StoreErrorKind::Throttled);
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
    let store = with_config(&config.build()).build().unwrap();
    let (id, claim, log) = (id(), claim(), SendLog::with_limit(limit));
    let put = Write::Put(claim);
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
