//! Tenants, and the invocation of a nested call.

use idempotency_core::record::Field;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Context, LambdaEvent, idempotent, in_current_invocation, service, with_backend,
};
use idempotency_testkit::store::StoreCall;
use idempotency_tests::{Harness, START, operation};
use lambda_runtime::Service;
use serde_json::{Value, json};

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}

fn context(tenant: &str) -> Context {
    let mut context = Context::default();
    context.deadline = START as u64 + 30_000;
    context.tenant_id = Some(tenant.to_owned());
    context
}

fn event(tenant: &str, amount: u32) -> LambdaEvent<Value> {
    LambdaEvent::new(json!({ "order_id": 1, "amount": amount }), context(tenant))
}

#[idempotent(key = "order_id")]
async fn annotated(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

#[idempotent(payload = order_id, key_prefix = "inner")]
async fn inner(order_id: u32, amount: Value) -> Result<Value, BoxError> {
    Ok(amount)
}

/// A handler that is not annotated.
async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    inner(1, event.payload["amount"].clone()).await
}

async fn spawning(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    let amount = event.payload["amount"].clone();
    if event.payload["amount"] == 1 {
        tokio::spawn(in_current_invocation(inner(1, amount))).await?
    } else {
        tokio::spawn(inner(1, amount)).await?
    }
}

#[tokio::test]
async fn two_tenants_with_the_same_payload_have_separate_records() {
    let harness = harness();
    let call =
        |tenant, amount| with_backend(harness.backend.clone(), annotated(event(tenant, amount)));
    assert_eq!(call("blue", 1).await.unwrap(), 1);
    assert_eq!(call("green", 2).await.unwrap(), 2);
    assert_eq!(call("blue", 3).await.unwrap(), 1);
    let ids = harness.store.calls();
    assert!(matches!(&ids[0], StoreCall::Put { id, .. } if id.as_str().contains("#tenant=blue#")));
}

#[idempotent(key = "order_id", key_prefix = "cached", local_cache = 8)]
async fn cached(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

#[tokio::test]
async fn two_tenants_with_the_same_payload_have_separate_cache_entries() {
    let harness = harness();
    let call =
        |tenant, amount| with_backend(harness.backend.clone(), cached(event(tenant, amount)));
    assert_eq!(call("blue", 1).await.unwrap(), 1);
    assert_eq!(call("green", 2).await.unwrap(), 2);
    let asked = harness.requests();
    assert_eq!(call("blue", 3).await.unwrap(), 1);
    assert_eq!(
        harness.requests(),
        asked,
        "the response came from the cache"
    );
}

#[tokio::test]
async fn an_operation_takes_the_tenant_from_its_context() {
    let harness = harness();
    let charge = operation().key("order_id").build().unwrap();
    let call = async |tenant: &str, amount: u32| {
        let order = json!({ "order_id": 1 });
        let context = context(tenant);
        let call = charge.run(
            &order,
            &context,
            || async move { Ok::<_, BoxError>(amount) },
        );
        with_backend(harness.backend.clone(), call)
            .await
            .unwrap()
            .into_response()
    };
    assert_eq!(call("blue", 1).await, 1);
    assert_eq!(call("green", 2).await, 2);
    assert_eq!(call("blue", 3).await, 1);
}

#[tokio::test]
async fn calls_within_a_handler_that_is_not_annotated_find_deadline_and_tenant() {
    let harness = harness();
    let mut function = service(handler);
    for (tenant, amount) in [("blue", 1), ("green", 2)] {
        let call = with_backend(harness.backend.clone(), async {
            function.call(event(tenant, amount)).await
        });
        assert!(call.await.is_ok());
    }
    for call in harness.store.calls() {
        if let StoreCall::Put { id, record, .. } = call {
            assert!(id.as_str().starts_with("inner#tenant="), "{id}");
            assert_eq!(
                record.in_progress_expiration,
                Field::Value(EpochMillis::new(START + 30_000))
            );
        }
    }
    assert_eq!(harness.store.inner().len(), 2);
}

#[tokio::test]
async fn a_spawned_call_outside_its_invocation_is_refused_because_its_tenant_is_unknown() {
    let harness = harness();
    let call = |amount| {
        with_backend(harness.backend.clone(), async move {
            let mut function = service(spawning);
            function.call(event("blue", amount)).await.map(drop)
        })
    };
    assert!(call(1).await.is_ok());
    let error = call(2).await.unwrap_err();
    assert_eq!(error.error_type, "IdempotencyUnknownInvocation");
    assert!(
        error.error_message.contains("in_current_invocation"),
        "{}",
        error.error_message
    );
}
