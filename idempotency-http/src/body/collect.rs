//! Reads a body into memory, up to a limit.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;

use super::Prefixed;

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
