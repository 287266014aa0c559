//! Every shape gives its handler the call, if the handler asks for it: the same key, run, time and token. With one prefix, key and
//! validated part, all shapes make one record, and replay each other's response.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::sqs::SqsEvent;
use axum::routing::any;
use axum::{Extension, Router};
use futures_util::FutureExt;
use idempotency_core::record::Record;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    BoxError, Call, Context, Deadline, IdempotencyLayer, LambdaEvent, Operation, OperationBuilder,
    Run, Variables, idempotent, with_invocation,
};
use idempotency_testkit::events;
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, START};
use lambda_http::http::{self, StatusCode};
use lambda_http::{Body, Request, Response};
use lambda_runtime::service_fn;
use serde::{Deserialize, Serialize};
use tower::{Layer, ServiceExt};

const PREFIX: &str = "shapes.call";
const LEASE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Attribute,
    AttributeOfARecord,
    AttributeOfHttp,
    Operation,
    IdentifiedCall,
    EventLayer,
    Batch,
    HttpLayer,
    Axum,
}

const SHAPES: [Shape; 9] = [
    Shape::Attribute,
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
    amount: u32,
}

/// A response in the form that the HTTP layer stores, so that every shape can replay every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    status_code: u16,
    headers: BTreeMap<String, String>,
    body: String,
    is_base64_encoded: bool,
}

impl Reply {
    fn new(status_code: u16, body: String) -> Self {
        Self {
            status_code,
            headers: BTreeMap::from([("content-type".to_owned(), "text/plain".to_owned())]),
            body,
            is_base64_encoded: false,
        }
    }

    fn into_response<B: From<String>>(self) -> Response<B> {
        let response = Response::builder().status(self.status_code);
        let response = response.header("content-type", &self.headers["content-type"]);
        response.body(self.body.into()).unwrap()
    }

    /// Reads what a client gets. A refusal is an error.
    fn read(status: StatusCode, body: &[u8]) -> Result<Self, BoxError> {
        let body = String::from_utf8(body.to_vec())?;
        match status.is_success() {
            true => Ok(Self::new(status.as_u16(), body)),
            false => Err(format!("{status} {body}").into()),
        }
    }
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
    async fn charge(&self, call: Call) -> Result<Reply, BoxError> {
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
        Ok(Reply::new(201, "charged".to_owned()))
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
    validate = "['POST', '/charges', amount]",
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn annotated(shop: &Shop, order: &Order, call: Call) -> Result<Reply, BoxError> {
    shop.charge(call).await
}

#[idempotent(
    sqs,
    key = "order_id",
    key_required = false,
    validate = "['POST', '/charges', amount]",
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn of_a_record(shop: &Shop, _order: Order, call: Call) -> Result<Reply, BoxError> {
    shop.charge(call).await
}

#[idempotent(
    http,
    key = "powertools_json(body).order_id",
    key_required = false,
    validate = "powertools_json(body).amount",
    shared_by_all_callers,
    key_prefix = "shapes.call",
    shared_key_prefix = true
)]
async fn of_http(
    shop: &Shop,
    _event: LambdaEvent<ApiGatewayV2httpRequest>,
    call: Call,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let reply: Response<String> = shop.charge(call).await?.into_response();
    let (parts, body) = reply.into_parts();
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = parts.status.as_u16().into();
    response.headers = parts.headers;
    response.body = Some(body.into());
    Ok(response)
}

fn builder() -> OperationBuilder {
    Operation::builder("shapes::call")
        .variables(Variables::default())
        .key_prefix(PREFIX)
        .shared_key_prefix(true)
}

