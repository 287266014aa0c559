//! The functional form: an operation as a value, and the call that every other form ends in.

mod builder;
mod call;

pub use builder::OperationBuilder;
pub(crate) use call::{Invocation, call};

use std::fmt;
use std::future::Future;

use idempotency_core::engine::{Codec, Environment};
use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::deadline::Deadline;
use crate::event::Payload;
use crate::scope::Scope;

/// A protected operation, for where an attribute does not fit: closures, configuration known at run time, outcomes.
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
///     assert_eq!(outcome.answer(), "paid");
/// }
/// # Ok(())
/// # }).await
/// # }
/// ```
pub struct Operation {
    core: idempotency_core::operation::Operation,
    environment: Option<Environment>,
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
        self.core.key_prefix()
    }

    /// Runs `handler` as the call that `payload` names, or gives the answer of an earlier one.
    ///
    /// `deadline` is the end of the claim's lease: `&event.context`, or [`Deadline::Surrounding`]. The payload is looked at
    /// now and not kept: the handler may take or change it.
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
    /// assert_eq!(outcome.into_answer(), "charged 4200");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The handler's own, or one of this framework's, which says whether the handler ran.
    ///
    /// # Panics
    /// If the handler panics. Its claim is given up first; under `hold` it is kept for an operator.
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
        let invocation = self.invocation(payload, deadline.into());
        let handler = Box::new(handler);
        async move {
            let invocation = invocation.map_err(refused)?;
            // Whatever surrounds the poll: a test wraps a call that it has already made.
            let environment = match (&Scope::current().environment, &self.environment) {
                (Some(environment), _) | (None, Some(environment)) => environment.clone(),
                (None, None) => crate::process::environment()
                    .await
                    .map_err(refused)?
                    .clone(),
            };
            call(
                &self.core,
                &environment,
                invocation,
                Codec::json(),
                E::from,
                handler,
            )
            .await
        }
    }
}

impl Operation {
    fn invocation<P>(&self, payload: &P, deadline: Deadline) -> Result<Invocation, Error>
    where
        P: Payload + ?Sized,
    {
        let scope = match &deadline {
            Deadline::Invocation { .. } => Scope::current(),
            Deadline::Surrounding | Deadline::At(_) => Scope::of_a_call(self.key_prefix())?,
        };
        let (deadline, tenant) = deadline.resolve(&scope);
        let identity = payload.identity(&self.core, tenant.as_deref())?;
        Ok(Invocation {
            identity,
            deadline,
            tenant,
        })
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("key_prefix", &self.key_prefix())
            .finish_non_exhaustive()
    }
}
