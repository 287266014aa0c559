//! The one-line start of a Lambda function.

use std::future::Future;
use std::sync::Arc;

use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{LambdaEvent, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ClearCaches, init, init_error, service};
use crate::BoxError;

/// Starts the function: checks every annotated function's settings, builds the store's client and opens its connection,
/// all before the first event; then answers events with `handler`.
///
/// It runs on `lambda_runtime`, and so under `cargo lambda watch` too. Errors of this framework get stable `errorType`s,
/// such as `IdempotencyAlreadyInProgress` (see [`ErrorKind::name`](crate::ErrorKind::name)).
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
///
/// # Errors
/// A setting that cannot be understood, with the remedy; or what ended the runtime. A table that cannot be reached at
/// start is logged, not returned: every event is then answered with the error until the table is there.
///
/// # Panics
/// If the process was not started by Lambda, `cargo lambda` or another that speaks the Runtime API: `lambda_runtime`
/// misses its environment variables.
pub async fn run<F, Fut, A, R, E>(handler: F) -> Result<(), BoxError>
where
    F: Fn(LambdaEvent<A>) -> Fut + Clone,
    Fut: Future<Output = Result<R, E>>,
    A: DeserializeOwned,
    R: Serialize,
    E: Into<BoxError>,
{
    if let Err(error) = init().await {
        init_error::report(&error).await;
        return Err(error.into());
    }
    Runtime::new(service(handler))
        .layer(TracingLayer::new())
        .register_snapstart_resource(Arc::new(ClearCaches))
        .run()
        .await
}
