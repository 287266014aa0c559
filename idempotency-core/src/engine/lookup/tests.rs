//! What a look at a record returns, and what an eviction leaves.

use std::sync::Arc;

use crate::config::{KeyRequired, Settings};
use crate::engine::{Backend, Codec};
use crate::error::{Error, ErrorKind};
use crate::example::shared::{
    At, DENIED, Fault, FaultyStore, check_each, kind_and_run, run, variable,
};
use crate::example::{self, Fixed, ready};
use crate::operation::{CompiledOperation, Identity};
use crate::outcome::{Bypass, KeyState};
use crate::protocol::policy::OnTimeout;
use crate::protocol::tests::NOW;
use crate::protocol::tests::script::record;
use crate::store::{MemoryStore, Store};
use crate::time::EpochMillis;

fn operation(on_timeout: Option<OnTimeout>) -> CompiledOperation {
    example::shared::operation(|it| {
        it.key = Some("id".into());
        it.key_required = Some(KeyRequired::No);
        it.on_timeout = on_timeout;
        it.local_cache = Some(9);
    })
}

const ORDER: &str = r#"{"id": 1, "amount": 5}"#;

fn identity(payload: &str) -> Identity {
    operation(None).identify(payload, None).unwrap()
}

fn backend(store: Arc<dyn Store>) -> Backend {
    Backend::new(store, Arc::new(At(NOW)), Arc::new(Fixed))
}

fn lookup(
    backend: &Backend,
    operation: &CompiledOperation,
    payload: &str,
) -> Result<KeyState<u32>, Error> {
    ready(operation.lookup(backend, &identity(payload), None, Codec::json()))
}

fn evict(backend: &Backend, operation: &CompiledOperation, payload: &str) -> Result<bool, Error> {
    ready(operation.evict(backend, &identity(payload), None))
}

/// Runs a call whose handler returns this number. Returns what its caller gets.
fn call(backend: &Backend, payload: &str, response: u32) -> u32 {
    let handler = async |_| Ok::<_, Error>(response);
    let outcome = ready(run(backend, &operation(None), payload, handler));
    outcome.unwrap().into_response()
}

fn shown(until: Option<EpochMillis>) -> String {
    let at = until.map(|end| (end.get() - NOW.get()).to_string());
    format!("until {}", at.as_deref().unwrap_or("-"))
}

#[test]
fn each_record_has_a_state_and_only_one_without_a_live_run_is_evicted() {
    check_each(include_str!("states.txt"), |row| {
        let (hold, text) = match row.strip_prefix("hold, ") {
            Some(record) => (Some(OnTimeout::Hold), record),
            None => (None, row),
        };
        let (operation, store) = (operation(hold), Arc::new(MemoryStore::new()));
        let (backend, id) = (
            backend(store.clone()),
            identity(ORDER).key().unwrap().clone(),
        );
        let before = record(text);
        if let Some(record) = &before {
            store.insert(id.clone(), record.clone());
        }
        let state = match lookup(&backend, &operation, ORDER) {
            Ok(KeyState::InProgress { until }) => shown(until),
            Ok(KeyState::Completed(outcome)) => {
                assert_eq!(*outcome.response(), 7);
                "Completed".to_owned()
            }
            Ok(KeyState::Corrupt(why)) => format!("Corrupt {why}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{:?}", error.kind()),
        };
        let evicted = match evict(&backend, &operation, ORDER) {
            Ok(true) => "evicted".to_owned(),
            Ok(false) => "none".to_owned(),
            Err(error) => {
                assert!(!error.handler_ran() && error.to_string().contains("not evicted"));
                assert_eq!(store.record(&id), before);
                match error.lease_end() {
                    Some(end) => format!("{:?} {}", error.kind(), shown(Some(end))),
                    None => format!("{:?}", error.kind()),
                }
            }
        };
        assert!(evicted.starts_with("Already") || store.record(&id).is_none());
        format!("{state}; {evicted}")
    });
}

