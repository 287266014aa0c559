//! Every shape gives its handler the call, if the handler asks for it: the same key, run, time and token.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::sqs::SqsEvent;
use axum::routing::any;
use axum::{Extension, Router};
use futures_util::FutureExt;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    Backend, BoxError, Call, Context, Deadline, IdempotencyLayer, LambdaEvent, Operation,
    OperationBuilder, Run, Variables, idempotent, with_backend, with_invocation,
};
use idempotency_testkit::events;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START};
use lambda_http::{Body, Request, Response};
use lambda_runtime::service_fn;
use serde::{Deserialize, Serialize};
use tower::{Layer, ServiceExt};

const PREFIX: &str = "shapes.call";
const LEASE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Attribute,
    AttributeOfAnEvent,
    AttributeOfARecord,
    AttributeOfHttp,
    Operation,
    IdentifiedCall,
    EventLayer,
    Batch,
    HttpLayer,
    Axum,
}

const SHAPES: [Shape; 10] = [
    Shape::Attribute,
    Shape::AttributeOfAnEvent,
    Shape::AttributeOfARecord,
    Shape::AttributeOfHttp,
    Shape::Operation,
    Shape::IdentifiedCall,
    Shape::EventLayer,
    Shape::Batch,
    Shape::HttpLayer,
    Shape::Axum,
];

/// An order without an id has no key.
#[derive(Clone, Serialize, Deserialize)]
struct Order {
    order_id: Option<u32>,
}

/// What a handler sees of its call.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    key: Option<String>,
    run: Run,
    left: Option<Duration>,
    token: String,
}

/// Keeps the calls of the handlers. A handler of a shop that hangs never returns.
#[derive(Clone, Default)]
struct Shop {
    hangs: bool,
    seen: Arc<Mutex<Vec<(Seen, Call)>>>,
}

impl Shop {
    async fn charge(&self, call: Call) -> Result<(), BoxError> {
        assert!(!call.has_ended());
        let seen = Seen {
            key: call.key().map(ToString::to_string),
            run: call.which_run(),
            left: call.time_left(),
            token: call.token("charge").into(),
        };
        assert_eq!(call.token("charge").as_str(), seen.token);
        self.seen.lock().unwrap().push((seen, call));
        if self.hangs {
            pending::<()>().await;
        }
        Ok(())
    }

    /// Returns what the only handler that ran has seen. Its call has ended.
    fn seen(&self) -> Seen {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        assert_eq!(seen.len(), 1, "one run");
        let (seen, call) = seen.remove(0);
        assert!(call.has_ended(), "the handler has returned, or was dropped");
        seen
    }
}

#[idempotent(
    payload = order,
    key = "order_id",
    key_required = false,
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn annotated(shop: &Shop, order: &Order, call: Call) -> Result<(), BoxError> {
    shop.charge(call).await
}

#[idempotent(
    payload = event.payload,
    key = "order_id",
    key_required = false,
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn of_an_event(shop: &Shop, event: LambdaEvent<Order>, call: Call) -> Result<(), BoxError> {
    drop(event);
    shop.charge(call).await
}

#[idempotent(
    sqs,
    key = "order_id",
    key_required = false,
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn of_a_record(shop: &Shop, _order: Order, call: Call) -> Result<(), BoxError> {
    shop.charge(call).await
}

#[idempotent(
    http,
    key = "powertools_json(body).order_id",
    key_required = false,
    shared_by_all_callers,
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn of_http(
    shop: &Shop,
    _event: LambdaEvent<ApiGatewayV2httpRequest>,
    call: Call,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    shop.charge(call).await?;
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 201;
    Ok(response)
}

fn builder() -> OperationBuilder {
    Operation::builder("shapes::call")
        .variables(Variables::default())
        .key_prefix(PREFIX)
        .shared_key_prefix(true)
}

fn operation() -> Result<Operation, BoxError> {
    Ok(builder().key("order_id").key_required(false).build()?)
}

fn event<T>(payload: T) -> LambdaEvent<T> {
    LambdaEvent::new(payload, Context::default())
}

fn api_gateway(
    method: &str,
    order: &Order,
) -> Result<LambdaEvent<ApiGatewayV2httpRequest>, BoxError> {
    let request = events::api_gateway_v2(method, "/charges").json(order);
    Ok(event(request.parse()?))
}

fn request(method: &str, order: &Order) -> Result<Request, BoxError> {
    let request = lambda_http::http::Request::builder().method(method);
    let request = request.header("content-type", "application/json");
    Ok(request.body(Body::from(serde_json::to_string(order)?))?)
}

