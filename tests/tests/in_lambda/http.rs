//! HTTP in a process that counts as a Lambda environment: a request has the lease of its invocation, or is refused.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_core::record::Field;
use idempotency_lambda::{
    BoxError, Context, LambdaEvent, Operation, http::HttpLayer, idempotent, with_backend,
};
use idempotency_testkit::events;
use idempotency_testkit::store::StoreCall;
use idempotency_tests::{Harness, START};
use lambda_http::{Body, Request, RequestExt, Response, http, service_fn};
use lambda_runtime::tower::{Layer, ServiceExt};

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}

fn context() -> Context {
    let mut context = Context::default();
    context.deadline = START as u64 + 20_000;
    context.tenant_id = Some("blue".to_owned());
    context
}

fn layer(prefix: &str) -> HttpLayer {
    let operation = Operation::builder(prefix).key_prefix(prefix);
    operation.http().shared_by_all_callers().build().unwrap()
}

fn request() -> Request {
    let request = http::Request::post("/").header("idempotency-key", "k-1");
    request.body(Body::Empty).unwrap()
}

/// Returns the ids that were claimed, each with the end of its lease.
fn claims(harness: &Harness) -> Vec<(String, i64)> {
    let calls = harness.store.calls().into_iter();
    calls
        .filter_map(|call| match call {
            StoreCall::Put { id, record, .. } => match record.in_progress_expiration {
                Field::Value(end) => Some((id.as_str().to_owned(), end.get())),
                _ => panic!("{id} has no lease"),
            },
            _ => None,
        })
        .collect()
}

async fn status(harness: &Harness, prefix: &str, request: Request) -> u16 {
    let pay = service_fn(async |_: Request| Ok::<_, BoxError>(Response::new(Body::Empty)));
    let call = layer(prefix).layer(pay).oneshot(request);
    let response = with_backend(harness.backend.clone(), call).await;
    response.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_request_of_lambda_http_has_the_lease_and_the_tenant_of_its_invocation() {
    let harness = harness();
    let request = request().with_lambda_context(context());
    assert_eq!(status(&harness, "in_lambda.1", request).await, 200);
    let [(id, lease_ends)] = &claims(&harness)[..] else {
        panic!("{:?}", claims(&harness));
    };
    assert!(id.starts_with("in_lambda.1#tenant=blue#"), "{id}");
    assert_eq!(*lease_ends, START + 20_000);
}

#[tokio::test]
async fn a_request_without_a_known_invocation_is_refused_and_never_gets_a_default_lease() {
    let harness = harness();
    assert_eq!(status(&harness, "in_lambda.2", request()).await, 500);
    assert_eq!(claims(&harness), []);
}

#[idempotent(http, shared_by_all_callers, key_prefix = "in_lambda.3")]
async fn annotated(
    _event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = 200;
    Ok(response)
}

#[tokio::test]
async fn an_annotated_handler_has_the_lease_of_its_event_or_is_refused() {
    let harness = harness();
    let request = events::api_gateway_v2("POST", "/").header("Idempotency-Key", "k-1");
    let call = async |context: Context| {
        let event = LambdaEvent::new(request.parse().unwrap(), context);
        let response = with_backend(harness.backend.clone(), annotated(event)).await;
        response.unwrap().status_code
    };
    assert_eq!(call(Context::default()).await, 500);
    assert_eq!(claims(&harness), []);
    assert_eq!(call(context()).await, 200);
    assert_eq!(claims(&harness)[0].1, START + 20_000);
}
