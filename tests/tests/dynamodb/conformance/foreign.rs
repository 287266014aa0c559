//! Conditions on items that other programs may have written: they hold in DynamoDB exactly if they hold for the record that the store
//! reads. A table that is missing or has other keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, OwnerToken, Record, RecordId};
use idempotency_core::store::{Store, StoreErrorKind, StoreReply, Write};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{START, store_on};

type Item = HashMap<String, AttributeValue>;

fn text(text: &str) -> Option<AttributeValue> {
    Some(AttributeValue::S(text.to_owned()))
}

fn number(text: &str) -> Option<AttributeValue> {
    Some(AttributeValue::N(text.to_owned()))
}

fn token() -> OwnerToken {
    OwnerToken::from_bytes([7; 16])
}

/// Returns items that other programs may have written: times in many forms, on a claim, on a completed record and on an empty item.
fn foreign_items() -> Vec<Item> {
    let bases = [
        vec![],
        vec![
            ("status", text("INPROGRESS")),
            ("owner", text(token().as_str())),
        ],
        vec![("status", text("COMPLETED")), ("failure", text("x"))],
        vec![("status", number("1")), ("owner", number("1"))],
    ];
    let expirations = [
        None,
        number("1699999999"),
        number("1700000000"),
        number("1699999999.9"),
        text("1699999999"),
    ];
    let leases = [
        None,
        number("1700000000499.9"),
        number("1700000000500"),
        Some(AttributeValue::Null(true)),
    ];
    let mut items = Vec::new();
    for base in &bases {
        for expiration in &expirations {
            for lease in &leases {
                let mut item = base.clone();
                item.push(("id", text("charge#42")));
                item.push(("expiration", expiration.clone()));
                item.push(("in_progress_expiration", lease.clone()));
                let item = item.into_iter();
                let item = item.filter_map(|(name, value)| Some((name.to_owned(), value?)));
                items.push(item.collect());
            }
        }
    }
    items
}

fn conditions() -> [Condition; 11] {
    let now = EpochMillis::new(START);
    let millis = Operand::Millis(EpochMillis::new(i64::MAX));
    [
        Condition::NoRecord,
        claimable(now, OnTimeout::Rerun),
        claimable(now, OnTimeout::Hold),
        held_by(&token()),
        Condition::Exists(Attribute::Expiration),
        Condition::Missing(Attribute::Failure),
        Condition::Differs(
            Attribute::Owner,
            Operand::Text(token().as_str().to_owned().into()),
        ),
        Condition::Below(Attribute::Expiration, millis.clone()),
        Condition::Differs(Attribute::Status, millis),
        Condition::All(Vec::new()),
        Condition::Any(Vec::new()),
    ]
}

#[tokio::test]
async fn conditions_on_foreign_records_hold_in_dynamodb_exactly_if_they_hold_in_memory()
-> Result<(), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new("simple")).await?;
    let store = store_on(&database).table("simple").build()?;
    let id = RecordId::new("charge#42");
    let mut applied = 0;
    for item in foreign_items() {
        database.put("simple", item.clone()).await?;
        let StoreReply::Found { record, .. } = store.get(&id).await else {
            panic!("the read failed")
        };
        assert!(record.is_some(), "the item exists");
        for condition in conditions() {
            database.put("simple", item.clone()).await?;
            let holds = match store.write(&id, Write::Delete, &condition).await {
                StoreReply::Applied { .. } => true,
                StoreReply::ConditionFailed {
                    existing,
                    maybe_applied: false,
                    ..
                } => {
                    assert_eq!(existing, record);
                    false
                }
                other => panic!("{condition:?}: {other:?}"),
            };
            let expected = condition.holds(record.as_ref());
            assert_eq!(holds, expected, "{condition:?} of {item:?}");
            applied += usize::from(holds);
        }
    }
    assert!(applied > 100, "{applied}");
    Ok(())
}

#[tokio::test]
async fn a_warm_up_detects_a_missing_table_and_other_keys() -> Result<(), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    let composite = TableSpec::new("composite").with_sort_key("sk");
    database.create_table(composite).await?;
    let store = |table: &str| store_on(&database).table(table).build();
    let missing = store("elsewhere")?.warm_up(false).await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::TableMissing);
    let others = store("composite")?.warm_up(false).await.unwrap_err();
    assert_eq!(others.kind(), StoreErrorKind::WrongSchema, "{others}");
    let (id, record) = (RecordId::new("a#1"), Record::default());
    match store("composite")?
        .write(&id, Write::Put(record), &Condition::NoRecord)
        .await
    {
        StoreReply::Failed {
            maybe_applied: false,
            error,
        } => assert_eq!(error.kind(), StoreErrorKind::WrongSchema, "{error}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}
