//! The same writes on two implementations of DynamoDB: on the embedded one, and on AWS's DynamoDB Local if its URL is in
//! `CONFORMANCE_DYNAMODB_LOCAL`.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dynamodb_writes::once::{self, Once};
use dynamodb_writes::versioned::{self, Version, Versioned};
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};

use super::once::condition_failed;
use super::{TABLE, key, number, number_in};

async fn client_at(url: &str, http_client: SharedHttpClient) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .endpoint_url(url)
        .http_client(http_client)
        .build();
    let client = Client::from_conf(config);
    let definition = AttributeDefinition::builder()
        .attribute_name("id")
        .attribute_type(ScalarAttributeType::S);
    let element = KeySchemaElement::builder()
        .attribute_name("id")
        .key_type(KeyType::Hash);
    let create = client.create_table().table_name(TABLE);
    create
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(definition.build().unwrap())
        .key_schema(element.build().unwrap())
        .send()
        .await
        .unwrap();
    client
}

#[tokio::test]
async fn every_database_accepts_the_expressions_and_means_the_same() {
    let embedded = EmbeddedDynamoDb::start().await.unwrap();
    embedded.create_table(TableSpec::new(TABLE)).await.unwrap();
    let mut clients = vec![embedded.client()];
    if let Ok(url) = std::env::var("CONFORMANCE_DYNAMODB_LOCAL") {
        let http_client = embedded.sdk_config().http_client().unwrap();
        clients.push(client_at(&url, http_client).await);
    }
    for client in &clients {
        once_on(client).await;
        versioned_on(client).await;
    }
}

async fn once_on(client: &Client) {
    let bucket = Duration::from_secs(900);
    let clock = ManualClock::at(900_000 * 2_000_000);
    let plan = once::plan(0.1, Duration::from_secs(4_440));
    let once = Once::new(plan).unwrap().clock(Arc::new(clock.clone()));
    let update = |event: &str| {
        let update = once.update(TABLE, key("c"), event).return_item();
        update.expression("ADD units :n").value(":n", number(1))
    };
    let count = async |event: &str| {
        let outcome = update(event).send(client).await.unwrap();
        (
            outcome.is_applied(),
            number_in(outcome.item().unwrap(), "units"),
        )
    };
    let limited = async |event: &str, most| {
        let update = update(event)
            .condition("(units < :most)")
            .value(":most", number(most));
        update.send(client).await
    };
    // A refusal uses up no key.
    assert!(condition_failed(limited("evt-0", 9).await).item().is_none());
    for event in 0..40 {
        assert_eq!(count(&format!("evt-{event}")).await, (true, event + 1));
    }
    assert_eq!(count("evt-0").await, (false, 40));
    let failed = condition_failed(limited("evt-new", 40).await);
    assert_eq!(number_in(failed.item().unwrap(), "units"), 40);
    assert!(!limited("evt-39", 1).await.unwrap().is_applied());

    // Within the lifetime, at its end, and a writer that is far behind.
    clock.advance(bucket * 5);
    assert_eq!(count("evt-1").await, (false, 40));
    assert_eq!(count("evt-later").await, (true, 41));
    let late = Arc::new(ManualClock::at(900_000 * 2_000_000));
    let late = once.clone().clock(late);
    let late = late.update(TABLE, key("c"), "evt-other");
    let late = late.expression("ADD units :n").value(":n", number(1));
    let error = late.send(client).await.unwrap_err();
    assert!(
        matches!(error, once::OnceError::ClockBehind { .. }),
        "{error}"
    );

    // An idle item whose old keys are in the current slot, and in another one.
    clock.advance(bucket * 4);
    for event in 1..6 {
        assert_eq!(count(&format!("evt-{event}")).await, (true, 41 + event));
    }
    clock.advance(bucket * 10);
    assert_eq!(count("evt-1").await, (true, 47));
    assert_eq!(count("evt-1").await, (false, 47));

    let prepared = update("evt-transaction").prepare(client).await.unwrap();
    let transaction = || {
        let item = prepared.transact_item();
        client.transact_write_items().transact_items(item).send()
    };
    transaction().await.unwrap();
    let again = transaction().await.unwrap_err().into_service_error();
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = again else {
        panic!("a cancelled transaction is expected: {again}");
    };
    let item = cancelled.cancellation_reasons()[0].item.clone();
    let refusal = prepared.refusal(item, false);
    assert!(
        matches!(refusal, once::OnceRefusal::AlreadyApplied(_)),
        "{refusal:?}"
    );
}

async fn versioned_on(client: &Client) {
    let items = Versioned::by("version");
    let conflict = |error: versioned::VersionedError| match error {
        versioned::VersionedError::Conflict(conflict) => conflict,
        other => panic!("a conflict is expected: {other}"),
    };
    let create = || {
        items
            .create(TABLE, key("a"))
            .attribute("balance", number(100))
    };
    let first = create().send(client).await.unwrap().version().clone();
    assert_eq!(first.number(), 1);
    let existing = conflict(create().send(client).await.unwrap_err());
    assert_eq!(existing.version(), Some(&first));
    let debit = |expected: &Version, amount| {
        items
            .update(TABLE, key("a"), expected)
            .expression("SET balance = balance - :n")
            .condition("balance >= :n")
            .value(":n", number(amount))
            .return_item()
    };
    let second = debit(&first, 30).send(client).await.unwrap();
    assert_eq!(number_in(second.item().unwrap(), "balance"), 70);
    let of_item = items.version(second.item().unwrap());
    assert_eq!(of_item.as_ref(), Ok(second.version()));
    assert_eq!(second.version().number(), 2);
    assert!(!second.by_earlier_send());
    let stale = conflict(debit(&first, 1).send(client).await.unwrap_err());
    assert_eq!(stale.version(), Some(second.version()));
    assert_eq!(number_in(stale.current().unwrap(), "balance"), 70);
    assert!(!stale.maybe_applied());
    let refused = debit(second.version(), 71).send(client).await.unwrap_err();
    let versioned::VersionedError::ConditionFailed(failed) = refused else {
        panic!("a failed condition is expected: {refused}");
    };
    assert_eq!(number_in(failed.item().unwrap(), "balance"), 70);

    for expected in [&Version::NONE, second.version()] {
        let absent = items
            .update(TABLE, key("b"), expected)
            .expression("REMOVE x");
        let absent = conflict(absent.send(client).await.unwrap_err());
        assert!(absent.current().is_none());
    }
    let delete = |expected: &Version| items.delete(TABLE, key("a"), expected).return_item();
    let stale = conflict(delete(&first).send(client).await.unwrap_err());
    assert_eq!(stale.version(), Some(second.version()));
    let empty = delete(second.version()).condition("balance = :zero OR #s = :zero");
    let empty = empty.value(":zero", number(0)).name("#s", "state");
    let refused = empty.send(client).await.unwrap_err();
    assert!(
        matches!(refused, versioned::VersionedError::ConditionFailed(_)),
        "{refused}"
    );
    let deleted = delete(second.version()).send(client).await.unwrap();
    assert_eq!(number_in(deleted.item().unwrap(), "balance"), 70);
    assert_eq!(deleted.version(), &Version::NONE);
    delete(second.version()).send(client).await.unwrap();
    // The item was created again: a deletion with the earlier version does not delete it.
    create().send(client).await.unwrap();
    conflict(delete(&first).send(client).await.unwrap_err());
}
