//! The functional form: an operation as a value, and the call that every other form ends in.

mod builder;
mod call;
mod identified;

pub use builder::OperationBuilder;
pub(crate) use call::{Identified, call};
pub use identified::IdentifiedCall;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Payload;
use crate::invocation::{Deadline, Scope};
use crate::process;

/// A protected operation, for where an attribute does not fit: closures, configuration known at run time, outcomes.
///
/// A clone is the same operation and costs a reference count.
///
/// ```
/// use idempotency_lambda::{BoxError, Deadline, Operation, environment_with, with_environment};
/// use idempotency_lambda::core::store::MemoryStore;
/// use serde_json::json;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("payments::charge").key("order_id").build()?;
/// # with_environment(environment_with(Arc::new(MemoryStore::new())), async {
/// for replayed in [false, true] {
///     let order = json!({"order_id": 7, "amount": 4_200});
///     let outcome = charge
///         .run(&order, Deadline::Surrounding, || async { Ok::<_, BoxError>("paid".to_owned()) })
///         .await?;
///     assert_eq!(outcome.is_replayed(), replayed);
///     assert_eq!(outcome.response(), "paid");
/// }
/// # Ok(())
/// # }).await
/// # }
/// ```
#[derive(Clone)]
pub struct Operation(Arc<Inner>);

struct Inner {
    core: idempotency_core::operation::Operation,
    /// The environment around a store of the operation's own.
    environment: Option<Backend>,
}

impl Operation {
    /// Begins an operation called `path`, by which it is known in keys, errors and events: best its module path.
    ///
    /// ```
    /// # use idempotency_lambda::Operation;
    /// let operation = Operation::builder("payments::charge").key("order_id").build().unwrap();
    /// assert!(operation.key_prefix().ends_with("payments.charge"));
    /// ```
    pub fn builder(path: impl Into<String>) -> OperationBuilder {
        OperationBuilder::new(path.into())
    }

    /// The operation's name in its keys.
    ///
    /// ```
    /// # use idempotency_lambda::Operation;
    /// let operation = Operation::builder("charge").key_prefix("payments").build().unwrap();
    /// assert_eq!(operation.key_prefix(), "payments");
    /// ```
    pub fn key_prefix(&self) -> &str {
        self.0.core.key_prefix()
    }

    /// Identifies the call that `payload` names, to be run with a handler that may take the payload.
    ///
    /// `deadline` is the end of the claim's lease: `&event.context`, or [`Deadline::Surrounding`]. The payload is looked at
    /// now and not kept.
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, LambdaEvent, Operation, core::store::MemoryStore};
    /// # use std::sync::Arc;
    /// # async fn handler(event: LambdaEvent<u64>) -> Result<u64, BoxError> { Ok(event.payload) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let charge = Operation::builder("payments::charge").store(Arc::new(MemoryStore::new())).build()?;
    /// # let event = LambdaEvent::new(7, Context::default());
    /// let call = charge.identify(&event.payload, &event.context)?;
    /// let outcome = call.run(move || handler(event)).await?;
    /// assert_eq!(outcome.into_response(), 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the payload has no identity (it cannot be written as JSON, an expression fails on it, or it has no key and one is
    /// required), or if the invocation must be known and is not. The handler did not run.
    pub fn identify<P, D>(&self, payload: &P, deadline: D) -> Result<IdentifiedCall, Error>
    where
        P: Payload + ?Sized,
        D: Into<Deadline>,
    {
        self.identified(payload, deadline.into()).map_err(refused)
    }

    fn identified<P>(&self, payload: &P, deadline: Deadline) -> Result<IdentifiedCall, Error>
    where
        P: Payload + ?Sized,
    {
        let identified = Identified::new(&self.0.core, payload, deadline)?;
        Ok(IdentifiedCall::new(self.clone(), identified))
    }

    /// Runs `handler` as the call that `payload` names, or gives the response of an earlier one.
    ///
    /// `deadline` is the end of the claim's lease: `&event.context`, or [`Deadline::Surrounding`]. The payload is looked at
    /// now and not kept. A handler that takes the payload needs [`identify`](Self::identify) first, because it cannot be
    /// moved and borrowed in one expression.
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, Operation, core::store::MemoryStore};
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let context = Context::default();
    /// # let charge = Operation::builder("payments::charge").store(Arc::new(MemoryStore::new())).build()?;
    /// let order = ("o-1", 4_200);
    /// let outcome = charge
    ///     .run(&order, &context, || async { Ok::<_, BoxError>(format!("charged {}", order.1)) })
    ///     .await?;
    /// assert_eq!(outcome.into_response(), "charged 4200");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The handler's own, or one of this framework's, which says whether the handler ran.
    ///
    /// # Panics
    /// If the handler panics. Its claim is released first; under `hold` it is kept for an operator.
    pub fn run<'a, P, D, R, E, F, Fut>(
        &'a self,
        payload: &P,
        deadline: D,
        handler: F,
    ) -> impl Future<Output = Result<Outcome<R>, E>> + use<'a, P, D, R, E, F, Fut>
    where
        P: Payload + ?Sized,
        D: Into<Deadline>,
        R: Serialize + DeserializeOwned,
        E: From<Error>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        // Now, and not when the future is first polled: the payload may be changed by then.
        let call = self.identified(payload, deadline.into());
        async move { call.map_err(refused)?.run(handler).await }
    }

    /// Returns the environment of a call that is polled now: a test wraps a call that it has already made.
    async fn environment(&self) -> Result<Backend, Error> {
        match (&Scope::current().environment, &self.0.environment) {
            (Some(environment), _) | (None, Some(environment)) => Ok(environment.clone()),
            (None, None) => process::environment().await.cloned(),
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("key_prefix", &self.key_prefix())
            .finish_non_exhaustive()
    }
}
