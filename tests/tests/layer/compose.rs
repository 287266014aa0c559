//! The layer beside other layers of tower, outside and inside of them.

use std::future::{pending, ready};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use idempotency_core::record::{Field, Status};
use idempotency_lambda::{
    BoxError, Call, ErrorKind, IdempotencyLayer, LambdaEvent, OnTimeout, ServiceError, diagnostic,
    with_backend,
};
use idempotency_tests::{Harness, id, operation};
use lambda_runtime::{Diagnostic, Service, service_fn};
use serde_json::{Value, json};
use tower::limit::ConcurrencyLimitLayer;
use tower::retry::Policy;
use tower::util::{BoxCloneSyncService, MapFutureLayer};
use tower::{Layer, ServiceBuilder, ServiceExt};

use crate::{Runs, charge, harness, layer, order};

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
    with_backend(harness.backend.clone(), service.clone().oneshot(order(1))).await
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
            let operation = || {
                operation()
                    .key("order_id")
                    .on_timeout(on_timeout)
                    .build()
                    .unwrap()
            };
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
    let call = with_backend(harness.backend.clone(), service.oneshot(later));
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
    let response = with_backend(harness.backend.clone(), first.call(order(1))).await;
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
    let call = with_backend(harness.backend.clone(), service.oneshot(other));
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
    let other = with_backend(harness.backend.clone(), service.oneshot(order(2)));
    assert_eq!(
        other.await.unwrap_err().kind(),
        Some(ErrorKind::PayloadMismatch)
    );
}
