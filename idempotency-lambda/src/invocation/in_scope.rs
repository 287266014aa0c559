//! The future that runs in a changed scope, and the functions that make it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use idempotency_core::engine::Backend;
use lambda_runtime::Context;
use pin_project_lite::pin_project;

use super::scope::{Invocation, Scope, ScopeGuard};
use crate::meter::{InvocationMeter, Meter};

/// A change of the scope around a future.
///
/// It is applied when the future is polled, so that two changes compose in any order in which their futures were made.
#[derive(Debug, Default)]
pub(crate) struct ScopeChange {
    backend: Option<Backend>,
    invocation: Option<Invocation>,
    /// The metrics of the invocation that this change opens, and ends.
    opened: InvocationMeter,
    /// The metrics of the invocation that a spawned task belongs to.
    carried: Option<Meter>,
}

impl ScopeChange {
    /// Returns the change to this invocation. It replaces deadline and tenant of the invocation around it.
    pub(crate) fn to(invocation: Invocation) -> Self {
        Self {
            invocation: Some(invocation),
            ..Self::default()
        }
    }

    /// Returns the change to the invocation that `context` describes, or no change for an empty context.
    pub(crate) fn of_context(context: &Context) -> Self {
        let invocation = Invocation::of(context);
        Self {
            opened: match invocation {
                Some(_) => InvocationMeter::of(context),
                None => InvocationMeter::default(),
            },
            invocation,
            ..Self::default()
        }
    }

    pub(super) fn of_backend(backend: Backend) -> Self {
        Self {
            backend: Some(backend),
            ..Self::default()
        }
    }

    /// Returns the change to the backend and invocation of `scope`.
    pub(super) fn carried(scope: Option<Arc<Scope>>) -> Self {
        scope.map_or_else(Self::default, |scope| Self {
            backend: scope.backend.clone(),
            invocation: (scope.invocation != Invocation::default())
                .then(|| scope.invocation.clone()),
            carried: Some(scope.meter.clone()),
            ..Self::default()
        })
    }

    fn is_none(&self) -> bool {
        self.backend.is_none() && self.invocation.is_none() && self.carried.is_none()
    }

    fn apply(&self, around: Option<&Scope>) -> Scope {
        let mut scope = around.cloned().unwrap_or_default();
        if let Some(backend) = &self.backend {
            scope.backend = Some(backend.clone());
        }
        if let Some(invocation) = &self.invocation {
            scope.invocation = invocation.clone();
        }
        if let Some(carried) = &self.carried {
            scope.meter = carried.clone();
        }
        scope.meter = scope.meter.for_invocation(&self.opened);
        scope
    }
}

/// A changed scope, and the outer scope that it was made from. It is reused while the outer scope is the same.
#[derive(Debug)]
struct ChangedScope {
    around: Option<Arc<Scope>>,
    scope: Arc<Scope>,
}

impl ChangedScope {
    fn new(change: &ScopeChange, around: Option<Arc<Scope>>) -> Self {
        let scope = Arc::new(change.apply(around.as_deref()));
        Self { around, scope }
    }

    fn is_of(&self, around: Option<&Arc<Scope>>) -> bool {
        self.around.as_ref().map(Arc::as_ptr) == around.map(Arc::as_ptr)
    }
}

pin_project! {
    /// A future that runs in a scope of its own: with another backend, deadline or tenant.
    ///
    /// The service of [`InvocationLayer`](crate::InvocationLayer) returns it, and holds the future without a box; so do
    /// [`with_backend`](crate::with_backend), [`with_invocation`](crate::with_invocation) and
    /// [`in_current_invocation`](crate::in_current_invocation), with a box.
    #[must_use = "a future does nothing unless it is polled"]
    pub struct InScope<F> {
        #[pin]
        future: F,
        // The fields are dropped in this order: the future in its scope, then the scope ends, then the metrics are written.
        leaving: Option<ScopeGuard>,
        made: Option<ChangedScope>,
        change: ScopeChange,
    }

    impl<F> PinnedDrop for InScope<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A call that is abandoned with this future still belongs to its invocation.
            if let Some(made) = this.made.take() {
                *this.leaving = made.scope.enter_for_drop();
            }
        }
    }
}

