//! Operations: one protected piece of code each, annotated or built in code.
//!
//! | file | what it holds |
//! |---|---|
//! | `builder` | the settings of an operation that is built in code |
//! | `http_rules` | the HTTP rules of an annotated function |
//! | `identified` | a call whose identity is known; every form of a call but HTTP runs there |
//! | `lookup` | looks at the record of a payload, or deletes it |
//! | `whole_event` | warns of a key that is a whole event in which nothing changes |
//! | `registry` | every operation of the program, and which key prefix it has |
//!
//! The files refer to each other: compiling an operation compares its key prefix with all known prefixes, and the registry
//! holds the operations of the annotated functions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::engine::Backend;
use idempotency_core::error::Error;
use idempotency_core::operation::{Call, CompiledOperation};
use idempotency_core::outcome::Outcome;
use idempotency_core::store::Store;
#[cfg(feature = "http")]
use idempotency_http::{HttpOperation, HttpOperationBuilder};
use registry::Claimant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::Payload;
use crate::invocation::{Deadline, Scope};
use crate::process;
use crate::process::warn;

mod builder;
#[cfg(feature = "http")]
pub(crate) mod http_rules;
mod identified;
mod lookup;
pub(crate) mod registry;
pub(crate) mod whole_event;

pub use builder::OperationBuilder;
pub use identified::IdentifiedCall;

/// A protected operation as a value, for code that an attribute does not fit.
///
/// It protects closures, takes settings that are known at run time, and returns the [`Outcome`] of each call. A clone is the
/// same operation and costs a reference count.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{BoxError, Deadline, MemoryStore, Operation};
/// use serde_json::json;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let charge = Operation::builder("payments::charge")
///     .key("order_id")
///     .store(Arc::new(MemoryStore::new()))
///     .build()?;
/// for replayed in [false, true] {
///     let order = json!({"order_id": 7, "amount": 4_200});
///     let outcome = charge
///         .run(&order, Deadline::Inherited, || async { Ok::<_, BoxError>("paid".to_owned()) })
///         .await?;
///     assert_eq!(outcome.is_replayed(), replayed);
///     assert_eq!(outcome.response(), "paid");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Operation(Arc<Inner>);

struct Inner {
    compiled: Arc<CompiledOperation>,
    /// The backend over a store of the operation's own.
    backend: Option<Backend>,
    /// True after the first event whose key is the whole event. Operations that differ in their store alone share it.
    has_seen_event: Arc<AtomicBool>,
}

impl Inner {
    fn new(compiled: Arc<CompiledOperation>, backend: Option<Backend>) -> Self {
        Self {
            compiled,
            backend,
            has_seen_event: Arc::default(),
        }
    }
}

impl Operation {
    /// Starts the settings of an operation.
    ///
    /// `path` is its name in keys, errors and events. Its module path is a good choice.
    pub fn builder(path: impl Into<String>) -> OperationBuilder {
        OperationBuilder::new(path.into())
    }

    /// Returns the prefix of the operation's keys.
    pub fn key_prefix(&self) -> &str {
        self.0.compiled.key_prefix()
    }

    /// Identifies a call from its payload, before the handler takes the payload.
    ///
    /// The claim's lease ends at `deadline`: `&event.context`, or [`Deadline::Inherited`]. The payload is read now and not
    /// kept.
    ///
    /// # Errors
    ///
    /// If the payload has no identity: it cannot be written as JSON, an expression fails on it, or it has no key and one is
    /// required. Also if the call is made inside Lambda and its invocation is not known. The handler has not run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_lambda::{BoxError, Context, LambdaEvent, MemoryStore, Operation};
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
    pub fn identify<P, D>(&self, payload: &P, deadline: D) -> Result<IdentifiedCall, Error>
    where
        P: Payload + ?Sized,
        D: Into<Deadline>,
    {
        IdentifiedCall::new(self, payload, deadline.into())
    }