#[test]
fn the_record_of_another_payload_is_a_mismatch_and_stays() {
    let backend = backend(Arc::new(MemoryStore::new()));
    let operation = example::shared::operation(|it| {
        it.key = Some("id".into());
        it.validate = Some("amount".into());
    });
    let paid = async |_| Ok::<_, Error>(7);
    assert!(ready(run(&backend, &operation, ORDER, paid)).is_ok());
    let state = |amount| {
        let order = format!(r#"{{"id": 1, "amount": {amount}}}"#);
        let identity = operation.identify(&order, None).unwrap();
        let found = operation.lookup(&backend, &identity, None, Codec::<u32>::json());
        (
            ready(found).unwrap(),
            ready(operation.evict(&backend, &identity, None)),
        )
    };
    let (found, evicted) = state(6);
    assert_eq!(found, KeyState::PayloadMismatch);
    let mismatch = (ErrorKind::PayloadMismatch, false);
    assert_eq!(kind_and_run(&evicted.unwrap_err()), mismatch);
    let (found, evicted) = state(5);
    assert!(matches!(found, KeyState::Completed(_)) && evicted.unwrap());
}

#[test]
fn an_eviction_drops_the_cached_response_too_and_the_next_call_runs() {
    let store = Arc::new(MemoryStore::new());
    let (backend, operation) = (backend(store.clone()), operation(None));
    assert_eq!(call(&backend, ORDER, 7), 7);
    assert_eq!(call(&backend, r#"{"id": 2, "amount": 5}"#, 70), 70);
    assert!(evict(&backend, &operation, ORDER).unwrap());
    assert_eq!(call(&backend, ORDER, 8), 8);
    assert_eq!(call(&backend, r#"{"id": 2, "amount": 5}"#, 80), 70);
    // Another process has deleted the record.
    store.evict(identity(ORDER).key().unwrap());
    assert!(!evict(&backend, &operation, ORDER).unwrap());
    assert_eq!(call(&backend, ORDER, 9), 9);
}

#[test]
fn a_payload_without_a_key_has_no_record() {
    let (backend, operation) = (backend(Arc::new(MemoryStore::new())), operation(None));
    let found = lookup(&backend, &operation, "{}").unwrap();
    assert_eq!(found, KeyState::Bypassed(Bypass::NoKey));
    let error = evict(&backend, &operation, "{}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyMissing);
    let off = variable("IDEMPOTENCY_DISABLED", "true");
    let off = CompiledOperation::new("shop", &Settings::new(), &off).unwrap();
    let identity = off.identify(ORDER, None).unwrap();
    let found = ready(off.lookup(&backend, &identity, None, Codec::<u32>::json()));
    assert_eq!(found.unwrap(), KeyState::Bypassed(Bypass::Disabled));
    assert!(!ready(off.evict(&backend, &identity, None)).unwrap());
}

#[test]
fn a_store_that_fails_says_whether_the_record_may_have_been_evicted() {
    let store = FaultyStore::new([Some(DENIED), Some(Fault::ReplyLost)]);
    let (backend, operation) = (backend(store.clone()), operation(None));
    let id = identity(ORDER).key().unwrap().clone();
    store.records.insert(id.clone(), record("done").unwrap());
    let failed = (ErrorKind::StoreFailed, false);
    for (maybe, left) in [(false, true), (true, false)] {
        let error = evict(&backend, &operation, ORDER).unwrap_err();
        assert_eq!(kind_and_run(&error), failed);
        let text = error.to_string();
        assert_eq!(text.contains("may have been evicted"), maybe, "{text}");
        assert_eq!(store.records.record(&id).is_some(), left);
    }
    store.set_outage(Some(DENIED));
    let error = lookup(&backend, &operation, ORDER).unwrap_err();
    assert_eq!(kind_and_run(&error), failed);
}

#[test]
fn the_response_is_not_in_the_debug_text_of_a_state() {
    let backend = backend(Arc::new(MemoryStore::new()));
    call(&backend, ORDER, 424_242);
    let found = lookup(&backend, &operation(None), ORDER).unwrap();
    let text = format!("{found:?}");
    assert!(
        text.starts_with("Completed(Outcome(Replayed(") && !text.contains("424242"),
        "{text}"
    );
}
