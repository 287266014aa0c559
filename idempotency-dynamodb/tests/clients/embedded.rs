//! The store on an in-memory DynamoDB: it accepts the expressions, and evaluates conditions as the memory store does.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{Change, MemoryStore, Store, StoreErrorKind, StoreReply};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::DynamoDbStore;

use super::KIND;

const NOW: i64 = 1_700_000_000_500;

/// Starts a database with the tables `simple` (key `id`) and `composite` (keys `id` and `sk`). It runs as long as the test.
async fn database() -> Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(dynoxide::server::serve_on(
        listener,
        dynoxide::Database::memory().unwrap(),
    ));
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        .http_client(idempotency_dynamodb::http_client())
        .build();
    let client = Client::from_conf(config);
    create(&client, "simple", &["id"]).await;
    create(&client, "composite", &["id", "sk"]).await;
    client
}

async fn create(client: &Client, table: &str, keys: &[&str]) {
    let mut request = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest);
    for (key, kind) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let definition = AttributeDefinition::builder()
            .attribute_name(*key)
            .attribute_type(ScalarAttributeType::S);
        let element = KeySchemaElement::builder()
            .attribute_name(*key)
            .key_type(kind);
        request = request
            .attribute_definitions(definition.build().unwrap())
            .key_schema(element.build().unwrap());
    }
    request.send().await.unwrap();
}

fn store(client: &Client, table: &str) -> DynamoDbStore {
    KIND.with_client(client.clone(), table).build().unwrap()
}

fn string(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(text: &str) -> AttributeValue {
    AttributeValue::N(text.to_owned())
}

fn token() -> OwnerToken {
    OwnerToken::from_bytes([7; 16])
}

/// Returns items that other programs may have written: one attribute in many forms, on a claim, on a completed record and on
/// an empty item.
fn foreign_items() -> Vec<HashMap<String, AttributeValue>> {
    let item = |attributes: &[(&str, AttributeValue)]| -> HashMap<_, _> {
        attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    };
    let bases = [
        item(&[]),
        item(&[
            ("status", string("INPROGRESS")),
            ("owner", string(token().as_str())),
        ]),
        item(&[("status", string("COMPLETED")), ("failure", string("x"))]),
        item(&[("status", number("1")), ("owner", number("1"))]),
    ];
    let expirations = [
        None,
        Some(number("1699999999")),
        Some(number("1700000000")),
        Some(number("1699999999.9")),
        Some(string("1699999999")),
    ];
    let leases = [
        None,
        Some(number("1700000000499.9")),
        Some(number("1700000000500")),
        Some(AttributeValue::Null(true)),
    ];
    let mut items = Vec::new();
    for base in &bases {
        for expiration in &expirations {
            for lease in &leases {
                let mut item = base.clone();
                item.extend(
                    expiration
                        .clone()
                        .map(|value| ("expiration".to_owned(), value)),
                );
                item.extend(
                    lease
                        .clone()
                        .map(|value| ("in_progress_expiration".to_owned(), value)),
                );
                items.push(item);
            }
        }
    }
    items
}

fn conditions() -> Vec<Condition> {
    let now = EpochMillis::new(NOW);
    let millis = Operand::Millis(EpochMillis::new(i64::MAX));
    vec![
        Condition::NoRecord,
        claimable(now, OnTimeout::Rerun),
        claimable(now, OnTimeout::Hold),
        held_by(&token()),
        Condition::Exists(Attribute::Expiration),
        Condition::Missing(Attribute::Failure),
        Condition::Differs(Attribute::Owner, Operand::Text(token().as_str().to_owned())),
        Condition::Below(Attribute::Expiration, millis.clone()),
        Condition::Differs(Attribute::Status, millis),
        Condition::All(Vec::new()),
        Condition::Any(Vec::new()),
    ]
}

#[tokio::test]
async fn conditions_on_foreign_records_hold_in_dynamodb_exactly_if_they_hold_in_memory() {
    let client = database().await;
    let store = store(&client, "simple");
    let id = RecordId::new("charge#42");
    let mut applied = 0;
    for item in foreign_items() {
        let key = ("id".to_owned(), string(id.as_str()));
        let item: HashMap<_, _> = item.into_iter().chain([key]).collect();
        let raw = || {
            client
                .put_item()
                .table_name("simple")
                .set_item(Some(item.clone()))
                .send()
        };
        raw().await.unwrap();
        let StoreReply::Found {
            record: Some(record),
            ..
        } = store.get(&id).await
        else {
            panic!("the item exists")
        };
        for condition in conditions() {
            raw().await.unwrap();
            match store.delete(&id, &condition).await {
                StoreReply::Applied { .. } => {
                    applied += 1;
                    assert!(condition.holds(Some(&record)), "{condition:?} of {item:?}");
                }
                StoreReply::ConditionFailed {
                    existing,
                    maybe_applied,
                    ..
                } => {
                    assert!(!condition.holds(Some(&record)), "{condition:?} of {item:?}");
                    assert_eq!(existing.as_ref(), Some(&record));
                    assert!(!maybe_applied);
                }
                other => panic!("{condition:?}: {other:?}"),
            }
        }
    }
    assert!(applied > 100, "{applied}");
}

#[tokio::test]
async fn conditions_without_a_record_hold_in_dynamodb_exactly_if_they_hold_in_memory() {
    let client = database().await;
    let store = store(&client, "simple");
    for condition in conditions() {
        let write = store.delete(&RecordId::new("missing#1"), &condition).await;
        let expected = condition.holds(None);
        assert_eq!(
            matches!(write, StoreReply::Applied { .. }),
            expected,
            "{condition:?}: {write:?}"
        );
        assert_eq!(
            matches!(write, StoreReply::ConditionFailed { existing: None, .. }),
            !expected,
            "{condition:?}: {write:?}"
        );
    }
}

#[tokio::test]
async fn a_record_behaves_in_dynamodb_as_in_memory() {
    let client = database().await;
    let composite = KIND
        .with_client(client.clone(), "composite")
        .composite_key("sk", "idempotency#charge")
        .build()
        .unwrap();
    let stores: [&dyn Store; 3] = [&MemoryStore::new(), &store(&client, "simple"), &composite];
    for store in stores {
        let id = RecordId::new("charge#42");
        store.warm_up().await.unwrap();
        let claim = Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(NOW)),
            status: Field::Value(Status::InProgress),
            owner: Field::Value(token()),
            ..Record::default()
        };
        let put = store.put(&id, &claim, &Condition::NoRecord).await;
        assert!(matches!(put, StoreReply::Applied { .. }), "{put:?}");
        let again = store.put(&id, &claim, &Condition::NoRecord).await;
        assert!(
            matches!(again, StoreReply::ConditionFailed { existing: Some(existing), maybe_applied: false, .. } if existing == claim)
        );
        let change = Change {
            set: Record {
                status: Field::Value(Status::Completed),
                data: Field::Value(Data::new("{\"paid\":true}")),
                ..Record::default()
            },
            remove: vec![Attribute::InProgressExpiration],
        };
        let update = store.update(&id, &change, &held_by(&token())).await;
        assert!(matches!(update, StoreReply::Applied { .. }), "{update:?}");
        let completed = Record {
            in_progress_expiration: Field::Absent,
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("{\"paid\":true}")),
            ..claim.clone()
        };
        assert!(
            matches!(store.get(&id).await, StoreReply::Found { record: Some(record), .. } if record == completed)
        );
        let replaced = store
            .put(&id, &Record::default(), &Condition::Exists(Attribute::Data))
            .await;
        assert!(
            matches!(replaced, StoreReply::Applied { .. }),
            "{replaced:?}"
        );
        assert!(
            matches!(store.get(&id).await, StoreReply::Found { record: Some(record), .. } if record == Record::default())
        );
        let delete = store
            .delete(&id, &Condition::Missing(Attribute::Owner))
            .await;
        assert!(matches!(delete, StoreReply::Applied { .. }), "{delete:?}");
        assert!(matches!(
            store.get(&id).await,
            StoreReply::Found { record: None, .. }
        ));
    }
}

