//! `IdempotencyLayer`: a service of events among other tower layers, in a process that counts as a Lambda environment.

use std::collections::BTreeMap;
use std::future::{Ready, pending, ready};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use idempotency_core::record::{Field, Status};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Call, Context, Deadline, ErrorKind, IdempotencyLayer, IdempotencyService,
    LambdaEvent, OnTimeout, Operation, Raw, ServiceError, diagnostic, idempotent,
};
use idempotency_tests::{Harness, START, id, keyed, operation};
use lambda_runtime::{Diagnostic, Service, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tower::limit::ConcurrencyLimitLayer;
use tower::retry::Policy;
use tower::util::{BoxCloneSyncService as Boxed, MapFutureLayer};
use tower::{Layer, ServiceBuilder, ServiceExt};

use super::harness;

fn charge() -> Operation {
    let operation = operation().key("order_id").validate("amount");
    operation.build().unwrap()
}

fn layer() -> IdempotencyLayer {
    IdempotencyLayer::new(charge())
}

/// Returns an event of an invocation with 30 s left.
fn event<T>(payload: T) -> LambdaEvent<T> {
    let mut context = Context::default();
    context.deadline = u64::try_from(START + 30_000).unwrap();
    LambdaEvent::new(payload, context)
}

fn order(amount: u32) -> LambdaEvent<Value> {
    event(json!({ "order_id": 7, "amount": amount }))
}

/// Counts the runs of a handler.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What the handler does after its effect, in its first run.
#[derive(Clone, Copy)]
enum First {
    Returns,
    Hangs,
    Panics,
    Fails(fn() -> BoxError),
}

const FAILS: First = First::Fails(|| "failed".into());

/// Returns a service that returns the number of its run.
fn handler(runs: &Runs, first: First) -> Boxed<LambdaEvent<Value>, usize, BoxError> {
    let runs = runs.clone();
    Boxed::new(service_fn(move |_: LambdaEvent<Value>| {
        let run = runs.next();
        async move {
            match (run, first) {
                (1, First::Hangs) => pending().await,
                (1, First::Panics) => panic!("after the effect"),
                (1, First::Fails(error)) => Err(error()),
                _ => Ok(run),
            }
        }
    }))
}

/// Returns the status of the order's record, or `None` if there is no record.
fn status(harness: &Harness) -> Option<Field<Status>> {
    let id = id(&charge(), &json!(7));
    let record = harness.store.inner().record(&id);
    record.map(|record| record.status)
}

async fn call<S>(harness: &Harness, service: &S) -> Result<S::Response, S::Error>
where
    S: Service<LambdaEvent<Value>> + Clone,
{
    harness.within(service.clone().oneshot(order(1))).await
}

/// Turns a panic inside into an error.
async fn caught<F: Future<Output = Result<usize, BoxError>>>(future: F) -> Result<usize, BoxError> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(result) => result,
        Err(_) => Err("the service panicked".into()),
    }
}

