//! Annotated functions: deadlines, hooks, stores, and which responses are stored.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::record::Field;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Context, ErrorKind, LambdaEvent, Raw, Replay, idempotent, with_backend,
};
use idempotency_tests::{Harness, START, ours};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{event, only_record};

#[idempotent(key = "order_id")]
async fn charge(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["amount"] }))
}

#[tokio::test]
async fn the_lease_of_a_claim_ends_with_the_invocation() {
    let harness = Harness::default();
    with_backend(
        harness.backend.clone(),
        charge(event(json!({ "order_id": 1 }))),
    )
    .await
    .unwrap();
    let (_, record) = only_record(&harness);
    assert_eq!(
        record.in_progress_expiration,
        Field::Value(EpochMillis::new(START + 30_000))
    );
}

#[idempotent(payload = order_id, key_prefix = "reserve")]
async fn reserve(order_id: u32) -> Result<u32, BoxError> {
    Ok(order_id)
}

#[idempotent(key = "order_id", key_prefix = "place")]
async fn place(event: LambdaEvent<Value>) -> Result<u32, BoxError> {
    let (first, second) = tokio::join!(
        reserve(1),
        idempotency_lambda::in_current_invocation(reserve(2))
    );
    Ok(first? + second?)
}

#[tokio::test]
async fn nested_calls_take_the_deadline_of_the_invocation() {
    let harness = Harness::default();
    let three = with_backend(
        harness.backend.clone(),
        place(event(json!({ "order_id": 1 }))),
    )
    .await;
    assert_eq!(three.unwrap(), 3);
    for call in harness.store.calls() {
        if let idempotency_testkit::store::StoreCall::Put { record, .. } = call {
            assert_eq!(
                record.in_progress_expiration,
                Field::Value(EpochMillis::new(START + 30_000))
            );
        }
    }
    assert_eq!(harness.store.inner().len(), 3);
}

fn mark(mut response: Value, replay: &Replay) -> Value {
    response["replayed_until"] = json!(replay.expires_at().map(|end| end.get()));
    response
}

#[idempotent(key = "order_id", on_replay = mark, store_when = "paid")]
async fn with_hook(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["paid"] }))
}

#[tokio::test]
async fn a_hook_sees_only_replayed_responses() {
    let harness = Harness::default();
    let call = || {
        with_backend(
            harness.backend.clone(),
            with_hook(event(json!({ "order_id": 1, "paid": true }))),
        )
    };
    assert_eq!(call().await.unwrap(), json!({ "paid": true }));
    let until = START / 1_000 + 3_600;
    assert_eq!(
        call().await.unwrap(),
        json!({ "paid": true, "replayed_until": until })
    );
}

#[tokio::test]
async fn a_response_that_is_not_stored_frees_the_key() {
    let harness = Harness::default();
    for _ in 0..2 {
        let event = event(json!({ "order_id": 1, "paid": false }));
        let response = with_backend(harness.backend.clone(), with_hook(event))
            .await
            .unwrap();
        assert_eq!(response, json!({ "paid": false }));
    }
    assert!(harness.store.inner().is_empty());
}

#[derive(Serialize, Deserialize)]
struct Typed {
    amount: f64,
}

#[idempotent(key = "amount", key_prefix = "raw")]
async fn raw(event: LambdaEvent<Raw<Typed>>) -> Result<f64, BoxError> {
    Ok(event.payload.amount)
}

