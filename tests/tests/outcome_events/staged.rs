//! The events of calls whose handlers stage writes: what became of the writes.

use std::time::Duration;

use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_lambda::{Call, with_backend};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::START;

use super::*;

/// Stages a write that takes one from an account.
fn take_one(call: &Call) {
    let take = LedgerEntry::add("s3cr3t account", -1).at_least(0);
    let staged = call.stage(|writes: &mut MemoryWrites| {
        writes.push(take);
        Ok::<_, std::convert::Infallible>(())
    });
    staged.unwrap();
}

fn ledger(harness: &Harness) -> &MemoryStore {
    harness.store.inner()
}

/// Returns the line of a call whose handler stages a write and then ends with `end`.
async fn line_of_a_staging_call(
    harness: &Harness,
    operation: &Operation,
    payload: Value,
    end: impl AsyncFnOnce() -> Result<u32, BoxError>,
) -> String {
    let deadline = harness.deadline_in(Duration::from_secs(30));
    let call = operation.run(&payload, deadline, |call: Call| async move {
        take_one(&call);
        end().await
    });
    line_of(with_backend(harness.backend.clone(), call)).await
}

#[tokio::test]
async fn staged_writes_are_applied_with_the_completion() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let applied = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed staged=applied \
                   store_requests=2 store_ms=0 handler_ms=0";
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    assert_eq!(line, event("INFO", applied));
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 0);
    // The reply is lost, and the second transaction finds the completion.
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    ledger(&harness).set_balance("s3cr3t account", 1);
    harness
        .store
        .inject(StoreOperation::Transact, 1, StoreFault::LoseReply);
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    let found = "key={key} outcome=replayed source=completion handler_ran=true handler=returned staged=applied \
                 store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("INFO", found));
}

#[tokio::test]
async fn staged_writes_of_a_run_without_a_result_are_dropped() {
    let harness = Harness::default();
    let fails = async || Err("declined: s3cr3t".into());
    let failed = "key={key} outcome=failed handler_ran=true handler=failed stored=false claim=released staged=dropped \
                  store_requests=2 store_ms=0 handler_ms=0";
    let line = line_of_a_staging_call(&harness, &charge(), order(), fails).await;
    assert_eq!(line, event("INFO", failed));
    let unstored = builder().store_when("@ != `1`");
    let unstored = unstored.build().unwrap();
    let line = line_of_a_staging_call(&harness, &unstored, order(), async || Ok(1)).await;
    let dropped = "key={key} outcome=executed handler_ran=true handler=returned stored=false claim=released staged=dropped \
                   cause=the response is not stored, so the 1 writes that the handler staged are dropped store_requests=2 \
                   store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", dropped));
}

#[tokio::test]
async fn a_rejection_names_the_write_and_not_its_content() {
    let harness = Harness::default();
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    let rejected = "key={key} outcome=rejected handler_ran=true handler=returned stored=false claim=released staged=rejected \
                    error=IdempotencyTransactionRejected cause=write 1 of 1 (change of the ledger): ConditionalCheckFailed \
                    store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", rejected));
}

#[tokio::test]
async fn writes_of_lost_replies_are_unknown_and_those_of_a_late_owner_are_dropped() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    ledger(&harness).set_balance("s3cr3t account", 5);
    let charge = charge();
    (1..=4).for_each(|nth| {
        let lost = StoreFault::LoseRequest;
        harness.store.inject(StoreOperation::Transact, nth, lost);
    });
    let line = line_of_a_staging_call(&harness, &charge, order(), async || Ok(1)).await;
    assert!(line.contains("outcome=unconfirmed"), "{line}");
    assert!(line.contains("staged=unknown"), "{line}");

    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 5);
    let mut lines = recorded(async {
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let harness = &harness;
        let charge = &charge;
        let late = charge.run(&order(), deadline, |call: Call| async move {
            take_one(&call);
            harness.clock.advance(Duration::from_secs(31));
            harness.call_elsewhere(charge, order()).await?;
            Ok::<_, BoxError>(9_usize)
        });
        with_backend(harness.backend.clone(), late).await.unwrap();
    })
    .await;
    let line = lines.pop().unwrap();
    assert!(
        line.contains("source=completion") && line.contains("staged=dropped"),
        "{line}"
    );
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 5);
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_applied_alone() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let optional = builder().key_required(false).build().unwrap();
    let keyless = || json!({ "card": "s3cr3t" });
    let line = line_of_a_staging_call(&harness, &optional, keyless(), async || Ok(1)).await;
    let applied = "outcome=bypassed bypass=no_key handler_ran=true handler=returned staged=applied cause=the \
                   payload has no idempotency key: the handler runs unprotected; the key expression `order_id` finds \
                   nothing in it (`key_required = true` refuses such a payload) store_requests=1 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", applied));
    let line = line_of_a_staging_call(&harness, &optional, keyless(), async || Ok(1)).await;
    assert!(
        line.contains("outcome=rejected") && line.contains("staged=rejected"),
        "{line}"
    );
    let fails = async || Err("declined".into());
    let line = line_of_a_staging_call(&harness, &optional, keyless(), fails).await;
    assert!(
        line.contains("outcome=bypassed") && line.contains("staged=dropped"),
        "{line}"
    );
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_dropped_if_its_response_is_not_stored_under_a_key() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let optional = builder().key_required(false);
    let unstored = optional.store_when("@ != `1`").build().unwrap();
    let keyless = || json!({ "card": "s3cr3t" });
    let line = line_of_a_staging_call(&harness, &unstored, keyless(), async || Ok(1)).await;
    assert!(
        line.contains("outcome=bypassed") && line.contains("staged=dropped"),
        "{line}"
    );
    assert!(
        line.contains("so the 1 writes that the handler staged are dropped"),
        "{line}"
    );
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 1);
    let line = line_of_a_staging_call(&harness, &unstored, keyless(), async || Ok(2)).await;
    assert!(line.contains("staged=applied"), "{line}");
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 0);
}