fn operation() -> Result<Operation, BoxError> {
    let operation = builder().key("order_id").key_required(false);
    Ok(operation.validate("['POST', '/charges', amount]").build()?)
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

fn request<B: From<String>>(method: &str, order: &Order) -> Result<http::Request<B>, BoxError> {
    let request = http::Request::builder().method(method).uri("/charges");
    let request = request.header("content-type", "application/json");
    Ok(request.body(serde_json::to_string(order)?.into())?)
}

fn http_layer() -> Result<idempotency_lambda::http::HttpLayer, BoxError> {
    Ok(builder()
        .http()
        .key("powertools_json(body).order_id")
        .key_required(false)
        .fingerprint("powertools_json(body).amount")
        .shared_by_all_callers()
        .build()?)
}

/// Returns an error if the record of a batch is returned. A batch does not return the response.
fn done(failures: usize) -> Result<Option<Reply>, BoxError> {
    match failures {
        0 => Ok(None),
        _ => Err("the record is returned".into()),
    }
}

/// Makes a call in one shape, as its users write it. Returns its response, or `None` for a batch.
async fn call(shape: Shape, shop: &Shop, order: Order) -> Result<Option<Reply>, BoxError> {
    let of_shop = shop.clone();
    match shape {
        Shape::Attribute => annotated(shop, &order).await.map(Some),
        Shape::AttributeOfARecord => {
            let messages = events::sqs("orders").json(&order).parse()?;
            let response = of_a_record(shop, event(messages)).await?;
            done(response.batch_item_failures.len())
        }
        Shape::AttributeOfHttp => {
            let response = of_http(shop, api_gateway("POST", &order)?).await?;
            let status = StatusCode::from_u16(u16::try_from(response.status_code)?)?;
            let body = response.body.ok_or("no body")?;
            Reply::read(status, &body).map(Some)
        }
        Shape::Operation => {
            let operation = operation()?;
            let run = |call: Call| shop.charge(call);
            let outcome = operation.run(&order, Deadline::Inherited, run);
            Ok(Some(outcome.await?.into_response()))
        }
        Shape::IdentifiedCall => {
            let identified = operation()?.identify(&order, Deadline::Inherited)?;
            let run = |call: Call| shop.charge(call);
            Ok(Some(identified.run(run).await?.into_response()))
        }
        Shape::EventLayer => {
            let handler = move |(_, call): (LambdaEvent<Order>, Call)| {
                let shop = of_shop.clone();
                async move { shop.charge(call).await }
            };
            let layer = IdempotencyLayer::new(operation()?).with_call();
            let service = layer.layer(service_fn(handler));
            Ok(Some(service.oneshot(event(order)).await?))
        }
        Shape::Batch => {
            let messages: SqsEvent = events::sqs("orders").json(&order).parse()?;
            let run = |_: Order, call: Call| shop.charge(call);
            let batch = Batch::new(&operation()?);
            let response = batch.run(event(messages), run).await?;
            done(response.batch_item_failures.len())
        }
        Shape::HttpLayer => {
            let handler = move |request: Request| {
                let shop = of_shop.clone();
                async move {
                    let call = request.extensions().get::<Call>().cloned();
                    let reply = shop.charge(call.ok_or("no call")?).await?;
                    Ok::<_, BoxError>(reply.into_response::<Body>())
                }
            };
            let service = http_layer()?.layer(service_fn(handler));
            let response = service.oneshot(request("POST", &order)?).await?;
            client(response.map(axum::body::Body::new)).await
        }
        Shape::Axum => {
            let response = axum_app(shop)?.oneshot(request::<axum::body::Body>("POST", &order)?);
            client(response.await?).await
        }
    }
}

/// Reads what a client gets.
async fn client(response: Response<axum::body::Body>) -> Result<Option<Reply>, BoxError> {
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 10_000).await?;
    Reply::read(parts.status, &body).map(Some)
}

/// Returns a router whose handler takes the call. Without a call, it responds with `no call`.
fn axum_app(shop: &Shop) -> Result<Router, BoxError> {
    let shop = shop.clone();
    let charge = async move |call: Option<Extension<Call>>| match call {
        Some(Extension(call)) => shop.charge(call).await.unwrap().into_response(),
        None => Response::new(axum::body::Body::from("no call")),
    };
    Ok(Router::new()
        .route("/charges", any(charge))
        .route_layer(http_layer()?))
}

fn order(amount: u32) -> Order {
    Order {
        order_id: Some(7),
        amount,
    }
}

/// A shop, and the store of its processes.
#[derive(Default)]
struct Setup {
    harness: Harness,
    shop: Shop,
}

impl Setup {
    /// Runs a future in an invocation that has 30 s left.
    async fn invoked<F: Future>(&self, future: F) -> F::Output {
        let mut context = Context::default();
        context.deadline = self.harness.clock.now().plus(LEASE).get() as u64;
        self.harness.within(with_invocation(&context, future)).await
    }

    /// Makes a call in an invocation that has 30 s left.
    async fn call(&self, shape: Shape, order: Order) -> Result<Option<Reply>, BoxError> {
        self.invoked(call(shape, &self.shop, order)).await
    }

    /// Makes the first call of an order, and returns what its handler sees.
    async fn first_run(&self, shape: Shape) -> Seen {
        self.call(shape, order(42)).await.unwrap();
        self.shop.seen()
    }
}

#[tokio::test]
async fn every_shape_gives_its_handler_the_same_call() {
    let first = Setup::default().first_run(Shape::Operation).await;
    assert_eq!((first.run, first.left), (Run::First, Some(LEASE)));
    assert!(first.key.as_ref().unwrap().starts_with("shapes.call#"));
    for shape in SHAPES {
        let seen = Setup::default().first_run(shape).await;
        assert_eq!(seen, first, "{shape:?}");
    }
}

