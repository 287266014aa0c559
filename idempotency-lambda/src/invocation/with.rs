//! The functions that run a future with another invocation or backend.

use std::future::Future;
use std::pin::Pin;

use idempotency_core::engine::Backend;
use lambda_runtime::Context;

use super::in_scope::{Change, InScope};
use super::scope::{Invocation, Scope};

/// Boxes the future: a call takes some kilobytes, which each future around it would hold again.
fn boxed<F: Future>(change: Change, future: F) -> InScope<Pin<Box<F>>> {
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
    boxed(Change::of_backend(backend), future)
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
        Some(context) => Change::of_context(context),
        None => Change::to(Invocation::none()),
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
    boxed(Change::carried(Scope::surrounding()), future)
}

/// Tests of futures that run with another invocation or backend.
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotency_core::time::EpochMillis;

    use super::*;

    /// A deadline that counts as one.
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
    async fn a_spawned_task_leaves_the_scope_unless_it_is_wrapped() {
        let (left, kept) = with_end(7, async {
            let left = tokio::spawn(async { current_deadline() });
            let kept = tokio::spawn(in_current_invocation(async { current_deadline() }));
            (left.await.unwrap(), kept.await.unwrap())
        })
        .await;
        assert_eq!((left, kept), (None, Some(7)));
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

    #[tokio::test]
    async fn outside_lambda_an_earlier_test_with_a_tenant_refuses_no_later_call() {
        let invocation = || crate::Deadline::Inherited.invocation("charge").unwrap();
        let inside = with_end(7, async { invocation() }).await;
        assert_eq!(inside.tenant.as_deref(), Some("blue"));
        assert_eq!(invocation(), Invocation::default());
    }
}
