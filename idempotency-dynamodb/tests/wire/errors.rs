//! What errors say, and what they never show.

use std::error::Error;

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, Record};
use idempotency_core::store::{Change, ReadOutcome, StoreErrorKind, WriteOutcome};
use idempotency_dynamodb::DynamoDbStore;

use crate::script::{Reply, Wire};
use crate::{claim, failed, id, store};

#[tokio::test]
async fn a_missing_table_is_named_with_its_region() {
    let (maybe_applied, error) = failed([Reply::error(
        "ResourceNotFoundException",
        "Requested resource not found",
    )])
    .await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::TableMissing);
    assert_eq!(
        error.to_string(),
        "there is no DynamoDB table `payments` in eu-west-1: create it, or set IDEMPOTENCY_TABLE"
    );
}

#[tokio::test]
async fn a_denied_action_is_named_with_what_the_role_needs() {
    let (maybe_applied, error) = failed([Reply::error(
        "AccessDeniedException",
        "User: arn is not authorized",
    )])
    .await;
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
    let text = error.to_string();
    assert!(
        text.starts_with(
            "dynamodb:PutItem is denied on DynamoDB table `payments` in eu-west-1: allow"
        ),
        "{text}"
    );
    assert!(text.contains(
        "dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem and dynamodb:DeleteItem"
    ));
    assert!(text.ends_with("(User: arn is not authorized)"));
}

#[tokio::test]
async fn missing_credentials_are_told_before_anything_is_sent() {
    let wire = Wire::new([]);
    let client = wire.client_without_credentials();
    let store = DynamoDbStore::builder()
        .table("payments")
        .client(client)
        .build()
        .unwrap();
    let WriteOutcome::Failed {
        maybe_applied,
        error,
    } = store.put(&id(), &claim(), &Condition::NoRecord).await
    else {
        panic!("it did not fail")
    };
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Credentials, "{error}");
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn an_answer_beyond_400_kb_is_refused_before_it_is_sent() {
    let wire = Wire::new([]);
    let large = Record {
        data: Field::Value(Data::new("x".repeat(400 * 1024))),
        ..Record::default()
    };
    let change = Change {
        set: large.clone(),
        remove: Vec::new(),
    };
    let store = store(&wire);
    for write in [
        store.put(&id(), &large, &Condition::NoRecord).await,
        store.update(&id(), &change, &Condition::NoRecord).await,
    ] {
        let WriteOutcome::Failed {
            maybe_applied: false,
            error,
        } = write
        else {
            panic!("{write:?}")
        };
        assert_eq!(error.kind(), StoreErrorKind::TooLarge);
        assert!(
            error
                .to_string()
                .starts_with("the record has 409615 bytes and DynamoDB table `payments`"),
            "{error}"
        );
    }
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn no_error_shows_an_answer_however_it_is_printed() {
    // A body that carries an item and cannot be parsed to its end stays in the SDK's error.
    let secret = "{ \"Item\": { \"data\": { \"S\": \"s3cr3t\" }, \"n\": { \"N\": 1 }, ";
    let wire = Wire::new([
        Reply::Text(200, secret),
        Reply::Text(400, secret),
        Reply::Text(500, secret),
        Reply::Text(500, secret),
        Reply::Text(500, secret),
    ]);
    let store = store(&wire);
    let mut told = Vec::new();
    for _ in 0..3 {
        let ReadOutcome::Failed(error) = store.get(&id()).await else {
            panic!("it did not fail")
        };
        told.push(format!("{error} {error:?}"));
        let mut source = error.source();
        while let Some(cause) = source {
            told.push(format!("{cause} {cause:?}"));
            source = cause.source();
        }
    }
    assert!(told.len() > 3, "the SDK's own error is the source");
    assert!(
        told.iter()
            .all(|text| !text.contains("s3cr3t") && !text.contains("Item")),
        "{told:#?}"
    );
    wire.requests();
}
