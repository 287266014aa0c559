//! Records whose handlers stage writes: acknowledged only if the writes were applied.

use std::convert::Infallible;
use std::time::Duration;

use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, Call, OnStoreError, with_backend};
use idempotency_testkit::store::StoreFault::{LoseReply, LoseRequest, Throttle};
use idempotency_testkit::store::StoreOperation::{Put, Read, Transact};

use crate::shop::{Shop, builder, named, queue};
use crate::sqs::Order;

const MINUTE: Duration = Duration::from_secs(60);

/// More requests than a call sends.
const ALL: usize = 1_000;

#[tokio::test]
async fn a_record_is_acknowledged_only_if_its_staged_writes_are_known_to_be_applied() {
    // The claim of the call, its key, and the requests that fail. If the store failed, `stage` is an error.
    let claims = [
        ("confirmed", "order_id", vec![]),
        ("none, no key", "other_id", vec![]),
        ("none", "order_id", vec![(Put, Throttle)]),
        (
            "unknown",
            "order_id",
            vec![(Put, LoseReply), (Read, Throttle)],
        ),
    ];
    // The end of the transaction, the order, and how that many sends fail; if it is applied, and if the record is acknowledged.
    // `rejected` stages a write whose condition fails, `fails` returns an error after it, `unstored` is not stored by policy, and
    // the claim of `evicted` is gone.
    let ends = [
        ("applied", "a", (0, Throttle), true, true),
        ("found, after a lost reply", "a", (1, LoseReply), true, true),
        ("applied, not known", "a", (ALL, LoseReply), true, false),
        ("lost, not known", "a", (ALL, LoseRequest), false, false),
        ("not applied", "a", (ALL, Throttle), false, false),
        ("rejected", "rejected", (0, Throttle), false, false),
        ("dropped, failed", "fails", (0, Throttle), false, false),
        (
            "dropped, by policy",
            "unstored",
            (0, Throttle),
            false,
            false,
        ),
        ("fenced", "evicted", (0, Throttle), false, false),
    ];
    for (at, (claim, key, failing)) in claims.into_iter().enumerate() {
        for (end, order, (sends, fault), applied, acknowledged) in ends {
            if order == "evicted" && claim != "confirmed" {
                // There is no record to evict.
                continue;
            }
            let shop = Shop::with_passing_time();
            let store = &shop.harness.store;
            for nth in 1..=ALL {
                for (request, fault) in &failing {
                    store.inject(*request, nth, *fault);
                }
            }
            (1..=sends).for_each(|nth| store.inject(Transact, nth, fault));
            let operation = builder(&format!("batch.staged.{at}")).key(key);
            let operation = operation.key_required(false).store_when("@ != 'unstored'");
            let operation = operation.on_store_error(OnStoreError::RunUnprotected);
            let operation = operation.build().unwrap();
            let handler = async |order: Order, call: Call| {
                let order = order.order_id;
                call.stage(|writes: &mut MemoryWrites| {
                    let least = if order == "rejected" { 100 } else { 0 };
                    writes.push(LedgerEntry::add("shop", 1).at_least(least));
                    Ok::<_, Infallible>(())
                })?;
                match order.as_str() {
                    "fails" => return Err(BoxError::from("declined")),
                    "evicted" => {
                        let id = idempotency_tests::id(&operation, &order.as_str().into());
                        store.inner().evict(&id);
                    }
                    _ => {}
                }
                Ok(order)
            };
            let event = shop.event(queue(&[order]), MINUTE);
            let batch = Batch::new(&operation).run(event, handler);
            let response = with_backend(shop.harness.backend.clone(), batch).await;
            let stages = failing.is_empty();
            let is_acknowledged = named(&response.unwrap()).is_empty();
            let is_applied = store.inner().balance("shop") == 1;
            assert_eq!(
                (is_applied, is_acknowledged),
                (applied && stages, acknowledged && stages),
                "claim {claim}, transaction {end}"
            );
        }
    }
}
