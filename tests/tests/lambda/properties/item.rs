//! Items of a table, written by any program: the store reads each of them, and the table evaluates a claim's condition as
//! we evaluate it on the record that we read.
//!
//! The memory store, which is the reference for all stores: a write is applied completely if its condition holds.
//!
//! The meaning of a record: `classify`, the condition of claims and a simple version of the rules agree on every record.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::example::{compared, ready};
use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::protocol::{CallTerms, RecordState, classify};
use idempotency_core::record::{
    Attribute, Field, OwnerToken, Record, RecordId, Status, StoredEvent,
};
use idempotency_core::store::{Change, MemoryStore, StoreReply, Write};
use idempotency_core::time::EpochMillis;
use idempotency_dynamodb::DynamoDbStore;
use idempotency_testkit::store::StoreExt;
use idempotency_tests::Table;
use proptest::collection::{btree_map, hash_map, vec};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::cases;
use super::strategies::{NOW, attribute, condition, on_timeout, operand, owner, record, terms};

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
    let known = btree_map(attribute(), value(), 0..10);
    let others = hash_map("other[a-c]", value(), 0..2);
    (known, others).prop_map(|(known, mut item)| {
        let known = known.into_iter();
        item.extend(known.map(|(name, value)| (name.default_name().to_owned(), value)));
        item
    })
}

/// Checks that each field is read if its attribute has the right type, and only then.
fn check(record: &Record, item: &HashMap<String, AttributeValue>) -> Result<(), TestCaseError> {
    for attribute in compared() {
        let is_read = match record.field(attribute) {
            Field::Absent => None,
            Field::Value(_) => Some(true),
            Field::Unreadable => Some(false),
        };
        let has_the_type = |value: &AttributeValue| match attribute {
            Attribute::Expiration | Attribute::InProgressExpiration => value.is_n(),
            Attribute::Steps => {
                let steps = value.as_m();
                steps.is_ok_and(|steps| steps.values().all(AttributeValue::is_s))
            }
            // The response can have nearly every type.
            Attribute::Data => is_read == Some(true),
            _ => value.is_s(),
        };
        let expected = item.get(attribute.default_name()).map(has_the_type);
        prop_assert_eq!(is_read, expected, "{:?}", attribute);
    }
    Ok(())
}