fn http_layer() -> Result<idempotency_lambda::http::HttpLayer, BoxError> {
    Ok(builder()
        .http()
        .key("powertools_json(body).order_id")
        .key_required(false)
        .shared_by_all_callers()
        .build()?)
}

/// Makes a call in one shape, as its users write it.
async fn call(shape: Shape, shop: &Shop, order: Order) -> Result<(), BoxError> {
    let of_shop = shop.clone();
    match shape {
        Shape::Attribute => annotated(shop, &order).await,
        Shape::AttributeOfAnEvent => of_an_event(shop, event(order)).await,
        Shape::AttributeOfARecord => {
            let messages = events::sqs("orders").json(&order).parse()?;
            let response = of_a_record(shop, event(messages)).await?;
            assert!(response.batch_item_failures.is_empty());
            Ok(())
        }
        Shape::AttributeOfHttp => {
            let response = of_http(shop, api_gateway("POST", &order)?).await?;
            assert_eq!(response.status_code, 201);
            Ok(())
        }
        Shape::Operation => {
            let operation = operation()?;
            let run = |call: Call| shop.charge(call);
            let outcome = operation.run(&order, Deadline::Inherited, run);
            outcome.await?.into_response();
            Ok(())
        }
        Shape::IdentifiedCall => {
            let identified = operation()?.identify(&order, Deadline::Inherited)?;
            let run = |call: Call| shop.charge(call);
            identified.run(run).await?.into_response();
            Ok(())
        }
        Shape::EventLayer => {
            let handler = move |(_, call): (LambdaEvent<Order>, Call)| {
                let shop = of_shop.clone();
                async move { shop.charge(call).await }
            };
            let layer = IdempotencyLayer::new(operation()?).with_call();
            Ok(layer
                .layer(service_fn(handler))
                .oneshot(event(order))
                .await?)
        }
        Shape::Batch => {
            let messages: SqsEvent = events::sqs("orders").json(&order).parse()?;
            let run = |_: Order, call: Call| shop.charge(call);
            let batch = Batch::new(&operation()?);
            let response = batch.run(event(messages), run).await?;
            assert!(response.batch_item_failures.is_empty());
            Ok(())
        }
        Shape::HttpLayer => {
            let handler = move |request: Request| {
                let shop = of_shop.clone();
                async move {
                    let call = request.extensions().get::<Call>().cloned();
                    shop.charge(call.ok_or("no call")?).await?;
                    Ok::<_, BoxError>(Response::new(Body::from("charged")))
                }
            };
            let service = http_layer()?.layer(service_fn(handler));
            let response = service.oneshot(request("POST", &order)?).await?;
            assert_eq!(response.status(), 200);
            Ok(())
        }
        Shape::Axum => {
            let response = axum_app(shop)?.oneshot(axum_request("POST", &order)?);
            assert_eq!(response.await?.status(), 200);
            Ok(())
        }
    }
}

/// A router whose handler takes the call, and whose handler of GET can do without.
fn axum_app(shop: &Shop) -> Result<Router, BoxError> {
    let shop = shop.clone();
    let charge = async move |call: Option<Extension<Call>>| {
        let Some(Extension(call)) = call else {
            return "no call";
        };
        match shop.charge(call).await {
            Ok(()) => "charged",
            Err(_) => "failed",
        }
    };
    Ok(Router::new()
        .route("/charges", any(charge))
        .route_layer(http_layer()?))
}

fn axum_request(method: &str, order: &Order) -> Result<axum::extract::Request, BoxError> {
    let request = axum::http::Request::builder().method(method);
    let body = axum::body::Body::from(serde_json::to_string(order)?);
    let request = request
        .uri("/charges")
        .header("content-type", "application/json");
    Ok(request.body(body)?)
}

fn order() -> Order {
    Order { order_id: Some(7) }
}

/// Runs a future in an invocation that has 30 s left, in the process of this backend.
async fn invoked<F: Future>(harness: &Harness, backend: Backend, future: F) -> F::Output {
    let mut context = Context::default();
    context.deadline = harness.clock.now().plus(LEASE).get() as u64;
    with_backend(backend, with_invocation(&context, future)).await
}

/// Makes a call in an invocation that has 30 s left.
async fn call_in(
    harness: &Harness,
    backend: Backend,
    shape: Shape,
    shop: &Shop,
    order: Order,
) -> Result<(), BoxError> {
    invoked(harness, backend, call(shape, shop, order)).await
}

/// Returns what the first run of an order sees.
async fn first_run(shape: Shape) -> Seen {
    let (harness, shop) = (Harness::default(), Shop::default());
    let call = call_in(&harness, harness.backend.clone(), shape, &shop, order());
    call.await.unwrap();
    shop.seen()
}

