//! Items of a table, written by any program: the store reads each of them, and the table evaluates a claim's condition as
//! we evaluate it on the record that we read.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::CallTerms;
use idempotency_core::protocol::classify;
use idempotency_core::protocol::condition::claimable;
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::record::{Attribute, Field, Record, RecordId};
use idempotency_core::store::StoreReply;
use idempotency_core::time::EpochMillis;
use idempotency_dynamodb::DynamoDbStore;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::StoreExt;
use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::cases;
use crate::strategies::NOW;

const TABLE: &str = "idempotency";

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (NOW / 1_000 - 2..NOW / 1_000 + 2).prop_map(|seconds| seconds.to_string()),
        4 => (NOW - 2..NOW + 2).prop_map(|millis| millis.to_string()),
        2 => "1700000000500\\.[0-9]{1,6}|1\\.7[Ee]9|1699999999\\.9",
        1 => "-?[1-9][0-9]{0,30}",
        1 => "-?[1-9]e-?[1-9][0-9]",
    ]
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let text = prop_oneof![
        3 => prop_oneof![Just("INPROGRESS"), Just("COMPLETED"), Just("{\"a\":1}")].prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let single = prop_oneof![
        4 => text.prop_map(AttributeValue::S),
        4 => number().prop_map(AttributeValue::N),
        1 => any::<bool>().prop_map(AttributeValue::Bool),
        1 => Just(AttributeValue::Null(true)),
        1 => vec(any::<u8>(), 1..8).prop_map(|bytes| AttributeValue::B(Blob::new(bytes))),
        1 => Just(AttributeValue::Ss(vec!["a".to_owned(), "b".to_owned()])),
        1 => Just(AttributeValue::Ns(vec!["1".to_owned(), "2.5".to_owned()])),
    ];
    single.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
            hash_map("[a-c]{1,2}", inner, 0..3).prop_map(AttributeValue::M),
        ]
    })
}

fn item() -> impl Strategy<Value = HashMap<String, AttributeValue>> {
    let name = prop::sample::select(vec![
        Attribute::Expiration,
        Attribute::InProgressExpiration,
        Attribute::Status,
        Attribute::Data,
        Attribute::Validation,
        Attribute::Owner,
        Attribute::Failure,
        Attribute::Operation,
        Attribute::Decision,
        Attribute::Event,
        Attribute::Steps,
    ]);
    (
        btree_map(name, value(), 0..10),
        hash_map("other[a-c]", value(), 0..2),
    )
        .prop_map(|(known, mut item)| {
            item.extend(
                known
                    .into_iter()
                    .map(|(name, value)| (name.default_name().to_owned(), value)),
            );
            item
        })
}

/// Returns true if a field fits the type of the attribute that it was read from.
fn fits<T>(
    field: &Field<T>,
    value: Option<&AttributeValue>,
    right: fn(&AttributeValue) -> bool,
) -> bool {
    match (field, value) {
        (Field::Absent, found) => found.is_none(),
        (Field::Value(_), found) => found.is_some_and(right),
        (Field::Unreadable, found) => found.is_some_and(|value| !right(value)),
    }
}

fn check(record: &Record, item: &HashMap<String, AttributeValue>) -> Result<(), TestCaseError> {
    let of = |attribute: Attribute| item.get(attribute.default_name());
    let lease = of(Attribute::InProgressExpiration);
    prop_assert!(fits(
        &record.expiration,
        of(Attribute::Expiration),
        AttributeValue::is_n
    ));
    prop_assert!(fits(
        &record.in_progress_expiration,
        lease,
        AttributeValue::is_n
    ));
    prop_assert!(fits(
        &record.status,
        of(Attribute::Status),
        AttributeValue::is_s
    ));
    prop_assert!(fits(
        &record.validation,
        of(Attribute::Validation),
        AttributeValue::is_s
    ));
    prop_assert!(fits(
        &record.owner,
        of(Attribute::Owner),
        AttributeValue::is_s
    ));
    prop_assert!(fits(
        &record.failure,
        of(Attribute::Failure),
        AttributeValue::is_s
    ));
    prop_assert!(fits(
        &record.operation,
        of(Attribute::Operation),
        AttributeValue::is_s
    ));
    prop_assert!(fits(
        &record.decision,
        of(Attribute::Decision),
        AttributeValue::is_s
    ));
    let is_steps = |value: &AttributeValue| {
        let steps = value.as_m();
        steps.is_ok_and(|steps| steps.values().all(AttributeValue::is_s))
    };
    prop_assert!(fits(&record.steps, of(Attribute::Steps), is_steps));
    prop_assert_eq!(record.data.exists(), of(Attribute::Data).is_some());
    Ok(())
}

#[test]
fn any_item_is_read_and_the_table_and_our_code_agree_on_whether_it_can_be_claimed() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let database = runtime.block_on(EmbeddedDynamoDb::start()).unwrap();
    runtime
        .block_on(database.create_table(TableSpec::new(TABLE)))
        .unwrap();
    let store = DynamoDbStore::builder()
        .client(database.client())
        .table(TABLE)
        .build()
        .unwrap();
    let (id, now) = (RecordId::new("shop#1"), EpochMillis::new(NOW));
    let tried = (
        item(),
        prop_oneof![Just(OnTimeout::Rerun), Just(OnTimeout::Hold)],
    );
    let result = TestRunner::new(cases(150)).run(&tried, |(item, on_timeout)| {
        runtime.block_on(async {
            let key = ("id".to_owned(), AttributeValue::S(id.as_str().to_owned()));
            let whole = item.clone().into_iter().chain([key]);
            database
                .put(TABLE, whole)
                .await
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            let StoreReply::Found {
                record: Some(record),
                ..
            } = store.get(&id).await
            else {
                return Err(TestCaseError::fail("the item was not read"));
            };
            check(&record, &item)?;
            let owner = OwnerToken::from_bytes([1; 16]);
            let mut policy = Policy::default();
            policy.on_timeout = on_timeout;
            let call = CallTerms {
                id: id.clone(),
                owner,
                validation: None,
                deadline: None,
                operation: None,
                event: None,
                policy,
            };
            let _no_panic = classify(&record, now, &call);
            let condition = claimable(now, on_timeout);
            match store.put(&id, &Record::default(), &condition).await {
                StoreReply::Applied { .. } => {
                    prop_assert!(condition.holds(Some(&record)), "{:?}", record)
                }
                StoreReply::ConditionFailed { existing, .. } => {
                    prop_assert!(!condition.holds(Some(&record)), "{:?}", record);
                    prop_assert_eq!(existing, Some(record));
                }
                other => prop_assert!(false, "{:?}", other),
            }
            Ok(())
        })
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
