//! Records whose handlers stage writes: acknowledged only if the writes were applied.

use std::convert::Infallible;
use std::time::Duration;

use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, Call, with_backend};

use crate::shop::{Shop, builder, named, queue};
use crate::sqs::Order;

const MINUTE: Duration = Duration::from_secs(60);

/// Stages a write, and returns the order.
async fn stage(order: Order, call: Call) -> Result<String, BoxError> {
    call.stage(|writes: &mut MemoryWrites| {
        writes.push(LedgerEntry::add("shop", 1));
        Ok::<_, Infallible>(())
    })?;
    Ok(order.order_id)
}

#[tokio::test]
async fn a_record_whose_staged_writes_are_dropped_is_returned() {
    let shop = Shop::new();
    let with_key = builder("batch.staged").key("order_id");
    let without_key = builder("batch.staged.keyless").key("other_id");
    for (operation, whose) in [(with_key, "a key"), (without_key, "no key")] {
        let operation = operation.store_when("@ != 'a'").build().unwrap();
        let before = shop.harness.store.inner().balance("shop");
        let event = shop.event(queue(&["a", "b"]), MINUTE);
        let batch = Batch::new(&operation).sqs_with_call(event, stage);
        let response = with_backend(shop.harness.backend.clone(), batch).await;
        assert_eq!(named(&response.unwrap()), ["m-a"], "{whose}");
        let after = shop.harness.store.inner().balance("shop");
        assert_eq!(after, before + 1, "{whose}");
    }
}