#[tokio::test]
async fn every_shape_gives_its_handler_the_same_call() {
    let first = first_run(Shape::Operation).await;
    assert_eq!((first.run, first.left), (Run::First, Some(LEASE)));
    assert!(first.key.as_ref().unwrap().starts_with("shapes.call#"));
    for shape in SHAPES {
        assert_eq!(first_run(shape).await, first, "{shape:?}");
    }
}

#[tokio::test]
async fn after_an_expired_lease_every_shape_reruns_with_the_same_token() {
    for shape in SHAPES {
        let harness = Harness::default();
        let hanging = Shop {
            hangs: true,
            ..Shop::default()
        };
        let killed = call_in(&harness, harness.backend.clone(), shape, &hanging, order());
        assert!(killed.now_or_never().is_none(), "{shape:?}");
        let first = hanging.seen();
        assert_eq!(first.run, Run::First, "{shape:?}");
        harness.clock.advance(LEASE + Duration::from_secs(1));
        let shop = Shop::default();
        let backend = harness.another_process();
        let rerun = call_in(&harness, backend, shape, &shop, order());
        rerun.await.unwrap();
        let rerun = shop.seen();
        let Run::Rerun { lease_ended, .. } = rerun.run else {
            panic!("{shape:?}: {rerun:?}");
        };
        assert_eq!(lease_ended, Some(EpochMillis::new(START).plus(LEASE)));
        assert_eq!(rerun.token, first.token, "{shape:?}");
        assert_eq!(rerun.left, Some(LEASE), "{shape:?}");
    }
}

#[tokio::test]
async fn a_run_whose_claim_had_no_reply_is_unknown_unless_the_claim_is_sent_again_and_applied() {
    for shape in SHAPES {
        let first = first_run(shape).await;
        for (fault, run) in [
            (StoreFault::LoseReply, Run::Unknown),
            (StoreFault::Resend, Run::Unknown),
            // The claim that was sent again found no record.
            (StoreFault::LoseRequest, Run::First),
        ] {
            let (harness, shop) = (Harness::default(), Shop::default());
            harness.inject(StoreOperation::Put, 1, fault);
            let call = call_in(&harness, harness.backend.clone(), shape, &shop, order());
            call.await.unwrap();
            let seen = shop.seen();
            assert_eq!(seen.run, run, "{shape:?}, {fault:?}");
            assert_eq!(seen.token, first.token, "{shape:?}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn without_a_key_every_shape_has_an_unprotected_call_with_a_token_of_this_run() {
    for shape in SHAPES {
        let (harness, shop) = (Harness::default(), Shop::default());
        let mut tokens = Vec::new();
        for _ in 0..2 {
            let order = Order { order_id: None };
            let call = call_in(&harness, harness.backend.clone(), shape, &shop, order);
            call.await.unwrap();
            let seen = shop.seen();
            assert_eq!((seen.key, seen.run), (None, Run::Unprotected), "{shape:?}");
            assert_eq!(seen.left, Some(LEASE), "{shape:?}");
            tokens.push(seen.token);
        }
        assert_ne!(tokens[0], tokens[1], "{shape:?}");
        assert_eq!(harness.requests(), [0; 4], "{shape:?}");
    }
}

#[tokio::test]
async fn a_replay_makes_no_call() {
    for shape in SHAPES {
        let (harness, shop) = (Harness::default(), Shop::default());
        for _ in 0..2 {
            let call = call_in(&harness, harness.backend.clone(), shape, &shop, order());
            call.await.unwrap();
        }
        assert_eq!(shop.seen().run, Run::First, "{shape:?}");
    }
}

#[tokio::test]
async fn a_request_of_a_method_that_is_not_protected_has_an_unprotected_call_or_none() {
    let (harness, shop) = (Harness::default(), Shop::default());
    let annotated = async {
        let response = of_http(&shop, api_gateway("GET", &order())?).await?;
        Ok::<_, BoxError>(response.status_code)
    };
    let annotated = invoked(&harness, harness.backend.clone(), annotated);
    assert_eq!(annotated.await.unwrap(), 201);
    let seen = shop.seen();
    assert_eq!((seen.key, seen.run), (None, Run::Unprotected));
    assert_eq!(seen.left, Some(LEASE));
    // The layer passes such a request unchanged.
    let get = axum_app(&shop).unwrap();
    let get = get.oneshot(axum_request("GET", &order()).unwrap());
    let response = harness.within(get).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 100).await;
    assert_eq!(body.unwrap(), "no call");
    assert_eq!(harness.requests(), [0; 4]);
}
