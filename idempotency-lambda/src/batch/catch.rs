//! Catches a panic of a future.

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
