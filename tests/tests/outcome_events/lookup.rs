//! The event of a call under `read-first`.

use idempotency_lambda::Lookup;
use idempotency_testkit::store::{StoreFault, StoreOperation};

use super::*;

fn reads_first() -> Operation {
    builder().lookup(Lookup::ReadFirst).build().unwrap()
}

#[tokio::test]
async fn the_event_of_a_run_counts_the_read() {
    let expected = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed \
                    store_requests=3 store_ms=0 handler_ms=0";
    let line = line_of_a_call(&Harness::default(), &reads_first()).await;
    assert_eq!(line, event("INFO", expected));
}

#[tokio::test]
async fn a_read_that_failed_is_a_note_of_a_warning_and_ends_no_call() {
    let harness = Harness::default();
    let fails = || {
        let read = StoreOperation::Read;
        harness.store.inject(read, 1, StoreFault::Throttle);
    };
    let cause = "cause=the read before the claim failed: an injected fault (Throttled)";
    fails();
    let expected = format!(
        "key={{key}} outcome=executed handler_ran=true handler=returned stored=true claim=completed {cause} \
         store_requests=3 store_ms=0 handler_ms=0"
    );
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", &expected));
    fails();
    let expected = format!(
        "key={{key}} outcome=replayed source=store handler_ran=false {cause} store_requests=2 store_ms=0 handler_ms=0"
    );
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", &expected));
}

#[tokio::test]
async fn the_error_of_a_claim_comes_before_the_note_of_the_read() {
    let harness = Harness::default();
    let inject = |operation, fault| harness.store.inject(operation, 1, fault);
    inject(StoreOperation::Read, StoreFault::LoseReply);
    inject(StoreOperation::Put, StoreFault::Throttle);
    let expected = "key={key} outcome=refused handler_ran=false error=IdempotencyStoreFailed cause=an injected fault \
                    (Throttled); the read before the claim failed: an injected fault (Unreachable) store_requests=2 store_ms=0 \
                    handler_ms=0";
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", expected));
}
