//! The local cache: what it keeps, and what it never returns.
//!
//! `lookup = "read-first"`: what a user sees of the read before the claim.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::store::{Consistency, MemoryStore, Write};
use idempotency_lambda::ErrorKind::{
    AlreadyInProgress, CompletionUnknown, PayloadMismatch, ResponseUnavailable, StoreFailed,
};
use idempotency_lambda::{
    BoxError, Context, Error, LambdaEvent, Lookup, OnInProgress, Operation, OperationBuilder,
    OutcomeKind, Source, idempotent, with_backend, with_invocation,
};
use idempotency_testkit::events;
use idempotency_testkit::store::StoreFault::{LoseReply, LoseRequest, Throttle, TooLarge};
use idempotency_testkit::store::StoreOperation::{Put, Read, Update};
use idempotency_testkit::store::{StoreExt, StoreFault};
use idempotency_tests::End::{AfterRun, Failed, NotStored, Ran, Refused, Replayed};
use idempotency_tests::{Harness, NotedRequest, id, keyed};
use serde_json::{Value, json};

use crate::{event, let_others_run, order, order_of, variable};

fn cached() -> Operation {
    keyed(|of| of.local_cache(8))
}

#[tokio::test]
async fn an_unconfirmed_response_is_not_returned_from_the_cache() {
    let (harness, charge) = (Harness::advancing(), cached());
    // No try of the completion reaches the store.
    harness.fail(Update, 4, LoseRequest);
    let call = async || harness.end(&charge, order()).await;
    assert_eq!(call().await, AfterRun(CompletionUnknown));
    assert_eq!(call().await, Refused(AlreadyInProgress));
}

#[tokio::test]
async fn the_cache_keeps_nothing_of_a_run_that_failed_or_whose_response_is_not_stored() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount").store_when("paid").local_cache(8));
    let declined = async |_| Err::<(), _>("declined".into());
    let end = harness.end_with(&charge, order(), declined).await;
    assert_eq!(end, Failed("declined".to_owned()));
    let paid = |paid| json!({ "paid": paid });
    let call =
        |is_paid: bool| harness.end_with(&charge, order_of(43), async move |_| Ok(paid(is_paid)));
    assert_eq!(call(false).await, NotStored(paid(false)));
    harness.fail(Update, 1, TooLarge);
    assert_eq!(call(true).await, NotStored(paid(true)));
    assert_eq!(call(true).await, Refused(ResponseUnavailable));
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
async fn a_response_larger_than_the_limit_in_bytes_is_replayed_from_the_store() {
    let of_builder = keyed(|of| of.local_cache(8).local_cache_bytes(2_000));
    for (length, puts) in [(100, 1), (2_000, 2)] {
        let harness = Harness::default();
        for _ in 0..2 {
            let call = harness.call_with(&of_builder, order(), async |_| Ok("7".repeat(length)));
            assert_eq!(call.await.unwrap().response().len(), length);
        }
        assert_eq!(harness.requests(), [puts, 1, 0, 0]);
        let harness = Harness::default();
        for _ in 0..2 {
            let called = harness.within(bounded(7, length));
            assert_eq!(called.await.unwrap().len(), length);
        }
        assert_eq!(harness.requests(), [puts, 1, 0, 0]);
    }
}

#[tokio::test]
async fn a_response_of_one_store_is_not_returned_for_another() {
    let (mut harness, charge) = (Harness::default(), cached());
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    harness.backend = harness.backend.with_store(Arc::new(MemoryStore::new()));
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
}