#[tokio::test]
async fn a_claim_brings_back_the_record_that_it_replaces() {
    let client = database().await;
    let stores: [&dyn Store; 2] = [&MemoryStore::new(), &store(&client, "simple")];
    for store in stores {
        let id = RecordId::new("charge#43");
        let killed = Record {
            in_progress_expiration: Field::Value(EpochMillis::new(NOW - 1)),
            status: Field::Value(Status::InProgress),
            ..Record::default()
        };
        let condition = claimable(EpochMillis::new(NOW), OnTimeout::Rerun);
        for (record, replaced) in [(&killed, None), (&Record::default(), Some(&killed))] {
            let put = store.put(&id, record, &condition).await;
            let StoreReply::Applied {
                replaced: known, ..
            } = put
            else {
                panic!("the claim is applied: {put:?}");
            };
            assert_eq!(known, Some(replaced.cloned()));
        }
    }
}

#[tokio::test]
async fn a_warm_up_detects_a_missing_table_and_other_keys() {
    let client = database().await;
    let missing = store(&client, "elsewhere").warm_up().await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::TableMissing);
    let others = store(&client, "composite").warm_up().await.unwrap_err();
    assert_eq!(others.kind(), StoreErrorKind::WrongSchema, "{others}");
    let put = store(&client, "composite")
        .put(
            &RecordId::new("a#1"),
            &Record::default(),
            &Condition::NoRecord,
        )
        .await;
    let StoreReply::Failed {
        maybe_applied: false,
        error,
    } = put
    else {
        panic!("{put:?}")
    };
    assert_eq!(error.kind(), StoreErrorKind::WrongSchema, "{error}");
}