impl<F: Future> InScope<F> {
    pub(crate) fn new(change: ScopeChange, future: F) -> Self {
        Self {
            future,
            leaving: None,
            made: None,
            change,
        }
    }

    /// Builds the future inside the scope, because building it may read the invocation.
    pub(crate) fn enter(change: ScopeChange, build: impl FnOnce() -> F) -> Self {
        if change.is_none() {
            return Self::new(change, build());
        }
        let made = ChangedScope::new(&change, Scope::surrounding());
        let entered = Arc::clone(&made.scope).enter();
        let future = build();
        drop(entered);
        Self {
            future,
            leaving: None,
            made: Some(made),
            change,
        }
    }
}

impl<F: Future> Future for InScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = self.project();
        if this.change.is_none() {
            return this.future.poll(context);
        }
        let around = Scope::surrounding();
        let made = match this.made.take() {
            Some(made) if made.is_of(around.as_ref()) => made,
            _ => ChangedScope::new(this.change, around),
        };
        let entered = Arc::clone(&this.made.insert(made).scope).enter();
        let polled = this.future.poll(context);
        drop(entered);
        if polled.is_ready() {
            // The metrics are written before the response is sent: Lambda may freeze the process after that.
            this.change.opened.close();
        }
        polled
    }
}

/// Boxes the future: a call takes some kilobytes, which each future around it would hold again.
fn boxed<F: Future>(change: ScopeChange, future: F) -> InScope<Pin<Box<F>>> {
    InScope::new(change, Box::pin(future))
}

/// Runs `future` with its own store, clock, random source and cache, so that parallel tests are isolated.
///
/// Every annotated function and every [`Operation`](crate::Operation) called inside uses `backend`, also if it has a store of
/// its own.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{BoxError, LambdaEvent, MemoryStore, backend_over, idempotent, with_backend};
/// use serde_json::{Value, json};
/// use std::sync::Arc;
///
/// #[idempotent(key = "order_id")]
/// async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
///     Ok(json!({ "charged": event.payload["amount"] }))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let backend = backend_over(Arc::new(MemoryStore::new()));
/// with_backend(backend, async {
///     let event = |amount| LambdaEvent::new(json!({"order_id": 1, "amount": amount}), Default::default());
///     assert_eq!(handler(event(10)).await?, json!({ "charged": 10 }));
///     assert_eq!(handler(event(99)).await?, json!({ "charged": 10 }));
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub fn with_backend<F: Future>(backend: Backend, future: F) -> InScope<Pin<Box<F>>> {
    boxed(ScopeChange::of_backend(backend), future)
}

/// Runs `future` in the invocation that `context` describes, so that calls inside find its deadline and tenant.
///
/// [`run`](crate::run), [`service`](crate::service), [`InvocationLayer`](crate::InvocationLayer) and annotated handlers do
/// this themselves. Use it if the context comes another way: the Lambda Web Adapter, for example, sends it in a header. An
/// empty context changes nothing.
///
/// `None` is for work without an invocation, such as a call before the first event or in a background task: calls inside have the
/// configured `lease` and no tenant. Inside Lambda a call that does not know its invocation is refused.
///
/// [`Operation::run`](crate::Operation::run) reads its deadline when it is called, not when it is awaited: call it inside an
/// `async` block here.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{Context, Deadline, Operation, time_left, with_invocation};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut context = Context::default();
/// context.deadline = 1_700_000_030_000;
/// context.tenant_id = Some("blue".to_owned());
/// let charge = Operation::builder("payments::charge").build().unwrap();
/// let call = with_invocation(&context, async { charge.identify(&7, Deadline::Inherited) }).await.unwrap();
/// assert!(call.key().unwrap().as_str().contains("#tenant=blue#"));
///
/// assert_eq!(with_invocation(None, async { time_left() }).await, None);
/// # }
/// ```
pub fn with_invocation<'a, F: Future>(
    context: impl Into<Option<&'a Context>>,
    future: F,
) -> InScope<Pin<Box<F>>> {
    let change = match context.into() {
        Some(context) => ScopeChange::of_context(context),
        None => ScopeChange::to(Invocation::none()),
    };
    boxed(change, future)
}

