//! Catches a panic of a future, or of a type's own code that reads or writes a body.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Polls the future to its end. Returns `None` if it panics.
///
/// The panic's message was written by the panic hook. The future is not polled again, and what it held is dropped.
pub(super) async fn catch<F: Future>(mut future: Pin<Box<F>>) -> Option<F::Output> {
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}

/// Calls the function. Returns `None` if it panics.
pub(super) fn catch_call<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
