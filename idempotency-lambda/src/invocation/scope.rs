//! What surrounds a call: the invocation, and in tests a backend of their own.
//!
//! The scope is a thread-local that a small future swaps in around each poll, so it survives `join!` and `select!`. A
//! spawned task leaves it, unless it is wrapped with [`in_current_invocation`].

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use idempotency_core::clock::Clock;
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use super::in_scope::{Change, InScope};
use super::{Invocation, lambda};
use crate::process;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// What surrounds a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) backend: Option<Backend>,
    pub(crate) invocation: Invocation,
}

impl Scope {
    /// Returns what surrounds the code that runs now, if anything does.
    pub(super) fn surrounding() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns what surrounds the code that runs now; an empty scope where nothing does.
    pub(crate) fn current() -> Arc<Self> {
        Self::surrounding().unwrap_or_default()
    }

    /// Makes this scope the current one for as long as the result lives.
    pub(super) fn enter(self: Arc<Self>) -> Entered {
        Entered(CURRENT.replace(Some(self)))
    }

    /// Returns the invocation of a call that takes it from its surroundings.
    ///
    /// # Errors
    /// If no invocation is known inside Lambda, where its deadline and tenant must not be guessed. The handler has not run.
    pub(super) fn of_a_call(operation: &str) -> Result<Invocation, Error> {
        let scope = Self::surrounding();
        if is_guess(scope.as_deref(), lambda::is_lambda()) {
            return Err(lambda::unknown_invocation(operation));
        }
        Ok(scope.map_or_else(Invocation::default, |scope| scope.invocation.clone()))
    }

    /// Returns the time on the clock of the calls made here.
    pub(super) fn now(&self) -> EpochMillis {
        match (&self.backend, process::existing_backend()) {
            (Some(backend), _) | (None, Some(backend)) => backend.clock().now(),
            (None, None) => crate::SystemClock.now(),
        }
    }
}

/// Returns true if a call in this scope would have to guess its deadline or its tenant.
fn is_guess(scope: Option<&Scope>, in_lambda: bool) -> bool {
    in_lambda && !scope.is_some_and(|scope| scope.invocation.is_known)
}

/// Puts back what was there before, also when the poll panics.
pub(super) struct Entered(Option<Arc<Scope>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Boxes the future: the call of an annotated function takes some kilobytes, which each layer of futures would hold again.
fn boxed<F: Future>(change: Change, future: F) -> impl Future<Output = F::Output> {
    InScope::new(change, Box::pin(future))
}

/// Runs `future` with a store, clock, randomness and cache of its own: for tests, which then never meet each other.
///
/// Every annotated function and every [`Operation`](crate::Operation) called inside works with `backend`, whatever
/// the process or a `store = ..` says.
///
/// ```
/// use idempotency_lambda::{Backend, LambdaEvent, backend_over, idempotent, with_backend};
/// use idempotency_lambda::MemoryStore;
/// use serde_json::{Value, json};
/// use std::sync::Arc;
///
/// #[idempotent(key = "order_id")]
/// async fn handler(event: LambdaEvent<Value>) -> Result<Value, idempotency_lambda::BoxError> {
///     Ok(json!({ "charged": event.payload["amount"] }))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotency_lambda::BoxError> {
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
pub fn with_backend<F: Future>(backend: Backend, future: F) -> impl Future<Output = F::Output> {
    boxed(Change::of_backend(backend), future)
}

/// Runs `future` as part of the invocation that `context` describes, for calls inside to find its deadline and tenant.
///
/// [`run`](crate::run), [`service`](crate::service), [`InvocationLayer`](crate::InvocationLayer) and annotated handlers do
/// this by themselves. It is for a context that comes another way, as the Lambda Web Adapter's does, in a header. An empty
/// context changes nothing.
///
/// ```
/// use idempotency_lambda::{Context, Deadline, with_invocation};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut context = Context::default();
/// context.deadline = 1_700_000_030_000;
/// let end = with_invocation(&context, async { Deadline::Inherited.end() }).await;
/// assert_eq!(end.map(|end| end.get()), Some(1_700_000_030_000));
/// # }
/// ```
pub fn with_invocation<F: Future>(
    context: &Context,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    boxed(Change::of_context(context), future)
}

/// Runs `future` as work that belongs to no invocation, such as a call before the first event or in a background task: the
/// configured `lease` counts, and there is no tenant.
///
/// Inside Lambda a call that does not know its invocation is refused; this says that there is none to know.
///
/// ```
/// use idempotency_lambda::{time_left, without_invocation};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(without_invocation(async { time_left() }).await, None);
/// # }
/// ```
pub fn without_invocation<F: Future>(future: F) -> impl Future<Output = F::Output> {
    boxed(Change::to(Invocation::none()), future)
}

/// Runs `future` with this deadline around it: for tests. The tenant around it stays.
///
/// A handler whose event has a context of its own with any content takes its deadline from there; an empty context, as
/// `Context::default()` is, says nothing. [`Operation::run`](crate::Operation::run) takes its deadline when it is called and
/// not when it is awaited, so it is called inside an `async` block here.
///
/// ```
/// use idempotency_lambda::{time_left, with_deadline};
/// use idempotency_lambda::time::EpochMillis;
/// use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let passed = EpochMillis::new(1_000);
/// assert_eq!(with_deadline(passed, async { time_left() }).await, Some(Duration::ZERO));
/// # }
/// ```
pub fn with_deadline<F: Future>(
    deadline: EpochMillis,
    future: F,
) -> impl Future<Output = F::Output> {
    boxed(Change::of_deadline(deadline), future)
}

/// Runs `future` with this tenant around it: for tests. The deadline around it stays.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use idempotency_lambda::{Deadline, Operation, with_tenant};
/// let charge = Operation::builder("payments::charge").build().unwrap();
/// let blue = with_tenant("blue", async { charge.identify(&7, Deadline::Inherited) }).await.unwrap();
/// assert!(blue.key().unwrap().as_str().contains("#tenant=blue#"));
/// # }
/// ```
pub fn with_tenant<F: Future>(tenant: &str, future: F) -> impl Future<Output = F::Output> + use<F> {
    boxed(Change::of_tenant(tenant.to_owned()), future)
}

/// Wraps a future so that, spawned as a task of its own, it still knows the deadline and tenant of the invocation that
/// spawned it. Inside Lambda, a call in a task that was not wrapped is refused.
///
/// `in_current_invocation` takes the scope along when it is called, so call it inside the invocation: `spawn(in_current_invocation(task))`. Inside the task
/// it would find nothing. The wrapped future reads its scope when it is polled, wherever it was made.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let task = tokio::spawn(idempotency_lambda::in_current_invocation(async { 42 }));
/// assert_eq!(task.await.unwrap(), 42);
/// # }
/// ```
pub fn in_current_invocation<F: Future>(future: F) -> impl Future<Output = F::Output> {
    boxed(Change::carried(Scope::surrounding()), future)
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
