//! The texts of errors, which never contain a response.

use std::error::Error;

use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, Record};
use idempotency_core::store::{Change, ReadOutcome, StoreErrorKind, WriteOutcome};

use super::script::{Reply, Wire};
use super::{claim, failed, id, store, with_client};

#[tokio::test]
async fn an_error_about_a_missing_table_names_table_and_region() {
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
async fn an_error_about_a_denied_action_names_what_the_role_needs() {
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
async fn missing_credentials_are_an_error_before_any_request() {
    let wire = Wire::new([]);
    let client = wire.client_without_credentials();
    let store = with_client(client).build().unwrap();
    let WriteOutcome::Failed {
        maybe_applied,
        error,
    } = store.put(&id(), &claim(), &Condition::NoRecord).await
    else {
        panic!("the request did not fail")
    };
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Credentials, "{error}");
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn a_missing_http_client_is_an_error_before_any_request() {
    let store = with_client(Wire::client_without_an_http_client()).build();
    let WriteOutcome::Failed {
        maybe_applied,
        error,
    } = store
        .unwrap()
        .put(&id(), &claim(), &Condition::NoRecord)
        .await
    else {
        panic!("the request did not fail")
    };
    assert!(!maybe_applied, "{error}");
    let text = error.to_string();
    // A build of the whole workspace has the SDK's own HTTP client, because a crate of the tests needs it.
    if error.kind() != StoreErrorKind::Unreachable {
        assert_eq!(error.kind(), StoreErrorKind::Rejected, "{text}");
        assert!(text.contains("has no HTTP client"), "{text}");
        assert!(text.contains("the feature `rustls-ring`"), "{text}");
    } else {
        assert!(text.starts_with("no connection to"), "{text}");
    }
}

#[tokio::test]
async fn a_response_of_more_than_400_kb_that_is_not_split_is_an_error_before_any_request() {
    let wire = Wire::new([]);
    let large = Record {
        data: Field::Value(Data::new("x".repeat(400 * 1024))),
        ..Record::default()
    };
    let change = Change {
        set: large.clone(),
        remove: Vec::new(),
    };
    let store = with_client(wire.client())
        .compress_above(None)
        .split_large_responses(false)
        .build()
        .unwrap();
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
        assert!(
            error
                .to_string()
                .ends_with("or set IDEMPOTENCY_LARGE_RESPONSES=split"),
            "{error}"
        );
    }
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn no_error_shows_a_response_in_display_or_debug() {
    // The SDK keeps a body that it cannot parse completely in its error.
    let secret = "{ \"Item\": { \"data\": { \"S\": \"s3cr3t\" }, \"n\": { \"N\": 1 }, ";
    let wire = Wire::new([
        Reply::Text(200, secret),
        Reply::Text(400, secret),
        Reply::Text(500, secret),
        Reply::Text(500, secret),
        Reply::Text(500, secret),
    ]);
    let store = store(&wire);
    let mut texts = Vec::new();
    for _ in 0..3 {
        let ReadOutcome::Failed(error) = store.get(&id()).await else {
            panic!("the request did not fail")
        };
        texts.push(format!("{error} {error:?}"));
        let mut source = error.source();
        while let Some(cause) = source {
            texts.push(format!("{cause} {cause:?}"));
            source = cause.source();
        }
    }
    assert!(texts.len() > 3, "the SDK's own error is the source");
    assert!(
        texts
            .iter()
            .all(|text| !text.contains("s3cr3t") && !text.contains("Item")),
        "{texts:#?}"
    );
    wire.requests();
}
