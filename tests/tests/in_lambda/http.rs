//! HTTP in a process that counts as a Lambda environment: a request has the lease of its invocation, or is refused.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use idempotency_core::record::{Field, RecordId, Status};
use idempotency_lambda::{
    BoxError, Context, LambdaEvent, OnTimeout, Operation, http::HttpLayer, idempotent, with_backend,
};
use idempotency_testkit::events;
use idempotency_tests::{Harness, START};
use lambda_http::{Body, Request, RequestExt, Response, http, service_fn};
use lambda_runtime::tower::{Layer, ServiceExt};
use tower_http::timeout::TimeoutLayer;

use super::harness;

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
    let claims = harness.puts().into_iter();
    claims
        .map(|(id, record)| match record.in_progress_expiration {
            Field::Value(end) => (id.as_str().to_owned(), end.get()),
            _ => panic!("{id} has no lease"),
        })
        .collect()
}

async fn status(harness: &Harness, prefix: &str, request: Request) -> u16 {
    let pay = service_fn(async |_: Request| Ok::<_, BoxError>(Response::new(Body::Empty)));
    let call = layer(prefix).layer(pay).oneshot(request);
    let response = harness.within(call).await;
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
        let response = harness.within(annotated(event)).await;
        response.unwrap().status_code
    };
    assert_eq!(call(Context::default()).await, 500);
    assert_eq!(claims(&harness), []);
    assert_eq!(call(context()).await, 200);
    assert_eq!(claims(&harness)[0].1, START + 20_000);
}

/// Returns the statuses of the records that are left.
fn left(harness: &Harness) -> Vec<Field<Status>> {
    let mut ids: Vec<_> = claims(harness).into_iter().map(|(id, _)| id).collect();
    ids.dedup();
    let ids = ids.into_iter().map(RecordId::new);
    let records = ids.filter_map(|id| harness.store.inner().record(&id));
    records.map(|record| record.status).collect()
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_of_the_layer_is_held_under_hold() {
    for (on_timeout, expected) in [(OnTimeout::Rerun, 2), (OnTimeout::Hold, 1)] {
        let (harness, runs) = (harness(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&runs);
        let charge = service_fn(move |_: Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            pending::<Result<Response<Body>, BoxError>>()
        });
        let operation = Operation::builder("in_lambda.4").key_prefix("in_lambda.4");
        let layer = operation.on_timeout(on_timeout).http();
        let layer = layer.shared_by_all_callers().build().unwrap();
        let timeout = TimeoutLayer::with_status_code(
            http::StatusCode::GATEWAY_TIMEOUT,
            Duration::from_secs(1),
        );
        let service = layer.layer(timeout.layer(charge));
        for _ in 0..2 {
            let call = service
                .clone()
                .oneshot(request().with_lambda_context(context()));
            harness.within(call).await.unwrap();
        }
        assert_eq!(runs.load(Ordering::Relaxed), expected, "{on_timeout:?}");
        // Held, or free with a mark.
        let kept = [Field::Value(Status::InProgress)];
        assert_eq!(left(&harness), kept, "{on_timeout:?}");
    }
}

/// Responds with the status in the path.
fn respond(
    event: &LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    let path = event.payload.raw_path.as_deref().unwrap_or_default();
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = path.trim_start_matches('/').parse()?;
    Ok(response)
}

#[idempotent(http, shared_by_all_callers, key_prefix = "in_lambda.5")]
async fn rerun(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    respond(&event)
}

#[idempotent(
    http,
    shared_by_all_callers,
    key_prefix = "in_lambda.6",
    on_timeout = "hold"
)]
async fn hold(
    event: LambdaEvent<ApiGatewayV2httpRequest>,
) -> Result<ApiGatewayV2httpResponse, BoxError> {
    respond(&event)
}

#[tokio::test]
async fn what_an_annotated_handler_returns_is_a_report_unless_it_is_no_response() {
    for (path, left_by_rerun, left_by_hold) in [
        ("/201", Some(Status::Completed), Some(Status::Completed)),
        ("/503", None, None),
        ("/408", None, None),
        ("/an-error", None, None),
        ("/0", Some(Status::InProgress), Some(Status::InProgress)),
        ("/1000", Some(Status::InProgress), Some(Status::InProgress)),
    ] {
        let event = || {
            let request = events::api_gateway_v2("POST", path).header("Idempotency-Key", "k-1");
            LambdaEvent::new(request.parse().unwrap(), context())
        };
        let (of_rerun, of_hold) = (harness(), harness());
        let response = with_backend(of_rerun.backend.clone(), rerun(event())).await;
        let own = path[1..].parse().ok();
        assert_eq!(response.ok().map(|response| response.status_code), own);
        let _ = with_backend(of_hold.backend.clone(), hold(event())).await;
        for (harness, expected) in [(of_rerun, left_by_rerun), (of_hold, left_by_hold)] {
            let expected: Vec<_> = expected.map(Field::Value).into_iter().collect();
            assert_eq!(left(&harness), expected, "{path}");
        }
    }
}
