//! Limits the time of a future by the timer of a client.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use aws_sdk_dynamodb::config::{AsyncSleep as _, SharedAsyncSleep};

/// The error of a future that took longer than this.
#[derive(Clone, Debug)]
pub(crate) struct TimedOut(pub(crate) Duration);

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timeout after {:?}", self.0)
    }
}

impl StdError for TimedOut {}

/// Waits for a future, for at most `limit`. Without a limit or a timer it waits to the end.
///
/// # Errors
///
/// If the future takes longer. It is dropped then.
pub(crate) async fn within<F: Future>(
    timer: Option<SharedAsyncSleep>,
    limit: Option<Duration>,
    future: F,
) -> Result<F::Output, TimedOut> {
    let (Some(limit), Some(timer)) = (limit, timer) else {
        return Ok(future.await);
    };
    let (mut future, mut sleep) = (pin!(future), pin!(timer.sleep(limit)));
    poll_fn(|context| {
        // The future comes first: a result that is there counts, however late it is.
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => sleep.as_mut().poll(context).map(|()| Err(TimedOut(limit))),
        }
    })
    .await
}
