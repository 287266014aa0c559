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
    let Collected::WithTrailers(body) = ready(collect(frames([data("ok"), trailers()]), 4).read())
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
