//! The layer for a service of events that asks for its call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use idempotency_core::engine::Codec;
use idempotency_core::operation::Call;
use idempotency_core::outcome::Outcome;
use lambda_runtime::tower::Layer;
use lambda_runtime::{LambdaEvent, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ServiceError;
use crate::BoxError;
use crate::event::Payload;
use crate::invocation::{Change, InScope};
use crate::operation::Operation;

/// [`IdempotencyLayer`](crate::IdempotencyLayer) for a service whose requests are an event and its [`Call`].
///
/// [`IdempotencyLayer::with_call`](crate::IdempotencyLayer::with_call) makes it. An event has no place for a call, so it stands
/// beside the event. Layers inside that take any request, such as tower's `Timeout`, fit as before.
///
/// # Examples
///
/// ```
/// # use idempotency_lambda::{BoxError, Call, Context, IdempotencyLayer, LambdaEvent, MemoryStore, Operation};
/// # use lambda_runtime::tower::{ServiceBuilder, ServiceExt};
/// # use std::sync::Arc;
/// async fn handler((event, call): (LambdaEvent<u64>, Call)) -> Result<String, BoxError> {
///     Ok(format!("charge {} under {}", event.payload, call.token("charge")))
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("shop.charge").store(Arc::new(MemoryStore::new())).build()?;
/// let service = ServiceBuilder::new()
///     .layer(IdempotencyLayer::new(charge).with_call())
///     .service_fn(handler);
/// let response = service.oneshot(LambdaEvent::new(42, Context::default())).await?;
/// assert!(response.starts_with("charge 42 under "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyCallLayer {
    operation: Operation,
}

impl IdempotencyCallLayer {
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation }
    }
}

impl<S> Layer<S> for IdempotencyCallLayer {
    type Service = IdempotencyCallService<S>;

    fn layer(&self, inner: S) -> IdempotencyCallService<S> {
        IdempotencyCallService {
            operation: self.operation.clone(),
            inner,
        }
    }
}

/// The service of [`IdempotencyCallLayer`].
#[derive(Clone, Debug)]
pub struct IdempotencyCallService<S> {
    operation: Operation,
    inner: S,
}

impl<S, P> Service<LambdaEvent<P>> for IdempotencyCallService<S>
where
    S: Service<(LambdaEvent<P>, Call)> + Clone + Send + 'static,
    S::Response: Serialize + DeserializeOwned + Send,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Payload + Send + 'static,
{
    type Response = S::Response;
    type Error = ServiceError;
    type Future = InScope<Pin<Box<dyn Future<Output = Result<S::Response, ServiceError>> + Send>>>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), ServiceError>> {
        self.inner.poll_ready(context).map_err(ServiceError::of)
    }

    fn call(&mut self, event: LambdaEvent<P>) -> Self::Future {
        let change = Change::of_context(&event.context);
        InScope::enter(change, || {
            let identified = self.operation.identify(&event.payload, &event.context);
            // Call the service that is ready, and keep the clone, which may not be.
            let next = self.inner.clone();
            let mut inner = std::mem::replace(&mut self.inner, next);
            let handler = Box::new(move |call| async move {
                let response = inner.call((event, call)).await;
                response.map_err(ServiceError::of)
            });
            Box::pin(async move {
                let outcome =
                    identified?.run_with(Codec::json(), ServiceError::errors(), |offered| {
                        Box::pin((*handler)(offered.take()))
                    });
                outcome.await.map(Outcome::into_response)
            }) as Pin<Box<dyn Future<Output = _> + Send>>
        })
    }
}
