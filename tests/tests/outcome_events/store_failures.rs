//! The events of calls whose store failed before the handler: unprotected runs, and the circuit breaker.

use std::time::Duration;

use idempotency_core::time::EpochMillis;
use idempotency_lambda::OnStoreError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::START;

use super::*;

fn unprotected() -> Operation {
    let builder = builder().on_store_error(OnStoreError::RunUnprotected);
    builder.build().unwrap()
}

fn throttle(harness: &Harness, kind: StoreOperation, times: usize) {
    (1..=times).for_each(|nth| harness.store.inject(kind, nth, StoreFault::Throttle));
}

#[tokio::test]
async fn an_unprotected_run_is_an_outcome_of_its_own() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 3);
    let charge = unprotected();
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned cause=the store \
                    failed, so the handler ran without a confirmed claim: an injected fault (Throttled) \
                    store_requests=1 store_ms=0 handler_ms=0";
    assert_eq!(
        line_of_a_call(&harness, &charge).await,
        event("WARN", expected)
    );

    let fails = async |_| Err::<(), BoxError>("declined: s3cr3t".into());
    let line = line_of(harness.call_with(&charge, order(), fails)).await;
    let failed = expected.replace("handler=returned", "handler=failed");
    assert_eq!(line, event("WARN", &failed));

    let panics = async |_| -> Result<(), BoxError> { std::panic::resume_unwind(Box::new(())) };
    let line = line_of(async {
        let call = harness.call_with(&charge, order(), panics);
        let panicked = idempotency_tests::unless_it_panics(call).await;
        assert!(panicked.is_err());
        Err::<Outcome<()>, _>("it panicked".into())
    })
    .await;
    let panicked = expected.replace("handler=returned", "handler=panicked");
    assert_eq!(line, event("ERROR", &panicked));
}

#[tokio::test]
async fn an_unprotected_run_whose_claim_was_applied_says_what_became_of_it() {
    let harness = Harness::default();
    harness
        .store
        .inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    let line = line_of_a_call(&harness, &unprotected()).await;
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned stored=true \
                    claim=completed cause=the store failed, so the handler ran without a confirmed claim: an injected \
                    fault (Unreachable) store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", expected));
}

#[tokio::test]
async fn an_unprotected_run_whose_response_is_not_stored_says_why() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness
        .store
        .inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    throttle(&harness, StoreOperation::Update, 4);
    let line = line_of_a_call(&harness, &unprotected()).await;
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned cause=the store \
                    failed, so the handler ran without a confirmed claim: an injected fault (Unreachable); its response \
                    is not stored: an injected fault (Throttled) store_requests=6";
    assert!(line.starts_with(&event("WARN", expected)), "{line}");
}

#[tokio::test]
async fn a_call_says_that_it_opened_found_or_closed_the_circuit() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 5);
    let charge = builder().circuit_breaker(true).build().unwrap();
    let failed = "key={key} outcome=refused handler_ran=false error=IdempotencyStoreFailed cause=an injected fault \
                  (Throttled) store_requests=1 store_ms=0 handler_ms=0";
    for _ in 0..4 {
        let line = line_of_a_call(&harness, &charge).await;
        assert_eq!(line, event("WARN", failed));
    }
    let opened = failed.replace(" error=", " circuit=opened error=");
    let line = line_of_a_call(&harness, &charge).await;
    assert_eq!(line, event("WARN", &opened));

    let open = format!(
        "key={{key}} outcome=refused handler_ran=false circuit=open error=IdempotencyStoreFailed cause=nothing was sent, \
         because requests failed repeatedly and the circuit breaker is open until {}: retry after \
         that store_requests=0 store_ms=0 handler_ms=0",
        EpochMillis::new(START + 1_000)
    );
    let line = line_of_a_call(&harness, &charge).await;
    assert_eq!(line, event("WARN", &open));

    harness.clock.advance(Duration::from_millis(1_001));
    let line = line_of_a_call(&harness, &charge).await;
    let closed = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed circuit=closed \
                  store_requests=2 store_ms=0 handler_ms=0";
    assert_eq!(line, event("INFO", closed));
}

#[tokio::test]
async fn an_unprotected_run_without_a_request_names_the_open_circuit() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 5);
    let charge = builder()
        .circuit_breaker(true)
        .on_store_error(OnStoreError::RunUnprotected);
    let charge = charge.build().unwrap();
    for _ in 0..5 {
        harness.call(&charge, order()).await.unwrap();
    }
    let line = line_of_a_call(&harness, &charge).await;
    let expected = format!(
        "key={{key}} outcome=unprotected bypass=store_failed handler_ran=true handler=returned circuit=open cause=the \
         store failed, so the handler ran without a confirmed claim: the circuit breaker is open until {} \
         store_requests=0 store_ms=0 handler_ms=0",
        EpochMillis::new(START + 1_000)
    );
    assert_eq!(line, event("WARN", &expected));
}
