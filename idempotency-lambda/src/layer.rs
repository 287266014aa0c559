//! The tower layer that protects a service of events.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use idempotency_core::engine::Codec;
use idempotency_core::operation::Call;
use idempotency_core::outcome::Outcome;
use lambda_runtime::tower::Layer;
use lambda_runtime::{LambdaEvent, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diagnostic::{BoxError, ServiceError};
use crate::event::Payload;
use crate::invocation::{InScope, ScopeChange};
use crate::operation::{Operation, whole_event};

/// A tower layer that protects a service of events with an [`Operation`].
///
/// It is for a `main` that builds its service from layers, under `lambda_runtime::run` or `run_concurrent`. The key is taken
/// from the payload of each [`LambdaEvent<T>`](LambdaEvent), where `T` is any `Serialize` or a [`Raw<T>`](crate::Raw). The
/// layer makes the deadline and tenant of each event known to the calls inside, so no
/// [`InvocationLayer`](crate::InvocationLayer) is needed.
///
/// # Errors
///
/// The error of its service is [`ServiceError`], which reaches Lambda under the stable `errorType`. The error of the service
/// inside can be any error that converts into [`BoxError`]. It needs no `From<idempotency_lambda::Error>`.
///
/// A layer outside that boxes errors, such as tower's `Timeout`, hides the name from `lambda_runtime`. Put
/// `map_err(idempotency_lambda::diagnostic)` around it.
///
/// # Other layers
///
/// - **Outside** of this layer, a layer acts on the whole call, replays included. A timeout there drops the call: its claim
///   stays until the lease ends, and a retry before that gets `IdempotencyAlreadyInProgress`. A retry there makes a new call.
/// - **Inside**, a layer acts on runs of the handler only. A timeout there is an error of the handler: under `rerun` the key is
///   free at once. A retry there runs the handler again under the same claim. A layer that spawns a task leaves the invocation;
///   wrap the task with [`in_current_invocation`](crate::in_current_invocation).
///
/// Under `on_timeout = "hold"` an error of the service inside keeps the claim, because it can be that of a layer: the handler may have
/// had its effect. A handler that had none returns [`ServiceError::reported`], and frees the key.
///
/// A concurrency limit inside is taken before the claim, for a replay too, because tower asks a service whether it is ready
/// before it sees the request.
///
/// # Examples
///
/// ```no_run
/// use idempotency_lambda::{BoxError, IdempotencyLayer, LambdaEvent, Operation};
/// use lambda_runtime::tower::ServiceBuilder;
/// use serde_json::{Value, json};
///
/// async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
///     Ok(json!({ "charged": event.payload["amount"] }))
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), BoxError> {
///     idempotency_lambda::init().await?;
///     let charge = Operation::builder("shop.charge").key("order_id").validate("amount").build()?;
///     let service = ServiceBuilder::new().layer(IdempotencyLayer::new(charge)).service_fn(handler);
///     lambda_runtime::run(service).await
/// }
/// ```
///
/// Outside of Lambda, as in a test:
///
/// ```
/// # use idempotency_lambda::{BoxError, Context, IdempotencyLayer, LambdaEvent, MemoryStore, Operation};
/// # use lambda_runtime::tower::{ServiceBuilder, ServiceExt};
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("shop.charge").store(Arc::new(MemoryStore::new())).build()?;
/// let service = ServiceBuilder::new()
///     .layer(IdempotencyLayer::new(charge))
///     .service_fn(async |event: LambdaEvent<u64>| Ok::<_, BoxError>(event.payload + 1));
/// for _ in 0..2 {
///     let event = LambdaEvent::new(41, Context::default());
///     assert_eq!(service.clone().oneshot(event).await?, 42);
/// }
/// # Ok(())
/// # }
/// ```
///
/// A service that asks for its [`Call`]:
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
/// # let charge = Operation::builder("shop.charge").store(Arc::new(MemoryStore::new())).build()?;
/// let service = ServiceBuilder::new()
///     .layer(IdempotencyLayer::new(charge).with_call())
///     .service_fn(handler);
/// let response = service.oneshot(LambdaEvent::new(42, Context::default())).await?;
/// assert!(response.starts_with("charge 42 under "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotencyLayer<A = ()> {
    operation: Operation,
    asks: PhantomData<fn() -> A>,
}