#[tokio::test]
async fn an_end_that_no_handler_reported_frees_the_key_under_rerun_and_is_held_under_hold() {
    let reported = First::Fails(|| ServiceError::reported("declined").into());
    for (name, first, runs_under_hold) in [
        ("a timeout inside", First::Hangs, 1),
        ("a panic catcher inside", First::Panics, 1),
        ("an error that can be that of a layer", FAILS, 1),
        ("the handler's own report", reported, 2),
    ] {
        for (on_timeout, expected) in [(OnTimeout::Rerun, 2), (OnTimeout::Hold, runs_under_hold)] {
            let operation = || keyed(|of| of.on_timeout(on_timeout));
            let (plain, with_call) = (Runs::default(), Runs::default());
            let inside = |runs: &Runs| {
                ServiceBuilder::new()
                    .layer(MapFutureLayer::new(caught))
                    .timeout(Duration::ZERO)
                    .service(handler(runs, first))
            };
            let of_call = ServiceBuilder::new()
                .layer(IdempotencyLayer::new(operation()).with_call())
                .map_request(|(event, _): (LambdaEvent<Value>, Call)| event);
            let services = [
                Boxed::new(IdempotencyLayer::new(operation()).layer(inside(&plain))),
                Boxed::new(of_call.service(inside(&with_call))),
            ];
            for (service, runs) in services.into_iter().zip([plain, with_call]) {
                let harness = harness();
                call(&harness, &service).await.unwrap_err();
                let record = status(&harness);
                let second = call(&harness, &service).await;
                assert_eq!(runs.count(), expected, "{name}, {on_timeout:?}");
                if expected == 1 {
                    assert_eq!(record, Some(Field::Value(Status::InProgress)), "{name}");
                    let kind = second.unwrap_err().kind();
                    assert_eq!(kind, Some(ErrorKind::Unresolved), "{name}");
                } else {
                    assert_eq!(second.unwrap(), 2, "{name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_timeout_outside_keeps_the_claim_until_its_lease_ends() {
    let (harness, runs) = (harness(), Runs::default());
    let service = ServiceBuilder::new()
        .map_err(diagnostic)
        .timeout(Duration::ZERO)
        .layer(layer())
        .service(handler(&runs, First::Hangs));
    let error: Diagnostic = call(&harness, &service).await.unwrap_err();
    assert_eq!(error.error_type, "Error");
    assert_eq!(status(&harness), Some(Field::Value(Status::InProgress)));
    // A retry before the lease ends is refused, under the stable name although `Timeout` boxed the error.
    let error = call(&harness, &service).await.unwrap_err();
    assert_eq!(error.error_type, "IdempotencyAlreadyInProgress");
    harness.clock.advance(Duration::from_secs(31));
    let mut later = order(1);
    later.context.deadline += 60_000;
    let call = harness.within(service.oneshot(later));
    assert_eq!(call.await.unwrap(), 2);
}

/// Retries each error once.
#[derive(Clone)]
struct Once(bool);

impl<E> Policy<LambdaEvent<Value>, usize, E> for Once {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut LambdaEvent<Value>,
        result: &mut Result<usize, E>,
    ) -> Option<Self::Future> {
        (result.is_err() && std::mem::take(&mut self.0)).then(|| ready(()))
    }

    fn clone_request(&mut self, request: &LambdaEvent<Value>) -> Option<LambdaEvent<Value>> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn a_retry_inside_runs_again_under_the_same_claim_and_one_outside_makes_a_call_of_its_own() {
    let (inside, outside) = (ServiceBuilder::new(), ServiceBuilder::new());
    let inside = inside.layer(layer()).retry(Once(true));
    let outside = outside.retry(Once(true)).layer(layer());
    let failing = || handler(&Runs::default(), FAILS);
    for (service, requests) in [
        // One claim, one completion.
        (Boxed::new(inside.service(failing())), [1, 1, 0, 0]),
        // A claim that is freed with a mark, and a second one.
        (Boxed::new(outside.service(failing())), [2, 2, 0, 0]),
    ] {
        let harness = harness();
        assert_eq!(call(&harness, &service).await.unwrap(), 2);
        assert_eq!(harness.requests(), requests);
        assert_eq!(call(&harness, &service).await.unwrap(), 2);
    }
}

#[tokio::test]
async fn a_concurrency_limit_on_either_side_lets_the_next_call_in_when_one_has_ended() {
    let limit = || ConcurrencyLimitLayer::new(1);
    let (outside, inside) = (ServiceBuilder::new(), ServiceBuilder::new());
    let outside = outside.layer(limit()).layer(layer());
    let inside = inside.layer(layer()).layer(limit());
    let counting = || handler(&Runs::default(), First::Returns);
    for service in [
        Boxed::new(outside.service(counting())),
        Boxed::new(inside.service(counting())),
    ] {
        let harness = harness();
        let mut first = service.clone();
        let first = first.ready().await.unwrap();
        // A caller that waits holds a place in the queue, so it is dropped.
        assert!(service.clone().ready().now_or_never().is_none());
        let response = harness.within(first.call(order(1))).await;
        assert_eq!(response.unwrap(), 1);
        // A replay gives its place back too, although the service inside is not called.
        for _ in 0..3 {
            assert_eq!(call(&harness, &service).await.unwrap(), 1);
        }
        assert!(service.clone().ready().now_or_never().is_some());
    }
}

#[tokio::test]
async fn a_map_of_errors_on_either_side_sees_the_errors_that_pass_it() {
    let harness = harness();
    let service = ServiceBuilder::new()
        .map_err(|error: ServiceError| (error.kind(), error.to_string()))
        .layer(layer())
        .map_err(|error: BoxError| BoxError::from(format!("inside: {error}")))
        .service(handler(&Runs::default(), FAILS));
    let (kind, text) = call(&harness, &service).await.unwrap_err();
    assert_eq!((kind, &*text), (None, "inside: failed"));
    assert_eq!(call(&harness, &service).await.unwrap(), 2);
    let other = order(2);
    let call = harness.within(service.oneshot(other));
    let (kind, text) = call.await.unwrap_err();
    assert_eq!(kind, Some(ErrorKind::PayloadMismatch));
    assert!(!text.starts_with("inside"), "{text}");
}

#[tokio::test]
async fn two_layers_are_two_operations() {
    let harness = harness();
    let audit = Operation::builder("shop::audit")
        .key("[order_id, amount]")
        .key_prefix("layer.audit")
        .build()
        .unwrap();
    let inside = handler(&Runs::default(), First::Returns);
    let service = IdempotencyLayer::new(audit).layer(layer().layer(inside));
    assert_eq!(call(&harness, &service).await.unwrap(), 1);
    assert_eq!(harness.requests(), [2, 2, 0, 0]);
    let other = harness.within(service.oneshot(order(2)));
    assert_eq!(
        other.await.unwrap_err().kind(),
        Some(ErrorKind::PayloadMismatch)
    );
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
    let payload = || event(serde_json::from_str::<Raw<Order>>(text).unwrap());
    for _ in 0..2 {
        let call = raw.clone().oneshot(payload());
        assert_eq!(harness.within(call).await.unwrap(), 10.0);
    }
    let typed = whole().layer(service_fn(async |event: LambdaEvent<Order>| {
        Ok::<_, BoxError>(event.payload.amount + 1.0)
    }));
    let call = typed.oneshot(event(serde_json::from_str(text).unwrap()));
    assert_eq!(harness.within(call).await.unwrap(), 11.0);
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

/// A handler that is not annotated, and calls a function that must know its invocation.
async fn nesting(event: LambdaEvent<Value>) -> Result<Option<i64>, BoxError> {
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
        let service = IdempotencyLayer::new(operation).layer(service_fn(nesting));
        let call = harness.within(service.oneshot(order));
        assert_eq!(call.await.unwrap(), Some(START + 30_000));
        let sent = harness.store.noted();
        assert!(
            sent.iter()
                .all(|call| format!("{call:?}").contains("#tenant=blue#")),
            "{sent:?}"
        );
    }
}

#[test]
fn the_service_is_clone_send_and_sync_and_its_future_send() {
    fn demands<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn sends<T: Send + 'static>(_: &T) {}
    let mut service = layer().layer(handler(&Runs::default(), First::Returns));
    demands(&layer());
    demands(&service);
    sends(&service.call(order(1)));
}

/// A service that must be asked before each call. A clone has not been asked.
#[derive(Default)]
struct Strict {
    runs: Runs,
    is_ready: bool,
    fails: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self {
            runs: self.runs.clone(),
            is_ready: false,
            fails: self.fails,
        }
    }
}

impl Service<LambdaEvent<Value>> for Strict {
    type Response = usize;
    type Error = BoxError;
    type Future = Ready<Result<usize, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.fails {
            return Poll::Ready(Err("the pool is closed".into()));
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: LambdaEvent<Value>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.is_ready),
            "called without being ready"
        );
        ready(Ok(self.runs.next()))
    }
}

/// Returns the future of a call of the service that was ready.
async fn prepared(
    harness: &Harness,
    service: &mut IdempotencyService<Strict>,
    order: LambdaEvent<Value>,
) -> impl Future<Output = Result<usize, ServiceError>> + use<> {
    let ready = ServiceExt::<LambdaEvent<Value>>::ready(service).await;
    harness.within(ready.unwrap().call(order))
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    for (amount, response) in [(1, Some(1)), (1, Some(1)), (2, None)] {
        let call = prepared(&harness, &mut service, order(amount)).await;
        assert_eq!(call.await.ok(), response);
    }
}

#[tokio::test]
async fn two_calls_that_are_prepared_before_either_runs_both_have_a_ready_service() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    let first = prepared(&harness, &mut service, order(1)).await;
    let mut other = order(1);
    other.payload["order_id"] = 2.into();
    let second = prepared(&harness, &mut service, other).await;
    assert_eq!((second.await.unwrap(), first.await.unwrap()), (1, 2));
}

#[tokio::test]
async fn a_service_that_cannot_become_ready_fails_before_any_claim() {
    let harness = harness();
    let strict = Strict {
        fails: true,
        ..Strict::default()
    };
    let service = layer().layer(strict);
    let error = harness.within(service.oneshot(order(1))).await.unwrap_err();
    assert_eq!(error.to_string(), "the pool is closed");
    assert_eq!(harness.requests(), [0; 4]);
}

/// Its `prices` cannot be written as JSON: the key of a map is a pair.
#[derive(Clone, Serialize)]
struct Unwritable {
    order_id: u32,
    prices: BTreeMap<(u8, u8), u8>,
}

fn unwritable() -> LambdaEvent<Unwritable> {
    let order = Unwritable {
        order_id: 7,
        prices: BTreeMap::from([((1, 2), 3)]),
    };
    assert!(serde_json::to_string(&order).is_err());
    event(order)
}

#[idempotent(key = "order_id")]
async fn annotated(event: LambdaEvent<Unwritable>) -> Result<u32, BoxError> {
    Ok(event.payload.order_id)
}

#[tokio::test]
async fn the_attribute_and_the_layer_take_the_key_from_the_value() {
    let (harness, runs) = (harness(), Runs::default());
    let counted = runs.clone();
    let layered = IdempotencyLayer::new(keyed(|of| of)).layer(service_fn(
        move |event: LambdaEvent<Unwritable>| {
            counted.next();
            async move { Ok::<_, BoxError>(event.payload.order_id) }
        },
    ));
    for _ in 0..2 {
        let response = harness.within(annotated(unwritable())).await;
        assert_eq!(response.unwrap(), 7);
        let call = layered.clone().oneshot(unwritable());
        assert_eq!(harness.within(call).await.unwrap(), 7);
    }
    assert_eq!((harness.store.inner().len(), runs.count()), (2, 1));
}

#[tokio::test]
async fn the_layer_hands_on_a_stored_text_as_it_is() {
    const SENT: &str = r#"{"b" : 1.50,  "a":[ ],"a":"\u00e9"}"#;
    let harness = harness();
    let whole = operation().key("@").build().unwrap();
    let service = IdempotencyLayer::new(whole).layer(service_fn(async |_: LambdaEvent<u8>| {
        Ok::<_, BoxError>(RawValue::from_string(SENT.to_owned())?)
    }));
    for _ in 0..2 {
        let call = service.clone().oneshot(event(1));
        let response: Box<RawValue> = harness.within(call).await.unwrap();
        assert_eq!(response.get(), SENT);
    }
}
