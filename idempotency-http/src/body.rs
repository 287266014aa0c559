//! The body of a response, and how it is collected.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

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

// Reads a body into memory, up to a limit.

/// A body that was read.
pub(crate) enum Collected<B: Body> {
    /// All of it.
    Whole(Bytes),
    /// All of it, and trailers follow.
    WithTrailers(Prefixed<B>),
    /// More than the limit. The rest was not read.
    TooLarge(Prefixed<B>),
    /// It failed half-way.
    Failed(Prefixed<B>),
}

/// A body while it is read.
pub(crate) struct Collecting<B: Body> {
    body: Pin<Box<B>>,
    limit: usize,
}

/// Returns a body that will be read up to `limit` bytes.
pub(crate) fn collect<B: Body>(body: B, limit: usize) -> Collecting<B> {
    Collecting {
        body: Box::pin(body),
        limit,
    }
}

impl<B: Body<Data = Bytes>> Collecting<B> {
    /// Returns true if the body is larger than the limit by its own account.
    pub(crate) fn is_too_large(&self) -> bool {
        self.body.size_hint().lower() > self.limit as u64
    }

    /// Reads the body.
    pub(crate) async fn read(self) -> Collected<B> {
        let too_large = self.is_too_large();
        let mut prefixed = Prefixed {
            read: None,
            trailers: None,
            error: None,
            rest: Some(self.body),
        };
        if too_large {
            return Collected::TooLarge(prefixed);
        }
        let mut read = Pieces::default();
        while let Some(rest) = &mut prefixed.rest {
            match poll_fn(|context| rest.as_mut().poll_frame(context)).await {
                None => prefixed.rest = None,
                Some(Err(error)) => {
                    prefixed.error = Some(error);
                    prefixed.read = read.joined();
                    return Collected::Failed(prefixed);
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        read.push(data);
                        if read.length() > self.limit {
                            prefixed.read = read.joined();
                            return Collected::TooLarge(prefixed);
                        }
                    }
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            prefixed
                                .trailers
                                .get_or_insert_with(HeaderMap::new)
                                .extend(trailers);
                        }
                    }
                },
            }
        }
        prefixed.read = read.joined();
        if prefixed.trailers.is_some() {
            return Collected::WithTrailers(prefixed);
        }
        Collected::Whole(prefixed.read.unwrap_or_default())
    }
}

/// The data that was read. One piece is not copied; several are joined as they arrive, because a body of many small pieces
/// would take many times its length.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn length(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.length() == 0 {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.joined.reserve(first.len() + data.len());
            self.joined.extend_from_slice(&first);
        }
        self.joined.extend_from_slice(&data);
    }

    /// Returns all that was read; `None` if it was nothing.
    fn joined(self) -> Option<Bytes> {
        let all = if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        };
        (!all.is_empty()).then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use http::HeaderValue;
    use idempotency_core::example::ready;

    use super::*;

    /// A body of these frames. `exact` is the length that it announces.
    struct Frames {
        frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
        hint: SizeHint,
    }

    fn frames(frames: impl IntoIterator<Item = Result<Frame<Bytes>, &'static str>>) -> Frames {
        Frames {
            frames: frames.into_iter().collect(),
            hint: SizeHint::new(),
        }
    }

    fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from(text)))
    }

    fn trailers() -> Result<Frame<Bytes>, &'static str> {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("14"));
        Ok(Frame::trailers(trailers))
    }

    impl Body for Frames {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(self.frames.pop_front())
        }

        fn size_hint(&self) -> SizeHint {
            self.hint
        }
    }

    /// Returns everything that a body gives: `(data, trailers, error)`.
    fn drained(body: ResponseBody<Frames>) -> (String, bool, Option<&'static str>) {
        ready(async {
            let mut body = Box::pin(body);
            let (mut text, mut has_trailers) = (String::new(), false);
            loop {
                match poll_fn(|context| body.as_mut().poll_frame(context)).await {
                    None => return (text, has_trailers, None),
                    Some(Err(error)) => return (text, has_trailers, Some(error)),
                    Some(Ok(frame)) if frame.is_trailers() => has_trailers = true,
                    Some(Ok(frame)) => {
                        text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
                    }
                }
            }
        })
    }

    #[test]
    fn a_body_within_the_limit_is_whole() {
        for (body, text) in [
            (frames([]), ""),
            (frames([data("")]), ""),
            (frames([data("abcd")]), "abcd"),
            (frames([data("a"), data(""), data("bc"), data("d")]), "abcd"),
        ] {
            let Collected::Whole(body) = ready(collect(body, 4).read()) else {
                panic!("the body is within the limit");
            };
            assert_eq!(body, text);
        }
    }

    #[test]
    fn a_body_above_the_limit_is_read_no_further_and_loses_nothing() {
        let body = frames([data("abc"), data("de"), data("f"), trailers()]);
        let Collected::TooLarge(body) = ready(collect(body, 4).read()) else {
            panic!("the body is above the limit");
        };
        assert_eq!(body.read.as_deref(), Some(&b"abcde"[..]));
        let body = ResponseBody::prefixed(body);
        assert!(!body.is_end_stream());
        assert_eq!(
            (body.size_hint().lower(), body.size_hint().upper()),
            (5, None)
        );
        assert_eq!(drained(body), ("abcdef".to_owned(), true, None));
    }

    #[test]
    fn a_body_that_announces_more_than_the_limit_is_not_read() {
        let mut body = frames([data("abcde")]);
        body.hint = SizeHint::with_exact(5);
        let Collected::TooLarge(body) = ready(collect(body, 4).read()) else {
            panic!("the body is above the limit");
        };
        assert!(body.read.is_none());
        let body = ResponseBody::prefixed(body);
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(drained(body), ("abcde".to_owned(), false, None));
    }

    #[test]
    fn a_body_with_trailers_keeps_them() {
        let Collected::WithTrailers(body) =
            ready(collect(frames([data("ok"), trailers()]), 4).read())
        else {
            panic!("the body has trailers");
        };
        let body = ResponseBody::prefixed(body);
        assert!(!body.is_end_stream());
        assert_eq!(drained(body), ("ok".to_owned(), true, None));
    }

    #[test]
    fn a_body_that_fails_gives_what_it_gave_and_then_its_error() {
        let body = frames([data("a"), data("b"), Err("reset"), data("c")]);
        let Collected::Failed(body) = ready(collect(body, 4).read()) else {
            panic!("the body fails");
        };
        let body = ResponseBody::prefixed(body);
        assert!(!body.is_end_stream());
        assert_eq!(drained(body), ("ab".to_owned(), false, Some("reset")));
    }

    #[test]
    fn a_body_knows_its_length_and_its_end() {
        let whole = ResponseBody::<Frames>::whole(Bytes::from("four"));
        assert_eq!(whole.size_hint().exact(), Some(4));
        assert!(!whole.is_end_stream());
        assert_eq!(drained(whole), ("four".to_owned(), false, None));
        let empty = ResponseBody::<Frames>::whole(Bytes::new());
        assert_eq!(
            (empty.size_hint().exact(), empty.is_end_stream()),
            (Some(0), true)
        );
        let mut body = frames([data("a")]);
        body.hint = SizeHint::with_exact(1);
        let passed = ResponseBody::passed(body);
        assert_eq!(passed.size_hint().exact(), Some(1));
        assert_eq!(format!("{passed:?}"), "ResponseBody(Passed)");
        assert_eq!(drained(passed), ("a".to_owned(), false, None));
    }
}
