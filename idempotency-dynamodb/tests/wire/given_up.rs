//! What the send log knows about a request whose caller stopped waiting: before the first send, between two sends, or during
//! one.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{SendLog, Store, StoreError, StoreErrorKind, StoreRequest, Write};
use idempotency_dynamodb::DynamoDbStoreBuilder;

use super::script::{Reply, Wire};
use super::{claim, id, with_config};

/// Returns what the log knows about a claim whose caller stops waiting after these replies.
async fn given_up(replies: impl IntoIterator<Item = Reply>) -> (bool, StoreError) {
    of_table(|table| table, replies).await
}

/// Returns the same for a table with a sort key, on which the first claim is preceded by a read.
async fn given_up_on_a_composite_table(
    replies: impl IntoIterator<Item = Reply>,
) -> (bool, StoreError) {
    let composite = |table: DynamoDbStoreBuilder| table.composite_key("sk", "idempotency#charge");
    of_table(composite, replies).await
}

async fn of_table(
    keys: impl FnOnce(DynamoDbStoreBuilder) -> DynamoDbStoreBuilder,
    replies: impl IntoIterator<Item = Reply>,
) -> (bool, StoreError) {
    let wire = Wire::new(replies).with_endless_pauses();
    let table = with_config(&wire.sdk_config("eu-central-1"));
    let store = keys(table).build().unwrap();
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
async fn a_write_given_up_between_a_throttled_send_and_the_next_was_not_applied() {
    let throttled = Reply::error("ProvisionedThroughputExceededException", "slow down");
    let (maybe_applied, error) = given_up([throttled]).await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
    let text = error.to_string();
    assert!(
        text.contains("raise its capacity") && text.contains("after one send"),
        "{text}"
    );
}

#[tokio::test]
async fn a_write_given_up_after_a_send_without_a_response_may_have_been_applied() {
    for (reply, kind) in [
        (Reply::Reset, StoreErrorKind::Unreachable),
        (
            Reply::error("InternalServerError", "internal"),
            StoreErrorKind::Internal,
        ),
    ] {
        let (maybe_applied, error) = given_up([reply]).await;
        assert!(maybe_applied, "{error}");
        assert_eq!(error.kind(), kind);
    }
}

#[tokio::test]
async fn a_write_given_up_after_a_refused_connection_was_not_applied() {
    let (maybe_applied, error) = given_up([Reply::Refused]).await;
    assert!(!maybe_applied);
    assert!(error.to_string().contains("no connection to"), "{error}");
}

#[tokio::test]
async fn a_write_given_up_during_a_send_may_be_applied() {
    let (maybe_applied, error) = given_up([Reply::Silence]).await;
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("gave no response"), "{error}");
}

#[tokio::test]
async fn a_claim_given_up_during_the_read_of_the_keys_was_not_applied() {
    let (maybe_applied, error) = given_up_on_a_composite_table([Reply::Silence]).await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
}

#[tokio::test]
async fn a_claim_given_up_after_the_read_of_the_keys_counts_only_its_own_sends() {
    let throttled = Reply::error("ProvisionedThroughputExceededException", "slow down");
    let (maybe_applied, error) = given_up_on_a_composite_table([Reply::ok(), throttled]).await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
    let (maybe_applied, _) = given_up_on_a_composite_table([Reply::ok(), Reply::Silence]).await;
    assert!(maybe_applied);
}
