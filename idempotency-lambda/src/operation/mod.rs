//! The functional form: an operation as a value, and the call that every other form ends in.

mod builder;
mod identified;
pub(crate) mod registry;

pub use builder::OperationBuilder;
pub use identified::IdentifiedCall;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Payload;
use crate::invocation::{Deadline, Scope};
use crate::process;
use crate::store::StoreHandle;
use crate::warning::warn;
use registry::Claimant;

/// A protected operation, for where an attribute does not fit: closures, configuration known at run time, outcomes.
///
/// A clone is the same operation and costs a reference count.
///
/// ```
/// use idempotency_lambda::{BoxError, Deadline, Operation, backend_over, with_backend};
/// use idempotency_lambda::MemoryStore;
/// use serde_json::json;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("payments::charge").key("order_id").build()?;
/// # with_backend(backend_over(Arc::new(MemoryStore::new())), async {
/// for replayed in [false, true] {
///     let order = json!({"order_id": 7, "amount": 4_200});
///     let outcome = charge
///         .run(&order, Deadline::Inherited, || async { Ok::<_, BoxError>("paid".to_owned()) })
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
    compiled: Arc<CompiledOperation>,
    /// The backend over a store of the operation's own.
    backend: Option<Backend>,
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
        self.0.compiled.key_prefix()
    }

    /// Identifies the call that `payload` names, to be run with a handler that may take the payload.
    ///
    /// `deadline` is the end of the claim's lease: `&event.context`, or [`Deadline::Inherited`]. The payload is looked at
    /// now and not kept.
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, LambdaEvent, Operation, MemoryStore};
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
        IdentifiedCall::new(self, payload, deadline)
    }

    /// Runs `handler` as the call that `payload` names, or gives the response of an earlier one.
    ///
    /// `deadline` is the end of the claim's lease: `&event.context`, or [`Deadline::Inherited`]. The payload is looked at
    /// now and not kept. A handler that takes the payload needs [`identify`](Self::identify) first, because it cannot be
    /// moved and borrowed in one expression.
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, Operation, MemoryStore};
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

    /// Compiles the settings of an operation, annotated or built in code.
    ///
    /// # Errors
    /// If a variable or a setting cannot be used, or if another operation has the key prefix.
    pub(crate) fn compile(
        claimant: Claimant<'_>,
        settings: &Settings,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        process::note_overridden(claimant.path(), settings, variables);
        let compiled = CompiledOperation::new(claimant.path(), settings, variables)?;
        let prefix = compiled.key_prefix();
        if registry::claim(&claimant, prefix, settings, variables)? {
            compiled.advice().iter().for_each(|advice| warn(advice));
        }
        Ok(Self(Arc::new(Inner {
            compiled: Arc::new(compiled),
            backend: None,
        })))
    }

    /// Returns the same operation with a store of its own.
    pub(crate) fn with_store(&self, StoreHandle(store): StoreHandle) -> Self {
        Self(Arc::new(Inner {
            compiled: Arc::clone(&self.0.compiled),
            backend: Some(process::backend_over(store)),
        }))
    }

    pub(crate) fn compiled(&self) -> &CompiledOperation {
        &self.0.compiled
    }

    /// Returns the backend of a call that is polled now: that of the scope (a test), else the operation's own, else the
    /// global one.
    ///
    /// The scope is looked up when the call is polled, because a test may wrap a call that exists already.
    async fn backend(&self) -> Result<Backend, Error> {
        match (&Scope::current().backend, &self.0.backend) {
            (Some(backend), _) | (None, Some(backend)) => Ok(backend.clone()),
            (None, None) => process::global_backend().await.cloned(),
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
