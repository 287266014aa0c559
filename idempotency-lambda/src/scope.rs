//! What surrounds a call: the invocation's deadline and tenant, and in tests an environment of one's own.
//!
//! The scope is a thread-local that a small future swaps in around each poll, so it survives `join!` and `select!`. A
//! spawned task leaves it, unless it is wrapped with [`carry`].

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotency_core::engine::Environment;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::time::EpochMillis;

/// Whether this process has served a tenant: then a call that has lost its invocation could be any tenant's.
static HAS_TENANTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

/// What surrounds a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) environment: Option<Environment>,
    pub(crate) deadline: Option<EpochMillis>,
    pub(crate) tenant: Option<String>,
}

impl Scope {
    /// What surrounds the code that runs now.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.with_borrow(|current| current.clone().unwrap_or_default())
    }
}

impl Scope {
    /// What surrounds a call that takes deadline and tenant from there.
    ///
    /// # Errors
    /// If nothing does, in a process that serves tenants: one tenant could be given another's answer.
    pub(crate) fn of_a_call(operation: &str) -> Result<Arc<Self>, Error> {
        let scope = CURRENT.with_borrow(Clone::clone);
        if scope.is_none() && HAS_TENANTS.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Environment, operation).with_detail(
                "this process serves tenants, and the call was made outside of any invocation, so nobody knows whose it \
                 is: wrap the spawned task with `idempotency_lambda::carry`, or hand in `&event.context`",
            ));
        }
        Ok(scope.unwrap_or_default())
    }
}

/// Runs `future` within `scope`. It is boxed: a wrapper that held it in place would double its size at each layer.
pub(crate) fn within<F: Future>(scope: Arc<Scope>, future: F) -> impl Future<Output = F::Output> {
    if scope.tenant.is_some() {
        HAS_TENANTS.store(true, Ordering::Relaxed);
    }
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        let _entered = Entered::new(Arc::clone(&scope));
        future.as_mut().poll(context)
    })
}

/// Puts back what was there before, also when the poll panics.
struct Entered(Option<Arc<Scope>>);

impl Entered {
    fn new(scope: Arc<Scope>) -> Self {
        Self(CURRENT.replace(Some(scope)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Runs `future` with a store, clock, randomness and cache of its own: for tests, which then never meet each other.
///
/// Every annotated function and every [`Operation`](crate::Operation) called inside works with `environment`, whatever
/// the process or a `store = ..` says.
///
/// ```
/// use idempotency_lambda::{Environment, LambdaEvent, environment_with, idempotent, with_environment};
/// use idempotency_lambda::core::store::MemoryStore;
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
/// let environment = environment_with(Arc::new(MemoryStore::new()));
/// with_environment(environment, async {
///     let event = |amount| LambdaEvent::new(json!({"order_id": 1, "amount": amount}), Default::default());
///     assert_eq!(handler(event(10)).await?, json!({ "charged": 10 }));
///     assert_eq!(handler(event(99)).await?, json!({ "charged": 10 }));
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub fn with_environment<F: Future>(
    environment: Environment,
    future: F,
) -> impl Future<Output = F::Output> {
    let scope = Scope {
        environment: Some(environment),
        ..(*Scope::current()).clone()
    };
    within(Arc::new(scope), future)
}

/// Wraps a future so that, spawned as a task of its own, it still knows the deadline and tenant of the invocation that
/// spawned it. In a process that serves tenants, a call in a task that was not wrapped is refused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let task = tokio::spawn(idempotency_lambda::carry(async { 42 }));
/// assert_eq!(task.await.unwrap(), 42);
/// # }
/// ```
pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(Scope::current(), future)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(milliseconds: i64) -> Arc<Scope> {
        Arc::new(Scope {
            deadline: Some(EpochMillis::new(milliseconds)),
            ..Scope::default()
        })
    }

    fn current_deadline() -> Option<i64> {
        Scope::current().deadline.map(EpochMillis::get)
    }

    #[tokio::test]
    async fn two_joined_futures_keep_their_own_scopes() {
        let look = async || {
            let before = current_deadline();
            tokio::task::yield_now().await;
            (before, current_deadline())
        };
        let (first, second) =
            tokio::join!(within(deadline(1), look()), within(deadline(2), look()));
        assert_eq!((first, second), ((Some(1), Some(1)), (Some(2), Some(2))));
        assert_eq!(current_deadline(), None);
    }

    #[tokio::test]
    async fn a_spawned_task_leaves_the_scope_unless_it_is_carried() {
        let (left, kept) = within(deadline(7), async {
            let left = tokio::spawn(async { current_deadline() });
            let kept = tokio::spawn(carry(async { current_deadline() }));
            (left.await.unwrap(), kept.await.unwrap())
        })
        .await;
        assert_eq!((left, kept), (None, Some(7)));
    }

    #[test]
    fn a_panic_puts_the_outer_scope_back() {
        let caught = std::panic::catch_unwind(|| {
            let _entered = Entered::new(deadline(3));
            panic!("in the handler");
        });
        assert!(caught.is_err());
        assert_eq!(current_deadline(), None);
    }
}