#[tokio::test]
async fn after_an_expired_lease_every_shape_reruns_with_the_same_token() {
    for shape in SHAPES {
        let mut setup = Setup::default();
        setup.shop.hangs = true;
        let killed = setup.call(shape, order(42));
        assert!(killed.now_or_never().is_none(), "{shape:?}");
        let first = setup.shop.seen();
        assert_eq!(first.run, Run::First, "{shape:?}");
        setup.harness.clock.advance(LEASE + Duration::from_secs(1));
        setup.harness.backend = setup.harness.another_process();
        setup.shop.hangs = false;
        let rerun = setup.first_run(shape).await;
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
        let first = Setup::default().first_run(shape).await;
        for (fault, run) in [
            (StoreFault::LoseReply, Run::Unknown),
            (StoreFault::Resend, Run::Unknown),
            // The claim that was sent again found no record.
            (StoreFault::LoseRequest, Run::First),
        ] {
            let setup = Setup::default();
            setup.harness.inject(StoreOperation::Put, 1, fault);
            let seen = setup.first_run(shape).await;
            assert_eq!(seen.run, run, "{shape:?}, {fault:?}");
            assert_eq!(seen.token, first.token, "{shape:?}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn without_a_key_every_shape_has_an_unprotected_call_with_a_token_of_this_run() {
    for shape in SHAPES {
        let setup = Setup::default();
        let mut tokens = Vec::new();
        for _ in 0..2 {
            let mut order = order(42);
            order.order_id = None;
            setup.call(shape, order).await.unwrap();
            let seen = setup.shop.seen();
            assert_eq!((seen.key, seen.run), (None, Run::Unprotected), "{shape:?}");
            assert_eq!(seen.left, Some(LEASE), "{shape:?}");
            tokens.push(seen.token);
        }
        assert_ne!(tokens[0], tokens[1], "{shape:?}");
        assert_eq!(setup.harness.requests(), [0; 4], "{shape:?}");
    }
}

/// Returns the id of the only record and its attributes, without those that depend on the shape: the owner's token and the operation.
fn record(harness: &Harness) -> (String, Record) {
    let (id, _) = harness.puts().swap_remove(0);
    let mut record = harness.store.inner().record(&id).unwrap();
    (record.owner, record.operation) = Default::default();
    (id.to_string(), record)
}

#[tokio::test]
async fn every_shape_makes_the_same_record_and_replays_or_refuses_the_call_of_every_other() {
    let mut records = Vec::new();
    for first in SHAPES {
        let setup = Setup::default();
        let call = |shape, amount| setup.call(shape, order(amount));
        call(first, 42).await.unwrap();
        let stored = record(&setup.harness);
        for second in SHAPES {
            let name = format!("{first:?} then {second:?}");
            if let Some(reply) = call(second, 42).await.unwrap() {
                assert_eq!(reply, Reply::new(201, "charged".to_owned()), "{name}");
            }
            // Another payload under the same key.
            let error = call(second, 43).await.unwrap_err().to_string();
            let expected = match second {
                Shape::Batch | Shape::AttributeOfARecord => "the record is returned",
                Shape::AttributeOfHttp | Shape::HttpLayer | Shape::Axum => "422",
                _ => "this key was used",
            };
            assert!(error.contains(expected), "{name}: {error}");
        }
        assert_eq!(record(&setup.harness), stored, "after {first:?}");
        assert_eq!(setup.shop.seen().run, Run::First, "{first:?}");
        records.push((first, stored));
    }
    for (shape, (id, record)) in &records {
        assert!(id.starts_with("shapes.call#"), "{id}");
        assert_eq!(
            (id, record),
            (&records[0].1.0, &records[0].1.1),
            "{shape:?}"
        );
    }
}

#[tokio::test]
async fn a_request_of_a_method_that_is_not_protected_has_an_unprotected_call_or_none() {
    let setup = Setup::default();
    let response = of_http(&setup.shop, api_gateway("GET", &order(42)).unwrap());
    let response = setup.invoked(response).await.unwrap();
    assert_eq!(response.status_code, 201);
    let seen = setup.shop.seen();
    assert_eq!((seen.key, seen.run), (None, Run::Unprotected));
    assert_eq!(seen.left, Some(LEASE));
    // The layer passes such a request unchanged.
    let get = axum_app(&setup.shop).unwrap();
    let get = get.oneshot(request::<axum::body::Body>("GET", &order(42)).unwrap());
    let response = setup.harness.within(get).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 100).await;
    assert_eq!(body.unwrap(), "no call");
    assert_eq!(setup.harness.requests(), [0; 4]);
}
