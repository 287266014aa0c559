//! The future of a response.

use std::fmt;
use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use tracing::instrument::{Instrument, WithSubscriber};

use crate::body::ResponseBody;

pin_project! {
    /// The future of a response of [`HttpIdempotencyService`](crate::HttpIdempotencyService).
    ///
    /// If it is dropped before it ends, because the client disconnects or a timeout outside fires, the handler is dropped too.
    /// Its claim stays until the lease ends. With
    /// [`run_to_end`](crate::HttpIdempotencyLayer::run_to_end) the handler runs on, and its response is stored.
    pub struct ResponseFuture<F, R: Body, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<F, R: Body, E> {
        Passed { #[pin] future: F },
        Protected { future: Protected<R, E> },
    }
}

type Protected<R, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

impl<F, R: Body, E> ResponseFuture<F, R, E> {
    pub(super) fn passed(future: F) -> Self {
        Self {
            state: State::Passed { future },
        }
    }

    pub(super) fn protected(
        future: impl Future<Output = Result<Response<ResponseBody<R>>, E>> + Send + 'static,
    ) -> Self {
        Self {
            state: State::Protected {
                future: Box::pin(future),
            },
        }
    }
}

/// Runs a future to its end, also if the returned future is dropped once it was polled.
pub(super) async fn to_end<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let task = tokio::spawn(future.in_current_span().with_current_subscriber());
    match task.await {
        Ok(output) => output,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime shuts down, and drops this future too.
            Err(_) => pending().await,
        },
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Projected::Passed { future } => {
                let response = ready!(future.poll(context))?;
                Poll::Ready(Ok(response.map(ResponseBody::passed)))
            }
            Projected::Protected { future } => future.as_mut().poll(context),
        }
    }
}

impl<F, R: Body, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
