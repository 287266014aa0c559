//! The local cache: what it keeps, and what it never returns.
//!
//! `lookup = "read-first"`: what a user sees of the read before the claim.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{Consistency, MemoryStore};
use idempotency_lambda::{
    BoxError, Context, Error, ErrorKind, LambdaEvent, Lookup, OnInProgress, Operation,
    OperationBuilder, OutcomeKind, Source, idempotent, with_backend, with_invocation,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreExt, StoreFault, StoreOperation};
use idempotency_tests::{Harness, START, id, keyed, operation, ours};
use serde_json::{Value, json};

use crate::event;

fn cached() -> Operation {
    keyed(|of| of.local_cache(8))
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
        harness.inject(StoreOperation::Update, nth, StoreFault::LoseRequest);
    }
    assert_eq!(
        harness.refused(&charge, order()).await,
        ErrorKind::CompletionUnknown
    );
    assert_eq!(
        harness.refused(&charge, order()).await,
        ErrorKind::AlreadyInProgress
    );
}

#[tokio::test]
async fn the_cache_keeps_nothing_of_a_run_that_failed() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount").local_cache(8));
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
    let charge = keyed(|of| of.store_when("paid").local_cache(8));
    let call =
        |paid| harness.call_with(&charge, order(), async move |_| Ok(json!({ "paid": paid })));
    for _ in 0..2 {
        assert!(!call(false).await.unwrap().is_replayed());
    }
    harness.inject(StoreOperation::Update, 1, StoreFault::TooLarge);
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
    let charge = keyed(|of| of.local_cache(8).local_cache_bytes(2_000));
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
            let called = harness.within(bounded(order_id, length));
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

fn builder() -> OperationBuilder {
    operation().key("order_id").lookup(Lookup::ReadFirst)
}

fn reading_first() -> Operation {
    builder().build().unwrap()
}

fn read_order() -> Value {
    json!({ "order_id": 7 })
}

/// Returns how current each read had to be.
fn reads(harness: &Harness) -> Vec<Consistency> {
    let calls = harness.store.calls().into_iter();
    calls.filter_map(|call| call.consistency).collect()
}

#[tokio::test]
async fn a_duplicate_of_a_finished_call_is_read_and_writes_nothing() {
    let (harness, charge) = (Harness::default(), reading_first());
    let first = harness.call(&charge, read_order()).await.unwrap();
    assert!(!first.is_replayed());
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
    let again = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert_eq!(harness.requests(), [1, 1, 0, 2]);
    let OutcomeKind::Replayed(replay) = again.kind() else {
        panic!("the response is replayed: {again:?}");
    };
    assert_eq!(replay.source(), Source::Store);
    assert_eq!((again.into_response(), harness.runs()), (1, 1));
    assert_eq!(reads(&harness), [Consistency::Eventual; 2]);
}

