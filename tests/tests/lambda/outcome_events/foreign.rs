//! The operation that a record names: the replay has it, and warns if it is another one.

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Codec, Errors};
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::Source;
use idempotency_core::record::Field;
use idempotency_core::store::MemoryStore;
use idempotency_lambda::{Backend, BoxError, OutcomeKind, Replay, backend_over};
use std::sync::Arc;

use super::recorded;

fn operation(path: &str, shared_key_prefix: bool) -> CompiledOperation {
    let settings = Settings {
        key_prefix: Some("programs".into()),
        shared_key_prefix: Some(shared_key_prefix),
        ..Settings::default()
    };
    CompiledOperation::new(path, &settings, &Variables::default()).unwrap()
}

/// Makes a call whose handler returns `number`. Checks that its response is 1. Returns its replay, if it is one, and its event.
async fn call(
    backend: &Backend,
    operation: &CompiledOperation,
    number: u8,
) -> (Option<Replay>, String) {
    let identity = operation.identify("7", None).unwrap();
    let mut replay = None;
    let lines = recorded(async {
        let handler = async |_| Ok::<_, BoxError>(number);
        let errors = Errors::new(BoxError::from);
        let run = operation.run(backend, &identity, None, Codec::json(), errors, handler);
        let outcome = run.await.unwrap();
        assert_eq!(*outcome.response(), 1);
        if let OutcomeKind::Replayed(given) = outcome.kind() {
            replay = Some(given.clone());
        }
    })
    .await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    (replay, lines[0].clone())
}

#[tokio::test]
async fn a_response_stored_by_another_operation_is_replayed_with_its_name() {
    let backend = backend_over(Arc::new(MemoryStore::new()));
    let (old, new) = ("shop::charge", "shop::payments::charge");
    assert_eq!(call(&backend, &operation(old, false), 1).await.0, None);
    for (path, shared) in [(old, false), (new, false), (new, true)] {
        let (replay, line) = call(&backend, &operation(path, shared), 2).await;
        assert_eq!(replay.unwrap().operation(), Some(old));
        let warned = path != old && !shared;
        assert_eq!(line.contains("WARN"), warned, "{line}");
        let both = "the response was stored by the operation `shop::charge`, and this is `shop::payments::charge`";
        assert_eq!(line.contains(both), warned, "{line}");
    }
}

#[tokio::test]
async fn a_record_without_a_readable_operation_is_replayed_without_a_warning() {
    let store = Arc::new(MemoryStore::new());
    let backend = backend_over(Arc::clone(&store) as _);
    let charge = operation("shop::charge", false);
    assert_eq!(call(&backend, &charge, 1).await.0, None);
    let id = charge.identify("7", None).unwrap().key().unwrap().clone();
    for operation in [Field::Absent, Field::Unreadable] {
        let mut record = store.record(&id).unwrap();
        record.operation = operation;
        store.insert(id.clone(), record);
        let (replay, line) = call(&backend, &charge, 2).await;
        assert_eq!(replay.unwrap().operation(), None);
        assert!(line.starts_with("INFO"), "{line}");
    }
}

#[tokio::test]
async fn a_cached_response_names_its_operation_too() {
    let backend = backend_over(Arc::new(MemoryStore::new()));
    let settings = Settings {
        local_cache: Some(1),
        ..Settings::default()
    };
    let charge = CompiledOperation::new("shop::charge", &settings, &Variables::default()).unwrap();
    assert_eq!(call(&backend, &charge, 1).await.0, None);
    let replay = call(&backend, &charge, 2).await.0.unwrap();
    assert_eq!(replay.source(), Source::Cache);
    assert_eq!(replay.operation(), Some("shop::charge"));
}

#[tokio::test]
async fn a_long_path_is_truncated_and_still_recognised() {
    let backend = backend_over(Arc::new(MemoryStore::new()));
    let long = operation(&format!("shops::{}", "é".repeat(100)), false);
    assert_eq!(call(&backend, &long, 1).await.0, None);
    let (replay, line) = call(&backend, &long, 2).await;
    // The 128th byte is within a character.
    assert_eq!(replay.unwrap().operation().unwrap().len(), 127);
    assert!(!line.contains("WARN"), "{line}");
}