#[tokio::test]
async fn the_key_of_a_raw_event_is_taken_from_its_text() {
    let harness = Harness::default();
    let payload = Raw::from_json(r#"{"amount": 10}"#).unwrap();
    let call = raw(LambdaEvent::new(payload, Context::default()));
    with_backend(harness.backend.clone(), call).await.unwrap();
    // md5 of `10`, not of `10.0`.
    assert_eq!(
        only_record(&harness).0.as_str(),
        "raw#d3d9446802a44259755d38e6d163e820"
    );
}

#[tokio::test]
async fn the_future_of_a_call_does_not_grow_with_what_its_handler_holds() {
    #[idempotent(payload = order, key_prefix = "small")]
    async fn small(order: u32) -> Result<u32, BoxError> {
        Ok(order)
    }
    #[idempotent(payload = order, key_prefix = "large")]
    async fn large(order: u32) -> Result<u32, BoxError> {
        let buffer = [0_u8; 16 * 1024];
        tokio::task::yield_now().await;
        Ok(order + u32::from(buffer[0]))
    }
    let harness = Harness::default();
    let call = with_backend(harness.backend.clone(), large(1));
    assert_eq!(size_of_val(&small(1)), size_of_val(&large(1)));
    assert!(size_of_val(&call) < 1_024, "{}", size_of_val(&call));
    assert_eq!(call.await.unwrap(), 1);
}

#[tokio::test]
async fn a_function_that_is_switched_off_runs_each_time_without_requests() {
    use idempotency_core::config::Variables;
    use idempotency_lambda::{Bypass, Deadline, Operation, OutcomeKind};
    let harness = Harness::default();
    let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    let off = Operation::builder("off")
        .variables(variables)
        .build()
        .unwrap();
    for run in 0..2 {
        let call = off.run(&json!(1), Deadline::Inherited, || async move {
            Ok::<_, BoxError>(run)
        });
        let outcome = with_backend(harness.backend.clone(), call).await.unwrap();
        assert_eq!(outcome.kind(), &OutcomeKind::Bypassed(Bypass::Disabled));
        assert_eq!(outcome.into_response(), run);
    }
    assert_eq!(harness.requests(), [0; 4]);
}

#[idempotent(payload = order, key_prefix = "own store", store = OWN.with(Arc::clone))]
async fn with_own_store(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

thread_local! {
    static OWN: Arc<idempotency_core::store::MemoryStore> = Arc::default();
}

#[tokio::test]
async fn the_store_of_an_attribute_is_used_if_no_test_sets_a_backend() {
    with_own_store(1).await.unwrap();
    assert_eq!(OWN.with(|store| store.len()), 1);
}

#[tokio::test]
async fn a_replayed_float_equals_the_original_float() {
    let harness = Harness::default();
    let charge = idempotency_tests::operation()
        .key("order_id")
        .build()
        .unwrap();
    for number in 0..500_u32 {
        // Fractions with long expansions. An imprecise parser gets one in ten wrong.
        let response = f64::from(number).mul_add(1.000_000_7, 0.1) / 3.0;
        for _ in 0..2 {
            let payload = json!({ "order_id": number });
            let outcome = harness
                .call_with(&charge, payload, async |_| Ok(response))
                .await
                .unwrap();
            assert_eq!(outcome.into_response().to_bits(), response.to_bits());
        }
    }
}

#[tokio::test]
async fn a_response_that_cannot_be_read_back_goes_only_to_its_own_caller() {
    let harness = Harness::default();
    let charge = idempotency_tests::operation()
        .key("order_id")
        .build()
        .unwrap();
    let payload = json!({ "order_id": 1 });
    let own = harness
        .call_with(&charge, payload.clone(), async |_| Ok(f64::NAN))
        .await
        .unwrap();
    assert!(own.into_response().is_nan());
    let error = harness
        .call_with(&charge, payload, async |_| Ok(f64::NAN))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
}

#[test]
fn an_empty_expression_does_not_switch_protection_off() {
    for operation in [
        idempotency_tests::operation().key(" "),
        idempotency_tests::operation().validate(""),
        idempotency_tests::operation().store_when(""),
    ] {
        let error = operation.build().unwrap_err();
        assert!(error.to_string().contains("leave it out"), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_hangs_at_the_completion_is_reported_before_the_deadline() {
    use idempotency_testkit::ManualClock;
    use idempotency_testkit::store::{StoreFault, StoreOperation};
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    for nth in 1..=4 {
        harness
            .store
            .inject(StoreOperation::Update, nth, StoreFault::Hang);
    }
    let charge = idempotency_tests::operation()
        .key("order_id")
        .build()
        .unwrap();
    let order = json!({ "order_id": 1 });
    let deadline = harness.deadline_in(Duration::from_secs(3));
    let call = charge.run(&order, deadline, || async { Ok::<_, BoxError>(1) });
    let error = with_backend(harness.backend.clone(), call)
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
    assert!(harness.now().get() < START + 3_000, "{}", harness.now());
}
