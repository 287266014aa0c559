//! `init` in a program whose operations have their own stores, in a process without `IDEMPOTENCY_TABLE`.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, LazyLock};

use idempotency_lambda::{BoxError, ErrorKind, MemoryStore, Operation, idempotent};

static STORE: LazyLock<Arc<MemoryStore>> = LazyLock::new(Arc::default);

#[idempotent(payload = order, store = STORE.clone())]
async fn charge(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

#[tokio::test]
async fn init_needs_no_table_until_an_operation_without_its_own_store_exists() {
    idempotency_lambda::init().await.unwrap();
    assert_eq!(charge(1).await.unwrap(), 1);
    assert_eq!(STORE.len(), 1);

    let built = Operation::builder("shop::ship").key("order");
    built.store(STORE.clone()).build().unwrap();
    idempotency_lambda::init().await.unwrap();

    Operation::builder("shop::refund")
        .key("order")
        .build()
        .unwrap();
    let error = idempotency_lambda::init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("IDEMPOTENCY_TABLE"), "{error}");
}
