//! The body of a response, and how it is collected.

mod collect;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

pub(crate) use collect::{Collected, collect};

/// The body of a response: the service's own body, a stored body, or an error of this framework.
///
/// `Debug` shows no bytes.
pub struct ResponseBody<B: Body>(State<B>);

enum State<B: Body> {
    /// The service's own body, untouched.
    Passed(Pin<Box<B>>),
    /// The whole body.
    Whole(Option<Bytes>),
    /// What was read of the service's body, and then the rest of it.
    Prefixed(Prefixed<B>),
}

/// A body of which a part was read.
pub(crate) struct Prefixed<B: Body> {
    pub(crate) read: Option<Bytes>,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) error: Option<B::Error>,
    /// `None` if the body has ended.
    pub(crate) rest: Option<Pin<Box<B>>>,
}

/// Nothing in it is pinned in place: the service's body has a box of its own.
impl<B: Body> Unpin for ResponseBody<B> {}

impl<B: Body> ResponseBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self(State::Passed(Box::pin(body)))
    }

    pub(crate) fn whole(body: Bytes) -> Self {
        Self(State::Whole((!body.is_empty()).then_some(body)))
    }

    pub(crate) fn prefixed(body: Prefixed<B>) -> Self {
        Self(State::Prefixed(body))
    }
}

/// An empty body, which layers outside send with responses of their own.
impl<B: Body> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::whole(Bytes::new())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.0 {
            State::Passed(body) => body.as_mut().poll_frame(context),
            State::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            State::Prefixed(body) => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Passed(body) => body.is_end_stream(),
            State::Whole(body) => body.is_none(),
            State::Prefixed(body) => {
                body.read.is_none()
                    && body.trailers.is_none()
                    && body.error.is_none()
                    && body.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Passed(body) => body.size_hint(),
            State::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            State::Prefixed(body) => body.size_hint(),
        }
    }
}

impl<B: Body<Data = Bytes>> Prefixed<B> {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(data) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if let Some(error) = self.error.take() {
            self.rest = None;
            return Poll::Ready(Some(Err(error)));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = match &self.rest {
            Some(rest) => rest.size_hint(),
            // After an error fewer bytes come than were promised.
            None if self.error.is_some() => SizeHint::new(),
            None => SizeHint::with_exact(0),
        };
        let read = self.read.as_ref().map_or(0, |data| data.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(hint.lower().saturating_add(read));
        hint
    }
}

impl<B: Body> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Passed(_) => "ResponseBody(Passed)",
            State::Whole(_) => "ResponseBody(Whole)",
            State::Prefixed(_) => "ResponseBody(Prefixed)",
        })
    }
}

#[cfg(test)]
mod tests;
