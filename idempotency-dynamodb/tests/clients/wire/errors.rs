//! The texts of errors, which never contain a response.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, Record};
use idempotency_core::store::{
    Change, Consistency, SendLog, Store as _, StoreErrorKind, StoreReply, StoreRequest,
    TransactionRequest, Write,
};
use idempotency_dynamodb::once::{self, Once, OnceError};
use idempotency_dynamodb::versioned::{self, Version};

use super::script::{Reply, Wire};
use super::{claim, failed, failure, id, store, with_client};

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
        "User: arn is not authorized to perform: dynamodb:PutItem",
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
    assert!(text.ends_with("(User: arn is not authorized to perform: dynamodb:PutItem)"));
}

#[tokio::test]
async fn missing_credentials_are_an_error_before_any_request() {
    let wire = Wire::new([]);
    let client = wire.client_without_credentials();
    let store = with_client(client).build().unwrap();
    let (maybe_applied, error) = failure(store.put(&id(), &claim(), &Condition::NoRecord).await);
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Credentials, "{error}");
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn a_missing_http_client_is_an_error_before_any_request() {
    let client = Wire::client_without_an_http_client();
    let store = with_client(client).build().unwrap();
    let (maybe_applied, error) = failure(store.put(&id(), &claim(), &Condition::NoRecord).await);
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
        let (maybe_applied, error) = failure(write);
        assert!(!maybe_applied, "{error}");
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

/// Returns the text and the `Debug` of an error, and of each of its causes.
fn texts(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.map(|error| format!("{error} {error:?} ")).collect()
}

/// Replies whose text quotes a value: of DynamoDB, with each code that is classified, and of a proxy.
fn replies_with_a_secret() -> Vec<Reply> {
    let message =
        "One or more values were invalid: Item {card: s3cr3t}, key [s3cr3t], allowed size 1";
    let codes = [
        "ValidationException",
        "SerializationException",
        "ResourceNotFoundException",
        "AccessDeniedException",
        "ExpiredTokenException",
        "ThrottlingException",
        "TransactionConflictException",
        "ItemCollectionSizeLimitExceededException",
        "InternalServerError",
        "OtherException",
    ];
    let mut replies: Vec<_> = codes.map(|code| Reply::error(code, message)).into();
    // The SDK keeps a body that it cannot parse completely in its error.
    let broken = "{ \"Item\": { \"data\": { \"S\": \"s3cr3t\" }, \"n\": { \"N\": 1 }, ";
    replies.extend([200, 400, 500].map(|status| Reply::Text(status, broken)));
    replies
}

#[tokio::test]
async fn no_error_shows_what_a_reply_quotes_in_its_text_its_debug_or_a_cause() {
    for (reply, requested) in replies_with_a_secret()
        .iter()
        .flat_map(|reply| RequestedBy::ALL.map(|requested| (reply, requested)))
    {
        let wire = Wire::new(std::iter::repeat_n(reply.clone(), 5));
        let text = requested.fail(&wire).await;
        assert!(wire.sends() > 0 && !text.contains("s3cr3t"), "{text}");
    }
}

/// What sends the request that fails.
#[derive(Clone, Copy)]
enum RequestedBy {
    Read,
    Put,
    Update,
    Delete,
    Transaction,
    Once,
    Create,
    Versioned,
    Deletion,
}

impl RequestedBy {
    const ALL: [Self; 9] = [
        Self::Read,
        Self::Put,
        Self::Update,
        Self::Delete,
        Self::Transaction,
        Self::Once,
        Self::Create,
        Self::Versioned,
        Self::Deletion,
    ];

    /// Sends a request that fails, and returns all that its error shows, and what its notes show.
    async fn fail(self, wire: &Wire) -> String {
        let log = SendLog::new();
        let (store, id, condition) = (store(wire), id(), Condition::NoRecord);
        let write = match self {
            Self::Read => {
                let read = store
                    .send(StoreRequest::Read(&id, Consistency::Strong), &log)
                    .await;
                let StoreReply::Failed { error, .. } = read else {
                    panic!("the read did not fail")
                };
                return texts(&error) + &texts(&log.timed_out("the table").1);
            }
            Self::Put => Write::Put(claim()),
            Self::Update => Write::Update(Change::default()),
            Self::Delete => Write::Delete,
            Self::Transaction => {
                let staged = super::transactions::staged();
                let transaction = TransactionRequest {
                    record: None,
                    staged: &staged,
                    token: "t",
                };
                let outcome = store.send(StoreRequest::Transact(transaction), &log).await;
                return Self::of(outcome, &log);
            }
            Self::Once | Self::Create | Self::Versioned | Self::Deletion => {
                // Without timeouts, which expire at once.
                let client = Client::new(&wire.sdk_config("eu-west-1"));
                return self.fail_on_a_business_item(&client).await;
            }
        };
        Self::of(
            store
                .send(StoreRequest::write(&id, &write, &condition), &log)
                .await,
            &log,
        )
    }

    fn of(outcome: StoreReply, log: &SendLog) -> String {
        let StoreReply::Failed { error, .. } = outcome else {
            panic!("the write did not fail")
        };
        texts(&error) + &texts(&log.timed_out("the table").1)
    }

    async fn fail_on_a_business_item(self, client: &Client) -> String {
        let key = || [("id", AttributeValue::S("s3cr3t".to_owned()))];
        let version = Version::NONE;
        let error: Box<dyn Error> = match self {
            Self::Once => {
                let once = Once::new(once::plan(0.1, Duration::from_secs(60))).unwrap();
                let update = once.update("items", key(), "s3cr3t");
                let update = update.expression("SET a = :a");
                let update = update.value(":a", AttributeValue::S("s3cr3t".to_owned()));
                update.send(client).await.unwrap_err().into()
            }
            Self::Create => {
                let create = versioned::create("items", key());
                create.send(client).await.unwrap_err().into()
            }
            Self::Versioned => {
                let update = versioned::update("items", key(), &version);
                let update = update.expression("REMOVE a");
                update.send(client).await.unwrap_err().into()
            }
            _ => {
                let delete = versioned::delete("items", key(), &version);
                delete.send(client).await.unwrap_err().into()
            }
        };
        texts(&*error)
    }
}

#[tokio::test]
async fn the_error_of_a_full_item_says_how_long_its_keys_stay() {
    let size = "Item size to update has exceeded the maximum allowed size";
    let wire = Wire::new([Reply::error("ValidationException", size)]);
    let day = Duration::from_secs(24 * 3_600);
    let once = Once::new(once::plan(0.1, day)).unwrap();
    let update = once.update("items", [("id", AttributeValue::S("c".to_owned()))], "evt");
    let update = update.expression("REMOVE a");
    let client = Client::new(&wire.sdk_config("eu-west-1"));
    let error = update.send(&client).await.unwrap_err();
    let OnceError::ItemTooLarge(full) = &error else {
        panic!("{error}");
    };
    assert_eq!(full.room_within(), Duration::from_secs(7 * 17_292));
    let text = error.to_string();
    assert!(text.contains("within 33.6 h, so keep the event"), "{text}");
}
