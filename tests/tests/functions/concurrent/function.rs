//! The functions, each under its own `run_concurrent`. Their handlers wait for one another, so that all are in flight.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    BoxError, Deadline, IdempotencyLayer, KeyRequired, LambdaEvent, OnInProgress, Operation,
    idempotent,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tower::ServiceBuilder;

/// How many invocations are in flight.
pub(crate) const IN_FLIGHT: usize = 64;

static ALL: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(IN_FLIGHT));
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// What a run saw of its invocation.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) order_id: u64,
    /// The number of the run in the process.
    pub(crate) run: usize,
    /// The deadline that a call inside inherits, looked up before and after the run waited.
    pub(crate) deadlines: [Option<i64>; 2],
    /// What a call inside, with a record of its own, returned.
    pub(crate) audited: u64,
}

fn deadline() -> Option<i64> {
    Deadline::Inherited.end().map(|end| end.get())
}

/// A call inside of each run. Its key is the order's, so only the tenant keeps two of them apart.
#[idempotent(payload = order_id, key_prefix = "concurrent.audit")]
async fn audit(order_id: u64) -> Result<u64, BoxError> {
    Ok(order_id)
}

/// Orders from this id on do not wait for one another: a test sends several events for one of them.
pub(crate) const REPEATED: u64 = 1_000;

/// Runs while all invocations are in flight.
async fn charge(order_id: u64) -> Result<Receipt, BoxError> {
    let before = deadline();
    if order_id < REPEATED {
        ALL.wait().await;
    }
    tokio::task::yield_now().await;
    let audited = audit(order_id).await?;
    Ok(Receipt {
        order_id,
        run: RUNS.fetch_add(1, Ordering::Relaxed) + 1,
        deadlines: [before, deadline()],
        audited,
    })
}

async fn handler(event: LambdaEvent<Value>) -> Result<Receipt, BoxError> {
    charge(event.payload["order_id"].as_u64().ok_or("no order id")?).await
}

/// Finds its invocation around it, and not in the event.
async fn inherited(operation: Operation, event: LambdaEvent<Value>) -> Result<Receipt, BoxError> {
    let payload = event.payload.clone();
    let run = operation.run(&payload, Deadline::Inherited, || handler(event));
    Ok(run.await?.into_response())
}

fn operation(path: &str) -> idempotency_lambda::OperationBuilder {
    Operation::builder(path)
        .key("order_id")
        .key_required(KeyRequired::All)
        .on_in_progress(OnInProgress::Wait)
}

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    match role {
        "layer" => {
            idempotency_lambda::init().await?;
            let layer = IdempotencyLayer::new(operation("concurrent::layer").build()?);
            let service = ServiceBuilder::new().layer(layer).service_fn(handler);
            lambda_runtime::run_concurrent(service).await
        }
        "service" => {
            idempotency_lambda::init().await?;
            let operation = operation("concurrent::service").build()?;
            let handler = move |event| inherited(operation.clone(), event);
            lambda_runtime::run_concurrent(idempotency_lambda::service(handler)).await
        }
        "batch" => {
            idempotency_lambda::init().await?;
            let operation = operation("concurrent::batch").build()?;
            let handler = move |event| orders(operation.clone(), event);
            lambda_runtime::run_concurrent(idempotency_lambda::service(handler)).await
        }
        "http" => {
            let idempotent = Operation::builder("concurrent::http")
                .on_in_progress(OnInProgress::Wait)
                .http()
                .caller("requestContext.authorizer.jwt.claims.sub")
                .build()?;
            let app = Router::new()
                .route("/charges", post(charge_over_http))
                .route_layer(idempotent);
            idempotency_lambda::http::run_concurrent(app).await
        }
        other => Err(format!("there is no role {other}").into()),
    }
}

async fn charge_over_http(Json(order): Json<Value>) -> Result<Json<Receipt>, StatusCode> {
    let order_id = order["order_id"].as_u64().ok_or(StatusCode::BAD_REQUEST)?;
    let receipt = charge(order_id).await;
    receipt.map(Json).map_err(|_| StatusCode::BAD_GATEWAY)
}

/// Logs what each record's run returned, because the response of a batch names only the failures.
async fn orders(
    operation: Operation,
    event: LambdaEvent<SqsEvent>,
) -> Result<SqsBatchResponse, BoxError> {
    let response = Batch::new(&operation).run(event, async |order: Value| {
        let receipt = charge(order["order_id"].as_u64().ok_or("no order id")?).await?;
        println!("receipt {}", json!(receipt));
        Ok::<_, BoxError>(receipt)
    });
    Ok(response.await?)
}
