//! Whole functions over a store that does nothing: with the attribute, the layer, and as HTTP.

use std::cell::{LazyCell, RefCell};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_core::example::ready;
use idempotency_lambda::{
    BoxError, Context, IdempotencyLayer, LambdaEvent, Operation, Raw, http, idempotent,
};
use lambda_http::{Request, Response};
use lambda_runtime::Service;
use lambda_runtime::tower::{Layer, service_fn};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cases, Event, Run, read};
use crate::events;
use crate::events::HttpEvent;
use crate::store::NoStore;

/// The response of a function.
#[derive(Deserialize, Serialize)]
struct PlacedOrder {
    order_id: String,
    status: String,
    amount: u64,
}

fn placed(id: &str) -> PlacedOrder {
    PlacedOrder {
        order_id: id.to_owned(),
        status: "placed".to_owned(),
        amount: 4_200,
    }
}

/// Writes two functions for each type of payload: one without a local cache, and one with it.
macro_rules! functions {
    ($($payload:ty, $plain:ident, $cached:ident, |$event:ident| $id:expr;)+) => {$(
        #[idempotent(key = "requestContext.requestId")]
        async fn $plain($event: LambdaEvent<$payload>) -> Result<PlacedOrder, BoxError> {
            Ok(placed($id))
        }

        #[idempotent(key = "requestContext.requestId", local_cache = 100)]
        async fn $cached($event: LambdaEvent<$payload>) -> Result<PlacedOrder, BoxError> {
            Ok(placed($id))
        }
    )+};
}

functions! {
    Value, of_value, of_value_cached, |event| event.payload["requestContext"]["requestId"].as_str().unwrap_or_default();
    HttpEvent, of_type, of_type_cached, |event| &event.payload.request_context.request_id;
    Raw<HttpEvent>, of_raw, of_raw_cached, |event| &event.payload.request_context.request_id;
}

#[idempotent(http, caller = "requestContext.authorizer.jwt.claims.sub")]
async fn of_http(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    http_response(&event)
}

#[idempotent(
    http,
    caller = "requestContext.authorizer.jwt.claims.sub",
    local_cache = 100
)]
async fn of_http_cached(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    http_response(&event)
}

fn http_response(
    event: &LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 201;
    let id = event.payload.request_context.request_id.as_deref();
    let body = serde_json::to_string(&placed(id.unwrap_or_default()))?;
    response.body = Some(body.into());
    Ok(response)
}

/// The service under the layer for HTTP.
async fn http_service(_request: Request) -> Result<Response<String>, BoxError> {
    Ok(Response::new(serde_json::to_string(&placed(
        "c6af9ac6-7b61",
    ))?))
}

/// Adds the cases of a function and its twin with a cache. It is a macro because each function has a future of its own type.
macro_rules! function {
    ($cases:ident, $name:literal, $size:ident, $event:expr, $plain:ident, $cached:ident) => {
        calls($cases, $name, $size, $event, |cache, event| {
            if cache {
                drop(black_box(ready($cached(event)).expect("a response")));
            } else {
                drop(black_box(ready($plain(event)).expect("a response")));
            }
        })
    };
}

/// Adds the cases of one size of the event.
pub(super) fn add(cases: &mut Cases<'_>, size: &str, bytes: usize) {
    let event = LazyCell::new(|| events::http(bytes));
    function!(
        cases,
        "attribute/value",
        size,
        &event,
        of_value,
        of_value_cached
    );
    function!(
        cases,
        "attribute/typed",
        size,
        &event,
        of_type,
        of_type_cached
    );
    function!(cases, "attribute/raw", size, &event, of_raw, of_raw_cached);
    let layered = |cache| layered::<HttpEvent>("layer", cache);
    service(cases, "layer/typed", size, &event, layered);
    let event = LazyCell::new(|| events::http_api(bytes));
    function!(
        cases,
        "attribute/http",
        size,
        &event,
        of_http,
        of_http_cached
    );
    service(cases, "layer/http", size, &event, |cache| {
        let layer = operation("http", cache).http();
        let layer = layer
            .caller("requestContext.authorizer.jwt.claims.sub")
            .build();
        http::service(
            layer
                .expect("the settings are right")
                .layer(service_fn(http_service)),
        )
    });
}

