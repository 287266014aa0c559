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
    BoxError, Call, Context, Deadline, Error, ErrorKind, IdempotencyLayer, KeyRequired,
    LambdaEvent, OnTimeout, Operation, Raw, ServiceError, diagnostic, idempotent,
};
use idempotency_tests::{Harness, START, id, keyed, operation};
use lambda_runtime::{Diagnostic, Service, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tower::limit::ConcurrencyLimitLayer;
use tower::retry::Policy;
use tower::util::{BoxCloneSyncService, MapFutureLayer};
use tower::{Layer, ServiceBuilder, ServiceExt};

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}

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

    /// Returns a service that returns the number of its run.
    fn service(
        &self,
    ) -> impl Service<LambdaEvent<Value>, Response = usize, Error = BoxError, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static {
        let runs = self.clone();
        ServiceBuilder::new().service_fn(move |_: LambdaEvent<Value>| {
            let run = runs.next();
            async move { Ok::<_, BoxError>(run) }
        })
    }
}

/// The status of the order's record, or `None` if there is no record.
fn status(harness: &Harness) -> Option<Field<Status>> {
    let id = id(&charge(), &json!(7));
    harness
        .store
        .inner()
        .record(&id)
        .map(|record| record.status)
}

async fn call<S>(harness: &Harness, service: &S) -> Result<S::Response, S::Error>
where
    S: Service<LambdaEvent<Value>> + Clone,
{
    harness.within(service.clone().oneshot(order(1))).await
}

/// A handler that never ends in its first run.
fn hanging_once(
    runs: &Runs,
) -> impl Service<LambdaEvent<Value>, Response = usize, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let runs = runs.clone();
    service_fn(move |_: LambdaEvent<Value>| {
        let run = runs.next();
        async move {
            if run == 1 {
                pending::<()>().await;
            }
            Ok(run)
        }
    })
}

/// What the handler does after its effect, in its first run.
#[derive(Clone, Copy)]
enum First {
    Hangs,
    Panics,
    Fails(fn() -> BoxError),
}

