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
use crate::protocol::policy::{OnTimeout, Steps};
use crate::protocol::tests::NOW;
use crate::protocol::tests::script::record;
use crate::record::Record;
use crate::store::{BoxFuture, MemoryStore, SendLog, Store, StoreLimits, StoreReply, StoreRequest};
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
        let (set, text) = row.split_once(", ").unwrap_or(("", row));
        let operation = example::shared::operation(|it| {
            it.key = Some("id".into());
            it.on_timeout = (set == "hold").then_some(OnTimeout::Hold);
            it.validate = (set == "validated").then(|| "amount".into());
            it.steps = (set == "steps").then_some(Steps::Keep);
        });
        let store = Arc::new(MemoryStore::new());
        let backend = backend(store.clone());
        let identity = operation.identify(ORDER, None).unwrap();
        let id = identity.key().unwrap().clone();
        let mut before = record(text);
        if let Some(record) = &mut before {
            if set == "steps" {
                record.validation = identity.validation().map(str::to_owned).into();
            }
            store.insert(id.clone(), record.clone());
        }
        let found = operation.lookup(&backend, &identity, None, Codec::<u32>::json());
        let state = match ready(found) {
            Ok(KeyState::InProgress { until }) => shown(until),
            Ok(KeyState::Completed(outcome)) => {
                assert_eq!(*outcome.response(), 7);
                "Completed".to_owned()
            }
            Ok(KeyState::Corrupt(why)) => format!("Corrupt {why}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{:?}", error.kind()),
        };
        let evicted = match ready(operation.evict(&backend, &identity, None)) {
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
        let is_gone = ["evicted", "none"].contains(&evicted.as_str());
        assert_eq!(store.record(&id).is_none(), is_gone);
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
    let error = ready(off.evict(&backend, &identity, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
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

/// A store in which the record is this one, or gone, when a delete arrives. `brings` is false if it does not bring that record back.
struct ChangedBefore {
    records: MemoryStore,
    found: Option<Record>,
    brings: bool,
    maybe_applied: bool,
}

impl Store for ChangedBefore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let Some(write) = request.record() else {
                return self.records.send(request, log).await;
            };
            match &self.found {
                Some(found) => self.records.insert(write.id.clone(), found.clone()),
                None => drop(self.records.evict(write.id)),
            }
            let mut reply = self.records.send(request, log).await;
            if let StoreReply::ConditionFailed { existing, .. } = &mut reply
                && !self.brings
            {
                *existing = None;
            }
            if self.maybe_applied {
                reply = reply.admit_earlier();
            }
            reply
        })
    }

    fn limits(&self) -> StoreLimits {
        self.records.limits()
    }

    fn name(&self) -> String {
        "changed".to_owned()
    }
}

#[test]
fn a_record_that_changed_before_its_eviction_stays_and_is_looked_at_again() {
    let not = "changed after it was read, and was not evicted: look at it again (the handler did not run;";
    let maybe =
        "changed after it was read, and may have been evicted before that: look at it again";
    for (found, maybe_applied, expected) in [
        ("mine", false, Err(not)),
        ("mine", true, Err(maybe)),
        ("none", false, Ok(false)),
        ("none", true, Ok(true)),
        ("done", false, Ok(true)),
    ] {
        for brings in [true, false] {
            let store = Arc::new(ChangedBefore {
                records: MemoryStore::new(),
                found: record(found),
                brings,
                maybe_applied,
            });
            let id = identity(ORDER).key().unwrap().clone();
            store.records.insert(id.clone(), record("done").unwrap());
            let evicted = evict(&backend(store.clone()), &operation(None), ORDER);
            match (evicted, expected) {
                (Ok(evicted), Ok(expected)) => assert_eq!(evicted, expected, "{found}"),
                (Err(error), Err(expected)) => {
                    assert_eq!(error.kind(), ErrorKind::Contended);
                    let text = error.to_string();
                    assert!(text.contains(expected) && !text.contains("retry"), "{text}");
                    assert_eq!(store.records.record(&id), record(found));
                }
                (evicted, _) => panic!("{found}: {evicted:?}"),
            }
        }
    }
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
