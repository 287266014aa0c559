//! The tower layer that opens a scope for each request.

use std::task::{Context as TaskContext, Poll};

use lambda_runtime::Service;
use lambda_runtime::tower::Layer;

use super::context::HasContext;
use super::in_scope::{InScope, ScopeChange};

/// Makes the deadline and tenant of each request known to the calls inside.
///
/// It is for functions that do not start with [`run`](crate::run) or [`service`](crate::service). It finds the context
/// through [`HasContext`]. A request without a context passes unchanged.
///
/// A layer inside that spawns a task, such as tower's `Buffer`, leaves the scope. So does a streamed body, which is sent after
/// the response. Wrap them with [`in_current_invocation`](crate::in_current_invocation).
///
/// # Examples
///
/// The layer has one of three places:
///
/// ```no_run
/// use idempotency_lambda::{BoxError, InvocationLayer, LambdaEvent};
/// use lambda_runtime::{Runtime, service_fn, tower::ServiceBuilder};
///
/// async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> {
///     Ok(event.payload) // and calls to annotated functions
/// }
///
/// # async fn either() -> Result<(), BoxError> {
/// // Around a service of events, under `lambda_runtime::run` or `run_concurrent`.
/// idempotency_lambda::init().await?;
/// lambda_runtime::run(ServiceBuilder::new().layer(InvocationLayer::new()).service_fn(handler)).await?;
/// # Ok(())
/// # }
/// # async fn or() -> Result<(), BoxError> {
/// // On the runtime itself, around any service.
/// idempotency_lambda::init().await?;
/// Runtime::new(service_fn(handler)).layer(InvocationLayer::new()).run().await
/// # }
/// ```
///
/// Under `lambda_http::run` it is around the service of HTTP requests, which can be an axum `Router`:
///
/// ```text
/// idempotency_lambda::init().await?;
/// lambda_http::run(ServiceBuilder::new().layer(InvocationLayer::new()).service(router)).await
/// ```
#[derive(Clone, Debug, Default)]
pub struct InvocationLayer {
    /// Later versions can add settings.
    _private: (),
}

impl InvocationLayer {
    /// Returns a layer.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<S> Layer<S> for InvocationLayer {
    type Service = InvocationService<S>;

    fn layer(&self, inner: S) -> InvocationService<S> {
        InvocationService { inner }
    }
}

/// The service of [`InvocationLayer`].
#[derive(Clone, Debug)]
pub struct InvocationService<S> {
    inner: S,
}

impl<S, Q> Service<Q> for InvocationService<S>
where
    S: Service<Q>,
    Q: HasContext,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = InScope<S::Future>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Q) -> InScope<S::Future> {
        let context = request.context();
        let change = context.map_or_else(ScopeChange::default, ScopeChange::of_context);
        // The inner service may read its invocation while it builds its future.
        InScope::enter(change, || self.inner.call(request))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{BoxError, Deadline};
    use lambda_runtime::tower::ServiceExt;
    use lambda_runtime::{Context, LambdaEvent, service_fn};

    /// The deadline while a service builds its future, and while the future is polled.
    type Seen = [Option<i64>; 2];

    fn now() -> Option<i64> {
        Deadline::Inherited.end().map(|end| end.get())
    }

    async fn seen<Q: HasContext>(request: Q) -> Seen {
        let inner = service_fn(|_: Q| {
            let built = now();
            async move { Ok::<_, BoxError>([built, now()]) }
        });
        let service = InvocationLayer::new().layer(inner);
        service.oneshot(request).await.unwrap()
    }

    fn context(deadline: u64) -> Context {
        let mut context = Context::default();
        context.deadline = deadline;
        context
    }

    #[tokio::test]
    async fn the_service_inside_knows_the_invocation_in_its_call_and_in_its_polls() {
        let (deadline, both) = (1_700_000_000_000, [Some(1_700_000_000_000); 2]);
        assert_eq!(seen(LambdaEvent::new(1, context(deadline))).await, both);
        let mut request = http::Request::new("");
        request.extensions_mut().insert(context(deadline));
        assert_eq!(seen(request).await, both);
        assert_eq!(now(), None);
    }

    #[tokio::test]
    async fn a_request_without_a_context_stays_in_the_invocation_around_it() {
        let outer = crate::with_invocation(&context(1_700_000_000_000), async {
            (
                seen(http::Request::new("")).await,
                seen(LambdaEvent::new(1, context(0))).await,
            )
        });
        let both = [Some(1_700_000_000_000); 2];
        assert_eq!(outer.await, (both, both));
    }

    /// A service that is never ready.
    pub(crate) struct Busy;

    impl<Q> Service<Q> for Busy {
        type Response = ();
        type Error = BoxError;
        type Future = std::future::Ready<Result<(), BoxError>>;

        fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Pending
        }

        fn call(&mut self, _: Q) -> Self::Future {
            unreachable!("it is not ready")
        }
    }

    #[test]
    fn the_service_is_ready_when_the_service_inside_is() {
        let mut context = TaskContext::from_waker(std::task::Waker::noop());
        let mut service = InvocationLayer::new().layer(Busy);
        let ready = Service::<LambdaEvent<u8>>::poll_ready(&mut service, &mut context);
        assert!(ready.is_pending());
    }

    #[test]
    fn the_service_is_clone_and_send_if_the_service_inside_is() {
        fn demands<T: Clone + Send + Sync + 'static>(_: &T) {}
        fn sends<T: Send>(_: &T) {}
        let inner = service_fn(async |event: LambdaEvent<u8>| Ok::<_, BoxError>(event.payload));
        let mut service = InvocationLayer::new().layer(inner);
        demands(&service);
        sends(&service.call(LambdaEvent::new(1, Context::default())));
    }
}
