//! Limits the time of one request.

use std::future::poll_fn;
use std::task::Poll;

use crate::future::BoxFuture;

/// Returns the output of `request`, or `None` if the timer ends first. The timer is made only if the request is not ready at
/// its first poll.
pub(super) async fn timeout<T>(
    mut request: BoxFuture<'_, T>,
    timer: impl FnOnce() -> BoxFuture<'static, ()>,
) -> Option<T> {
    let mut make = Some(timer);
    let mut timer: Option<BoxFuture<'static, ()>> = None;
    poll_fn(move |context| {
        if let Poll::Ready(output) = request.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if let Some(make) = make.take() {
            timer = Some(make());
        }
        match &mut timer {
            Some(timer) => timer.as_mut().poll(context).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_ready_request_makes_no_timer() {
        let bounded = timeout(Box::pin(ready(1)), || unreachable!("no timer is needed"));
        assert_eq!(poll_once(bounded), Poll::Ready(Some(1)));
    }

    #[test]
    fn a_request_that_hangs_ends_with_its_timer() {
        let bounded = timeout(Box::pin(pending::<i32>()), || Box::pin(ready(())));
        assert_eq!(poll_once(bounded), Poll::Ready(None));
    }
}
