//! What a call runs: a function that asks for its call, or does not.

use std::future::Future;

use idempotency_core::operation::Call;

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
