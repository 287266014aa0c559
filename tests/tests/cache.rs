//! What the local cache keeps, and what it never gives.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use idempotency_lambda::core::store::MemoryStore;
use idempotency_lambda::{ErrorKind, Operation};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Bench, START, operation, ours};
use serde_json::{Value, json};

fn cached() -> Operation {
    operation().key("order_id").local_cache(8).build().unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

#[tokio::test]
async fn an_answer_that_nobody_confirmed_is_not_given_from_the_cache() {
    let bench = Bench::with_clock(ManualClock::rushing(START));
    let charge = cached();
    // The completion never reaches the table, in none of its tries.
    for nth in 1..=4 {
        bench
            .store
            .inject(StoreOperation::Update, nth, StoreFault::LoseRequest);
    }
    let error = bench.call(&charge, order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    let error = bench.call(&charge, order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
}

#[tokio::test]
async fn the_cache_keeps_nothing_of_a_run_that_failed() {
    let bench = Bench::default();
    let charge = operation()
        .key("order_id")
        .validate("amount")
        .local_cache(8)
        .build()
        .unwrap();
    bench
        .call_with(&charge, order(), async |_| Err::<(), _>("declined".into()))
        .await
        .unwrap_err();
    let corrected = json!({ "order_id": 7, "amount": 43 });
    assert!(!bench.call(&charge, corrected).await.unwrap().is_replayed());
}

#[tokio::test]
async fn an_answer_that_is_not_stored_is_not_cached_either() {
    let bench = Bench::default();
    let charge = operation()
        .key("order_id")
        .store_when("paid")
        .local_cache(8)
        .build()
        .unwrap();
    let call = |paid| bench.call_with(&charge, order(), async move |_| Ok(json!({ "paid": paid })));
    for _ in 0..2 {
        assert!(!call(false).await.unwrap().is_replayed());
    }
    bench
        .store
        .inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    call(true).await.unwrap();
    let error = call(true).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
}

#[tokio::test]
async fn what_one_store_has_answered_is_not_given_for_another() {
    let mut bench = Bench::default();
    let charge = cached();
    bench.call(&charge, order()).await.unwrap();
    bench.environment = bench.environment.with_store(Arc::new(MemoryStore::new()));
    assert!(!bench.call(&charge, order()).await.unwrap().is_replayed());
}