#[tokio::test]
async fn the_variable_and_the_attribute_switch_it_on() {
    #[idempotent(key = "order_id", lookup = "read-first")]
    async fn charge(event: LambdaEvent<Value>) -> Result<Value, Error> {
        Ok(event.payload)
    }
    let harness = Harness::default();
    let call = charge(event(read_order()));
    harness.within(call).await.unwrap();
    assert_eq!(harness.requests(), [1, 1, 0, 1]);

    let variable = ("IDEMPOTENCY_LOOKUP".to_owned(), "Read-First".to_owned());
    let of_variable = keyed(|of| of.variables(Variables::from_iter([variable])));
    let harness = Harness::default();
    harness.call(&of_variable, read_order()).await.unwrap();
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_read_that_finds_nothing_though_there_is_a_response_leads_to_a_claim_that_finds_it() {
    let (harness, charge) = (Harness::default(), reading_first());
    harness.store.lag(2);
    harness.call(&charge, read_order()).await.unwrap();
    let again = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert!(again.is_replayed());
    assert_eq!((again.into_response(), harness.runs()), (1, 1));
    assert_eq!(harness.requests(), [2, 1, 0, 2]);
}

#[tokio::test]
async fn a_read_that_finds_a_finished_claim_still_in_progress_refuses_no_call() {
    let (harness, charge) = (Harness::default(), reading_first());
    harness.store.lag(1);
    harness.call(&charge, read_order()).await.unwrap();
    // The read finds the claim of the first call, which has completed since.
    let again = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert!(again.is_replayed());
    assert_eq!(harness.requests(), [2, 1, 0, 2]);
}

#[tokio::test]
async fn a_retry_of_a_failed_run_is_not_refused_by_a_stale_claim() {
    let (harness, charge) = (Harness::default(), reading_first());
    harness.store.lag(1);
    let failed = harness
        .call_with(&charge, read_order(), async |_| {
            Err::<usize, BoxError>("declined".into())
        })
        .await;
    assert_eq!(failed.unwrap_err().to_string(), "declined");
    let again = harness.call(&charge, read_order()).await.unwrap();
    assert_eq!((again.is_replayed(), harness.runs()), (false, 2));
}

#[tokio::test]
async fn an_evicted_response_is_replayed_until_the_read_sees_the_eviction() {
    let (harness, charge) = (Harness::default(), reading_first());
    harness.store.lag(1);
    harness.call(&charge, read_order()).await.unwrap();
    let everything = Condition::All(Vec::new());
    harness
        .store
        .delete(&id(&charge, &json!(7)), &everything)
        .await;
    let stale = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert!(stale.is_replayed());
    harness.store.lag(0);
    let fresh = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert_eq!((fresh.is_replayed(), harness.runs()), (false, 2));
}

#[tokio::test]
async fn an_expired_response_that_a_read_finds_is_not_replayed() {
    let charge = builder()
        .expires_after(Duration::from_secs(60))
        .build()
        .unwrap();
    let harness = Harness::default();
    harness.call(&charge, read_order()).await.unwrap();
    harness.clock.advance(Duration::from_secs(62));
    let again = harness.call_elsewhere(&charge, read_order()).await.unwrap();
    assert_eq!((again.is_replayed(), harness.runs()), (false, 2));
}

#[tokio::test]
async fn another_payload_is_refused_by_the_claim() {
    let (harness, charge) = (Harness::default(), builder().validate("amount"));
    let charge = charge.build().unwrap();
    let of = |amount: u32| json!({ "order_id": 7, "amount": amount });
    harness.call(&charge, of(1)).await.unwrap();
    assert_eq!(
        harness.refused_elsewhere(&charge, of(2)).await,
        ErrorKind::PayloadMismatch
    );
    assert_eq!(harness.requests(), [2, 1, 0, 2]);
    let again = harness.call_elsewhere(&charge, of(1)).await.unwrap();
    assert!(again.is_replayed());
}

#[tokio::test]
async fn a_failed_read_ends_no_call() {
    for fault in [StoreFault::Throttle, StoreFault::LoseReply] {
        let (harness, charge) = (Harness::default(), reading_first());
        harness.inject(StoreOperation::Read, 1, fault);
        let outcome = harness.call(&charge, read_order()).await.unwrap();
        assert!(!outcome.is_replayed(), "{fault:?}");
        assert_eq!(harness.requests(), [1, 1, 0, 1], "{fault:?}");
    }
}

#[tokio::test]
async fn the_error_of_a_store_that_fails_is_that_of_the_claim() {
    let (harness, charge) = (Harness::default(), reading_first());
    harness.inject(StoreOperation::Read, 1, StoreFault::LoseReply);
    harness.inject(StoreOperation::Put, 1, StoreFault::Throttle);
    let error = harness.call(&charge, read_order()).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    assert!(error.to_string().contains("Throttled"), "{error}");
    assert!(!error.to_string().contains("Unreachable"), "{error}");
}

#[tokio::test]
async fn the_cache_and_a_concurrent_call_are_asked_before_the_read() {
    let charge = builder()
        .local_cache(8)
        .on_in_progress(OnInProgress::Wait)
        .build()
        .unwrap();
    let harness = Harness::default();
    let first = harness.call_with(&charge, read_order(), async |run| {
        tokio::task::yield_now().await;
        Ok(run)
    });
    let (first, second) = tokio::join!(first, harness.call(&charge, read_order()));
    assert!(!first.unwrap().is_replayed() && second.unwrap().is_replayed());
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
    assert!(
        harness
            .call(&charge, read_order())
            .await
            .unwrap()
            .is_replayed()
    );
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_response_that_the_read_found_is_cached() {
    let (harness, elsewhere) = (Harness::default(), reading_first());
    harness
        .call_elsewhere(&elsewhere, read_order())
        .await
        .unwrap();
    let cached = builder().local_cache(8).build().unwrap();
    for requests in [[1, 1, 0, 2], [1, 1, 0, 2]] {
        assert!(
            harness
                .call(&cached, read_order())
                .await
                .unwrap()
                .is_replayed()
        );
        assert_eq!(harness.requests(), requests);
    }
}

#[tokio::test]
async fn tenants_share_no_response() {
    let (harness, charge) = (Harness::default(), reading_first());
    for (tenant, is_replayed) in [("a", false), ("b", false), ("a", true)] {
        let mut context = Context::default();
        context.tenant_id = Some(tenant.to_owned());
        let outcome = with_invocation(&context, harness.call(&charge, read_order())).await;
        assert_eq!(outcome.unwrap().is_replayed(), is_replayed, "{tenant}");
    }
}

#[tokio::test]
async fn every_read_of_a_wait_is_consistent() {
    let charge = builder()
        .on_in_progress(OnInProgress::Wait)
        .build()
        .unwrap();
    let harness = Harness::with_clock(idempotency_testkit::ManualClock::auto_advancing(
        idempotency_tests::START,
    ));
    let waits = harness.call_with(&charge, read_order(), async |run| {
        let waits = harness.call_elsewhere(&charge, read_order());
        let finishes = async {
            // Lets the other process read, claim and wait.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            harness.store.inner().evict(&id(&charge, &json!(7)));
        };
        let (waited, ()) = tokio::join!(waits, finishes);
        waited.unwrap();
        Ok(run)
    });
    waits.await.unwrap();
    let reads = reads(&harness);
    assert_eq!(reads[..2], [Consistency::Eventual; 2]);
    assert!(reads.len() > 2, "{reads:?}");
    assert!(reads[2..].iter().all(|read| *read == Consistency::Strong));
}

#[idempotent(sqs, key = "order_id", lookup = "read-first")]
async fn of_a_message(order: Value) -> Result<Value, BoxError> {
    Ok(order)
}

#[idempotent(http, shared_by_all_callers = true, lookup = "read-first")]
async fn of_a_request(
    _: LambdaEvent<aws_lambda_events::apigw::ApiGatewayV2httpRequest>,
) -> Result<aws_lambda_events::apigw::ApiGatewayV2httpResponse, BoxError> {
    let mut response = aws_lambda_events::apigw::ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    Ok(response)
}

#[tokio::test]
async fn batches_and_http_read_first_too() {
    use idempotency_testkit::events;
    let context = || event(Value::Null).context;
    let harness = Harness::default();
    for requests in [[1, 1, 0, 1], [1, 1, 0, 2]] {
        let batch = events::sqs("orders").json(&read_order()).parse().unwrap();
        let handler = of_a_message(LambdaEvent::new(batch, context()));
        let response = with_backend(harness.another_process(), handler).await;
        assert!(response.unwrap().batch_item_failures.is_empty());
        assert_eq!(harness.requests(), requests);
    }
    let harness = Harness::default();
    for requests in [[1, 1, 0, 1], [1, 1, 0, 2]] {
        let request = events::api_gateway_v2("POST", "/payments").header("Idempotency-Key", "k-1");
        let handler = of_a_request(LambdaEvent::new(request.parse().unwrap(), context()));
        with_backend(harness.another_process(), handler)
            .await
            .unwrap();
        assert_eq!(harness.requests(), requests);
    }
}
