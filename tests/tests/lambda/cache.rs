//! The local cache: what it keeps, and what it never returns.

use std::sync::Arc;

use idempotency_core::store::MemoryStore;
use idempotency_lambda::{BoxError, ErrorKind, Operation, idempotent, with_backend};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, operation, ours};
use serde_json::{Value, json};

fn cached() -> Operation {
    operation().key("order_id").local_cache(8).build().unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

#[tokio::test]
async fn an_unconfirmed_response_is_not_returned_from_the_cache() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    let charge = cached();
    // No try of the completion reaches the store.
    for nth in 1..=4 {
        harness
            .store
            .inject(StoreOperation::Update, nth, StoreFault::LoseRequest);
    }
    let error = harness.call(&charge, order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    let error = harness.call(&charge, order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
}

#[tokio::test]
async fn the_cache_keeps_nothing_of_a_run_that_failed() {
    let harness = Harness::default();
    let charge = operation()
        .key("order_id")
        .validate("amount")
        .local_cache(8)
        .build()
        .unwrap();
    harness
        .call_with(&charge, order(), async |_| Err::<(), _>("declined".into()))
        .await
        .unwrap_err();
    let corrected = json!({ "order_id": 7, "amount": 43 });
    assert!(
        !harness
            .call(&charge, corrected)
            .await
            .unwrap()
            .is_replayed()
    );
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_not_cached() {
    let harness = Harness::default();
    let charge = operation()
        .key("order_id")
        .store_when("paid")
        .local_cache(8)
        .build()
        .unwrap();
    let call =
        |paid| harness.call_with(&charge, order(), async move |_| Ok(json!({ "paid": paid })));
    for _ in 0..2 {
        assert!(!call(false).await.unwrap().is_replayed());
    }
    harness
        .store
        .inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    call(true).await.unwrap();
    let error = call(true).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
}

/// Calls twice. Returns the number of requests to the store of the second call.
async fn requests_of_the_duplicate<F: Future<Output = ()>>(
    harness: &Harness,
    call: impl Fn() -> F,
) -> usize {
    call().await;
    let before: usize = harness.requests().iter().sum();
    call().await;
    harness.requests().iter().sum::<usize>() - before
}

#[tokio::test]
async fn a_response_larger_than_the_limit_in_bytes_is_replayed_from_the_store() {
    let harness = Harness::default();
    let charge = operation()
        .key("order_id")
        .local_cache(8)
        .local_cache_bytes(2_000)
        .build()
        .unwrap();
    for (order_id, length, requests) in [(1, 100, 0), (2, 2_000, 1)] {
        let call = async || {
            let order = json!({ "order_id": order_id });
            let called = harness.call_with(&charge, order, async |_| Ok("7".repeat(length)));
            assert_eq!(called.await.unwrap().response().len(), length);
        };
        assert_eq!(requests_of_the_duplicate(&harness, call).await, requests);
    }
}

#[idempotent(
    payload = order_id,
    key_prefix = "bounded",
    local_cache = 8,
    local_cache_bytes = 2_000
)]
async fn bounded(order_id: u64, length: usize) -> Result<String, BoxError> {
    Ok("7".repeat(length))
}

#[tokio::test]
async fn the_attribute_limits_the_bytes_too() {
    let harness = Harness::default();
    for (order_id, length, requests) in [(1, 100, 0), (2, 2_000, 1)] {
        let call = async || {
            let called = with_backend(harness.backend.clone(), bounded(order_id, length));
            assert_eq!(called.await.unwrap().len(), length);
        };
        assert_eq!(requests_of_the_duplicate(&harness, call).await, requests);
    }
}

#[tokio::test]
async fn a_response_of_one_store_is_not_returned_for_another() {
    let mut harness = Harness::default();
    let charge = cached();
    harness.call(&charge, order()).await.unwrap();
    harness.backend = harness.backend.with_store(Arc::new(MemoryStore::new()));
    assert!(!harness.call(&charge, order()).await.unwrap().is_replayed());
}