fn operation(name: &str, cache: bool) -> idempotency_lambda::OperationBuilder {
    let path = format!("benches::{name}{}", if cache { "_cached" } else { "" });
    let operation = Operation::builder(path).local_cache(if cache { 100 } else { 0 });
    match name {
        "http" => operation,
        _ => operation.key("requestContext.requestId"),
    }
}

/// Returns a service of events under the layer.
fn layered<T>(
    name: &str,
    cache: bool,
) -> impl Service<LambdaEvent<T>, Response = PlacedOrder, Error: std::fmt::Debug, Future: 'static>
+ Clone
+ use<T>
where
    T: Serialize + Send + 'static,
{
    let operation = operation(name, cache)
        .build()
        .expect("the settings are right");
    IdempotencyLayer::new(operation).layer(service_fn(async |_event: LambdaEvent<T>| {
        Ok::<_, BoxError>(placed("c6af9ac6-7b61"))
    }))
}

/// Returns the store of all functions. The first call makes it the store of the process.
fn store() -> &'static NoStore {
    static STORE: OnceLock<NoStore> = OnceLock::new();
    STORE.get_or_init(|| {
        let store = NoStore::default();
        let backend = idempotency_lambda::backend_over(Arc::new(store.clone()));
        idempotency_lambda::set_global_backend(backend).expect("it is set once");
        store
    })
}

/// Returns the event of an invocation.
fn event<T: DeserializeOwned>(text: &str) -> LambdaEvent<T> {
    let mut context = Context::default();
    context.request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let deadline = now.expect("the clock is right") + Duration::from_secs(15);
    context.deadline = u64::try_from(deadline.as_millis()).expect("it is before the end of time");
    LambdaEvent::new(read(text), context)
}

/// Adds the cases of a service and its twin with a cache.
fn service<T, S, F>(
    cases: &mut Cases<'_>,
    name: &str,
    size: &str,
    text: &Event<F>,
    make: impl Fn(bool) -> S + 'static,
) where
    T: DeserializeOwned + 'static,
    S: Service<LambdaEvent<T>, Error: std::fmt::Debug> + 'static,
    F: FnOnce() -> String,
{
    let services = LazyCell::new(move || [false, true].map(|cache| RefCell::new(make(cache))));
    calls(cases, name, size, text, move |cache, event| {
        let call = services[usize::from(cache)].borrow_mut().call(event);
        drop(black_box(ready(call).expect("a response")));
    });
}

/// Adds a fresh call, a duplicate that the store finds, and one that the cache finds.
fn calls<T, F>(
    cases: &mut Cases<'_>,
    name: &str,
    size: &str,
    text: &Event<F>,
    call: impl Fn(bool, LambdaEvent<T>) + 'static,
) where
    T: DeserializeOwned + 'static,
    F: FnOnce() -> String,
{
    let call = Rc::new(call);
    for (end, cache, duplicate) in [
        ("fresh", false, false),
        ("replay", false, true),
        ("cached", true, true),
    ] {
        let call = Rc::clone(&call);
        cases.add_prepared(format!("{name}/{end}/{size}"), text, move |text| {
            let text = text.to_owned();
            move || {
                let (store, event, call) = (store(), || event(&text), Rc::clone(&call));
                store.apply_all();
                if cache {
                    call(cache, event());
                } else if duplicate {
                    store.find_record_of(|| call(cache, event()));
                }
                let mut event = Some(event());
                Box::new(move || call(cache, event.take().expect("it runs once"))) as Run
            }
        });
    }
}
