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
pub struct ResponseBody<B: Body> {
    /// What is sent first: what was read of the service's body, or a body that is in memory.
    pub(crate) read: Option<Bytes>,
    trailers: Option<HeaderMap>,
    pub(crate) error: Option<B::Error>,
    /// The rest of the service's body, which is sent last. `None` if the body has ended.
    rest: Option<Pin<Box<B>>>,
}

/// Nothing in it is pinned in place: the service's body has a box of its own.
impl<B: Body> Unpin for ResponseBody<B> {}

impl<B: Body> ResponseBody<B> {
    /// Returns the body of the service, untouched.
    pub(crate) fn passed(body: B) -> Self {
        Self {
            rest: Some(Box::pin(body)),
            ..Self::default()
        }
    }

    /// Returns a body that is in memory.
    pub(crate) fn whole(body: Bytes) -> Self {
        Self {
            read: (!body.is_empty()).then_some(body),
            ..Self::default()
        }
    }
}

/// An empty body, which layers outside send with responses of their own.
impl<B: Body> Default for ResponseBody<B> {
    fn default() -> Self {
        Self {
            read: None,
            trailers: None,
            error: None,
            rest: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
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

    fn is_end_stream(&self) -> bool {
        self.read.is_none()
            && self.trailers.is_none()
            && self.error.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = match &self.rest {
            Some(rest) => rest.size_hint(),
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
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

/// Why the reading of a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All of it was read.
    Whole,
    /// All of it was read, and trailers follow.
    Trailers,
    /// It has more than the limit. The rest was not read.
    TooLarge,
    /// It failed half-way.
    Failed,
}

/// Reads a body into memory, up to a limit. The result has what was read, and the rest.
pub(crate) async fn collect<B: Body<Data = Bytes>>(
    body: B,
    limit: usize,
) -> (ResponseBody<B>, End) {
    // A body that announces more than the limit is not read.
    let mut end = if body.size_hint().lower() > limit as u64 {
        End::TooLarge
    } else {
        End::Whole
    };
    let mut body = ResponseBody::passed(body);
    let mut read = Pieces::default();
    while end == End::Whole || end == End::Trailers {
        let Some(rest) = &mut body.rest else { break };
        match poll_fn(|context| rest.as_mut().poll_frame(context)).await {
            None => body.rest = None,
            Some(Err(error)) => {
                body.error = Some(error);
                end = End::Failed;
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    read.push(data);
                    if read.length() > limit {
                        end = End::TooLarge;
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        let known = body.trailers.get_or_insert_with(HeaderMap::new);
                        known.extend(trailers);
                        end = End::Trailers;
                    }
                }
            },
        }
    }
    body.read = read.joined();
    (body, end)
}

/// The data that was read. One piece is not copied. Several pieces are joined as they arrive: kept apart, many small pieces would take
/// many times their length in memory.
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
    use futures_util::stream;
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt, Full, StreamBody};
    use idempotency_core::example::ready;

    use super::End::{Failed, TooLarge, Trailers, Whole};
    use super::*;

    type Frames = UnsyncBoxBody<Bytes, &'static str>;

    /// Returns a body of these frames. It does not announce its length.
    fn frames<const N: usize>(frames: [Result<Frame<Bytes>, &'static str>; N]) -> Frames {
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    }

    /// Returns a body that announces its length.
    fn announced(text: &'static str) -> Frames {
        Full::from(text)
            .map_err(|never| match never {})
            .boxed_unsync()
    }

    fn data(text: &'static str) -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::data(Bytes::from(text)))
    }

    fn trailers() -> Result<Frame<Bytes>, &'static str> {
        Ok(Frame::trailers(HeaderMap::new()))
    }

    /// Returns everything that a body gives, such as `ok, trailers` or `ab, reset`.
    fn drained(mut body: ResponseBody<Frames>) -> String {
        let mut all = String::new();
        while let Some(frame) = ready(body.frame()) {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => all += std::str::from_utf8(&data).unwrap(),
                Ok(Err(_)) => all += ", trailers",
                Err(error) => return all + ", " + error,
            }
        }
        all
    }

    #[test]
    fn a_body_is_read_up_to_the_limit_and_loses_nothing() {
        let pieces = [data("a"), data(""), data("bc"), data("d")];
        let ok = [data("ok"), trailers()];
        let long = [data("abc"), data("de"), data("f"), trailers()];
        let broken = [data("a"), data("b"), Err("reset"), data("c")];
        // What the body is, how its reading ends, what was read, and all that it gives.
        for (body, end, read, all) in [
            (frames([]), Whole, "", ""),
            (frames([data("")]), Whole, "", ""),
            (frames([data("abcd")]), Whole, "abcd", "abcd"),
            (frames(pieces), Whole, "abcd", "abcd"),
            (frames(ok), Trailers, "ok", "ok, trailers"),
            (frames(long), TooLarge, "abcde", "abcdef, trailers"),
            (announced("abcde"), TooLarge, "", "abcde"),
            (frames(broken), Failed, "ab", "ab, reset"),
        ] {
            let (body, ended) = ready(collect(body, 4));
            let found = body.read.as_deref().unwrap_or_default();
            assert_eq!((ended, found), (end, read.as_bytes()), "{all}");
            assert_eq!(body.is_end_stream(), all.is_empty(), "{all}");
            assert_eq!(drained(body), all);
        }
    }

    #[test]
    fn a_body_knows_its_length_and_its_end() {
        let (unread, _) = ready(collect(announced("abcde"), 4));
        for (body, given) in [
            (ResponseBody::whole(Bytes::from("four")), "four"),
            (ResponseBody::whole(Bytes::new()), ""),
            (ResponseBody::passed(announced("abcde")), "abcde"),
            (unread, "abcde"),
        ] {
            assert_eq!(body.size_hint().exact(), Some(given.len() as u64));
            assert_eq!(body.is_end_stream(), given.is_empty(), "{given}");
            assert_eq!(format!("{body:?}"), "ResponseBody { .. }");
            assert_eq!(drained(body), given);
        }
        let (part, _) = ready(collect(frames([data("abcde"), data("f")]), 4));
        let hint = part.size_hint();
        assert_eq!((hint.lower(), hint.upper()), (5, None));
    }
}