impl IdempotencyLayer {
    /// Returns a layer that runs each event as a call of `operation`.
    pub fn new(operation: Operation) -> Self {
        Self {
            operation,
            asks: PhantomData,
        }
    }

    /// Returns the layer for a service that asks for its [`Call`]: the requests of the service are `(LambdaEvent<T>, Call)`, because
    /// an event has no place for a call. Layers inside that take any request, such as tower's `Timeout`, fit as before.
    pub fn with_call(self) -> IdempotencyLayer<Call> {
        IdempotencyLayer {
            operation: self.operation,
            asks: PhantomData,
        }
    }
}

/// What the service under an [`IdempotencyLayer`] asks for beside the event: nothing (`()`), or its [`Call`].
#[doc(hidden)]
pub trait Asks {
    /// The request of the service.
    type Request<P>;

    /// Returns the request of one run.
    fn request<P>(event: LambdaEvent<P>, call: Call) -> Self::Request<P>;
}

impl Asks for () {
    type Request<P> = LambdaEvent<P>;

    fn request<P>(event: LambdaEvent<P>, _: Call) -> LambdaEvent<P> {
        event
    }
}

impl Asks for Call {
    type Request<P> = (LambdaEvent<P>, Call);

    fn request<P>(event: LambdaEvent<P>, call: Call) -> (LambdaEvent<P>, Call) {
        (event, call)
    }
}

impl<S, A> Layer<S> for IdempotencyLayer<A> {
    type Service = IdempotencyService<S, A>;

    fn layer(&self, inner: S) -> IdempotencyService<S, A> {
        IdempotencyService {
            operation: self.operation.clone(),
            asks: PhantomData,
            inner,
        }
    }
}

/// The service of [`IdempotencyLayer`].
#[derive(Clone, Debug)]
pub struct IdempotencyService<S, A = ()> {
    operation: Operation,
    asks: PhantomData<fn() -> A>,
    inner: S,
}

impl<S, P, A> Service<LambdaEvent<P>> for IdempotencyService<S, A>
where
    S: Service<A::Request<P>> + Clone + Send + 'static,
    S::Response: Serialize + DeserializeOwned + Send,
    S::Error: Into<BoxError>,
    S::Future: Send,
    P: Payload + Send + 'static,
    A: Asks,
{
    type Response = S::Response;
    type Error = ServiceError;
    type Future = InScope<Pin<Box<dyn Future<Output = Result<S::Response, ServiceError>> + Send>>>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), ServiceError>> {
        self.inner.poll_ready(context).map_err(ServiceError::of)
    }

    fn call(&mut self, event: LambdaEvent<P>) -> Self::Future {
        let change = ScopeChange::of_context(&event.context);
        InScope::enter(change, || {
            whole_event::look_at(&self.operation, &event.payload, true);
            let identified = self.operation.identify(&event.payload, &event.context);
            // Call the service that is ready, and keep the clone, which may not be.
            let next = self.inner.clone();
            let mut inner = std::mem::replace(&mut self.inner, next);
            let handler = Box::new(move |call| async move {
                let response = inner.call(A::request(event, call)).await;
                response.map_err(ServiceError::of)
            });
            Box::pin(async move {
                let identified = identified.map_err(ServiceError::from)?;
                let call = identified.run_with(Codec::json(), ServiceError::errors(), handler);
                call.await.map(Outcome::into_response)
            }) as Pin<Box<dyn Future<Output = _> + Send>>
        })
    }
}
