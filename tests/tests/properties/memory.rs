//! The memory store, which is the reference for all stores: a write is applied completely if its condition holds.

use std::collections::HashMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Field, Record, RecordId, StoredEvent};
use idempotency_core::store::{Change, MemoryStore, StoreReply};
use idempotency_testkit::store::StoreExt;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases;
use crate::strategies::{attribute, condition, record};

pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store in memory is ready at once"),
    }
}

#[derive(Clone, Debug)]
enum Request {
    Put(Record),
    Update(Record, Vec<Attribute>),
    Delete,
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        3 => record().prop_map(Request::Put),
        3 => (record(), vec(attribute(), 0..3)).prop_map(|(set, remove)| Request::Update(set, remove)),
        1 => Just(Request::Delete),
    ]
}

/// Returns an attribute after an update.
fn after<T: Clone>(old: &Field<T>, new: &Field<T>, removed: bool) -> Field<T> {
    match new {
        _ if removed => Field::Absent,
        Field::Value(_) => new.clone(),
        _ => old.clone(),
    }
}

fn updated(old: &Record, set: &Record, remove: &[Attribute]) -> Record {
    let gone = |attribute| remove.contains(&attribute);
    Record {
        expiration: after(
            &old.expiration,
            &set.expiration,
            gone(Attribute::Expiration),
        ),
        in_progress_expiration: after(
            &old.in_progress_expiration,
            &set.in_progress_expiration,
            gone(Attribute::InProgressExpiration),
        ),
        status: after(&old.status, &set.status, gone(Attribute::Status)),
        data: after(&old.data, &set.data, gone(Attribute::Data)),
        validation: after(
            &old.validation,
            &set.validation,
            gone(Attribute::Validation),
        ),
        owner: after(&old.owner, &set.owner, gone(Attribute::Owner)),
        failure: after(&old.failure, &set.failure, gone(Attribute::Failure)),
        operation: after(&old.operation, &set.operation, gone(Attribute::Operation)),
        decision: after(&old.decision, &set.decision, gone(Attribute::Decision)),
        event: match &set.event {
            _ if gone(Attribute::Event) => None,
            Some(event) => Some(event.clone()),
            None => old.event.clone(),
        },
        steps: after(&old.steps, &set.steps, gone(Attribute::Steps)),
    }
}

fn written(
    store: &MemoryStore,
    id: &RecordId,
    request: &Request,
    condition: &Condition,
) -> StoreReply {
    match request {
        Request::Put(record) => ready(store.put(id, record, condition)),
        Request::Update(set, remove) => {
            let change = Change {
                set: set.clone(),
                remove: remove.clone(),
            };
            ready(store.update(id, &change, condition))
        }
        Request::Delete => ready(store.delete(id, condition)),
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_write_is_applied_completely_if_its_condition_holds_and_otherwise_returns_the_record(
        requests in vec((0..2_u8, request(), condition()), 1..12),
    ) {
        let store = MemoryStore::new();
        let mut expected: HashMap<RecordId, Record> = HashMap::new();
        for (key, request, condition) in requests {
            let id = RecordId::new(format!("shop#{key}"));
            let before = expected.get(&id).cloned();
            match written(&store, &id, &request, &condition) {
                StoreReply::Applied { .. } => {
                    prop_assert!(condition.holds(before.as_ref()));
                    match &request {
                        Request::Put(record) => drop(expected.insert(id.clone(), record.clone())),
                        Request::Update(set, remove) => {
                            let record = updated(&before.unwrap_or_default(), set, remove);
                            expected.insert(id.clone(), record);
                        }
                        Request::Delete => drop(expected.remove(&id)),
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
