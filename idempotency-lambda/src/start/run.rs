//! The start of a Lambda function in one line.

use std::future::Future;
use std::sync::Arc;

use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{LambdaEvent, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::init::init;
use super::{ClearCaches, service};
use crate::BoxError;

/// Starts the function: does what [`init`](crate::init) does, then serves events with `handler`.
///
/// It runs on `lambda_runtime`, and so under `cargo lambda watch` too. Errors of this framework reach Lambda under stable
/// `errorType` names, such as `IdempotencyAlreadyInProgress` (see [`ErrorKind::name`](crate::ErrorKind::name)). The local
/// caches are cleared after a SnapStart restore.
///
/// # Errors
///
/// If [`init`](crate::init) fails: the error is also reported to Lambda, so that the invoker gets it. Also the error that ended the
/// runtime. A table that cannot be reached at the start is logged, not returned.
///
/// # Panics
///
/// If the process was not started by Lambda, `cargo lambda` or another program that speaks the Runtime API, because
/// `lambda_runtime` needs its environment variables.
///
/// # Examples
///
/// ```no_run
/// use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
/// use serde_json::{Value, json};
///
/// #[idempotent(key = "order_id", validate = "amount")]
/// async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
///     Ok(json!({ "charged": event.payload["amount"] }))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), BoxError> {
///     idempotency_lambda::run(handler).await
/// }
/// ```
pub async fn run<F, Fut, A, R, E>(handler: F) -> Result<(), BoxError>
where
    F: Fn(LambdaEvent<A>) -> Fut + Clone,
    Fut: Future<Output = Result<R, E>>,
    A: DeserializeOwned,
    R: Serialize,
    E: Into<BoxError>,
{
    init().await?;
    Runtime::new(service(handler))
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run()
        .await
}