/// Wraps a future so that it keeps the deadline and tenant of the current invocation in a spawned task.
///
/// Inside Lambda, a call in a task that is not wrapped is refused. The scope is taken when this function is called, so call it
/// inside the invocation: `spawn(in_current_invocation(task))`. Inside the task there is no scope to take.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let task = tokio::spawn(idempotency_lambda::in_current_invocation(async { 42 }));
/// assert_eq!(task.await.unwrap(), 42);
/// # }
/// ```
pub fn in_current_invocation<F: Future>(future: F) -> InScope<Pin<Box<F>>> {
    boxed(ScopeChange::carried(Scope::surrounding()), future)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotency_core::time::EpochMillis;

    use super::*;

    /// A deadline, in Unix milliseconds. One before the year 2001 would count as unknown.
    const DEADLINE: u64 = 1_700_000_000_000;

    /// Returns the deadline of the invocation around the running code, as the time after `DEADLINE`.
    fn current_deadline() -> Option<i64> {
        let deadline = Scope::current().invocation.deadline;
        deadline.map(|deadline| deadline.get() - 1_700_000_000_000)
    }

    fn with_end<F: Future>(after: u64, future: F) -> impl Future<Output = F::Output> {
        let mut context = Context::default();
        context.deadline = DEADLINE + after;
        context.tenant_id = Some("blue".to_owned());
        with_invocation(&context, future)
    }

    #[tokio::test]
    async fn two_joined_futures_keep_their_own_scopes() {
        let look = async || {
            let before = current_deadline();
            tokio::task::yield_now().await;
            (before, current_deadline())
        };
        let (first, second) = tokio::join!(with_end(1, look()), with_end(2, look()));
        assert_eq!((first, second), ((Some(1), Some(1)), (Some(2), Some(2))));
        assert_eq!(current_deadline(), None);
    }

    #[tokio::test]
    async fn a_future_that_is_wrapped_outside_of_any_scope_opens_no_scope() {
        let look = async || (current_deadline(), Scope::surrounding().is_none());
        assert_eq!(in_current_invocation(look()).await, (None, true));
        assert_eq!(
            with_end(7, in_current_invocation(look())).await,
            (Some(7), false)
        );
    }

    #[tokio::test]
    async fn changes_compose_in_any_order_in_which_their_futures_are_made() {
        let look = async || {
            let scope = Scope::current();
            tokio::task::yield_now().await;
            assert_eq!(scope.invocation, Scope::current().invocation);
            let backend = scope.backend.as_ref().map(|own| own.store().name());
            (backend.is_some(), scope.invocation.clone())
        };
        let backend = || crate::backend_over(Arc::new(idempotency_core::store::MemoryStore::new()));
        let invocation = Invocation {
            is_known: true,
            deadline: Some(EpochMillis::new(1_700_000_000_007)),
            tenant: Some("blue".to_owned()),
        };
        let outside = with_backend(backend(), with_end(7, look()));
        assert_eq!(outside.await, (true, invocation.clone()));
        let outside = with_end(7, with_backend(backend(), look()));
        assert_eq!(outside.await, (true, invocation.clone()));
        let inside = with_backend(backend(), async { with_end(7, look()).await });
        assert_eq!(inside.await, (true, invocation));
    }

    #[tokio::test]
    async fn work_without_an_invocation_has_neither_deadline_nor_tenant_of_the_invocation_around_it()
     {
        let inside = with_invocation(None, async { Scope::current().invocation.clone() });
        let invocation = with_end(7, inside).await;
        assert_eq!(invocation, Invocation::none());
    }
}
