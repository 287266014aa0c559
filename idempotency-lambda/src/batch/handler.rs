//! What is run for each record: a function that asks for its call, or does not.

use std::future::Future;

use idempotency_core::operation::Call;

/// A function that runs for each record of a batch. It takes the record `A`, and then its [`Call`] if it asks for it.
///
/// It is implemented for every `Fn(A) -> Fut` and `Fn(A, Call) -> Fut` with a future. `Asks` is what it asks for: `()` or `Call`. The
/// compiler finds it. The parameters of a closure need their types: `|order: Order, call: Call| ..`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function that a batch can run for each record",
    label = "neither `|record: {A}| async move {{ .. }}` nor `|record: {A}, call: Call| async move {{ .. }}`",
    note = "it takes a record, and then its `idempotency_lambda::Call` if it asks for it, and returns a future"
)]
pub trait RecordHandler<A, Asks> {
    /// The future of one run.
    type Future: Future;

    /// Starts the run for one record.
    #[doc(hidden)]
    fn start(&self, record: A, call: Call) -> Self::Future;
}

impl<F, A, Fut> RecordHandler<A, ()> for F
where
    F: Fn(A) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, _: Call) -> Fut {
        self(record)
    }
}

impl<F, A, Fut> RecordHandler<A, Call> for F
where
    F: Fn(A, Call) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn start(&self, record: A, call: Call) -> Fut {
        self(record, call)
    }
}