/// A handler whose effect is counted.
fn handler(
    runs: Runs,
    first: First,
) -> impl Service<LambdaEvent<Value>, Response = usize, Error = BoxError, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    ServiceBuilder::new().service_fn(move |_: LambdaEvent<Value>| {
        let run = runs.next();
        async move {
            match (run, first) {
                (1, First::Hangs) => pending().await,
                (1, First::Panics) => panic!("after the effect"),
                (1, First::Fails(error)) => Err(error()),
                _ => Ok(run),
            }
        }
    })
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
    let plain: fn() -> BoxError = || "declined".into();
    let reported: fn() -> BoxError = || ServiceError::reported("declined").into();
    for (name, first, runs_under_hold) in [
        ("a timeout inside", First::Hangs, 1),
        ("a panic catcher inside", First::Panics, 1),
        (
            "an error that can be that of a layer",
            First::Fails(plain),
            1,
        ),
        ("the handler's own report", First::Fails(reported), 2),
    ] {
        for (on_timeout, expected) in [(OnTimeout::Rerun, 2), (OnTimeout::Hold, runs_under_hold)] {
            let operation = || keyed(|of| of.on_timeout(on_timeout));
            let (plain, with_call) = (Runs::default(), Runs::default());
            let inside = |runs: Runs| {
                ServiceBuilder::new()
                    .layer(MapFutureLayer::new(caught))
                    .timeout(Duration::ZERO)
                    .service(handler(runs, first))
            };
            let services = [
                BoxCloneSyncService::new(
                    IdempotencyLayer::new(operation()).layer(inside(plain.clone())),
                ),
                BoxCloneSyncService::new(
                    IdempotencyLayer::new(operation()).with_call().layer(
                        ServiceBuilder::new()
                            .map_request(|(event, _): (LambdaEvent<Value>, Call)| event)
                            .service(inside(with_call.clone())),
                    ),
                ),
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
                    assert_eq!(kind, Some(ErrorKind::AlreadyInProgress), "{name}");
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
        .service(hanging_once(&runs));
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

/// A handler that fails in its first run.
fn failing_once(
    runs: &Runs,
) -> impl Service<LambdaEvent<Value>, Response = usize, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let runs = runs.clone();
    service_fn(move |_: LambdaEvent<Value>| {
        let run = runs.next();
        async move {
            if run == 1 {
                Err("failed".into())
            } else {
                Ok(run)
            }
        }
    })
}

#[tokio::test]
async fn a_retry_inside_runs_the_handler_again_under_the_same_claim() {
    let (harness, runs) = (harness(), Runs::default());
    let service = ServiceBuilder::new()
        .layer(layer())
        .retry(Once(true))
        .service(failing_once(&runs));
    assert_eq!(call(&harness, &service).await.unwrap(), 2);
    assert_eq!(
        harness.requests(),
        [1, 1, 0, 0],
        "one claim, one completion"
    );
    assert_eq!(call(&harness, &service).await.unwrap(), 2);
}

#[tokio::test]
async fn a_retry_outside_makes_a_call_of_its_own() {
    let (harness, runs) = (harness(), Runs::default());
    let service = ServiceBuilder::new()
        .retry(Once(true))
        .layer(layer())
        .service(failing_once(&runs));
    assert_eq!(call(&harness, &service).await.unwrap(), 2);
    assert_eq!(
        harness.requests(),
        [2, 2, 0, 0],
        "a claim that is freed with a mark, and a second one"
    );
}

/// Takes the one place of a service and looks at a second caller.
async fn one_at_a_time<S>(service: S)
where
    S: Service<LambdaEvent<Value>, Response = usize, Error = ServiceError> + Clone,
{
    let harness = harness();
    let mut first = service.clone();
    let first = first.ready().await.unwrap();
    // A caller that waits holds a place in the queue, so it is dropped.
    assert!(!is_ready(&mut service.clone()));
    let response = harness.within(first.call(order(1))).await;
    assert_eq!(response.unwrap(), 1);
    // A replay gives its place back too, although the service inside is not called.
    for _ in 0..3 {
        assert_eq!(call(&harness, &service).await.unwrap(), 1);
    }
    assert!(is_ready(&mut service.clone()));
}

#[tokio::test]
async fn a_concurrency_limit_on_either_side_lets_the_next_call_in_when_one_has_ended() {
    let limit = || ConcurrencyLimitLayer::new(1);
    let outside = ServiceBuilder::new().layer(limit()).layer(layer());
    one_at_a_time(outside.service(Runs::default().service())).await;
    let inside = ServiceBuilder::new().layer(layer()).layer(limit());
    one_at_a_time(inside.service(Runs::default().service())).await;
}

fn is_ready<S: Service<LambdaEvent<Value>>>(service: &mut S) -> bool {
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    service.poll_ready(&mut context).is_ready()
}

#[tokio::test]
async fn a_map_of_errors_on_either_side_sees_the_errors_that_pass_it() {
    let harness = harness();
    let service = ServiceBuilder::new()
        .map_err(|error: ServiceError| (error.kind(), error.to_string()))
        .layer(layer())
        .map_err(|error: BoxError| BoxError::from(format!("inside: {error}")))
        .service(failing_once(&Runs::default()));
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
    let (harness, runs) = (harness(), Runs::default());
    let audit = idempotency_lambda::Operation::builder("shop::audit")
        .key("[order_id, amount]")
        .key_prefix("layer.audit")
        .build()
        .unwrap();
    let service = IdempotencyLayer::new(audit).layer(layer().layer(runs.service()));
    assert_eq!(call(&harness, &service).await.unwrap(), 1);
    assert_eq!(harness.requests(), [2, 2, 0, 0]);
    let other = harness.within(service.oneshot(order(2)));
    assert_eq!(
        other.await.unwrap_err().kind(),
        Some(ErrorKind::PayloadMismatch)
    );
}

#[tokio::test]
async fn a_duplicate_gets_the_first_response_and_another_payload_an_error() {
    let (harness, runs) = (harness(), Runs::default());
    let service = layer().layer(runs.service());
    let call = |event| harness.within(service.clone().oneshot(event));
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

/// A nesting that is not annotated, with a call inside that must know its invocation.
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
        let call = harness.within(service.clone().oneshot(order));
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
    let call = |event| harness.within(service.clone().oneshot(event));
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
    let call = harness.within(service.oneshot(order(1)));
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
    let call = || harness.within(service.clone().oneshot(order(1)));
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

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    for (amount, response) in [(1, Some(1)), (1, Some(1)), (2, None)] {
        let ready = ServiceExt::<LambdaEvent<Value>>::ready(&mut service)
            .await
            .unwrap();
        let call = harness.within(ready.call(order(amount)));
        assert_eq!(call.await.ok(), response);
    }
}

#[tokio::test]
async fn two_calls_that_are_prepared_before_either_runs_both_have_a_ready_service() {
    let harness = harness();
    let mut service = layer().layer(Strict::default());
    let mut calls = Vec::new();
    for order_id in [1, 2] {
        let mut order = order(1);
        order.payload["order_id"] = order_id.into();
        let ready = ServiceExt::<LambdaEvent<Value>>::ready(&mut service)
            .await
            .unwrap();
        calls.push(harness.within(ready.call(order)));
    }
    let second = calls.pop().unwrap().await.unwrap();
    assert_eq!((second, calls.pop().unwrap().await.unwrap()), (1, 2));
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
async fn the_attribute_takes_the_key_from_the_value() {
    let harness = harness();
    for _ in 0..2 {
        let response = harness.within(annotated(unwritable())).await;
        assert_eq!(response.unwrap(), 7);
    }
    assert_eq!(harness.store.inner().len(), 1);
}

#[tokio::test]
async fn the_layer_takes_the_key_from_the_value() {
    let (harness, runs) = (harness(), Runs::default());
    let place = keyed(|of| of);
    let counted = runs.clone();
    let service =
        IdempotencyLayer::new(place).layer(service_fn(move |_: LambdaEvent<Unwritable>| {
            let run = counted.next();
            async move { Ok::<_, BoxError>(run) }
        }));
    for _ in 0..2 {
        let call = service.clone().oneshot(unwritable());
        assert_eq!(harness.within(call).await.unwrap(), 1);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn the_layer_hands_on_a_stored_text_as_it_is() {
    const SENT: &str = r#"{"b" : 1.50,  "a":[ ],"a":"\u00e9"}"#;
    let harness = harness();
    let place = operation().key("@").build().unwrap();
    let service = IdempotencyLayer::new(place).layer(service_fn(async |_: LambdaEvent<u8>| {
        Ok::<_, BoxError>(RawValue::from_string(SENT.to_owned())?)
    }));
    for _ in 0..2 {
        let call = service.clone().oneshot(event(1));
        let response: Box<RawValue> = harness.within(call).await.unwrap();
        assert_eq!(response.get(), SENT);
    }
}