#[test]
fn any_item_is_read_and_the_table_and_our_code_agree_on_whether_it_can_be_claimed() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let table = runtime.block_on(Table::start()).unwrap();
    let store = DynamoDbStore::builder().client(table.database.client());
    let store = store.table("idempotency").build().unwrap();
    let (id, now) = (RecordId::new("shop#1"), EpochMillis::new(NOW));
    let tried = (item(), on_timeout());
    let result = TestRunner::new(cases(150)).run(&tried, |(item, on_timeout)| {
        runtime.block_on(async {
            let key = ("id".to_owned(), AttributeValue::S(id.as_str().to_owned()));
            let whole = item.clone().into_iter().chain([key]);
            table.database.put("idempotency", whole).await.unwrap();
            let StoreReply::Found {
                record: Some(record),
                ..
            } = store.get(&id).await
            else {
                return Err(TestCaseError::fail("the item was not read"));
            };
            check(&record, &item)?;
            let call = call(OwnerToken::from_bytes([1; 16]), None, on_timeout);
            let _no_panic = classify(&record, now, &call);
            let condition = claimable(now, on_timeout);
            match store
                .write(&id, Write::Put(Record::default()), &condition)
                .await
            {
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
    result.unwrap();
}

fn write() -> impl Strategy<Value = Write> {
    let change = (record(), vec(attribute(), 0..3));
    prop_oneof![
        3 => record().prop_map(Write::Put),
        3 => change.prop_map(|(set, remove)| Write::Update(Change { set, remove })),
        1 => Just(Write::Delete),
    ]
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_write_is_applied_completely_if_its_condition_holds_and_otherwise_returns_the_record(
        writes in vec((0..2_u8, write(), condition()), 1..12),
    ) {
        let (store, mut expected) = (MemoryStore::new(), HashMap::new());
        for (key, write, condition) in writes {
            let id = RecordId::new(format!("shop#{key}"));
            let before = expected.get(&id).cloned();
            match ready(store.write(&id, write.clone(), &condition)) {
                StoreReply::Applied { .. } => {
                    prop_assert!(condition.holds(before.as_ref()));
                    match write {
                        Write::Put(record) => drop(expected.insert(id.clone(), record)),
                        Write::Delete => drop(expected.remove(&id)),
                        // The conformance suite checks what an update does to each attribute.
                        update => {
                            let alone = MemoryStore::new();
                            before.into_iter().for_each(|it| alone.insert(id.clone(), it));
                            ready(alone.write(&id, update, &Condition::All(Vec::new())));
                            expected.insert(id.clone(), alone.record(&id).unwrap());
                        }
                    }
                }
                StoreReply::ConditionFailed { existing, maybe_applied, .. } => {
                    prop_assert!(!condition.holds(before.as_ref()));
                    prop_assert_eq!(existing, before);
                    prop_assert!(!maybe_applied);
                }
                other => prop_assert!(false, "{:?}", other),
            }
            let found = match ready(store.get(&id)) {
                StoreReply::Found { record: Some(record), .. } => Some(record),
                _ => None,
            };
            prop_assert_eq!(found.as_ref(), expected.get(&id));
            prop_assert_eq!(store.len(), expected.len());
        }
    }

    #[test]
    fn an_event_reads_back_from_its_stored_text_and_any_other_text_is_no_event(
        text in prop_oneof!["[0-9]{1,3}", "\\{\"[a-z]{1,8}\":[0-9]{1,3}\\}", any::<String>()],
        foreign in prop_oneof!["\\{\"(all|selected|other)\":[0-9\\[\\]]{0,3}\\}{0,2}", any::<String>()],
    ) {
        let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        for (event, is_whole) in [(StoredEvent::all(&text), true), (StoredEvent::selected(&text), false)] {
            let event = event.unwrap();
            prop_assert_eq!(event.as_str(), text.as_str());
            prop_assert_eq!(event.is_whole(), is_whole);
            let read = StoredEvent::from_stored(event.stored());
            prop_assert_eq!(read, is_json.then_some(event));
        }
        if let Some(event) = StoredEvent::from_stored(&foreign) {
            prop_assert_eq!(event.stored(), foreign.as_str());
            let object: serde_json::Value = serde_json::from_str(&foreign).unwrap();
            let member = if event.is_whole() { "all" } else { "selected" };
            let value: serde_json::Value = serde_json::from_str(event.as_str()).unwrap();
            prop_assert_eq!(&object[member], &value);
        }
    }
}

fn call(owner: OwnerToken, validation: Option<String>, on_timeout: OnTimeout) -> CallTerms {
    let mut policy = Policy::default();
    policy.on_timeout = on_timeout;
    CallTerms {
        validation,
        ..terms(owner, policy)
    }
}

fn in_progress(record: &Record) -> bool {
    record.status == Field::Value(Status::InProgress)
}

/// Returns true if the record may be claimed. It states the rules again and shares no code with the code under test.
fn may_be_claimed(record: &Record, now: i64, on_timeout: OnTimeout) -> bool {
    let expired = record
        .expiration
        .value()
        .is_some_and(|end| end.get() < now.div_euclid(1_000));
    let lease_expired = record
        .in_progress_expiration
        .value()
        .is_some_and(|end| end.get() < now);
    let no_lease = record.in_progress_expiration == Field::Absent;
    match on_timeout {
        OnTimeout::Rerun if in_progress(record) => lease_expired || (expired && no_lease),
        OnTimeout::Hold if in_progress(record) => record.failure.exists(),
        _ => expired,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_record_can_be_claimed_exactly_when_the_rules_say_so(record in record(), on_timeout in on_timeout()) {
        let condition = claimable(EpochMillis::new(NOW), on_timeout);
        prop_assert_eq!(condition.holds(Some(&record)), may_be_claimed(&record, NOW, on_timeout));
        prop_assert!(condition.holds(None));
    }

    #[test]
    fn the_classification_and_the_condition_of_claims_agree(
        record in record(),
        mine in owner(),
        validation in prop::option::of("[ab]"),
        on_timeout in on_timeout(),
    ) {
        let now = EpochMillis::new(NOW);
        let state = classify(&record, now, &call(mine.clone(), validation.clone(), on_timeout));
        let own = held_by(&mine).holds(Some(&record));
        let claimable = claimable(now, on_timeout).holds(Some(&record));
        match state {
            RecordState::OwnClaim | RecordState::OwnClaimExpired => prop_assert!(own),
            RecordState::Claimable => prop_assert!(claimable),
            _ => prop_assert!(!claimable, "{:?}", state),
        }
        if state == RecordState::OwnClaim {
            let expired = record.in_progress_expiration.value().is_some_and(|end| *end < now);
            prop_assert!(!expired, "an expired lease does not protect a claim");
        }
        if state == RecordState::Replay {
            prop_assert_eq!(record.status, Field::Value(Status::Completed));
            prop_assert!(validation.is_none() || record.validation == validation.into());
        }
    }

    #[test]
    fn an_operand_of_the_wrong_unit_or_type_never_compares(
        record in record(),
        attribute in attribute(),
        operand in operand(),
    ) {
        let fits = matches!(
            (attribute, &operand),
            (Attribute::Expiration, Operand::Seconds(_)) | (Attribute::InProgressExpiration, Operand::Millis(_))
        ) || (!matches!(attribute, Attribute::Expiration | Attribute::InProgressExpiration)
            && matches!(operand, Operand::Text(_)));
        let holds = |condition: Condition| condition.holds(Some(&record));
        let equals = holds(Condition::Equals(attribute, operand.clone()));
        let below = holds(Condition::Below(attribute, operand.clone()));
        let differs = holds(Condition::Differs(attribute, operand));
        prop_assert_eq!(differs, !equals);
        prop_assert!(!(equals && below));
        prop_assert!(fits || !(equals || below));
    }
}
