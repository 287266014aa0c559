//! On a table with a sort key, a read checks the keys before the first write.

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{Store, StoreErrorKind, StoreReply};
use idempotency_dynamodb::DynamoDbStore;
use serde_json::json;

use super::script::{Reply, Wire};
use super::{claim, id, with_client};

fn composite(wire: &Wire) -> DynamoDbStore {
    with_client(wire.client())
        .composite_key("sk", "idempotency#charge")
        .build()
        .unwrap()
}

async fn put(store: &DynamoDbStore) -> StoreReply {
    store.put(&id(), &claim(), &Condition::NoRecord).await
}

fn actions(wire: &Wire) -> Vec<String> {
    wire.requests()
        .into_iter()
        .map(|(action, _)| action)
        .collect()
}

#[tokio::test]
async fn the_first_write_reads_the_keys_and_the_next_one_does_not() {
    let wire = Wire::new([Reply::ok(), Reply::ok(), Reply::ok()]);
    let store = composite(&wire);
    for _ in 0..2 {
        assert!(matches!(put(&store).await, StoreReply::Applied { .. }));
    }
    assert_eq!(actions(&wire), ["GetItem", "PutItem", "PutItem"]);
}

#[tokio::test]
async fn a_warm_up_replaces_the_read_before_the_first_write() {
    let wire = Wire::new([Reply::ok(), Reply::ok()]);
    let store = composite(&wire);
    store.warm_up().await.unwrap();
    assert!(matches!(put(&store).await, StoreReply::Applied { .. }));
    assert_eq!(actions(&wire), ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_table_with_other_keys_gets_no_write() {
    let other = || {
        let keys = "The provided key element does not match the schema";
        Reply::error("ValidationException", keys)
    };
    let wire = Wire::new([other(), other()]);
    let store = composite(&wire);
    for _ in 0..2 {
        let StoreReply::Failed {
            maybe_applied: false,
            error,
        } = put(&store).await
        else {
            panic!("the write was not rejected")
        };
        assert_eq!(error.kind(), StoreErrorKind::WrongSchema);
    }
    assert_eq!(actions(&wire), ["GetItem", "GetItem"]);
}

#[tokio::test]
async fn a_read_that_fails_for_another_reason_is_repeated_before_the_first_write() {
    let denied = Reply::error("AccessDeniedException", "not authorized");
    let mut replies = vec![denied];
    replies.extend(vec![Reply::Reset; 3]);
    replies.extend([Reply::ok(), Reply::ok()]);
    let wire = Wire::new(replies);
    let store = composite(&wire);
    for kind in [StoreErrorKind::AccessDenied, StoreErrorKind::Unreachable] {
        // After a lost read nothing is maybe applied: the write was not sent.
        let StoreReply::Failed {
            maybe_applied: false,
            error,
        } = put(&store).await
        else {
            panic!("the write was sent")
        };
        assert_eq!(error.kind(), kind);
    }
    assert!(matches!(put(&store).await, StoreReply::Applied { .. }));
    let gets = vec!["GetItem"; 5];
    assert_eq!(actions(&wire), [gets, vec!["PutItem"]].concat());
}

#[tokio::test]
async fn the_read_of_the_keys_does_not_make_the_first_write_maybe_applied() {
    let wire = Wire::new([Reply::ok(), Reply::conflict(&json!({}))]);
    let StoreReply::ConditionFailed {
        maybe_applied: false,
        ..
    } = put(&composite(&wire)).await
    else {
        panic!("the condition of the only send did not fail")
    };
    assert_eq!(actions(&wire), ["GetItem", "PutItem"]);
}

#[tokio::test]
async fn a_table_without_a_sort_key_needs_no_read() {
    let wire = Wire::new([Reply::ok()]);
    assert!(matches!(
        put(&super::store(&wire)).await,
        StoreReply::Applied { .. }
    ));
    assert_eq!(actions(&wire), ["PutItem"]);
}
