//! A call whose identity is known. Every form of a call but HTTP runs here.

use std::fmt;
use std::future::Future;

use idempotency_core::engine::{Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::event::refused;
use idempotency_core::operation::{Call, Identity};
use idempotency_core::outcome::{Bypass, Outcome};
use idempotency_core::record::RecordId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Handler, Operation};
use crate::event::Payload;
use crate::invocation::{Deadline, InScope, Invocation, ScopeChange};
use crate::process::warn;

/// A call whose identity is known. It no longer needs the payload, so the handler can take it.
///
/// [`Operation::identify`] makes it, and it can be run once. It borrows nothing, so it can be moved into a future of its own.
///
/// # Examples
///
/// A handler that takes the payload by value:
///
/// ```
/// use idempotency_lambda::{BoxError, Context, LambdaEvent, MemoryStore, Operation};
/// use std::sync::Arc;
///
/// async fn handler(event: LambdaEvent<String>) -> Result<String, BoxError> {
///     Ok(event.payload)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("charge").store(Arc::new(MemoryStore::new())).build()?;
/// let event = LambdaEvent::new("an order".to_owned(), Context::default());
/// let call = charge.identify(&event.payload, &event.context)?;
/// let task = tokio::spawn(call.run(move || handler(event)));
/// assert_eq!(task.await??.into_response(), "an order");
/// # Ok(())
/// # }
/// ```
///
/// For a tower service there is [`IdempotencyLayer`](crate::IdempotencyLayer).
#[must_use = "a call does nothing unless it is run"]
pub struct IdentifiedCall {
    pub(super) operation: Operation,
    pub(super) identity: Identity,
    pub(super) invocation: Invocation,
}

impl IdentifiedCall {
    /// Identifies a call with this payload, before the handler takes the event.
    ///
    /// # Errors
    ///
    /// If the invocation is not known, or no identity can be computed. The handler has not run. The outcome event is emitted.
    pub(crate) fn new<P: Payload + ?Sized>(
        operation: &Operation,
        payload: &P,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        Self::looking_at(operation, payload, deadline).map_err(refused)
    }

    /// Identifies the key of this payload, as [`new`](Self::new) does. No call is made, so an error has no outcome event.
    pub(super) fn looking_at<P: Payload + ?Sized>(
        operation: &Operation,
        payload: &P,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let compiled = operation.compiled();
        let invocation = deadline.invocation(compiled)?;
        let identity = payload.identity(compiled, invocation.tenant.as_deref())?;
        Ok(Self {
            operation: operation.clone(),
            identity,
            invocation,
        })
    }

    /// Returns the id of the call's record, or `None` if the call is bypassed.
    ///
    /// The id is a hash. It shows nothing of the payload.
    pub fn key(&self) -> Option<&RecordId> {
        self.identity.key()
    }

    /// Returns the same call, which waits for a call in progress unless a setting or a variable says what it does.
    #[cfg(feature = "batch")]
    pub(crate) fn waiting_by_default(mut self) -> Self {
        self.identity = self.identity.waiting_by_default();
        self
    }

    /// Returns the identity of the call.
    #[cfg(feature = "batch")]
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns why the handler will run unprotected, or `None` if it is protected: the payload has no key, or protection is
    /// switched off.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{Bypass, Deadline, Error, Operation};
    /// # use serde_json::json;
    /// let charge = Operation::builder("payments::charge").key("order_id").key_required(false).build()?;
    /// let call = charge.identify(&json!({"amount": 4_200}), Deadline::Inherited)?;
    /// assert_eq!(call.bypass(), Some(Bypass::NoKey));
    /// let call = charge.identify(&json!({"order_id": 7, "amount": 4_200}), Deadline::Inherited)?;
    /// assert!(call.key().unwrap().as_str().starts_with("local.payments.charge#"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bypass(&self) -> Option<Bypass> {
        self.identity.bypass()
    }

    /// Runs `handler`, or returns the response of an earlier call with the same key.
    ///
    /// The handler is called at most once, and only under a claim or if the call is bypassed. It gets its [`Call`] if it asks for it.
    ///
    /// # Errors
    ///
    /// The handler's error, or an error of this framework; [`Error::handler_ran`] returns whether the handler ran.
    ///
    /// # Panics
    ///
    /// If the handler panics. Its claim is released first; under `hold` it is kept for an operator.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, LambdaEvent, MemoryStore, Operation};
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let charge = Operation::builder("payments::charge").store(Arc::new(MemoryStore::new())).build()?;
    /// # let event = LambdaEvent::new("an order".to_owned(), Context::default());
    /// let call = charge.identify(&event.payload, &event.context)?;
    /// let outcome = call.run(move || async move { Ok::<_, BoxError>(event.payload) }).await?;
    /// assert_eq!(outcome.into_response(), "an order");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<A, R, E, H>(
        self,
        handler: H,
    ) -> impl Future<Output = Result<Outcome<R>, E>> + use<A, R, E, H>
    where
        R: Serialize + DeserializeOwned,
        E: From<Error>,
        H: Handler<A, Future: Future<Output = Result<R, E>>>,
    {
        // Without the box, the future of each async function on the way would have room for the whole handler.
        let handler = Box::new(handler);
        self.run_with(Codec::json(), Errors::new(E::from), |call| {
            handler.start(call)
        })
    }

    /// Runs a handler as [`run`](Self::run) does, with the response's codec and the rules for errors as arguments.
    ///
    /// The handler runs inside the call's invocation, so that nested calls find its deadline and tenant. They do not find the
    /// operation's store.
    pub(crate) async fn run_with<R, E, Fut: Future<Output = Result<R, E>>>(
        self,
        codec: Codec<R>,
        errors: Errors<E>,
        handler: impl FnOnce(Call) -> Fut,
    ) -> Result<Outcome<R>, E> {
        let Self {
            operation,
            identity,
            invocation,
        } = self;
        let backend = operation
            .backend()
            .await
            .map_err(|error| errors.convert(refused(error)))?;
        let compiled = operation.compiled();
        if !tracing::dispatcher::has_been_set()
            && let Some(warning) = compiled.warning(&identity)
        {
            // The outcome event has the same text, but no subscriber collects it.
            warn(&format!("{}: {warning}", compiled.key_prefix()));
        }
        let deadline = invocation.deadline;
        let handler = |call| InScope::enter(ScopeChange::to(invocation), || handler(call));
        compiled
            .run(&backend, &identity, deadline, codec, errors, handler)
            .await
    }
}

impl fmt::Debug for IdentifiedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentifiedCall")
            .field("operation", &self.operation)
            .field("key", &self.key())
            .field("bypass", &self.bypass())
            .finish_non_exhaustive()
    }
}