    /// Runs `handler`, or returns the response of an earlier call with the same key.
    ///
    /// A handler that asks for its [`Call`](crate::Call) gets it: the key, which run of it this is, the time left, and tokens for
    /// effects outside.
    ///
    /// The claim's lease ends at `deadline`: `&event.context`, or [`Deadline::Inherited`]. The payload is read now, not when
    /// the future is polled, and not kept. A handler that takes the payload needs [`identify`](Self::identify) first, because
    /// one expression cannot both borrow and move it.
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
    /// # use idempotency_lambda::{BoxError, Call, Context, MemoryStore, Operation};
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
    ///
    /// let outcome = charge
    ///     .run(&("o-2", 4_200), &context, |call: Call| async move {
    ///         // The header makes the request to the provider safe to repeat.
    ///         let header = ("Idempotency-Key", call.token("charge").to_string());
    ///         Ok::<_, BoxError>(header.1)
    ///     })
    ///     .await?;
    /// assert_eq!(outcome.response().len(), 36);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<'a, P, D, A, R, E, H>(
        &'a self,
        payload: &P,
        deadline: D,
        handler: H,
    ) -> impl Future<Output = Result<Outcome<R>, E>> + use<'a, P, D, A, R, E, H>
    where
        P: Payload + ?Sized,
        D: Into<Deadline>,
        R: Serialize + DeserializeOwned,
        E: From<Error>,
        H: Handler<A, Future: Future<Output = Result<R, E>>>,
    {
        // The payload may have changed when the future is first polled.
        let call = IdentifiedCall::new(self, payload, deadline.into());
        async move { call?.run(handler).await }
    }

    /// Compiles the settings of an operation, annotated or built in code.
    ///
    /// # Errors
    ///
    /// If a variable or a setting cannot be used, or if another operation has the key prefix.
    pub(crate) fn compile(
        claimant: Claimant<'_>,
        settings: &Settings,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        Self::compile_as(claimant, settings, settings, variables)
    }

    /// Compiles the settings of an operation whose keys are made by other rules too. `identity` stands for these rules in the
    /// comparison with other operations under the prefix.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub(crate) fn compile_as(
        claimant: Claimant<'_>,
        settings: &Settings,
        identity: &Settings,
        variables: &Variables,
    ) -> Result<Self, ConfigurationError> {
        process::note_overridden(claimant.path(), settings, variables);
        let compiled = CompiledOperation::new(claimant.path(), settings, variables)?;
        let prefix = compiled.key_prefix();
        if registry::claim(&claimant, prefix, identity, variables)? {
            compiled.advice().iter().for_each(|advice| warn(advice));
        }
        Ok(Self(Arc::new(Inner::new(Arc::new(compiled), None))))
    }

    /// Compiles rules of HTTP, and the operation under them. `identity` has the settings that make two operations the same one.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    #[cfg(feature = "http")]
    pub(crate) fn compile_http(
        rules: HttpOperationBuilder,
        claimant: Claimant<'_>,
        identity: &Settings,
    ) -> Result<(HttpOperation, Self), ConfigurationError> {
        let mut compiled = None;
        let http = rules.build_with(|_, settings, variables| {
            let operation = Self::compile_as(claimant, settings, identity, variables)?;
            Ok(Arc::clone(&compiled.insert(operation).0.compiled))
        })?;
        for advice in http.advice() {
            warn(&format!("{}: {advice}", http.compiled().key_prefix()));
        }
        // Unreachable: `build_with` has called the function, or has failed.
        let missing = || ConfigurationError::new("the operation was not compiled");
        Ok((http, compiled.ok_or_else(missing)?))
    }

    /// Returns the same operation with a store of its own.
    pub(crate) fn with_store(&self, store: Arc<dyn Store>) -> Self {
        let compiled = Arc::clone(&self.0.compiled);
        Self(Arc::new(Inner {
            has_seen_event: Arc::clone(&self.0.has_seen_event),
            ..Inner::new(compiled, Some(process::backend_over(store)))
        }))
    }

    /// Returns the compiled settings.
    pub(crate) fn compiled(&self) -> &CompiledOperation {
        &self.0.compiled
    }

    /// Returns the backend of a call: the one of the scope (in a test), else the operation's own, else the global one.
    ///
    /// The scope is looked up when the call is polled, because a test may wrap an existing future.
    pub(crate) async fn backend(&self) -> Result<Backend, Error> {
        match self.known_backend() {
            Some(backend) => Ok(backend),
            None => process::global_backend().await.cloned(),
        }
    }

    /// Returns the backend of a run without protection, which sends no request: it does not wait for the store of the process.
    #[cfg(feature = "http")]
    pub(crate) fn backend_at_hand(&self) -> Backend {
        self.known_backend().unwrap_or_else(|| {
            process::existing_backend()
                .cloned()
                .unwrap_or_else(process::backend_without_store)
        })
    }

    /// Returns the backend of the scope, or the operation's own. `None` if the call uses the global one.
    fn known_backend(&self) -> Option<Backend> {
        let of_scope = Scope::surrounding().and_then(|scope| scope.backend.clone());
        of_scope.or_else(|| self.0.backend.clone())
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("key_prefix", &self.key_prefix())
            .finish_non_exhaustive()
    }
}

/// A function that a call runs. It takes nothing, or its [`Call`] if it asks for it.
///
/// It is implemented for every `FnOnce() -> Fut` and `FnOnce(Call) -> Fut` with a future. `Asks` is what it asks for: `()` or `Call`. The
/// compiler finds it. The parameter of a closure needs its type: `|call: Call| async move { .. }`.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{BoxError, Call, Deadline, Handler, MemoryStore, Operation};
/// use std::sync::Arc;
///
/// async fn charge<A, H>(charge: &Operation, order: u64, handler: H) -> Result<String, BoxError>
/// where
///     H: Handler<A, Future: Future<Output = Result<String, BoxError>>>,
/// {
///     let outcome = charge.run(&order, Deadline::Inherited, handler).await?;
///     Ok(outcome.into_response())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let operation = Operation::builder("charge").store(Arc::new(MemoryStore::new())).build()?;
/// assert_eq!(charge(&operation, 1, || async { Ok("paid".to_owned()) }).await?, "paid");
/// let token = charge(&operation, 2, |call: Call| async move { Ok(call.token("charge").to_string()) }).await?;
/// assert_eq!(token.len(), 36);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function that a call can run",
    label = "write `async || ..`, or `async |call: Call| ..` if it asks for its call",
    note = "it takes nothing or an `idempotency_lambda::Call`, and returns a future"
)]
pub trait Handler<Asks> {
    /// The future of one run.
    type Future: Future;

    /// Starts the run.
    #[doc(hidden)]
    fn start(self, call: Call) -> Self::Future;
}

impl<F, Fut> Handler<()> for F
where
    F: FnOnce() -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(self, _: Call) -> Fut {
        self()
    }
}

impl<F, Fut> Handler<Call> for F
where
    F: FnOnce(Call) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(self, call: Call) -> Fut {
        self(call)
    }
}
