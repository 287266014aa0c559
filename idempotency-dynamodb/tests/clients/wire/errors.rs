//! The texts of errors, which never contain a response.

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_writes::once::{self, Once, OnceError};
use dynamodb_writes::versioned::{Version, Versioned};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, Record};
use idempotency_core::store::{
    Change, Consistency, SendLog, Store as _, StoreRequest, TransactionRequest, Write,
};

use super::{KIND, claim, claimed, failure, id, store};
use idempotency_testkit::store::StoreExt;
use crate::script::{Reply, Timeout, Wire, credentials};
use crate::{said, said_in_full};

#[tokio::test]
async fn missing_credentials_are_an_error_before_any_request() {
    let wire = Wire::new([]);
    let client = wire.client_of(None, Timeout::OfSend);
    let store = KIND.with_client(client).build().unwrap();
    assert_eq!(said(&claimed(&store).await), "Credentials");
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn a_missing_http_client_is_an_error_before_any_request() {
    // As in a program without a TLS provider.
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .endpoint_url("http://127.0.0.1:1")
        .credentials_provider(credentials());
    let client = Client::from_conf(config.build());
    let store = KIND.with_client(client).build().unwrap();
    let error = said_in_full(&claimed(&store).await);
    // A build of the whole workspace has the SDK's own HTTP client, because a crate of the tests needs it.
    if !error.starts_with("Unreachable: no connection to") {
        assert!(error.starts_with("Rejected: the client for"), "{error}");
        assert!(error.contains("has no HTTP client"), "{error}");
        assert!(error.contains("the feature `rustls-ring`"), "{error}");
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
    let store = KIND.with_client(wire.client()).compress_above(None);
    let store = store.split_large_responses(false).build().unwrap();
    for write in [
        store.write(&id(), Write::Put(large), &Condition::NoRecord).await,
        store.write(&id(), Write::Update(change), &Condition::NoRecord).await,
    ] {
        let text = said_in_full(&write);
        let begin = "TooLarge: the record has 409615 bytes and DynamoDB table `payments`";
        assert!(text.starts_with(begin), "{text}");
        let end = "or set IDEMPOTENCY_LARGE_RESPONSES=split";
        assert!(text.ends_with(end), "{text}");
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
    let codes = "ValidationException SerializationException ResourceNotFoundException AccessDeniedException \
        ExpiredTokenException ThrottlingException TransactionConflictException \
        ItemCollectionSizeLimitExceededException InternalServerError OtherException";
    let codes = codes.split(' ');
    let mut replies: Vec<_> = codes.map(|code| Reply::error(code, message)).collect();
    // The SDK keeps a body that it cannot parse completely in its error.
    let broken = "{ \"Item\": { \"data\": { \"S\": \"s3cr3t\" }, \"n\": { \"N\": 1 }, ";
    replies.extend([200, 400, 500].map(|status| Reply::new(status, broken)));
    replies
}

#[tokio::test]
async fn no_error_shows_what_a_reply_quotes_in_its_text_its_debug_or_a_cause() {
    let (id, condition, staged) = (id(), Condition::NoRecord, super::transactions::staged());
    let writes = [
        Write::Put(claim()),
        Write::Update(Change::default()),
        Write::Delete,
    ];
    let transaction = TransactionRequest {
        record: None,
        staged: &staged,
        token: "t",
    };
    let writes = writes.each_ref();
    let writes = writes.map(|write| StoreRequest::write(&id, write, &condition));
    let others = [
        StoreRequest::Read(&id, Consistency::Strong),
        StoreRequest::Transact(transaction),
    ];
    for reply in replies_with_a_secret() {
        let mut shown = Vec::new();
        for request in writes.into_iter().chain(others) {
            // tokio suspends a task that never waits after some time, and its sends would appear to time out.
            tokio::task::yield_now().await;
            let (wire, log) = (Wire::new(vec![reply.clone(); 5]), SendLog::new());
            let store = store(&wire);
            let (_, error) = failure(store.send(request, &log).await);
            shown.push(texts(&error) + &texts(&log.timed_out(&store).1));
            assert!(wire.sends() > 0);
        }
        for error in failures_of_business_items(&reply).await {
            shown.push(texts(&*error));
        }
        for text in shown {
            assert!(!text.contains("s3cr3t"), "{reply:?}: {text}");
        }
    }
}

/// Returns the errors of writes to an item of the user that get this reply.
async fn failures_of_business_items(reply: &Reply) -> [Box<dyn Error>; 4] {
    let wire = Wire::new(vec![reply.clone(); 20]);
    // Without timeouts, which expire at once.
    let client = Client::new(&wire.sdk_config("eu-west-1"));
    let key = || [("id", AttributeValue::S("s3cr3t".to_owned()))];
    let (items, version) = (Versioned::by("version"), Version::NONE);
    let once = Once::new(once::plan(0.1, Duration::from_secs(60))).unwrap();
    let once = once.update("items", key(), "s3cr3t");
    let once = once.expression("SET a = :a");
    let once = once.value(":a", AttributeValue::S("s3cr3t".to_owned()));
    let create = items.create("items", key());
    let update = items.update("items", key(), &version).expression("REMOVE a");
    let delete = items.delete("items", key(), &version);
    let errors = [
        once.send(&client).await.unwrap_err().into(),
        create.send(&client).await.unwrap_err().into(),
        update.send(&client).await.unwrap_err().into(),
        delete.send(&client).await.unwrap_err().into(),
    ];
    assert!(wire.sends() >= errors.len());
    errors
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
    assert!(text.contains("within 34 h, so keep the event"), "{text}");
}