fn reading_first(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Operation {
    keyed(|of| settings(of.lookup(Lookup::ReadFirst)))
}

/// Returns a harness, and an operation that reads first.
fn read_first() -> (Harness, Operation) {
    (Harness::default(), reading_first(|of| of))
}

/// Returns how current each read had to be.
fn reads(harness: &Harness) -> Vec<Consistency> {
    let noted = harness.store.noted().into_iter();
    noted
        .filter_map(|request| match request {
            NotedRequest::Read(_, consistency) => Some(consistency),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_duplicate_of_a_finished_call_is_read_and_writes_nothing() {
    let (harness, charge) = read_first();
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
    let again = harness.call_elsewhere(&charge, order()).await.unwrap();
    assert_eq!(harness.requests(), [1, 1, 0, 2]);
    let OutcomeKind::Replayed(replay) = again.kind() else {
        panic!("the response is replayed: {again:?}");
    };
    assert_eq!(replay.source(), Source::Store);
    assert_eq!(again.into_response(), 1);
    assert_eq!(reads(&harness), [Consistency::Eventual; 2]);
}

#[tokio::test]
async fn the_variable_and_the_attribute_switch_it_on() {
    #[idempotent(key = "order_id", lookup = "read-first")]
    async fn charge(event: LambdaEvent<Value>) -> Result<Value, Error> {
        Ok(event.payload)
    }
    let harness = Harness::default();
    harness.within(charge(event(order()))).await.unwrap();
    assert_eq!(harness.requests(), [1, 1, 0, 1]);

    let of_variable = keyed(|of| of.variables(variable("IDEMPOTENCY_LOOKUP", "Read-First")));
    let harness = Harness::default();
    assert_eq!(harness.end(&of_variable, order()).await, Ran(1));
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_stale_read_refuses_no_call_and_leads_to_a_claim_that_finds_the_response() {
    // The read finds nothing, or the claim of the first call, which has completed since.
    for stale_by in [2, 1] {
        let (harness, charge) = read_first();
        harness.store.lag(stale_by);
        assert_eq!(harness.end(&charge, order()).await, Ran(1));
        assert_eq!(harness.end_elsewhere(&charge, order()).await, Replayed(1));
        assert_eq!(harness.requests(), [2, 1, 0, 2], "{stale_by}");
    }
    // It finds the claim of a run that has failed since.
    let (harness, charge) = read_first();
    harness.store.lag(1);
    let declined = async |_| Err::<usize, BoxError>("declined".into());
    let failed = harness.end_with(&charge, order(), declined).await;
    assert_eq!(failed, Failed("declined".to_owned()));
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
}

#[tokio::test]
async fn an_evicted_response_is_replayed_until_the_read_sees_the_eviction() {
    let (harness, charge) = read_first();
    harness.store.lag(1);
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    let (id, everything) = (id(&charge, &json!(7)), Condition::All(Vec::new()));
    harness.store.write(&id, Write::Delete, &everything).await;
    assert_eq!(harness.end_elsewhere(&charge, order()).await, Replayed(1));
    harness.store.lag(0);
    assert_eq!(harness.end_elsewhere(&charge, order()).await, Ran(2));
}

#[tokio::test]
async fn a_response_that_a_read_finds_is_not_replayed_if_it_has_expired_or_is_of_another_payload() {
    let charge = reading_first(|of| of.validate("amount").expires_after(Duration::from_secs(60)));
    let harness = Harness::default();
    assert_eq!(harness.end(&charge, order_of(1)).await, Ran(1));
    let other = harness.end_elsewhere(&charge, order_of(2)).await;
    assert_eq!(other, Refused(PayloadMismatch));
    assert_eq!(harness.requests(), [2, 1, 0, 2], "the claim refuses it");
    let again = harness.end_elsewhere(&charge, order_of(1)).await;
    assert_eq!(again, Replayed(1));
    harness.pass(62_000);
    assert_eq!(harness.end_elsewhere(&charge, order_of(1)).await, Ran(2));
}

#[tokio::test]
async fn a_failed_read_ends_no_call_and_the_error_is_that_of_the_claim() {
    for fault in [StoreFault::Throttle, LoseReply] {
        let (harness, charge) = read_first();
        harness.fail(Read, 1, fault);
        assert_eq!(harness.end(&charge, order()).await, Ran(1), "{fault:?}");
        assert_eq!(harness.requests(), [1, 1, 0, 1], "{fault:?}");
    }
    let (harness, charge) = read_first();
    harness.fail(Read, 1, LoseReply);
    harness.fail(Put, 1, Throttle);
    let error = harness.call(&charge, order()).await.unwrap_err();
    assert_eq!(idempotency_tests::ours(&error).kind(), StoreFailed);
    assert!(error.to_string().contains("Throttled"), "{error}");
    assert!(!error.to_string().contains("Unreachable"), "{error}");
}

#[tokio::test]
async fn the_cache_and_a_concurrent_call_are_asked_before_the_read() {
    let harness = Harness::default();
    let waits = |of: OperationBuilder| of.local_cache(8).on_in_progress(OnInProgress::Wait);
    let charge = reading_first(waits);
    let first = harness.end_with(&charge, order(), async |run| {
        let_others_run(1).await;
        Ok(run)
    });
    let (first, second) = tokio::join!(first, harness.end(&charge, order()));
    assert_eq!((first, second), (Ran(1), Replayed(1)));
    assert_eq!(harness.end(&charge, order()).await, Replayed(1));
    assert_eq!(harness.requests(), [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_response_that_the_read_found_is_cached() {
    let (harness, elsewhere) = read_first();
    assert_eq!(harness.end_elsewhere(&elsewhere, order()).await, Ran(1));
    let cached = reading_first(|of| of.local_cache(8));
    for _ in 0..2 {
        assert_eq!(harness.end(&cached, order()).await, Replayed(1));
        assert_eq!(harness.requests(), [1, 1, 0, 2]);
    }
}

#[tokio::test]
async fn tenants_share_no_response() {
    let (harness, charge) = read_first();
    for (tenant, expected) in [("a", Ran(1)), ("b", Ran(2)), ("a", Replayed(1))] {
        let mut context = Context::default();
        context.tenant_id = Some(tenant.to_owned());
        let end = with_invocation(&context, harness.end(&charge, order())).await;
        assert_eq!(end, expected, "{tenant}");
    }
}

#[tokio::test]
async fn every_read_of_a_wait_is_consistent() {
    let charge = reading_first(|of| of.on_in_progress(OnInProgress::Wait));
    let harness = Harness::advancing();
    let waits = harness.call_with(&charge, order(), async |run| {
        let waits = harness.call_elsewhere(&charge, order());
        let finishes = async {
            // Lets the other process read, claim and wait.
            let_others_run(8).await;
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
    _: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    Ok(response)
}

#[tokio::test]
async fn batches_and_http_read_first_too() {
    let context = || event(Value::Null).context;
    let (of_batches, of_http) = (Harness::default(), Harness::default());
    for requests in [[1, 1, 0, 1], [1, 1, 0, 2]] {
        let batch = events::sqs("orders").json(&order()).parse().unwrap();
        let handler = of_a_message(LambdaEvent::new(batch, context()));
        let response = with_backend(of_batches.another_process(), handler).await;
        assert!(response.unwrap().batch_item_failures.is_empty());
        assert_eq!(of_batches.requests(), requests);

        let request = events::api_gateway_v2("POST", "/payments").header("Idempotency-Key", "k-1");
        let handler = of_a_request(LambdaEvent::new(request.parse().unwrap(), context()));
        let response = with_backend(of_http.another_process(), handler).await;
        response.unwrap();
        assert_eq!(of_http.requests(), requests);
    }
}
