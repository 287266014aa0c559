//! A store that fails under a batch: `on_store_error` and the circuit breaker.

use idempotency_lambda::OnStoreError;
use idempotency_testkit::store::{StoreFault, StoreOperation};

use crate::shop::{Shop, builder, queue};

const ORDERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// Returns the messages of these orders, as a response names them.
fn messages(orders: &[&str]) -> Vec<String> {
    orders.iter().map(|order| format!("m-{order}")).collect()
}

/// Throttles the next claims.
fn throttle(shop: &Shop, claims: usize) {
    for nth in 1..=claims {
        let store = &shop.harness.store;
        store.inject(StoreOperation::Put, nth, StoreFault::Throttle);
    }
}

#[tokio::test]
async fn a_message_whose_claim_failed_runs_unprotected_and_is_acknowledged() {
    let shop = Shop::new();
    let operation = builder("batch.unprotected").key("order_id");
    let operation = operation.on_store_error(OnStoreError::RunUnprotected);
    let operation = operation.build().unwrap();
    throttle(&shop, 2);
    let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
    assert!(returned.is_empty());
    assert_eq!(shop.ran(), ["a", "b", "c"]);
    // Of the first two nothing is stored: they run again when they are delivered again.
    let returned = shop.sqs(&operation, queue(&["a", "b", "c"])).await;
    assert!(returned.is_empty());
    assert_eq!(shop.ran(), ["a", "b"]);
}

#[tokio::test]
async fn a_batch_on_a_failing_store_asks_it_five_times_and_returns_every_message() {
    let shop = Shop::new();
    let operation = builder("batch.circuit").key("order_id");
    let operation = operation.circuit_breaker(true).build().unwrap();
    throttle(&shop, ORDERS.len());
    let returned = shop.sqs(&operation, queue(&ORDERS)).await;
    assert_eq!(returned, messages(&ORDERS));
    assert!(shop.ran().is_empty());
    assert_eq!(shop.harness.requests(), [5, 0, 0, 0]);
}

#[tokio::test]
async fn a_batch_with_both_settings_asks_the_store_five_times_and_runs_every_message() {
    let shop = Shop::new();
    let operation = builder("batch.both").key("order_id").circuit_breaker(true);
    let operation = operation.on_store_error(OnStoreError::RunUnprotected);
    let operation = operation.build().unwrap();
    throttle(&shop, ORDERS.len());
    assert!(shop.sqs(&operation, queue(&ORDERS)).await.is_empty());
    assert_eq!(shop.ran(), ORDERS);
    assert_eq!(shop.harness.requests(), [5, 0, 0, 0]);
}
