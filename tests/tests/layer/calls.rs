//! What a call through the layer does: replay, key, invocation, errors.

use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Deadline, Error, ErrorKind, IdempotencyLayer, KeyRequired, LambdaEvent, Raw,
    ServiceError, idempotent, with_backend,
};
use idempotency_tests::{START, operation};
use lambda_runtime::{Diagnostic, Service, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::{Layer, ServiceBuilder, ServiceExt};

use crate::{Runs, charge, event, harness, layer, order};

#[tokio::test]
async fn a_duplicate_gets_the_first_response_and_another_payload_an_error() {
    let (harness, runs) = (harness(), Runs::default());
    let service = layer().layer(runs.service());
    let call = |event| with_backend(harness.backend.clone(), service.clone().oneshot(event));
    assert_eq!(call(order(1)).await.unwrap(), 1);
    assert_eq!(call(order(1)).await.unwrap(), 1);
    let error = call(order(2)).await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::PayloadMismatch));
    assert_eq!(
        Diagnostic::from(error).error_type,
        "IdempotencyPayloadMismatch"
    );
    assert_eq!(runs.count(), 1);
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    order_id: u32,
    amount: f64,
}

#[tokio::test]
async fn a_raw_event_has_the_key_of_its_text_and_a_typed_one_that_of_its_fields() {
    let harness = harness();
    let whole = || IdempotencyLayer::new(operation().build().unwrap());
    let text = r#"{"order_id": 7, "amount": 10, "note": "fast"}"#;
    let raw = whole().layer(service_fn(async |event: LambdaEvent<Raw<Order>>| {
        Ok::<_, BoxError>(event.payload.amount)
    }));
    let payload = || event(Raw::<Order>::from_json(text).unwrap());
    for _ in 0..2 {
        let call = raw.clone().oneshot(payload());
        assert_eq!(
            with_backend(harness.backend.clone(), call).await.unwrap(),
            10.0
        );
    }
    let typed = whole().layer(service_fn(async |event: LambdaEvent<Order>| {
        Ok::<_, BoxError>(event.payload.amount + 1.0)
    }));
    let call = typed.oneshot(event(serde_json::from_str(text).unwrap()));
    assert_eq!(
        with_backend(harness.backend.clone(), call).await.unwrap(),
        11.0
    );
    assert_eq!(
        harness.requests()[0],
        3,
        "two claims of the raw event, one of the typed event"
    );
}

#[idempotent(payload = order_id, key_prefix = "layer.nested")]
async fn nested(order_id: Value) -> Result<Option<i64>, BoxError> {
    Ok(Deadline::Inherited.end().map(EpochMillis::get))
}

/// A handler that is not annotated, with a call inside that must know its invocation.
async fn handler(event: LambdaEvent<Value>) -> Result<Option<i64>, BoxError> {
    nested(event.payload["order_id"].clone()).await
}

#[tokio::test]
async fn the_layer_makes_the_invocation_known_also_when_protection_is_disabled() {
    let variable = ("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned());
    let disabled = operation()
        .variables(FromIterator::from_iter([variable]))
        .build()
        .unwrap();
    for operation in [charge(), disabled] {
        let harness = harness();
        let mut order = order(1);
        order.context.tenant_id = Some("blue".to_owned());
        let service = IdempotencyLayer::new(operation).layer(service_fn(handler));
        let call = with_backend(harness.backend.clone(), service.oneshot(order));
        assert_eq!(call.await.unwrap(), Some(START + 30_000));
        let ids = harness.store.calls();
        assert!(
            ids.iter()
                .all(|call| format!("{call:?}").contains("#tenant=blue#")),
            "{ids:?}"
        );
    }
}

#[tokio::test]
async fn two_tenants_have_separate_records() {
    let (harness, runs) = (harness(), Runs::default());
    let service = layer().layer(runs.service());
    for (tenant, response) in [("blue", 1), ("green", 2), ("blue", 1)] {
        let mut order = order(1);
        order.context.tenant_id = Some(tenant.to_owned());
        let call = with_backend(harness.backend.clone(), service.clone().oneshot(order));
        assert_eq!(call.await.unwrap(), response, "{tenant}");
    }
}

/// An error that knows nothing of this framework.
#[derive(Debug, thiserror::Error)]
#[error("the card was declined")]
struct Declined;

async fn failing<E>(make: impl Fn() -> E + Clone + Send + 'static) -> (Diagnostic, Diagnostic)
where
    E: Into<BoxError> + Send + 'static,
{
    let harness = harness();
    let required = operation().key("order_id").key_required(KeyRequired::All);
    let layer = IdempotencyLayer::new(required.build().unwrap());
    let service = layer.layer(service_fn(move |_: LambdaEvent<Value>| {
        let error = make();
        async move { Err::<u32, E>(error) }
    }));
    let call = |event| with_backend(harness.backend.clone(), service.clone().oneshot(event));
    let ours = call(event(json!({}))).await.unwrap_err();
    let theirs = call(order(1)).await.unwrap_err();
    (ours.into(), theirs.into())
}

#[tokio::test]
async fn each_error_type_of_a_service_keeps_its_name_beside_ours() {
    let boxed = failing(|| BoxError::from("no")).await;
    let own = failing(|| Declined).await;
    let nested = failing(|| BoxError::from(Error::new(ErrorKind::Unresolved, "inner"))).await;
    let names = [boxed, own, nested].map(|(ours, theirs)| {
        assert_eq!(ours.error_type, "IdempotencyKeyMissing");
        theirs.error_type
    });
    assert_eq!(names, ["Error", "Declined", "IdempotencyUnresolved"]);
}

#[tokio::test]
async fn a_service_whose_error_is_a_diagnostic_keeps_its_name() {
    let harness = harness();
    let declined = || Diagnostic {
        error_type: "CardDeclined".to_owned(),
        error_message: "the card was declined".to_owned(),
    };
    let service = ServiceBuilder::new()
        .layer(layer())
        .map_err(ServiceError::from)
        .service_fn(move |_: LambdaEvent<Value>| async move { Err::<u32, _>(declined()) });
    let call = with_backend(harness.backend.clone(), service.oneshot(order(1)));
    assert_eq!(Diagnostic::from(call.await.unwrap_err()), declined());
}

#[tokio::test]
async fn a_handler_that_failed_runs_again() {
    let (harness, runs) = (harness(), Runs::default());
    let counted = runs.clone();
    let service = layer().layer(service_fn(move |_: LambdaEvent<Value>| {
        let run = counted.next();
        async move { if run == 1 { Err(Declined) } else { Ok(run) } }
    }));
    let call = || with_backend(harness.backend.clone(), service.clone().oneshot(order(1)));
    assert!(call().await.is_err());
    assert_eq!(call().await.unwrap(), 2);
    assert_eq!(call().await.unwrap(), 2);
}

#[test]
fn the_service_is_clone_send_and_sync_and_its_future_send() {
    fn demands<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn sends<T: Send + 'static>(_: &T) {}
    let mut service = layer().layer(Runs::default().service());
    demands(&layer());
    demands(&service);
    sends(&service.call(order(1)));
}
