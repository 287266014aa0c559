//! The outcome of a write: applied, condition failed, or maybe applied.

use idempotency_core::example::StoreExt;
use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Data, Field};
use idempotency_core::store::{Change, StoreErrorKind, StoreReply};
use serde_json::json;

use super::script::{Reply, Wire};
use super::{claim, claimed, failed, id, store, with_client};

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
    let failed_condition = || {
        Reply::error(
            "ConditionalCheckFailedException",
            "The conditional request failed",
        )
    };
    let wire = Wire::new([failed_condition(), failed_condition(), failed_condition()]);
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
    assert!(matches!(claimed(&wire).await, StoreReply::Applied { .. }));
    assert_eq!(wire.requests().len(), 2);
}

#[tokio::test]
async fn a_write_that_is_always_throttled_is_not_applied() {
    for code in [
        "ThrottlingException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
    ] {
        let (maybe_applied, error) =
            failed(std::iter::repeat_n(Reply::error(code, "slow down"), 3)).await;
        assert!(!maybe_applied, "{code}");
        assert_eq!(error.kind(), StoreErrorKind::Throttled);
    }
}

#[tokio::test]
async fn one_lost_send_among_throttled_ones_makes_the_write_maybe_applied() {
    let throttled = || Reply::error("ThrottlingException", "slow down");
    let (maybe_applied, error) = failed([Reply::Reset, throttled(), throttled()]).await;
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
}

#[tokio::test]
async fn a_send_without_a_response_may_have_been_applied() {
    let (maybe_applied, error) = failed([Reply::Silence, Reply::Silence, Reply::Silence]).await;
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(
        error
            .to_string()
            .starts_with("no response in time from DynamoDB table `payments` in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: ")
    );
}

#[tokio::test]
async fn a_write_whose_connection_was_refused_is_not_applied() {
    let (maybe_applied, error) = failed([Reply::Refused, Reply::Refused, Reply::Refused]).await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(
        error
            .to_string()
            .starts_with("no connection to DynamoDB table `payments` in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: ")
    );
}

#[tokio::test]
async fn a_write_whose_connection_broke_may_have_been_applied() {
    let (maybe_applied, error) = failed([Reply::Reset, Reply::Reset, Reply::Reset]).await;
    assert!(maybe_applied);
    assert!(
        error
            .to_string()
            .starts_with("the connection broke before a response from DynamoDB table `payments`")
    );
}

#[tokio::test]
async fn a_write_with_only_internal_errors_may_have_been_applied() {
    let (maybe_applied, error) = failed(std::iter::repeat_n(
        Reply::error("InternalServerError", "internal"),
        3,
    ))
    .await;
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Internal);
}
